"""The version of the project, from the one file that states it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def project_version():
    return re.search(r"^project\(\s*\w+\s+VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
