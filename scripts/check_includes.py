#!/usr/bin/env python3
"""Checks the rules of the source tree that no compiler checks.

  scripts/check_includes.py [ROOT]

Includes go downwards only, vendor headers stay in their one folder, public headers see nothing but Xoe and the standard
library; files carry no unfinished-work marks and no path of a developer's machine; links in documents lead to a file, and so
do the paths that docs/guide/inside.md names. Prints one line for each violation and exits 1 if there is any.
"""

import pathlib
import re
import sys

# Which rooms of src/ a room may include, beside itself.
BASE = {"base"}
BACKEND = BASE | {"drivers", "reduce", "bootstrap"}
COMM = BACKEND | {"backend"}
ENGINE = COMM | {"comm", "trace"}
REMOTE = BASE | {"bootstrap"}
PROGRAMS = REMOTE | {"remote", "drivers"}
CAPI = ENGINE | {"engine", "stats"}
BINDINGS = CAPI | {"capi"}
ROOMS = {
    "core/base": set(),
    "core/stats": BASE,
    "core/command_line": BASE,
    "core/drivers": BASE,
    "core/reduce": BASE,
    "core/trace": BASE,
    "measure/pages": BASE | {"stats", "trace"},
    "core/bootstrap": BASE,
    "core/backend": BACKEND,
    "core/comm": COMM,
    "core/engine": ENGINE,
    "frameworks/c": CAPI | {"data"},
    "data": BASE,
    "launch/remote": REMOTE,
    "launch": PROGRAMS | {"manners"},
    "launch/doctor": PROGRAMS | {"backend"},
    "pool": PROGRAMS,
    "bindings": BINDINGS,
    "models": BASE,
    "examples": {"bindings", "data", "engine", "stats"},  # public headers
}
SRC_ROOMS = {room.removeprefix("src/") for room in ROOMS if room.startswith("src/")}

# Public headers that stand for a room above base.
PUBLIC_ROOMS = {"xoe/data.h": "data", "xoe/data/": "data", "xoe/engine.h": "engine", "xoe/stats.h": "stats", "xoe/c.h": "capi",
                "xoe/c_data.h": "capi",
                "xoe/torch.h": "bindings", "xoe/torch/": "bindings"}

# In C, so that C programs may include them.
C_HEADERS = {"frameworks/c/include/xoe/c.h", "frameworks/c/include/xoe/c_data.h"}

# Siblings within one room; `hierarchical` stands on shm.
BACKENDS = {"shm", "gloo", "mpi", "nccl"}

TORCH_HOMES = ("frameworks/libtorch/", "models/", "train/", "train/cli/xoe_train.cc", "frameworks/tests/libtorch/", "train/tests/networks/", "train/tests/", "docs/tests/",
               "examples/", "train/bench/training/")
# A family of foreign headers and the only places that may include it.
VENDORS = [
    (r"hwy/", ("core/reduce/", "core/tests/reduce/", "data/", "data/tests/")),
    (r"(jpeglib|jerror|turbojpeg)\.h$", ("data/", "data/tests/", "data/bench/")),
    (r"protozero/", ("data/", "data/tests/", "core/testing/fuzz/")),
    (r"CLI/", ("tools/",)),
    (r"toml\+\+/", ("launch/",)),
    (r"mpi\.h$", ("core/backend/mpi/", "bench/")),
    (r"gloo/", ("core/backend/gloo/", "bench/")),
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

SOURCE_FOLDERS = ("include", "src", "bindings", "models", "train", "tools", "tests", "bench", "examples", "scripts",
                  "cmake")
CPP = {".h", ".cc", ".cpp", ".hpp", ".cu"}
TEXT = CPP | {".py", ".sh", ".cmake", ".md", ".txt", ".json", ".yaml", ".yml", ".toml"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# Spelt in halves, so that this file passes its own check.
MARKS = re.compile(r"\b(" + "TO" + "DO|FIX" + "ME|X" + r"XX)\b")
LINK = re.compile(r"\]\(([^)#\s]+)")
# A document that leads through the source: every path in backquotes must exist.
WALK = "docs/guide/inside.md"
WALK_PATH = re.compile(r"`((?:include|src|bindings|models|train|tools|tests|bench|examples|scripts|docs)/[\w./-]+)`")
MACHINE_PATH = re.compile(r"(?<![\w.~$}/-])/(?:work|root|home/[a-z]\w*|Users/\w+)(?:/|\b)")


def room_of(path):
    """The room that a file belongs to, or None where everything may be seen (tools, train, tests, bench)."""
    for room in ROOMS:
        if path.startswith(room + "/"):
            return room
    return None


def included_room(header):
    """The room that a quoted or angled header of ours belongs to, or None."""
    for prefix, room in PUBLIC_ROOMS.items():
        if header == prefix or (prefix.endswith("/") and header.startswith(prefix)):
            return room
    first = header.split("/", 1)[0]
    return first if "/" in header and first in SRC_ROOMS else None


def check_direction(path, header):
    room = room_of(path)
    target = included_room(header)
    if room is None or target is None:
        return None
    name = room.removeprefix("src/")
    if target != name and target not in ROOMS[room]:
        return f"{name} must not include {target}: {header}"
    here = re.match(r"core/backend/(\w+)/", path)
    there = re.match(r"backend/(\w+)/", header)
    if here and there and here[1] != there[1] and {here[1], there[1]} <= BACKENDS:
        return f"backend {here[1]} must not include its sibling {there[1]}: {header}"
    return None


def check_vendor(path, header):
    for pattern, homes in VENDORS:
        if re.match(pattern, header) and not path.startswith(homes):
            return f"vendor header outside of {', '.join(homes)}: {header}"
    return None


def check_public(path, header, quoted):
    if not path.startswith("include/xoe/"):
        return None
    standard = not quoted and re.fullmatch(r"stddef\.h|stdint\.h" if path in C_HEADERS else r"[a-z_0-9]+", header)
    if standard or header.startswith("xoe/") or header == "tl/expected.hpp":
        return None
    return f"a public header sees only xoe/, the standard library and tl/expected.hpp: {header}"


def check_include(path, quoted, header):
    found = [check_direction(path, header), check_public(path, header, quoted)]
    if not header.startswith("xoe/"):
        found.append(check_vendor(path, header))
    return [message for message in found if message]


def check_file(path, text):
    """Every violation in one file as (line, message)."""
    suffix = pathlib.PurePath(path).suffix
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        include = INCLUDE.match(line) if suffix in CPP else None
        if include:
            for message in check_include(path, include[1] == '"', include[2]):
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
    yield from sorted(root.glob("*.md"))
    yield from (root / name for name in ("CMakeLists.txt", "Makefile"))


def check_tree(root):
    """Every violation under root as `file:line: message`."""
    root = pathlib.Path(root)
    messages = []
    for file in source_files(root):
        if not file.is_file() or "__pycache__" in file.parts:
            continue
        if file.suffix not in TEXT and file.name != "Makefile":
            continue
        path = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8", errors="replace")
        found = list(check_file(path, text))
        if file.suffix == ".md":
            found += check_links(file, text)
        if path == WALK:
            found += check_walk(root, text)
        messages += [f"{path}:{line}: {message}" for line, message in found]
    return messages


def main():
    default = pathlib.Path(__file__).resolve().parents[1]
    messages = check_tree(sys.argv[1] if len(sys.argv) > 1 else default)
    for message in messages:
        print(message)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
