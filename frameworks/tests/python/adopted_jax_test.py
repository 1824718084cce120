"""JAX's own multi-process tests, unchanged, under `xoe run --jax`: what passes with Gloo passes through Xoe."""

import re

import adopted
import ranks

ranks.use("frameworks", "jax")

# The rank's number and the coordinator's address, which the tests take from their command line.
PROGRAM = """
import os, runpy, sys

sys.argv = [
    sys.argv[1], f"--num_processes={os.environ['XOE_SIZE']}", f"--multiprocess_test_worker_id={os.environ['XOE_RANK']}",
    f"--multiprocess_test_controller_address=localhost:{sys.argv[2]}",
]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# Tests that pass on 2 processes, by file. XLA refuses to add up float16 through MPI: two fail for that.
PASS = {
    "all_reduce": 7,
    "all_gather": 3,
    "all_to_all": 4,
    "axis_index": 1,
    "pmap": 10,
    "pjit": 2,
    "multihost_utils": 12,
    "key_value_store": 10,
    "wait_barrier": 4,
    "device_id": 4,
}


def run(name, size, folder):
    """The numbers of tests that passed, and what failed, on each rank."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    test = adopted.checkout("jax", f"tests/multiprocess/{name}_test.py")
    words = ["sh", "-c", '"$@"; true', "sh", ranks.BUILD / "bin" / "xoe", "run", "--jax", "--grace", "60", "-np", size]
    printed = adopted.call([*words, ranks.interpreter(), program, test, ranks.free_port()], folder)
    found = {}
    for rank in map(str, range(size)):
        lines = re.findall(rf"^\[{rank}\] (.*)$", printed, re.MULTILINE)
        passed = {line for line in lines if line.startswith("[       OK ]")}
        failed = {line.partition("]")[2] for line in lines if line.startswith("[  FAILED  ]")}
        found[rank] = len(passed), failed, printed
    return found


def test_two_processes(folder):
    for name, wanted in PASS.items():
        for rank, (passed, failed, printed) in run(name, 2, folder).items():
            assert all("float16" in test for test in failed), f"{name} on rank {rank}: {failed}\n{printed}"
            assert passed >= wanted, f"{name} on rank {rank}: only {passed} tests pass\n{printed}"
            assert not failed or "Unsupported primitive type for reduction: f16" in printed, printed


def test_four_processes(folder):
    for name in ("all_to_all", "axis_index"):
        for rank, (passed, failed, printed) in run(name, 4, folder).items():
            assert passed >= 1 and not failed, f"{name} on rank {rank}: {failed}\n{printed}"


ranks.drive(globals())
