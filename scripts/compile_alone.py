#!/usr/bin/env python3
"""Compiles each file of a build folder by itself and keeps nothing: shows the includes that are missing, which a unity build hides.

  compile_alone.py FOLDER [--but FILE...]     all files of FOLDER's compile_commands.json but these
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys


def commands(folder):
    """{file: its entry}; of a file with several, the first."""
    found = {}
    for entry in json.loads((pathlib.Path(folder) / "compile_commands.json").read_text()):
        found.setdefault(entry["file"], entry)
    return found


def compiles(entry):
    words = shlex.split(entry["command"])
    names = [word.rsplit("/", 1)[-1] for word in words]
    words = words[names.index("ccache") + 1 if "ccache" in names else 0:]
    output = words.index("-o")
    done = subprocess.run([*words[:output], *words[output + 2:], "-fsyntax-only"], cwd=entry["directory"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
    return done.returncode == 0


def main():
    entries = commands(sys.argv[1])
    for file in sys.argv[3:]:
        entries.pop(file, None)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        good = list(pool.map(compiles, entries.values()))
    print(f"{len(good)} files compiled alone, {good.count(False)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
