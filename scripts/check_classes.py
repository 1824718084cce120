#!/usr/bin/env python3
"""Measures every C++ class over all its files, and every function.

  scripts/check_classes.py [--top N] [ROOT]

Shows the ten largest classes (--top: as many), by lines (the body of the declaration and every member function defined outside of
it, in whatever file) and by data members: a reviewer decides whether one of them holds two things. A function of more than 60 lines
is a violation: one line for each, and exit code 1.

The files are read as .clang-format writes them: what is defined in a namespace starts in the first column and ends with a
brace there. A macro that opens a brace is not understood; the tree has none.
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import sys

from houses import HOUSES

MAX_FUNCTION_LINES = 60

FOLDERS = (*HOUSES, "examples")
SUFFIXES = {".h", ".cc"}

LITERAL = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*(?:.|\n)*?\*/')
DIGIT_SEPARATOR = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")
CLASS = re.compile(r"^(?:template\s*<.*>\s*)?(?:class|struct)\s+(?:alignas\(\w+\)\s+|\[\[\w+\]\]\s+)?"
                   r"(?P<name>(?:\w+::)*\w+)(?:\s+final)?(?:\s*:(?!:)[^;{]*)?\s*\{", re.DOTALL)
# A macro that stands alone, without a semicolon.
MACRO_LINE = re.compile(r"[A-Z][A-Z0-9_]+\(.*\)$")
# The qualified name before a member function's parameters.
MEMBER = re.compile(r"(?P<name>\w+)(?:<[^<>]*>)?::~?(?:operator\s*\S{1,3}|\w+)\s*\(")
DATA_MEMBER = re.compile(r"\b[a-z]\w*_(?:\[[^\]]*\])*(?:\{.*\}|\s*=[^=].*)?;$", re.DOTALL)


@dataclasses.dataclass
class Class:
    """One class: where it is declared, and how long it is."""

    path: str
    line: int
    name: str
    lines: int = 0
    members: int = 0


@dataclasses.dataclass
class Function:
    """One function that is defined outside of a class."""

    path: str
    line: int
    name: str
    lines: int
    owner: str | None


def blank(match):
    """Literals and comments without braces and quotes, as many lines as before."""
    return re.sub(r"[^\n]", " ", match[0])


def top_level_chunks(text):
    """(first line, lines) of everything that starts in the first column and holds a brace at its end."""
    lines = text.split("\n")
    start = None
    depth = 0
    for number, line in enumerate(lines):
        if start is None:
            if not line or line[0] in " #}\t" or re.match(r"(inline )?namespace\b|extern \" *\"|(public|private|protected):", line):
                continue
            if MACRO_LINE.match(line):
                continue
            start, depth = number, 0
        depth += line.count("{") - line.count("}")
        if depth <= 0 and re.search(r"[;}]\s*$", line):
            yield start, lines[start:number + 1]
            start = None


def body_of(chunk):
    """The text between the first brace and its partner, and whether it was found."""
    text = "\n".join(chunk)
    opening = text.find("{")
    depth = 0
    for position in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[opening + 1:position]
    return ""


def statements(body):
    """The statements of a class body at its own depth, function bodies and initialisers shortened to {}."""
    depth, flat = 0, []
    for character in body:
        if character == "{":
            depth += 1
            if depth == 1:
                flat.append("{")
        elif character == "}":
            depth -= 1
            if depth == 0:
                flat.append("}")
        elif depth == 0:
            flat.append(character)
    for statement in re.split(r"(?<=;)|(?<=\))\s*(?:const|noexcept|override|final|\s)*\{\}(?!\s*;)", "".join(flat)):
        yield " ".join((statement or "").split())


def data_members(body):
    """How many data members with our names (`name_`) a class body declares."""
    found = 0
    for statement in statements(body):
        statement = re.sub(r"^(?:(?:public|private|protected):\s*)+", "", statement)
        if DATA_MEMBER.search(statement) and not re.match(r"(using|friend|static|return|typedef)\b", statement):
            found += 1
    return found


def nested_classes(path, first, body_lines, outer):
    """The classes declared in the body of another one."""
    text = "\n".join(body_lines)
    for match in re.finditer(r"^ +(?:class|struct)\s+(?:alignas\(\w+\)\s+)?(\w+)(?:\s+final)?(?:\s*:[^;{]*)?\s*\{", text, re.MULTILINE):
        body = body_of([text[match.start():]])
        line = first + text[:match.start()].count("\n")
        yield Class(path, line + 1, f"{outer}::{match[1]}", body.count("\n") + 1, data_members(body))


def read_file(path, text):
    """(classes, functions) of one file."""
    text = LITERAL.sub(blank, DIGIT_SEPARATOR.sub("", text))
    classes, functions = [], []
    for start, chunk in top_level_chunks(text):
        joined = "\n".join(chunk)
        head = joined.split("{", 1)[0]
        if (match := CLASS.match(joined)) is not None:
            body = body_of(chunk)
            classes.append(Class(path, start + 1, match["name"], len(chunk), data_members(body)))
            classes += nested_classes(path, start + 1, body.split("\n"), match["name"])
        elif "(" in head and "{" in joined and not re.match(r"(using|typedef|enum|static_assert)\b", head):
            member = MEMBER.search(head)
            name = (member[0].rstrip("( ") if member else re.split(r"\s*\(", head)[0].split()[-1])
            functions.append(Function(path, start + 1, name, len(chunk), member["name"] if member else None))
    return classes, functions


def folder_of(path):
    return path.rsplit("/", 1)[0]


def home_of(function, named):
    """Which of the classes of its name a member function belongs to: one of its folder, else the one of its room."""
    near = [c for c in named if folder_of(c.path) == folder_of(function.path)]
    room = "/".join(function.path.split("/")[:2])
    candidates = near or [c for c in named if c.path.startswith(room)] or named
    return candidates[0] if candidates else None


def measure(root):
    """(classes, functions) of a tree, with the member functions added to their classes."""
    classes, functions = [], []
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in SUFFIXES:
                found = read_file(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8", errors="replace"))
                classes += found[0]
                functions += found[1]
    by_name = collections.defaultdict(list)
    for c in classes:
        by_name[c.name.split("::")[-1]].append(c)
    for function in functions:
        home = home_of(function, by_name[function.owner]) if function.owner else None
        if home is not None:
            home.lines += function.lines
    return classes, functions


def violations(functions):
    """Every function that is too long, as `file:line: message`."""
    return [f"{f.path}:{f.line}: function {f.name} has {f.lines} lines; at most {MAX_FUNCTION_LINES}"
            for f in functions if f.lines > MAX_FUNCTION_LINES]


def largest(classes, count):
    """The lines that show the largest classes: by lines, then by data members. Those of tests are left out."""
    product = [c for c in classes if not {"tests", "testing"} & set(c.path.split("/"))]
    for c in sorted(product, key=lambda c: -c.lines)[:count]:
        yield f"{c.lines:5} lines {c.members:3} members  class {c.name} ({c.path})"
    for c in sorted(product, key=lambda c: -c.members)[:count]:
        yield f"{c.members:5} members  class {c.name} ({c.path})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("--top", type=int, default=10, metavar="N", help="how many of the largest classes are shown")
    arguments = parser.parse_args()
    classes, functions = measure(pathlib.Path(arguments.root))
    print(*largest(classes, arguments.top), sep="\n")
    messages = violations(functions)
    for message in messages:
        print(message)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
