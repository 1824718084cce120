"""The version of the project, from the one file that states it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def project_version(root=ROOT):
    for name, pattern in (("pyproject.toml", r'^version = "([^"]+)"'), ("CMakeLists.txt", r"^project\(\s*\w+\s+VERSION (\S+)")):
        found = re.search(pattern, (root / name).read_text(), re.MULTILINE)
        if found:
            return found[1]
    raise ValueError("no file states the version")
