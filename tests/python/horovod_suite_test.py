"""Horovod's own tests of its PyTorch module, test/parallel/test_torch.py, run unchanged on packages/xoe-horovod.

XOE_HOROVOD_CHECKOUT: a checkout of Horovod 0.28.1 or later; the test is skipped without. Arguments: the tests to run (all).
"""

import functools
import importlib.util
import os
import pathlib
import sys
import time
import types
import unittest
import unittest.mock

import long_jobs
import ranks

SIZE = 2
SECONDS = 120  # for one test, on a loaded machine too

AT_LEAST = 100  # of the 115 tests of 0.28.1 pass; some need a GPU

# Tests that may fail here, because Xoe means something else: docs/guide/from-horovod.md has the reasons.
DIFFERENT = (
    "test_horovod_allgather_duplicate_name_error",
    "test_horovod_allreduce_duplicate_name_error",
    "test_horovod_broadcast_duplicate_name_error",
    "test_horovod_reducescatter_duplicate_name_error",
    "test_synchronize_step_warning",
)


@functools.cache
def load_suite():
    """The test class. It needs two packages that PyTorch's environment may lack, each for one name; and it tries every optimizer
    of torch.optim on a network with biases, which Muon, newer than the tests, refuses."""
    import torch

    for newer in {"Muon"} & vars(torch.optim).keys():
        getattr(torch.optim, newer).__module__ = "newer"  # the tests go by it
    sys.modules.setdefault("mock", unittest.mock)
    if importlib.util.find_spec("pytest") is None:
        sys.modules["pytest"] = types.SimpleNamespace(mark=types.SimpleNamespace(skip=lambda reason: unittest.skip(reason)))
    source = importlib.util.spec_from_file_location(
        "test_torch", os.environ["XOE_HOROVOD_CHECKOUT"] + "/test/parallel/test_torch.py"
    )
    module = importlib.util.module_from_spec(source)
    source.loader.exec_module(module)
    return module.TorchTests


def run_test(name):
    """Runs one test in this rank."""
    result = unittest.TestResult()
    load_suite()(name).run(result)
    for _, text in result.errors + result.failures:
        raise AssertionError(text)
    for _, why in result.skipped:
        raise long_jobs.Skipped(why)


def main(checkout):
    started = time.monotonic()
    source = (checkout / "test" / "parallel" / "test_torch.py").read_text()
    everything = [line.split("def ")[1].split("(")[0] for line in source.splitlines() if line.startswith("    def test_")]
    path = os.pathsep.join([str(ranks.BUILD / "python"), str(ranks.ROOT / "packages" / "xoe-horovod")])
    variables = {"PYTHONPATH": path, "XOE_HOROVOD_CHECKOUT": str(checkout)}
    found = long_jobs.run_all(SIZE, __file__, sys.argv[1:] or everything, **variables)
    for name, (outcome, said) in sorted(found.items()):
        if outcome != "passes":
            print(f"{outcome}: {name}: {said}")
    counts = {kind: sum(outcome == kind for outcome, _ in found.values()) for kind in reversed(long_jobs.WORST_FIRST)}
    print(f"{len(found)} tests on {SIZE} ranks after {time.monotonic() - started:.0f} s: {counts}")
    wrong = [
        name for name, (outcome, _) in found.items() if outcome == "hangs" or (outcome == "fails" and name not in DIFFERENT)
    ]
    if not sys.argv[1:] and counts["passes"] < AT_LEAST:
        wrong.append(f"only {counts['passes']} tests pass, {AT_LEAST} should")
    sys.exit(f"failed: {', '.join(wrong)}" if wrong else 0)


CHECKOUT = os.environ.get("XOE_HOROVOD_CHECKOUT")
if not CHECKOUT:
    print("skipped: XOE_HOROVOD_CHECKOUT is not the path of a checkout of Horovod")
    sys.exit(ranks.peer_python.SKIPPED)
if long_jobs.is_rank():
    long_jobs.in_rank(run_test, SECONDS)
else:
    main(pathlib.Path(CHECKOUT))
