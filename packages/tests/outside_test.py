#!/usr/bin/env python3
"""Projects outside the tree use an installed Xoe: found by CMake or pkg-config, as a folder of theirs, fetched by git, in C,
C++, Go and Rust, and from the Debian package.

  outside_test.py BUILD [CASE]...
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
EXAMPLES = ROOT / "examples"
BUILD = pathlib.Path(sys.argv[1]).resolve()


def run(*words, **options):
    """Runs a command, and shows what it said if it fails; returns its output."""
    done = subprocess.run(
        [str(word) for word in words], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options
    )
    if done.returncode != 0:
        print(done.stdout)
        raise AssertionError(f"{' '.join(map(str, words))}: exit code {done.returncode}")
    return done.stdout


def expect(said, *lines):
    for line in lines:
        assert line in said, f"{line!r} is not in:\n{said}"


class Installed:
    """Xoe, installed into a folder that its build knows nothing of."""

    def __init__(self, scratch, prefix=None):
        self.scratch = scratch
        self.prefix = prefix or scratch / "prefix"
        if prefix is None:
            run("cmake", "--install", BUILD, "--prefix", self.prefix, "--strip")
        assert not (self.prefix / "xoe").exists(), "the Python package is a wheel's"
        self.library = next(self.prefix.glob("lib*/libxoe.so.0")).parent
        self.environment = {
            **os.environ,
            "PKG_CONFIG_PATH": str(self.library / "pkgconfig"),
            "LD_LIBRARY_PATH": str(self.library),
        }
        self.environment.pop("XOE_PLUGIN_DIR", None)

    def job(self, program, ranks=2, **variables):
        """The output of `xoe run` with the installed launcher."""
        return run(self.prefix / "bin" / "xoe", "run", "-np", ranks, program, env={**self.environment, **variables})

    def built(self, project, target, *options):
        """The build folder of one of the projects here, with this target."""
        build = self.scratch / f"build-{project}"
        run("cmake", "-G", "Ninja", "-S", FOLDER / project, "-B", build, f"-DXOE_EXAMPLES={EXAMPLES}", *options)
        run("cmake", "--build", build, "--target", target)
        return build

    def flags(self, *words):
        return run("pkg-config", *words, env=self.environment).split()


SUMS = ("rank 0 of 2: the sum is 3", "rank 1 of 2: the sum is 3")
AVERAGES = ("rank 0 of 2: the average is 0.5", "rank 1 of 2: the average is 0.5")


def found_by_cmake(xoe):
    """find_package(), from C and C++; a backend between hosts is found from a program that lies elsewhere."""
    torch = (xoe.library / "xoe" / "libxoe_torch.a").exists()
    options = (
        ["-DOUTSIDE_TORCH=ON", f"-DXOE_TORCH_ROOT={next(ROOT.glob('.venv/lib/python3*/site-packages/torch'))}"] if torch else []
    )
    build = xoe.built("found", "all", f"-DCMAKE_PREFIX_PATH={xoe.prefix}", *options)
    expect(xoe.job(build / "outside"), *SUMS)
    expect(xoe.job(build / "outside_c"), *AVERAGES)
    if torch:
        expect(xoe.job(build / "outside_torch"), "over 2 ranks")
    if (xoe.library / "libxoe-gloo.so").exists():
        pretended = {"XOE_PRETEND_HOSTS": "2", "LD_LIBRARY_PATH": ""}
        expect(xoe.job(build / "outside", **pretended), *SUMS)
    said = subprocess.run([build / "outside_images", "--help"], check=False, text=True, capture_output=True)
    assert said.returncode in (0, 2), said


def missing_component(xoe):
    """A component that there is not is an error that names it."""
    project = xoe.scratch / "unknown"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(outside LANGUAGES CXX)\n"
        "find_package(xoe CONFIG REQUIRED COMPONENTS comm horses)\n"
    )
    done = subprocess.run(
        ["cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={xoe.prefix}"],
        check=False,
        text=True,
        capture_output=True,
    )
    assert done.returncode != 0
    expect(done.stderr, "horses")


def found_by_pkg_config(xoe):
    """cc and c++ with the flags of pkg-config."""
    program = xoe.scratch / "average"
    run("cc", EXAMPLES / "c" / "average.c", *xoe.flags("--cflags", "--libs", "xoe"), "-o", program)
    expect(xoe.job(program), *AVERAGES)
    program = xoe.scratch / "sum"
    run("c++", FOLDER / "outside.cc", *xoe.flags("--cflags", "--libs", "xoe-cxx"), "-o", program)
    expect(xoe.job(program), *SUMS)


def from_go(xoe):
    """The example in Go."""
    if shutil.which("go") is None:
        return "no go"
    folder = shutil.copytree(EXAMPLES / "go", xoe.scratch / "go")
    run(
        "go",
        "build",
        "-o",
        "average",
        ".",
        cwd=folder,
        env={**xoe.environment, "GOCACHE": str(xoe.scratch / "gocache"), "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"},
    )
    expect(xoe.job(folder / "average"), *AVERAGES)
    shutil.rmtree(xoe.scratch / "gocache")
    return None


def from_rust(xoe):
    """The example in Rust."""
    if shutil.which("rustc") is None:
        return "no rustc"
    program = xoe.scratch / "average_rs"
    run("rustc", EXAMPLES / "rust" / "average.rs", *xoe.flags("--libs-only-L", "xoe"), "-o", program)
    expect(xoe.job(program), *AVERAGES)
    return None


# Compiled once more, so quickly.
QUICKLY = ("-DXOE_UNITY=ON", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0")


def within_a_project(xoe):
    """add_subdirectory(): only libraries are built, and nothing of Xoe's development."""
    build = xoe.built("within", "outside", f"-DXOE_SOURCE={ROOT}", *QUICKLY)
    expect(xoe.job(build / "outside"), *SUMS)
    cache = (build / "CMakeCache.txt").read_text()
    assert "-Werror" not in (build / "build.ninja").read_text(), "another compiler's warnings would end the build"
    expect(cache, "XOE_BUILD_TESTS:BOOL=OFF", "XOE_WITH_TORCH:BOOL=OFF", "XOE_BUILD_BENCH:BOOL=OFF", "XOE_INSTALL:BOOL=OFF")


