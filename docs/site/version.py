"""The version of the project, from the one file that states it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def project_version(root=ROOT):
    found = re.search(r'^version = "([^"]+)"', (root / "pyproject.toml").read_text(), re.MULTILINE)
    if not found:
        raise ValueError("pyproject.toml states no version")
    return found[1]
