#!/usr/bin/env python3
"""How long a newcomer's first steps take, each in a Debian 12 of its own that has git and make and nothing else.

    scripts/first_steps.py [demo] [test] [wheel]...        all three: without words

demo, test: `make setup` (packages and downloads), then `make demo` or `make test`, of a clone of what is committed.
wheel: of the wheels in build/wheels, from `pip install` to a network that two ranks have trained; PyTorch's download is told apart.

Needs root, debootstrap, and a network. The systems are made below /tmp, or TMPDIR, and removed.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "core/tests/net"))

from debian_system import Failed, Inside, install_system, why_no_system

# These variables say where downloads come from, and which file has the certificates that are trusted.
SOURCES = re.compile(r"PIP_(INDEX_URL|EXTRA_INDEX_URL|DEFAULT_TIMEOUT)|UV_.*INDEX.*|.*_proxy|.*_PROXY")
TRUST = ("PIP_CERT", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


class Step:
    """A bare system, and the seconds of what is done in it."""

    def __init__(self, scratch, name, packages, mounts):
        system, folder = scratch / f"{name}-system", scratch / name
        folder.mkdir()
        if reason := install_system(system, "bookworm", packages):
            raise Failed(reason)
        variables = {key: value for key, value in os.environ.items() if SOURCES.fullmatch(key)}
        mounts = {**mounts, "/sys": "/sys"}
        if os.path.exists(CERTIFICATES):
            mounts[CERTIFICATES] = CERTIFICATES
            variables |= dict.fromkeys(TRUST, CERTIFICATES)
            (system / CERTIFICATES[1:]).parent.mkdir(parents=True, exist_ok=True)
            (system / CERTIFICATES[1:]).touch()
        self.inside = Inside(system, folder, "0:0", mounts, {**variables, "PATH": "/mnt/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/mnt"})

    def shell(self, what, command):
        return self.inside.timed(what, "sh", "-c", command)


def clone(scratch, name, target):
    source = scratch / f"{name}-source"
    subprocess.run(["git", "clone", "-q", "--bare", ROOT, source], check=True)  # ROOT may be a linked work tree
    step = Step(scratch, name, ["git", "make", "ca-certificates"], {str(source): "/source"})
    step.shell("git clone", "git -c safe.directory='*' clone -q /source /mnt/xoe")
    step.shell("make setup (packages, downloads)", "cd /mnt/xoe && make setup")
    print(step.shell(f"make {target}", f"cd /mnt/xoe && make {target}")[-700:], flush=True)


def wheel(scratch):
    made = ROOT / "build/wheels"
    if not list(made.glob("xoe-*_x86_64.whl")):
        raise Failed("build/wheels has no wheel: scripts/wheel.sh makes it")
    torch = re.search(r"^torch==[0-9.]+", (ROOT / "requirements/core.txt").read_text(), re.MULTILINE)[0]
    step = Step(scratch, "wheel", ["python3", "python3-venv", "ca-certificates"], {str(made): "/wheels"})
    step.shell("a virtual environment", "python3 -m venv /mnt/venv")
    step.shell("pip install torch (download)", f"pip install -q cloudpickle {torch}")
    step.shell("pip install xoe", "pip install -q --no-index --find-links /wheels xoe")
    said = step.shell("two ranks learn digits", "xoe run -np 2 python -m xoe.examples.mnist --target 0.95")
    print("  " + said.strip().splitlines()[-1], flush=True)
    step.shell("pictures to train on", "xoe data make --images 300 --classes 3 --shards 2 /mnt/images")
    step.shell("two ranks of xoe train", "xoe run -np 2 xoe train --data /mnt/images --model resnet18 --image-size 32 --batch 16 --epochs 1")


def main():
    steps = {"demo": lambda scratch: clone(scratch, "demo", "demo"), "test": lambda scratch: clone(scratch, "test", "test"), "wheel": wheel}
    chosen = sys.argv[1:] or list(steps)
    if not set(chosen) <= set(steps):
        sys.exit(__doc__)
    if reason := why_no_system():
        sys.exit(f"error: {reason}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the systems are removed all the same
    failed = False
    with tempfile.TemporaryDirectory(prefix="xoe-first-steps-") as name:
        for word in chosen:
            print(f"{word}:", flush=True)
            started = time.monotonic()
            try:
                steps[word](pathlib.Path(name))
            except Failed as error:
                print(f"FAILED: {word}: {error}", flush=True)
                failed = True
            print(f"{word}: {time.monotonic() - started:.0f} s in all", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if subprocess.run(["git", "-C", ROOT, "diff", "--quiet", "HEAD"], check=False).returncode != 0:
        print("what is not committed is left out", flush=True)
    main()
