"""Programs of other projects, unchanged, on ranks of Xoe, with packages/xoe-horovod in Horovod's place: for the scripts adopted_*_test.py.

XOE_ADOPTED_CHECKOUTS: a folder with a checkout of each project, in a folder of its name; what needs one that is not there is skipped.
docs/guide/adopted.md lists the projects, and what was found.
"""

import json
import os
import pathlib
import subprocess
import time
import unittest

import ranks

CHECKOUTS = os.environ.get("XOE_ADOPTED_CHECKOUTS")
STAND_INS = pathlib.Path(__file__).resolve().parent / "adopted"


def checkout(project, file="."):
    """A file or folder of a project's checkout."""
    if not CHECKOUTS:
        raise unittest.SkipTest(f"XOE_ADOPTED_CHECKOUTS is not set: a folder with a checkout of {project}")
    found = pathlib.Path(CHECKOUTS) / project / file
    if not found.exists():
        raise unittest.SkipTest(f"XOE_ADOPTED_CHECKOUTS has no {project}/{file}")
    return found


def need(package):
    """Skips a test where the environment lacks a package."""
    look = f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"
    if subprocess.run([ranks.interpreter(), "-c", look], check=False).returncode != 0:
        raise unittest.SkipTest(f"no {package}; data/bench/install_peers.sh adopted installs it")


def environment(folder, **more):
    """Of a program in this folder: Xoe as an installed package, Horovod's names, and the environment's commands."""
    folder.mkdir(parents=True, exist_ok=True)
    information = folder / "installed" / "xoe-1.2.3.dist-info"
    information.mkdir(parents=True, exist_ok=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: xoe\nVersion: 1.2.3\n")
    (information / "entry_points.txt").write_text("[torch.backends]\nxoe = xoe._torch_autoload:register\n")
    commands = folder / "commands"
    commands.mkdir(exist_ok=True)
    (commands / "horovodrun").write_text(f'#!/bin/sh\nexec "{ranks.BUILD}/bin/xoe" run "$@"\n')
    (commands / "horovodrun").chmod(0o755)
    variables = ranks.environment()
    path = [str(STAND_INS), variables["PYTHONPATH"], str(ranks.ROOT / "packages" / "xoe-horovod"), str(information.parent)]
    programs = [str(commands), str(pathlib.Path(ranks.interpreter()).parent), variables["PATH"]]
    quiet = {
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
        "OMP_NUM_THREADS": "1",
        "HOME": str(folder),
        "MPLBACKEND": "Agg",
    }
    return {**variables, **quiet, "PYTHONPATH": os.pathsep.join(path), "PATH": os.pathsep.join(programs), **more}


def call(words, folder, **more):
    """What a command prints; it must succeed."""
    started = time.monotonic()
    done = subprocess.run(
        [str(word) for word in words],
        env=environment(folder, **more),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=ranks.HANGS,
    )
    assert done.returncode == 0, f"exit code {done.returncode} of {words}\n{done.stdout}"
    print(f"  {pathlib.Path(str(words[-1])).name}: {time.monotonic() - started:.0f} s", flush=True)
    return done.stdout


def run(size, words, folder, options=(), **more):
    """What ``xoe run -np SIZE python WORDS`` prints."""
    started = [ranks.BUILD / "bin" / "xoe", "run", "-np", size, *options, ranks.interpreter()]
    return call([*started, *words], folder, **more)


def run_together(size, words, folder, **more):
    """run(), of a program that does not say with how many others it is: all ranks are in one trace of the engine."""
    trace = folder / "trace.json"
    printed = run(size, words, folder, XOE_TIMELINE=str(trace), **more)
    missing = [rank for rank in range(size) if f'"rank {rank} (host' not in trace.read_text()]
    assert not missing, f"ranks {missing} of {size} are not in {trace.read_text()[:2000]}\n{printed}"
    return printed


def train(size, words, folder, **more):
    """Runs a program, and gives what it prints, and the sums of its weights, which all ranks have alike."""
    said = folder / f"report-{size}"
    said.mkdir(parents=True)
    printed = run(size, words, folder, ADOPTED_REPORT=str(said), **more)
    found = [json.loads(file.read_text()) for file in said.glob("*.json")]
    assert sorted(one["rank"] for one in found) == list(range(size)), f"reports of {sorted(said.iterdir())}\n{printed}"
    assert all(one["size"] == size for one in found), found
    assert found[0]["sums"], f"nothing was trained\n{printed}"
    assert len({one["checksum"] for one in found}) == 1, f"ranks have trained different weights\n{printed}"
    return printed, found[0]["sums"]


def close(found, expected, within):
    """Compares numbers, in lists of lists."""
    if isinstance(expected, list):
        assert len(found) == len(expected), (found, expected)
        for one, other in zip(found, expected, strict=True):
            close(one, other, within)
    else:
        assert abs(found - expected) <= within * max(1.0, abs(expected)), f"{found} instead of {expected}, within {within}"


def write_digits(folder):
    """Pictures that look like MNIST's and can be learned, as files of MNIST and as arrays; gives the folder of both."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    code = """
import numpy as np, pathlib, struct, sys
raw, random = pathlib.Path(sys.argv[1]), np.random.default_rng(0)
for of_files, name, count in (("train", "train", 512), ("t10k", "test", 256)):
    labels = random.integers(0, 10, count).astype("uint8")
    images = (random.random((count, 28, 28)) * 60).astype("uint8")
    for image, label in zip(images, labels):
        image[2 * label : 2 * label + 6, 4:24] += 180
    (raw / f"{of_files}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + images.tobytes())
    (raw / f"{of_files}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels.tobytes())
    np.savez(raw / f"{name}.npz", x=images, y=labels)
"""
    subprocess.run([ranks.interpreter(), "-c", code, str(raw)], check=True)
    return raw