def fetched_by_git(xoe):
    """FetchContent, of what is committed."""
    if not (ROOT / ".git").exists():
        return "no git checkout"
    commit = run("git", "-C", ROOT, "rev-parse", "HEAD").strip()
    build = xoe.built("fetched", "outside", f"-DXOE_REPOSITORY=file://{ROOT}", f"-DXOE_COMMIT={commit}", *QUICKLY)
    expect(xoe.job(build / "outside"), *SUMS)
    return None


def debian_package(xoe):
    """What cpack makes: a package that says what it needs, and works where it is unpacked."""
    if shutil.which("dpkg-deb") is None or shutil.which("cpack") is None:
        return "no dpkg-deb"
    folder = xoe.scratch / "deb"
    run("cpack", "--config", BUILD / "CPackConfig.cmake", "-G", "DEB", "-B", folder)
    (package,) = folder.glob("xoe_*.deb")
    said = run("dpkg-deb", "--field", package)
    expect(said, "Package: xoe\n", "Depends: ", "libc6", "libjpeg62-turbo", "libsodium23")
    needed = run("dpkg-deb", "--field", package, "Depends")
    assert "libmpich" not in needed and "libopenmpi" not in needed, needed
    for package_of_mpi in folder.glob("xoe-mpi_*.deb"):
        expect(run("dpkg-deb", "--field", package_of_mpi, "Depends"), "xoe (= ")
    root = xoe.scratch / "deb-root"
    run("dpkg-deb", "--extract", package, root)
    unpacked = Installed(xoe.scratch, root / "usr")
    program = xoe.scratch / "average-deb"
    run("cc", EXAMPLES / "c" / "average.c", *unpacked.flags("--cflags", "--libs", "xoe"), "-o", program)
    expect(unpacked.job(program), *AVERAGES)
    expect(run(root / "usr" / "bin" / "xoe-doctor", "--help"), "xoe doctor")
    return None


CASES = (
    found_by_cmake,
    missing_component,
    found_by_pkg_config,
    from_go,
    from_rust,
    within_a_project,
    fetched_by_git,
    debian_package,
)


def main():
    wanted = sys.argv[2:]
    with tempfile.TemporaryDirectory() as scratch:
        xoe = Installed(pathlib.Path(scratch))
        for case in CASES:
            if not wanted or case.__name__ in wanted:
                skipped = case(xoe)
                print(f"{case.__name__}: {f'skipped: {skipped}' if skipped else 'passed'}", flush=True)


if __name__ == "__main__":
    main()
