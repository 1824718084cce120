"""What each folder of C++ may include, as it says itself, and the cycles in what includes what.

A folder's rule is a line of its own CMakeLists.txt or of one above it:

    # uses: core/base, core/backend/...
    # negotiate uses: core/engine/operations, core/base

The second is the rule of a folder below. A name is a path from the root of the tree; it stands for the files of that folder alone,
with `/...` also for those of the folders below. Tests and benchmarks have one line for all that is below them, in the CMakeLists.txt
of their house.
"""

import ast
import dataclasses
import os
import pathlib
import posixpath
import re

LINE = re.compile(r"^# (?:(?P<below>[\w/-]+) )?uses: (?P<names>.+)$", re.MULTILINE)
WHOLE = {"tests", "bench", "testing"}  # one rule for all that is below


@dataclasses.dataclass
class Rule:
    """`where`: file:line that says it."""

    where: str
    names: list[str]


def grants(name, folder):
    if name.endswith("/..."):
        name = name.removesuffix("/...")
        return folder == name or folder.startswith(name + "/")
    return folder == name


def rule_home(folder):
    """The folder whose rule holds for `folder`: itself, but for what is below tests and benchmarks."""
    parts = folder.split("/")
    for end, part in enumerate(parts, 1):
        if part in WHOLE:
            return "/".join(parts[:end])
    return folder


def read_rules(root):
    """{folder: Rule}, and a message for each line that cannot be read or names no folder."""
    rules, messages = {}, []
    for folder, below, files in os.walk(root):
        here = pathlib.Path(folder).relative_to(root).as_posix()
        below[:] = [name for name in below if not name.startswith(".") and (here, name) not in {(".", "build"), (".", "runs")}]
        if "CMakeLists.txt" not in files:
            continue
        text = pathlib.Path(folder, "CMakeLists.txt").read_text()
        for match in LINE.finditer(text):
            where = f"{'' if here == '.' else here + '/'}CMakeLists.txt:{text.count(chr(10), 0, match.start()) + 1}"
            target = posixpath.normpath(posixpath.join(here, match["below"] or "."))
            names = [name.strip() for name in match["names"].split(",")]
            messages += [f"{where}: no such folder: {name}" for name in names if not (root / name.removesuffix("/...")).is_dir()]
            if target in rules or not (root / target).is_dir():
                messages.append(f"{where}: a second rule for {target}" if target in rules else f"{where}: no such folder: {target}")
            rules[target] = Rule(where, names)
    return rules, messages


def strongly_connected(graph):
    """Groups of more than one node of {node: nodes} that reach each other."""

    def reached_from(start):
        found, waiting = set(), [start]
        while waiting:
            fresh = graph[waiting.pop()] - found
            found |= fresh
            waiting += fresh
        return found

    reached = {node: reached_from(node) for node in graph}
    return sorted({tuple(sorted(other for other in found if node in reached[other])) for node, found in reached.items()} - {()})


def cycles(edges, folders=True):
    """Messages for the cycles in [(from, to)] of files, and of their folders; a header and its source are one file."""
    messages = []
    kinds = [("files", lambda file: posixpath.splitext(file)[0]), *([("folders", posixpath.dirname)] if folders else [])]
    for what, name_of in kinds:
        graph, because = {}, {}
        for start, end in edges:
            first, second = name_of(start), name_of(end)
            if first != second:
                graph.setdefault(first, set()).add(second)
                graph.setdefault(second, set())
                because.setdefault((first, second), f"{start} includes {end}")
        for group in strongly_connected(graph):
            inside = [because[pair] for pair in sorted(because) if pair[0] in group and pair[1] in group]
            messages.append(f"{group[0]}:1: a cycle of {what}: {', '.join(group)} ({'; '.join(inside[:6])})")
    return messages


def python_edges(root, package):
    """[(module's file, imported module's file)] within a package, wherever the import stands; what only a type checker reads is
    left out."""
    base = root / package
    files = {}
    for file in sorted(base.rglob("*.py")):
        parts = (base.name, *file.relative_to(base).with_suffix("").parts)
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file.relative_to(root).as_posix()
    edges = []
    for module, path in files.items():
        tree = ast.parse((root / path).read_text())
        for target in imported(tree, module, path.endswith("__init__.py"), files):
            if files[target] != path:
                edges.append((path, files[target]))
    return edges


def imported(tree, module, is_package, files):
    skipped = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
               for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            start = module.split(".")
            up = node.level - (1 if is_package else 0)
            base = ".".join([*(start[: len(start) - up] if node.level else []), *([node.module] if node.module else [])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                if name in files:
                    yield name
                elif base in files:
                    yield base
