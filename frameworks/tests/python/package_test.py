"""The package as users install it: light to import, typed, a wheel that works without the sources and without a compiler."""

import os
import pathlib
import shutil
import subprocess

import ranks
import wheels


def output(python, code, **variables):
    done = subprocess.run(
        [str(python), "-c", code],
        env=ranks.environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_importing_costs_nothing(_):
    code = "import sys, xoe; heavy = [m for m in ('torch', 'numpy', 'cloudpickle', 'xoe._core') if m in sys.modules]; print(heavy, len(sys.modules))"
    assert output(ranks.interpreter(), code).startswith("[]"), "import xoe imports more than itself"
    modules = "import sys, typing; before = set(sys.modules); import xoe; print(len(set(sys.modules) - before))"
    assert int(output(ranks.interpreter(), modules)) < 5


def test_names_are_there(_):
    output(
        ranks.interpreter(),
        "import xoe\n"
        "for name in xoe.__all__: getattr(xoe, name)\n"
        "import xoe.torch as hvd\n"
        "for name in hvd.__all__: getattr(hvd, name)\n"
        "missing = [n for n in hvd.__all__ if callable(getattr(hvd, n)) and not getattr(hvd, n).__doc__]\n"
        "assert not missing, missing\n",
    )


def test_the_wheel(folder):
    """Built by pip, installed into an empty environment, run there without a compiler in PATH."""
    wheel = wheels.fitting(wheels.made(folder), ranks.interpreter())
    venv = folder / "venv"
    subprocess.run([ranks.interpreter(), "-m", "venv", str(venv)], check=True)
    subprocess.run([str(venv / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", str(wheel)], check=True)
    # PyTorch comes from build/peers, Xoe from the wheel; of this machine's programs only what a rank needs.
    site = pathlib.Path(output(ranks.interpreter(), "import torch; print(torch.__path__[0])").strip()).parent
    variables = {name: value for name, value in os.environ.items() if not name.startswith("XOE_")}
    variables |= {"PATH": str(venv / "bin"), "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    for tool in ("gcc", "g++", "cmake"):
        assert shutil.which(tool, path=variables["PATH"]) is None
    for command in (
        ["xoe", "--version"],
        ["xoe", "doctor", "--help"],
        ["xoe", "data", "--help"],
        ["xoe", "run", "-np", "2", "python", "-m", "xoe.examples.mnist", "--target", "0.95"],
        ["horovodrun", "-np", "2", "--gloo", "python", "-c", "import xoe; xoe.init(); print(xoe.size())"],
    ):
        program = venv / "bin" / command[0]
        done = subprocess.run(
            [str(program), *command[1:]],
            env=variables,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(f"  {' '.join(command[:4])}: exit code {done.returncode}", flush=True)
        assert done.returncode == 0, done.stdout


ranks.drive(globals())
