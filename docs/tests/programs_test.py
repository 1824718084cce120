"""The programs of the documents: those in C++ and C are compiled, those in C linked and run, those in Python run on their ranks.

programs_test.py cpp|c|python     with XOE_BUILD_DIR and, for C++ and C, XOE_CXX and XOE_CC
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path += [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).resolve().parents[2] / "frameworks/tests/python")]
import pages
import ranks

HEADERS = ("core/include", "data/include", "frameworks/c/include", "frameworks/libtorch/include")
INCLUDES = [word for folder in HEADERS for word in ("-I", str(pages.ROOT / folder))]


def program(block):
    """The whole source file that a block makes, with its includes in front."""
    if not block.within:
        return block.text
    lines = block.text.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    others = [line for line in lines if not line.startswith("#include")]
    source = []
    for line in (pages.ROOT / block.within).read_text().splitlines():
        source += [line[: -len("BLOCK")] + other for other in others] if line.strip() == "BLOCK" else [line]
    return "\n".join(includes + source) + "\n"


def blocks(language):
    return [block for block in pages.all_blocks() if block.language == language and not block.skip]


def checked(what, command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, check=False, **options)
    print(f"  {what}: exit code {done.returncode}", flush=True)
    assert done.returncode == 0, f"{what}:\n{done.stdout}{done.stderr}"


def torch_includes():
    return [
        word for folder in os.environ.get("XOE_TORCH_INCLUDES", "").split(os.pathsep) if folder for word in ("-isystem", folder)
    ]


def test_cpp(folder):
    for number, block in enumerate(block for block in blocks("cpp") if not block.part_of):
        if "torch" in program(block) and not torch_includes():
            print(f"  {block}: not compiled: this build is without libtorch")
            continue
        source = folder / f"{number}.cc"
        source.write_text(program(block))
        options = ["-std=c++20", "-fsyntax-only", "-w", *INCLUDES, *torch_includes()]
        checked(str(block), [os.environ["XOE_CXX"], *options, source])


def test_c(folder):
    for number, block in enumerate(blocks("c")):
        source, made = folder / f"{number}.c", folder / f"program{number}"
        source.write_text(program(block))
        library = ranks.BUILD / "lib"
        options = ["-std=c11", "-Wall", "-Wextra", "-Werror", *INCLUDES]
        checked(
            str(block), [os.environ["XOE_CC"], *options, source, "-L", library, f"-Wl,-rpath,{library}", "-lxoe", "-o", made]
        )
        if "c_data.h" not in block.text:
            checked(f"{block} on 2 ranks", [ranks.BUILD / "bin/xoe", "run", "-np", "2", made])


def test_python(folder):
    pages.write_entry_points(folder)
    for number, block in enumerate(block for block in blocks("python") if block.ranks):
        source = folder / f"{number}.py"
        source.write_text(program(block))
        done = ranks.run(block.ranks, source, PYTHONPATH=os.pathsep.join([str(ranks.BUILD / "python"), str(folder)]))
        print(f"  {block} on {block.ranks} ranks: exit code {done.returncode} after {done.seconds:.1f} s", flush=True)
        assert done.returncode == 0, f"{block}:\n{done.stdout}"


def main():
    test = {"cpp": test_cpp, "c": test_c, "python": test_python}[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        try:
            test(pathlib.Path(folder))
        except AssertionError as error:
            print(error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
