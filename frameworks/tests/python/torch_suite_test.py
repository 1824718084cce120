"""PyTorch's own tests of torch.distributed, from its wheel, on the backend "xoe": what passes with gloo passes.

torch_suite_test.py [SIZE [NAME...]]; XOE_TEST_BACKEND=gloo runs them with gloo. The tests compare the backend's name with lists and names of
their own; these are opened for "xoe" where they name gloo, and for all-to-all, which they give to MPI alone. The profiler's
stay closed: the engine's operations are no events of PyTorch's profiler.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest

import ranks

SECONDS = 120  # for one test
BACKEND = os.environ.get("XOE_TEST_BACKEND", "xoe")
MODULE = "torch.testing._internal.distributed.distributed_test"
OPENED = (
    ('BACKEND != "gloo"', 'BACKEND not in ("gloo", "xoe")'),
    ('BACKEND == "gloo"', 'BACKEND in ("gloo", "xoe")'),
    ('{"gloo"}', '{"gloo", "xoe"}'),
    ('BACKEND != "mpi", "Only MPI', 'BACKEND not in ("mpi", "xoe"), "Only MPI'),
)
# How many tests pass on so many ranks, so that none is skipped unseen: those of requirements/data-peers.txt's PyTorch.
AT_LEAST = {"xoe": {2: 101, 4: 104}, "gloo": {2: 92, 4: 95}}


def load():
    """The module of tests, opened for the backend."""
    from torch.testing._internal import common_distributed

    for backends in common_distributed.DistTestCases.backend_feature.values():
        if "gloo" in backends:
            backends.add("xoe")
    common_distributed.DistTestCases.backend_feature["plugin"].add("xoe")
    source = importlib.util.find_spec(MODULE).origin
    text = pathlib.Path(source).read_text()
    for before, after in OPENED:
        assert before in text, f"PyTorch's tests have changed: {before} is not in {source}"
        text = text.replace(before, after)
    module = types.ModuleType(MODULE)
    module.__file__ = source
    sys.modules[MODULE] = module
    exec(compile(text, source, "exec"), module.__dict__)
    return module


def make_suite(module, store):
    """The class of tests; the ranks of each are forked from here, where PyTorch is loaded."""
    import torch

    class Suite(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            store.unlink(missing_ok=True)
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Suite


def run(test):
    """("passed", "skipped" or "failed", what it printed)."""
    import torch

    result = unittest.TestResult()
    with tempfile.TemporaryFile("w+") as output:
        sys.stdout.flush()
        sys.stderr.flush()
        before = os.dup(1), os.dup(2)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        try:
            test.run(result)
        finally:
            for process in torch.multiprocessing.active_children():
                process.kill()
            sys.stdout.flush()
            sys.stderr.flush()
            for fd, saved in enumerate(before, start=1):
                os.dup2(saved, fd)
                os.close(saved)
        output.seek(0)
        printed = output.read()
    if result.skipped:
        return "skipped", ""
    failures = result.errors + result.failures
    return ("failed", failures[0][1] + printed) if failures else ("passed", "")


def run_all(size, names, folder):
    """Runs the tests on so many ranks; returns those that did not end as expected."""
    store = pathlib.Path(folder) / "store"
    os.environ.update(
        BACKEND=BACKEND,
        WORLD_SIZE=str(size),
        INIT_METHOD=f"file://{store}",
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(SECONDS),
        TMPDIR=folder,
    )
    import torch

    import xoe.torch.distributed  # noqa: F401

    torch.set_num_threads(1)
    suite = make_suite(load(), store)
    whole = not names
    names = names or [name for name in dir(suite) if name.startswith("test_")]
    counts = {"passed": 0, "skipped": 0, "failed": 0}
    wrong = []
    for name in names:
        started = time.monotonic()
        outcome, printed = run(suite(name))
        if outcome == "failed":
            wrong.append(name)
            print(printed)
        counts[outcome] += 1
        if outcome != "skipped":
            print(f"{name}: {outcome} after {time.monotonic() - started:.1f} s", flush=True)
    print(f"{BACKEND} on {size} ranks: {', '.join(f'{count} {what}' for what, count in counts.items())}")
    least = AT_LEAST[BACKEND].get(size, 1) if whole else 1
    if counts["passed"] < least:
        wrong.append(f"only {counts['passed']} tests pass, {least} should")
    return wrong


def main():
    if "XOE_TEST_SUITE" in os.environ:
        with tempfile.TemporaryDirectory(prefix="xoe-test-") as folder:
            wrong = run_all(int(sys.argv[1]), sys.argv[2:], folder)
        sys.exit(f"failed: {', '.join(wrong)}" if wrong else 0)
    ranks.need("expecttest")
    words = [ranks.interpreter(), __file__, *(sys.argv[1:] or ["2"])]
    sys.exit(subprocess.run(words, env=ranks.environment(XOE_TEST_SUITE="1"), check=False).returncode)


if __name__ == "__main__":
    main()
