#!/usr/bin/env python3
"""Checks the rules of the source tree that no compiler checks.

  scripts/check_includes.py [ROOT]

Each folder includes what its own line in a CMakeLists.txt lets it (scripts/include_rules.py), no house one that is above it, and
nothing includes itself in a circle, neither files nor folders, in C++ and in Python; vendor headers stay in their one folder, public
headers see nothing but Xoe and the standard library; files carry no unfinished-work marks and no path of a developer's machine;
links in documents lead to a file, and so do the paths that docs/guide/inside.md names. Prints one line for each violation and exits
1 if there is any.
"""

import pathlib
import posixpath
import re
import sys

import include_rules
from houses import HOUSES

SOURCE_FOLDERS = (*HOUSES, "examples", "scripts", "cmake", "deploy", "packages")
PUBLIC = [f"{house}/include" for house in ("core", "data", "frameworks/c", "frameworks/libtorch")]

# Public headers that stand for a folder above the lowest.
PUBLIC_FOLDERS = {"xoe/engine.h": "core/engine", "xoe/communicator.h": "core/comm", "xoe/elastic.h": "core/elastic", "xoe/stats.h": "core/stats"}

# In C, so that C programs may include them.
C_HEADERS = {"frameworks/c/include/xoe/c.h", "frameworks/c/include/xoe/c_data.h"}

# Which file these are is the build's choice, by the processor or the preset.
BUILD_CHOOSES = {"processor.h", "target.h"}

TORCH_HOMES = ("frameworks/libtorch/", "frameworks/tests/libtorch/", "train/", "docs/tests/", "examples/")

# A family of foreign headers and the only places that may include it.
VENDORS = [
    (r"hwy/", ("core/reduce/", "core/tests/reduce/", "data/")),
    (r"(jpeglib|jerror|turbojpeg)\.h$", ("data/",)),
    (r"protozero/", ("data/", "measure/pages/")),
    (r"CLI/", ("core/command_line/parse/", *(f"{house}/cli/" for house in HOUSES))),
    (r"toml\+\+/", ("launch/",)),
    (r"mpi\.h$", ("core/backend/mpi/", "core/bench/")),
    (r"gloo/", ("core/backend/gloo/", "core/bench/")),
    (r"nccl\.h$", ("core/tests/nccl/", "core/tests/drivers/")),
    (r"nvml\.h$", ("core/tests/nccl/", "core/tests/drivers/")),
    (r"cuda(_runtime|_runtime_api)?\.h$", ("core/tests/nccl/", "core/tests/drivers/")),
    (r"(torch|ATen|c10|caffe2)/", TORCH_HOMES),
    (r"nanobind/", ("frameworks/python/core/",)),
    (r"png\.h$", ("data/",)),
    (r"sodium\.h$", ("core/bootstrap/", "pool/state/")),
    (r"sqlite3\.h$", ("pool/state/", "pool/tests/")),
    (r"httplib\.h$", ("pool/server/",)),
    (r"curl/", ("pool/vsphere/", "core/tests/drivers/")),
    (r"pugixml\.hpp$", ("pool/vsphere/",)),
]

CPP = {".h", ".cc", ".cpp", ".hpp", ".cu"}
TEXT = CPP | {".py", ".sh", ".cmake", ".md", ".txt", ".json", ".yaml", ".yml", ".toml"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
PYTHON = "frameworks/python/xoe"
# Spelt in halves, so that this file passes its own check.
MARKS = re.compile(r"\b(" + "TO" + "DO|FIX" + "ME|X" + r"XX)\b")
LINK = re.compile(r"\]\(([^)#\s]+)")
# A document that leads through the source: every path in backquotes must exist.
WALK = "docs/guide/inside.md"
WALK_PATH = re.compile(r"`((?:" + "|".join((*SOURCE_FOLDERS, "docs")) + r")/[\w./-]+)`")
MACHINE_PATH = re.compile(r"(?<![\w.~$}/-])/(?:work|root|home/[a-z]\w*|Users/\w+)(?:/|\b)")


def house_of(path):
    return next((house for house in HOUSES if path.startswith(house + "/")), None)


def public_file(root, header):
    """The file that <xoe/...> is, or None."""
    return next((f"{folder}/{header}" for folder in PUBLIC if (root / folder / header).is_file()), None)


def included_file(root, path, header):
    """The file of ours that a header is, from the root of the tree, or None."""
    if header.startswith("xoe/"):
        return public_file(root, header)
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), header))
    return next((file for file in (header, beside) if (root / file).is_file()), None)


def folder_granted(file, header):
    """The folder whose leave it takes to include a file: a public header's is the part that it is the door of."""
    if header in PUBLIC_FOLDERS:
        return PUBLIC_FOLDERS[header]
    return next((folder for folder in PUBLIC if file.startswith(folder + "/")), posixpath.dirname(file))


