#!/usr/bin/env python3
"""Checks the files of a build folder one by one, in as many processes as there are processors, and keeps nothing of what it compiles.

  check_files.py tidy FOLDER [FILE...]       with clang-tidy
  check_files.py compile FOLDER [FILE...]    with the compiler: shows the includes that are missing, which a unity build hides

FOLDER has the compile_commands.json; without FILE, all that it names. A file that passed is not checked again until its command, it
itself, a header that it includes, .clang-tidy or the compiler is another: FOLDER/passed has their digests.
"""

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys


@functools.cache
def digest(path):
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def run(words, folder):
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def commands(folder):
    """{file: (folder, compiler and its arguments)}, without launcher and output; of a file with several, the first."""
    found = {}
    for entry in json.loads((folder / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        names = [word.rsplit("/", 1)[-1] for word in words]
        words = words[names.index("ccache") + 1 if "ccache" in names else 0 :]
        output = words.index("-o")
        found.setdefault(entry["file"], (entry["directory"], words[:output] + words[output + 2 :]))
    return found


def read_files(path, folder, words):
    """{file: digest} of all that the compiler reads for this file."""
    rule = run([*(word for word in words if word != "-c"), "-M"], folder).stdout.replace("\\\n", " ")
    names = re.split(r"(?<!\\) +", rule.partition(":")[2].strip())
    return {name: digest(name) for name in (os.path.join(folder, name.replace("\\ ", " ")) for name in [path, *names])}


def check(tool, build, path, folder, words):
    words = [str(pathlib.Path(shutil.which(words[0])).resolve()), *words[1:]]
    command, options = [*words, "-fsyntax-only"], None
    if tool == "tidy":
        command = [os.path.realpath(shutil.which("clang-tidy")), "--quiet", "-p", str(build), path]
        options = digest(".clang-tidy")
    settings = [words, command, digest(command[0]), options]
    record = build / "passed" / f"{tool}-{hashlib.sha256(path.encode()).hexdigest()[:16]}.json"
    if record.exists():
        passed = json.loads(record.read_text())
        if passed["settings"] == settings and all(digest(name) == was for name, was in passed["read"].items()):
            return True
    read = read_files(path, folder, words)
    done = run(command, folder)
    if done.returncode != 0:
        print(f"{path}:\n{done.stdout}{done.stderr}", flush=True)
        return False
    record.write_text(json.dumps({"settings": settings, "read": read}))
    return True


def main():
    tool, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    (build / "passed").mkdir(exist_ok=True)
    entries = commands(build)
    files = sys.argv[3:] or list(entries)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        good = list(pool.map(lambda path: check(tool, build, path, *entries[path]), files))
    print(f"{len(good)} files, {good.count(False)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
