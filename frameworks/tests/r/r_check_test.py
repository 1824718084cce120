#!/usr/bin/env python3
"""`R CMD check` of the R package, which finds no error, no warning and no note and runs its examples and tests; and where the
installation finds libxoe.

  r_check_test.py [WORD]...
"""

import re
import sys

import r_package
from r_package import ROOT, cases

r_package.need_r()
package = r_package.Package()


def test_check():
    archive = package.archive()
    said = package.call("R", "CMD", "check", "--no-manual", archive, _R_CHECK_FORCE_SUGGESTS_="false")
    assert re.search(r"^Status: OK$", said, re.MULTILINE), said
    for part in ("examples ... OK", "compiled code ... OK", "Rd cross-references ... OK", "one_rank.R"):
        assert part in said, f"{part!r} is not in:\n{said}"


def test_not_found():
    """Without Xoe the installation says what to set; with a wrong XOE_HOME, that it is wrong."""
    nothing = package.folder / "nothing"
    nothing.mkdir()
    words = ("R", "CMD", "INSTALL", f"--library={nothing}", package.archive())
    bare = {"PKG_CONFIG_PATH": str(nothing), "PKG_CONFIG_LIBDIR": str(nothing), "PYTHONPATH": "", "PATH": "/usr/bin:/bin"}
    assert "XOE_HOME is" in package.call(*words, fails=True, XOE_HOME=str(nothing), **bare)
    said = package.call(*words, fails=True, XOE_HOME="", **bare)
    assert "cannot find Xoe's C library" in said and "XOE_HOME=<folder" in said, said


def test_found_by_python():
    """As a wheel lies in an environment."""
    wheel = package.folder / "site" / "xoe"
    wheel.mkdir(parents=True)
    (wheel / "__init__.py").touch()
    for link in ("include", "lib"):
        (wheel / link).symlink_to((package.home / link).resolve())
    library = package.folder / "library of a wheel"
    library.mkdir()
    words = ("R", "CMD", "INSTALL", f"--library={library}", package.archive())
    said = package.call(*words, XOE_HOME="", PYTHONPATH=str(wheel.parent), PKG_CONFIG_LIBDIR=str(library))
    assert "found by python3" in said, said


def test_found_by_pkg_config():
    """By the file that `cmake --install` makes."""
    prefix = package.folder / "prefix"
    (prefix / "lib" / "pkgconfig").mkdir(parents=True)
    for link in ("include", "lib/libxoe.so.0"):
        (prefix / link).symlink_to((package.home / link).resolve())
    text = (ROOT / "cmake" / "xoe.pc.in").read_text().replace("${pcfiledir}/@xoe_prefix@", str(prefix))
    text = text.replace("@CMAKE_INSTALL_LIBDIR@", "lib").replace("@CMAKE_INSTALL_INCLUDEDIR@", "include")
    (prefix / "lib/pkgconfig/xoe.pc").write_text(text.replace("@PROJECT_VERSION@", "0"))
    library = package.folder / "library of pkg-config"
    library.mkdir()
    words = ("R", "CMD", "INSTALL", f"--library={library}", package.archive())
    said = package.call(*words, XOE_HOME="", PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"))
    assert "found by pkg-config" in said, said
    words = (
        "Rscript",
        "-e",
        "library(xoe); init(); cat(allreduce(7)); cat(grep('libxoe', readLines('/proc/self/maps'), value = TRUE)[[1]])",
    )
    assert "7" in package.call(*words, R_LIBS=str(library), XOE_HOME="")


def test_home_with_odd_characters():
    home, library = package.folder / "a & b | c", package.folder / "library of odd characters"
    home.symlink_to(package.home)
    library.mkdir()
    package.call("R", "CMD", "INSTALL", f"--library={library}", package.archive(), XOE_HOME=str(home))
    said = package.call("Rscript", "-e", "library(xoe); init(); cat(allreduce(7))", R_LIBS=str(library), XOE_HOME="")
    assert said == "7", said


if __name__ == "__main__":
    sys.exit(cases.run(cases.chosen(cases.functions(globals()), sys.argv[1:])))
