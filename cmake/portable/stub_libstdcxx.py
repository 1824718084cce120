#!/usr/bin/env python3
"""A stub of libstdc++.so.6 as GCC 8 had it: its names and versions, without code.

  cmake/portable/stub_libstdcxx.py LIBRARY FOLDER

LIBRARY is a newer one. Writes FOLDER/stub.s, for the assembler, and FOLDER/versions, a version script.
"""

import pathlib
import re
import subprocess
import sys

NEWEST = {"GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11)}  # of GCC 8, which systems with glibc 2.28 have
SYMBOL = re.compile(r"\s*\d+: [0-9a-f]+\s+(\w+) (FUNC|OBJECT|TLS|IFUNC)\s+(GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+\d+ (\S+?)@@?(\S+)")
SECTIONS = {"FUNC": ".text", "OBJECT": ".data", "TLS": '.tdata,"awT"'}


def number_of(version):
    """(3, 4, 25) of "GLIBCXX_3.4.25"; None: a version that GCC 8 did not have, or one that is not counted so."""
    family, _, numbers = version.partition("_")
    if family not in NEWEST or not re.fullmatch(r"[0-9.]+", numbers):
        return None
    number = tuple(map(int, numbers.split(".")))
    return number if number <= NEWEST[family] else None


def symbols_of(library):
    """By name: the newest version that GCC 8 had, with the symbol's kind and size."""
    listed = subprocess.run(["readelf", "--dyn-syms", "-W", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    chosen = {}
    for match in SYMBOL.finditer(listed):
        size, kind, _, name, version = match.groups()
        number = number_of(version)
        if number is not None and (name not in chosen or number > chosen[name][0]):
            chosen[name] = (number, version, "FUNC" if kind == "IFUNC" else kind, int(size, 0))
    return chosen


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    symbols = symbols_of(sys.argv[1])
    if len(symbols) < 1000:
        sys.exit(f"error: {sys.argv[1]} has {len(symbols)} names of GCC 8's libstdc++: it is another library")
    lines = []
    for name, (_, _, kind, size) in sorted(symbols.items()):
        what = {"FUNC": "function", "OBJECT": "object", "TLS": "tls_object"}[kind]
        lines += [f".section {SECTIONS[kind]}" if kind == "TLS" else SECTIONS[kind], f".globl {name}", f".type {name}, @{what}",
                  f".size {name}, {size}", f"{name}:", f".zero {max(size, 1)}" if kind != "FUNC" else ".byte 0"]  # fmt: skip
    (folder / "stub.s").write_text("\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""]))
    versions = {}
    for name, (_, version, _, _) in symbols.items():
        versions.setdefault(version, []).append(name)
    nodes = [f"{version} {{ {'; '.join(sorted(names))}; }};" for version, names in sorted(versions.items())]
    (folder / "versions").write_text("\n".join(nodes) + "\n")


main()
