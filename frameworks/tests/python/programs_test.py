"""The programs in programs/, in the styles of Horovod's and PyTorch's users: on two and three ranks they learn what one process
learns from the batches of all ranks.

A program leaves `losses`, and `model` or `models`; `tolerance`, if it rounds on the way. Arguments: the programs to run (all).
"""

import os
import pathlib
import runpy
import subprocess
import sys
import time

import long_jobs
import ranks

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
PATH = os.pathsep.join([str(ranks.BUILD / "python"), str(ranks.ROOT / "packages" / "xoe-horovod")])
SIZES = (1, 2, 3)
SECONDS = 240  # for one program, on a loaded machine too
STARTS_RANKS_ITSELF = ("notebook",)
FROM_PYTORCH = {"fsdp": (2, 6), "saved_in_parts": (2, 6)}


def run_program(name):
    """Runs a program in this rank; gives what it learned."""
    import torch

    import xoe.torch as hvd

    if tuple(map(int, torch.__version__.split(".")[:2])) < FROM_PYTORCH.get(name, ()):
        raise long_jobs.Skipped(f"PyTorch {torch.__version__} is too old")
    torch.set_num_threads(1)
    try:
        left = runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
    finally:
        hvd.shutdown()
    models = left.get("models") or ({"model": left["model"]} if "model" in left else {})
    weights = {
        f"{label}.{key}": (torch.view_as_real(value) if value.is_complex() else value).double().flatten().tolist()
        for label, model in models.items()
        for key, value in model.state_dict().items()
        if torch.is_tensor(value)
    }
    return {"losses": left["losses"], "weights": weights, "tolerance": left.get("tolerance", 1e-4)}


def difference(wanted, found, tolerance):
    """A sentence, or None where two programs learned the same."""
    if wanted["weights"].keys() != found["weights"].keys():
        return f"the weights are {sorted(found['weights'])} instead of {sorted(wanted['weights'])}"
    for name, a, b in [("losses", wanted["losses"], found["losses"])] + [
        (name, values, found["weights"][name]) for name, values in wanted["weights"].items()
    ]:
        if len(a) != len(b):
            return f"{name}: {len(b)} values instead of {len(a)}"
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            if not abs(x - y) <= tolerance * (0.1 + abs(x)):
                return f"{name}[{index}] is {y!r} instead of {x!r}"
    return None


def run_alone(name):
    """A program that starts its ranks itself and compares what they learned."""
    command = [ranks.interpreter(), str(PROGRAMS / f"{name}.py")]
    return subprocess.run(
        command,
        env=ranks.environment(PYTHONPATH=PATH),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def main():
    names = sys.argv[1:] or sorted(path.stem for path in PROGRAMS.glob("*.py"))
    wrong = {}
    for name in set(names) & set(STARTS_RANKS_ITSELF):
        done = run_alone(name)
        if done.returncode != 0:
            wrong[name] = f"exit code {done.returncode}\n{done.stdout}"
    names = [name for name in names if name not in STARTS_RANKS_ITSELF]
    one_process = {}
    for size in SIZES:
        started = time.monotonic()
        found = long_jobs.run_all(size, __file__, [name for name in names if name not in wrong], PYTHONPATH=PATH)
        print(f"{len(found)} programs on {size} ranks after {time.monotonic() - started:.1f} s", flush=True)
        for name, (outcome, said) in found.items():
            if outcome == "skipped":
                print(f"skipped: {name}: {said}", flush=True)
                continue
            if outcome != "passes":
                wrong[name] = f"{outcome} on {size} ranks\n{said}"
                continue
            one_process.setdefault(name, said[0])
            tolerance = said[0]["tolerance"]
            for rank, result in enumerate(said):
                why = difference(said[0], result, 0) or difference(one_process[name], result, tolerance)
                if why:
                    wrong.setdefault(name, f"rank {rank} of {size}: {why}")
    for name, why in wrong.items():
        print(f"FAILED: {name}: {why}", flush=True)
    sys.exit(f"failed: {', '.join(sorted(wrong))}" if wrong else 0)


if long_jobs.is_rank():
    long_jobs.in_rank(run_program, SECONDS)
else:
    main()
