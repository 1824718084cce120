#!/usr/bin/env python3
"""Copies the public headers for Doxygen: comments before a declaration, and behind it on its line, become documentation of it.

docs/site/headers.py FOLDER
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("core/include", "data/include", "frameworks/c/include", "frameworks/libtorch/include")

LINE = re.compile(r"^(\s*)// ?(.*)$")
BEHIND = re.compile(r"^(.*?[;,{(}].*?|.*?\w.*?)\s*//\s?(.*)$")
BLOCK = re.compile(r"/\*(?!\*)(.*?)\*/", re.DOTALL)


def escaped(text):
    """Our comments are plain text with code in backquotes: nothing in them is a command of Doxygen or HTML."""
    parts = re.split(r"(`[^`]*`)", text)
    for number, part in enumerate(parts):
        if number % 2 == 0:
            parts[number] = re.sub(r"([\\@<>&#])", r"\\\1", part).replace("*", "\\*").replace("_", "\\_")
    return "".join(parts)


def without_private(lines):
    """Doxygen writes private members to its XML, and Breathe shows all that is there."""
    until = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if until is not None and (re.match(r"\s*(public|protected):$", line) or (line.strip() and indent < until)):
            until = None
        if until is None and re.match(r"\s*private:$", line):
            until = indent
        if until is None:
            yield line


def of_cpp(text):
    lines, previous = [], ""
    for line in without_private(text.splitlines()):
        alone = LINE.match(line)
        if alone:
            if alone[2].startswith(("clang-format", "NOLINT")):
                lines.append(line)
                continue
            behind = previous == "<" and len(alone[1]) > 12  # goes on with the comment behind the line before
            lines.append(f"{alone[1]}///{'<' if behind else ''} {escaped(alone[2])}")
            previous = "<" if behind else "/"
        elif (behind := BEHIND.match(line)) and not line.lstrip().startswith("#") and '"' not in line:
            lines.append(f"{behind[1]}  ///< {escaped(behind[2])}")
            previous = "<"
        else:
            lines.append(line)
            previous = ""
    if lines[0].startswith("///"):
        lines.insert(0, "/// \\file")  # the first comment is about the header, not about its namespace
    return "\n".join(lines) + "\n"


def of_c(text):
    def replaced(match):
        start = text.rfind("\n", 0, match.start()) + 1
        before = text[start : match.start()].strip()
        after = text[match.end() :]
        alone = after.startswith("\n\n") or after.lstrip().startswith("/*")  # the title of a part of the header, or a tool's
        if match.start() > 0 and not before and alone:
            return match[0]
        lines = [escaped(re.sub(r"^\s*\*(?: |$)", "", line)) for line in match[1].rstrip().split("\n")]
        about = " \\file\n *" if match.start() == 0 else ""
        return f"/**{'<' if before else ''}{about}" + "\n * ".join(lines) + " */"

    return BLOCK.sub(replaced, text)


def main():
    target = pathlib.Path(sys.argv[1])
    for folder in FOLDERS:
        for header in sorted((ROOT / folder).rglob("*.h")):
            if "detail" in header.parts:
                continue
            text = header.read_text()
            text = of_c(text) if header.name in ("c.h", "c_data.h") else of_cpp(text)
            path = target / header.relative_to(ROOT / folder)
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text() != text:
                path.write_text(text)


if __name__ == "__main__":
    main()
