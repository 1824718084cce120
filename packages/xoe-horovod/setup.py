"""The version is Xoe's, of which it needs the same: both are written in CMakeLists.txt alone."""

import pathlib
import re

from setuptools import setup

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"project\(xoe VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]

setup(version=VERSION, install_requires=[f"xoe=={VERSION}"])
