#!/usr/bin/env python3
"""`R CMD check` of the R package: it finds no error, no warning and no note; its examples and tests run in it."""

import re
import sys

import r_package
from r_package import cases

r_package.need_r()
package = r_package.Package()


def test_check():
    archive = package.archive()
    said = package.call("R", "CMD", "check", "--no-manual", archive, _R_CHECK_FORCE_SUGGESTS_="false")
    assert re.search(r"^Status: OK$", said, re.MULTILINE), said
    for part in ("examples ... OK", "compiled code ... OK", "Rd cross-references ... OK", "one_rank.R"):
        assert part in said, f"{part!r} is not in:\n{said}"


if __name__ == "__main__":
    sys.exit(cases.run(cases.chosen(cases.functions(globals()), sys.argv[1:])))
