"""The tests that the source declares, whatever a build folder was configured with: names for ctest, and the cases in them."""

import dataclasses
import fnmatch
import pathlib
import re

INNERMOST = r"^[ \t]*foreach\((\w+)\s+([^)]*)\)\n((?:(?!^[ \t]*foreach\().)*?)^[ \t]*endforeach\(\)"
FOREACH = re.compile(INNERMOST, re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^function\(.*?^endfunction\(\)", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"#[^\n]*")
CALL = re.compile(r"\b(xoe_test|add_test|xoe_python_test|xoe_net_test)\(((?:[^()]|\$<[^>]*>|\([^()]*\))*)\)")
KEYWORDS = {"SOURCES", "LINK", "LABELS", "TIMEOUT", "PROGRAM"}
GTEST_CASE = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
SCRIPT_CASE = re.compile(r"^\s*def (\w+)\(", re.MULTILINE)


@dataclasses.dataclass
class Declared:
    """One test of ctest and the files whose cases it runs."""

    name: str
    files: list[pathlib.Path]

    def cases(self):
        """`Suite.Name` of GoogleTest's, names of functions of a script's."""
        found = set()
        for file in self.files:
            text = file.read_text()
            if file.suffix == ".py":
                found.update(SCRIPT_CASE.findall(text))
            else:
                found.update(f"{suite}.{name}" for suite, name in GTEST_CASE.findall(text))
        return found

    def has(self, pattern):
        """Whether `pattern`, a case or a part of a filter of GoogleTest, names one."""
        return any(fnmatch.fnmatchcase(case, wanted) for wanted in without_parameters(pattern) for case in self.cases())


def without_parameters(pattern):
    """What `Shm/Conformance.RanksAsThreads/3` may be called where it is declared: the name of an instantiation stands before
    the suite, a type's number behind it."""
    if "." not in pattern:
        return [pattern]
    suite, name = pattern.split(".", 1)
    return [f"{part}.{name.split('/')[0]}" for part in suite.split("/")]


def expanded(text):
    """A CMakeLists.txt with its loops written out, and without functions and comments."""
    text = FUNCTION.sub("", COMMENT.sub("", text))
    while (loop := FOREACH.search(text)) is not None:
        variable, items, body = loop.groups()
        bodies = "".join(body.replace(f"${{{variable}}}", item) for item in items.split())
        text = text[: loop.start()] + bodies + text[loop.end() :]
    return text


def sources_of(words):
    files, here = [], False
    for word in words:
        here = word == "SOURCES" or (here and word not in KEYWORDS)
        if here and word != "SOURCES":
            files.append(word)
    return files


def scripts_in(call):
    return re.findall(r"\$\{CMAKE_CURRENT_SOURCE_DIR\}/([\w/.-]+\.py)", call)


def declared_tests(root):
    """By name."""
    tests = {}
    for listing in sorted(root.glob("*/tests/**/CMakeLists.txt")):
        for kind, call in CALL.findall(expanded(listing.read_text())):
            words = call.split()
            if kind == "xoe_test":
                name, files = words[0], sources_of(words)
            elif kind == "xoe_python_test":
                name, files = f"python_{words[0]}", [f"{words[1]}_test.py"]
            elif kind == "xoe_net_test":
                name, files = words[0], [f"{words[0]}.py"]
            else:
                name, files = words[1], scripts_in(call)
            tests[name] = Declared(name, [listing.parent / file for file in files if (listing.parent / file).exists()])
    return tests