class Tree:
    """Rules, and who includes what, over a whole tree."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.rules, self.messages = include_rules.read_rules(self.root)
        self.edges = []
        self.used = set()  # (folder of a rule, name in it)
        self.without = set()

    def check_direction(self, path, header, file):
        """What is wrong with `path` including `file`, or None."""
        if not all(any(name.startswith(folder + "/") for folder in PUBLIC) for name in (path, file)):
            self.edges.append((path, file))  # how the public headers lie is what users write
        here, there = house_of(path), house_of(file)
        if here and there and HOUSES.index(there) > HOUSES.index(here):
            return f"the house {here} must not include {there}, which stands on it: {header}"
        folder, target = include_rules.rule_home(posixpath.dirname(path)), folder_granted(file, header)
        if any(path.startswith(public + "/") for public in PUBLIC) or target == "core/include":
            return None
        if include_rules.rule_home(target) == folder or (header in PUBLIC_FOLDERS and folder.startswith(target + "/")):
            return None  # its own, or the door of the part that it belongs to
        rule = self.rules.get(folder)
        if rule is None:
            first = folder not in self.without
            self.without.add(folder)
            return f"no line says what {folder} may include (`# uses: ...` in a CMakeLists.txt)" if first else None
        names = [name for name in rule.names if include_rules.grants(name, target)]
        self.used.update((folder, name) for name in names)
        return None if names else f"{folder} may not include {target} ({rule.where}): {header}"

    def check_include(self, path, quoted, header):
        file = included_file(self.root, path, header)
        found = [self.check_direction(path, header, file) if file else None, check_public(path, header, quoted)]
        if not header.startswith("xoe/"):
            found.append(check_vendor(path, header))
        if quoted and file is None and "/" not in header and header not in BUILD_CHOOSES:
            found.append(f"no file {header} is beside it: say which folder's it is")
        return [message for message in found if message]

    def unused(self):
        """What a rule allows and no file includes."""
        for folder, rule in self.rules.items():
            for name in rule.names:
                if (folder, name) not in self.used:
                    yield f"{rule.where}: {folder} includes nothing of {name}: take it off the line"


def check_vendor(path, header):
    for pattern, homes in VENDORS:
        if re.match(pattern, header) and not path.startswith(homes):
            return f"vendor header outside of {', '.join(homes)}: {header}"
    return None


def check_public(path, header, quoted):
    if not any(path.startswith(folder + "/") for folder in PUBLIC if folder != "frameworks/libtorch/include"):
        return None
    standard = not quoted and re.fullmatch(r"stddef\.h|stdint\.h" if path in C_HEADERS else r"[a-z_0-9]+", header)
    if standard or header.startswith("xoe/") or header == "tl/expected.hpp":
        return None
    return f"a public header sees only xoe/, the standard library and tl/expected.hpp: {header}"


def check_file(tree, path, text):
    """Every violation in one file as (line, message)."""
    suffix = pathlib.PurePath(path).suffix
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        include = INCLUDE.match(line) if suffix in CPP else None
        if include:
            for message in tree.check_include(path, include[1] == '"', include[2]):
                yield number, message
        if MARKS.search(line):
            yield number, "unfinished-work mark"
        if MACHINE_PATH.search(line):
            yield number, "absolute path of a machine"


def check_links(file, text):
    """Links of a document that lead to no file, as (line, message); code blocks have none."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        if code:
            continue
        for target in LINK.findall(line):
            if not re.match(r"[a-z]+:", target) and not (file.parent / target).exists():
                yield number, f"link to nowhere: {target}"


def check_walk(root, text):
    """Paths of the walk through the source that lead to no file, as (line, message)."""
    for number, line in enumerate(text.splitlines(), 1):
        for path in WALK_PATH.findall(line):
            if not (root / path).exists():
                yield number, f"no such file: {path}"


def source_files(root):
    for folder in SOURCE_FOLDERS:
        yield from sorted((root / folder).rglob("*"))
    yield from sorted((root / "docs").rglob("*.md"))
    yield from sorted([*root.glob("*.md"), *root.glob(".github/*.md")])
    yield from (root / name for name in ("CMakeLists.txt", "Makefile"))


def check_tree(root):
    """Every violation under root as `file:line: message`."""
    root = pathlib.Path(root)
    tree = Tree(root)
    messages = tree.messages
    for file in source_files(root):
        if not file.is_file() or {"__pycache__", "node_modules"} & set(file.parts):
            continue
        if file.suffix not in TEXT and file.name != "Makefile":
            continue
        path = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8", errors="replace")
        found = list(check_file(tree, path, text))
        if file.suffix == ".md":
            found += check_links(file, text)
        if path == WALK:
            found += check_walk(root, text)
        messages += [f"{path}:{line}: {message}" for line, message in found]
    messages += include_rules.cycles(tree.edges)
    messages += include_rules.cycles(include_rules.python_edges(root, PYTHON), folders=False)
    messages += tree.unused()
    return messages


def main():
    default = pathlib.Path(__file__).resolve().parents[1]
    messages = check_tree(sys.argv[1] if len(sys.argv) > 1 else default)
    for message in messages:
        print(message)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
