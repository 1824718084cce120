"""What the tests of xoe.ray and xoe.spark have in common: they run in a peer's Python, and train the same small network."""

import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import ranks

_INSIDE = "XOE_TEST_INSIDE"


def inside(script, environment, package, *more, **variables):
    """Runs the script in the Python of an environment of build/peers, with Xoe; returns in there."""
    if _INSIDE in os.environ:
        return
    ranks.use(environment, package)
    python = ranks.interpreter()
    for needed in more:
        if ranks.peer_python.peer_python(environment, needed) is None:
            print(ranks.peer_python.why_no(environment, needed))
            sys.exit(ranks.peer_python.SKIPPED)
    if environment == "spark" and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        print("skipped: no Java; scripts/setup.sh --with spark installs it")
        sys.exit(ranks.peer_python.SKIPPED)
    kept = {name: os.environ[name] for name in ("XOE_HOROVOD_CHECKOUT",) if name in os.environ}
    given = ranks.environment(**{_INSIDE: "1"}, **kept, PYSPARK_PYTHON=python, **variables)
    here = str(pathlib.Path(script).parent)
    given["PYTHONPATH"] = os.pathsep.join([given["PYTHONPATH"], str(ranks.ROOT / "packages" / "xoe-horovod"), here])
    sys.exit(subprocess.run([python, script, *sys.argv[1:]], env=given, check=False).returncode)


def train(steps, shares=None):
    """Weights after a training on one batch, of which each rank has its part. shares: without Xoe, in this process."""
    import torch

    torch.manual_seed(1)
    torch.set_num_threads(1)
    x = torch.randn(24, 5, dtype=torch.float64)
    y = (x @ torch.randn(5, 1, dtype=torch.float64)).sin()
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 1)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if shares is None:
        import xoe.torch as hvd

        hvd.init()
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        hvd.broadcast_parameters(model.state_dict())
        x, y = x[hvd.rank() :: hvd.size()], y[hvd.rank() :: hvd.size()]
    for _ in range(steps):
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
    return [parameter.detach().numpy() for parameter in model.parameters()]


def check_training(results, steps=20):
    """Every rank's weights are those of one process."""
    import numpy

    plain = train(steps, shares=1)
    for weights in results:
        for one, other in zip(weights, plain, strict=True):
            numpy.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def runs(pid):
    """Whether the process runs; not one that has ended, and whose parent does not look."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_until(condition, seconds, what):
    """Raises AssertionError where the condition does not hold in time."""
    end = time.monotonic() + ranks.told_within(seconds)
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def shown_to_others(word):
    """Processes whose command line or whose environment at their start has the word."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "environ"):
            try:
                if word.encode() in (folder / file).read_bytes():
                    found.append(f"{folder}/{file}")
            except OSError:
                pass  # it has ended, or is another user's
    return found


def compare_signatures(signatures):
    """signatures: by function, its arguments in Horovod's order, as "a|b=None"."""
    for function, listed in signatures.items():
        ours = list(inspect.signature(function).parameters.values())
        names = listed.split("|")
        for argument, parameter in zip(names, ours, strict=False):
            word, has_default, default = argument.partition("=")
            assert word == parameter.name, f"{function}: {parameter.name} stands where Horovod has {word}"
            wanted = eval(default) if has_default else parameter.empty
            assert parameter.default == wanted, f"{function}: {word} is {parameter.default!r} unless given, not {wanted!r}"
        assert len(ours) >= len(names), f"{function} takes {len(ours)} arguments, Horovod {len(names)}"
        more = [one for one in ours[len(names) :] if one.kind is not one.VAR_KEYWORD]
        assert all(one.default is not one.empty for one in more), function


def run_page(page, wanted):
    """Runs the programs of a page of the guide. wanted: words that each prints, in order."""
    programs = re.findall(r"```python\n(.*?)```", (ranks.ROOT / "docs" / "guide" / page).read_text(), re.DOTALL)
    assert len(programs) == len(wanted), f"{page} has {len(programs)} programs"
    for program, words in zip(programs, wanted, strict=True):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "program.py"
            path.write_text(program)
            # A Ray of its own: one that is found may be a node that a test has removed.
            given = {**os.environ, "RAY_ADDRESS": "local"}
            done = subprocess.run(
                [sys.executable, path], capture_output=True, text=True, env=given, timeout=ranks.HANGS, check=False
            )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        for word in words:
            assert re.search(word, done.stdout), f"{word} is not in\n{done.stdout}\n{done.stderr}"


def spark_session(threads):
    """A session of Spark on this machine, which says nothing."""
    from pyspark.sql import SparkSession

    options = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    spark = SparkSession.builder.master(f"local[{threads}]").config(map=options).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def run_on_spark(names, spark, in_folders=False):
    """Runs the tests of a script that the command line chooses, and ends it. in_folders: each gets the path of one of its own."""
    import cases

    def in_a_folder(test):
        def call():
            with tempfile.TemporaryDirectory(prefix="xoe-test-") as folder:
                test(folder)

        return call

    chosen = cases.chosen(cases.functions(names), sys.argv[1:])
    try:
        result = cases.run([(name, in_a_folder(test) if in_folders else test) for name, test in chosen])
    finally:
        spark.stop()
    sys.exit(result)
