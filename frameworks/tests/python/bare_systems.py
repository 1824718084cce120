"""What a wheel must do in a bare system of Debian (debian_system.py), for tests of wheels."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import ranks

sys.path.insert(0, str(ranks.ROOT / "core/tests/net"))

from debian_system import Failed, Inside

KEPT = ranks.ROOT / "build" / "peers" / "systems"
PROGRAMS = pathlib.Path(__file__).parent / "systems"  # /programs in a system
BUILT_WITH = re.search(r"^torch==([0-9.]+)", (ranks.ROOT / "requirements/core.txt").read_text(), re.MULTILINE)[1]


def users(root, scratch, name, mounts):
    """Root, and a user, in the system: each an Inside, in a folder of its own, with what to call it."""
    for path in ("root", "mnt"):
        (root / path).chmod(0o755)
    for user, who in (("0:0", "root"), ("1000:1000", "a user")):
        folder = scratch / f"{name}-{who.split()[-1]}"
        folder.mkdir()
        os.chown(folder, *map(int, user.split(":")))
        yield Inside(root, folder, user, mounts, {"PYTHONDONTWRITEBYTECODE": "1"}), who
        shutil.rmtree(folder)


def check_data_tools(inside, xoe="xoe"):
    inside.run(xoe, "data", "make", "--images", 40, "--classes", 4, "--shards", 2, "/mnt/images")
    inside.timed("xoe data verify", xoe, "data", "verify", "/mnt/images")


def check_training(inside, torch, xoe="xoe", **variables):
    """`xoe train` and `xoe bench train` with PyTorch of this version; "": without any."""
    train = (xoe, "train", "--synthetic", "--model", "mlp", "--image-size", 32, "--batch", 8, "--steps", 4)
    if torch == BUILT_WITH:
        inside.timed("xoe train", xoe, "run", "-np", 2, *train, **variables)
        inside.timed(
            "xoe bench train",
            xoe,
            "bench",
            "train",
            "--model",
            "mlp",
            "--batch",
            2,
            "--num-batches",
            3,
            "--image-size",
            32,
            **variables,
        )
        return
    said = inside.fails(*train, **variables)
    needed = f"training needs PyTorch {BUILT_WITH.rpartition('.')[0]}, " + (
        f"and /torch/torch has {torch}" if torch else "which is"
    )
    if needed not in said or "pip install" not in said:
        raise Failed(f"xoe train says: {said}")


def check_pool(inside, xoe="xoe"):
    tls = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
           "-subj", "/CN=pool", "-addext", "subjectAltName=IP:127.0.0.1"]  # fmt: skip
    certificate, key = inside.folder / "certificate.pem", inside.folder / "key.pem"
    if shutil.which("openssl"):
        subprocess.run([*tls, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        key.chmod(0o644)
        inside.timed("xoe pool", "python3", "/programs/pool.py", xoe, "/mnt/certificate.pem", "/mnt/key.pem")
    else:
        print("  no openssl here: the pool is tried without TLS", flush=True)
        inside.timed("xoe pool", "python3", "/programs/pool.py", xoe)
