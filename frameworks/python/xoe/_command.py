"""The commands `xoe` and `horovodrun`, which run the programs of this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def program() -> Path:
    """The path of the program `xoe`, which starts the others beside it."""
    return Path(__file__).parent / "bin" / "xoe"


def _become(arguments: list[str]) -> NoReturn:
    path = program()
    os.environ["XOE_PACKAGE_PYTHON"] = sys.executable  # of `xoe run -m MODULE`
    try:
        os.execv(path, ["xoe", *arguments])
    except OSError as error:
        print(f"xoe: cannot run {path}: {error.strerror}; install Xoe again", file=sys.stderr)
        raise SystemExit(126) from None


def main() -> NoReturn:
    """`xoe VERB ...`"""
    _become(sys.argv[1:])


def horovodrun() -> NoReturn:
    """`horovodrun ...`: `xoe run` with the same arguments."""
    _become(["run", *sys.argv[1:]])
