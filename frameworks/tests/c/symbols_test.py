#!/usr/bin/env python3
"""Checks what the shared library shows: all of frameworks/c/symbols.txt, with the same versions, and nothing else.

  symbols_test.py LIBRARY SYMBOLS NM HEADER...

A name that is missing breaks programs of earlier releases; a new one belongs into the list.
"""

import pathlib
import re
import subprocess
import sys


def exported(library, nm):
    """{name: version} of the defined dynamic symbols; the version nodes themselves are left out."""
    output = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    symbols = {}
    for line in output.splitlines():
        _, kind, name = line.split()
        if kind != "A":
            name, _, version = name.replace("@@", "@").partition("@")
            symbols[name] = version
    return symbols


def listed(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def declared(path):
    """The functions of the header."""
    text = re.sub(r"/\*.*?\*/", "", pathlib.Path(path).read_text(encoding="utf-8"), flags=re.S)
    return set(re.findall(r"^XOE_API [^(;]*?\b(xoe_\w+)\(", text, flags=re.M))


def problems(library, symbols, nm, *headers):
    shown, wanted = exported(library, nm), listed(symbols)
    functions = set().union(*map(declared, headers))
    for name, version in wanted.items():
        if name not in shown:
            yield f"{name} is gone: programs of earlier releases need it"
        elif shown[name] != version:
            yield f"{name} had version {version} and has {shown[name] or 'none'}"
    for name in sorted(shown.keys() - wanted.keys()):
        if name in functions:
            yield f"{name} is new: add it to symbols.txt, and raise XOE_ABI_VERSION with the release"
        else:
            yield f"{name} is shown and declared in no header"
    for name in sorted(functions - shown.keys()):
        yield f"{name} is declared and not in the library"


def main():
    found = list(problems(*sys.argv[1:]))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
