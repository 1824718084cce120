#!/usr/bin/env python3
"""The R package under `xoe run`: results against base R, mismatches, ranks that die, interrupts, forks, a training.

r_test.py [WORD]...
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import r_package
from r_package import BUILD, ROOT, SOURCE, cases

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"

r_package.need_r()
package = r_package.Package()
package.install()


def all_pass(size, program, *words, **options):
    done = package.run(size, PROGRAMS / program, *words, **options)
    passed = set(re.findall(r"rank (\d+) passed", done.stdout))
    assert done.returncode == 0 and len(passed) == size, done.stdout
    return done.stdout


def alive(process):
    try:
        return "Z" not in pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_version():
    said = package.call("Rscript", "-e", 'cat(as.character(packageVersion("xoe")), xoe::xoe_version())')
    mine, library = said.split()
    assert mine == library, f"frameworks/r/DESCRIPTION has version {mine}, the library {library}"


def test_one_rank():
    package.call("Rscript", SOURCE / "tests" / "one_rank.R")


def test_operations():
    for size in (1, 2, 3):
        all_pass(size, "operations.R")


def test_operations_on_two_hosts():
    all_pass(4, "operations.R", XOE_PRETEND_HOSTS="2")


def test_mismatches():
    said = all_pass(2, "mismatches.R")
    for pair in ("shape", "dimensions", "integers", "op", "minimum", "columns", "logical", "complex", "complexrow", "root", "extent",
                 "names", "nonames", "manynames", "dimnames", "whichdim", "levels", "gathered"):
        assert re.search(rf"{pair}: .*weights", said), said


def test_deaths():
    """Ranks that wait are told at once, whatever the manner of the end."""
    for manner in ("kill", "stop", "quit", "leave", "shutdown"):
        done = package.run(3, PROGRAMS / "death.R", manner, told=True)
        told = re.findall(r"rank ([02]) was told \(([\d,]*)\): (.*)", done.stdout)
        assert {rank for rank, _, _ in told} == {"0", "2"}, done.stdout
        assert all("1" in ranks.split(",") for _, ranks, _ in told), done.stdout
        assert all("gradients" in said for _, _, said in told), done.stdout
        assert (done.returncode == 0) == (manner in ("leave", "shutdown")), (manner, done.returncode, done.stdout)


def test_uncaught():
    """The launcher names the rank that failed first; a rank that lost it says why it ends."""
    done = package.run(2, PROGRAMS / "uncaught.R", told=True)
    assert done.returncode != 0, done.stdout
    assert "the data of rank 1 is wrong" in done.stdout and re.search(r"xoe run: .*rank 1\b", done.stdout), done.stdout
    assert re.search(r"Error in allreduce\(2, name = .gradients.\)", done.stdout), done.stdout


def test_late():
    done = package.run(2, PROGRAMS / "late.R", package.folder, told=True, XOE_STALL_LIMIT="1")
    assert "rank 0 passed" in done.stdout, done.stdout


def test_interrupt():
    all_pass(2, "interrupt.R", package.folder)


def test_ctrl_c():
    """SIGINT to the launcher, while rank 0 waits, ends the job and leaves no process. R ends with 1 then."""
    job = subprocess.Popen(
        package.command(2, PROGRAMS / "waits.R"),
        env=package.environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    processes = []
    for line in job.stdout:
        processes += re.findall(r"process (\d+)", line)
        if len(processes) == 2:
            break
    job.send_signal(signal.SIGINT)
    said, _ = job.communicate(timeout=60)
    assert job.returncode in (1, 128 + signal.SIGINT) and "ended by SIGINT" in said, (job.returncode, said)
    until = time.monotonic() + 30
    while any(alive(process) for process in processes):
        assert time.monotonic() < until, f"{processes} still run"
        time.sleep(0.01)


def test_forged_objects():
    all_pass(2, "forged.R")


def test_refusals():
    for size in (1, 2, 3):
        all_pass(size, "refusals.R")
    all_pass(4, "refusals.R", XOE_PRETEND_HOSTS="2")


def test_join():
    for size in (1, 2, 3):
        all_pass(size, "join.R")


def test_children():
    all_pass(2, "children.R")


def test_restarts():
    """The guide's program goes on after a lost rank, which is started again or not."""
    for options, size in ((("--restarts", "1"), 3), (("--min-np", "2"), 2)):
        with tempfile.TemporaryDirectory() as folder:
            command = package.command(3, PROGRAMS / "restarts.R", folder, options=("--timeout", str(r_package.HANGS), *options))
            done = subprocess.run(command, env=package.environment(), text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False)
            assert done.returncode == 0, done.stdout
            assert all(f"rank {rank} of {size} has 15" in done.stdout for rank in range(size)), done.stdout
            assert (pathlib.Path(folder) / "died").exists(), done.stdout


def test_forks():
    all_pass(2, "forks.R")


def test_regression():
    """The example: gradient descent on ranks that each have a part of the rows finds what glm() finds on all of them."""
    for size in (1, 2, 3):
        done = package.run(size, ROOT / "examples" / "r" / "regression.R")
        assert done.returncode == 0, done.stdout
        far = re.search(rf"{size} ranks?: .*largest difference from glm\(\): ([\d.e+-]+)", done.stdout)
        assert far and float(far[1]) < 1e-6, done.stdout


def test_bootstrap():
    """The example has the same result on any number of ranks, near the standard error that theory gives."""
    results = set()
    for size in (1, 2, 3):
        done = package.run(size, ROOT / "examples" / "r" / "bootstrap.R")
        assert done.returncode == 0, done.stdout
        found = re.search(rf"{size} ranks?: (500 replicates, standard error ([\d.]+), 95% from [\d.]+ to [\d.]+)", done.stdout)
        assert found and 0.3 < float(found[2]) < 0.6, done.stdout
        results.add(found[1])
    assert len(results) == 1, results


def test_guide():
    """Programs of the guide are R; those that are whole run, and the others are parts of tested programs."""
    page = (ROOT / "docs" / "guide" / "r.md").read_text()
    blocks = re.findall(r"(?:<!-- test: part of (\S+) -->\n\n)?^```r\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    whole = []
    for number, (program, block) in enumerate(blocks):
        file = package.folder / f"block{number}.R"
        file.write_text(block)
        package.call("Rscript", "-e", f"invisible(parse({str(file)!r}))")
        if program:
            assert block in (ROOT / program).read_text(), f"not in {program}:\n{block}"
        if block.startswith("library(xoe)"):
            whole.append(file)
    first, counts, asks = whole
    done = package.run(4, first)
    assert all(f"rank {rank} of 4 has 6 12 18" in done.stdout for rank in range(4)), done.stdout
    done = package.run(2, counts)
    assert re.search(r"a b c *\n.*1 2 0", done.stdout), done.stdout
    done = package.run(2, asks)
    assert done.returncode == 0 and "failed: rank 1 no such file" in done.stdout, done.stdout


if __name__ == "__main__":
    assert (BUILD / "bin" / "xoe").exists(), f"{BUILD} is not built"
    os.environ.pop("MAKEFLAGS", None)
    sys.exit(cases.run(cases.chosen(cases.functions(globals()), sys.argv[1:])))
