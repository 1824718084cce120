"""Programs of another processor run on this machine, by qemu and the kernel's binfmt_misc."""

import contextlib
import fcntl
import pathlib
import platform
import re
import subprocess

QEMU = pathlib.Path("/usr/bin/qemu-aarch64-static")
FORMATS = pathlib.Path("/proc/sys/fs/binfmt_misc")
NAME = "xoe-tests-aarch64"
# ELF, 64 bits, little-endian, a program or a library, for machine 183; F: the kernel keeps qemu open, for other roots.
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"


def registered():
    """Whether the kernel runs programs for aarch64 in other roots already, as where systemd has set up qemu-user-static."""
    entries = [entry.read_text() for entry in FORMATS.iterdir() if entry.name not in ("register", "status")]
    return any(text.startswith("enabled") and "qemu-aarch64" in text and re.search(r"^flags: .*F", text, re.MULTILINE) for text in entries)


def _register():
    """Why the kernel does not take qemu, or None."""
    try:
        (FORMATS / "register").write_text(f":{NAME}:M::{MAGIC}:{MASK}:{QEMU}:F")
    except OSError as error:
        return f"the kernel does not register qemu: {error}"
    return None


@contextlib.contextmanager
def aarch64():
    """Within it, programs for aarch64 run. Yields why they cannot, or None. One process of the machine at a time is within."""
    if platform.machine() == "aarch64":
        yield None
        return
    if not QEMU.exists():
        yield f"{QEMU} is missing; scripts/setup.sh --with net installs it"
        return
    with QEMU.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield from _registered_for_now()


def _registered_for_now():
    mounts = not (FORMATS / "register").exists()
    if mounts and subprocess.run(["mount", "-t", "binfmt_misc", "none", FORMATS], capture_output=True, check=False).returncode:
        yield "the kernel has no binfmt_misc, or it may not be mounted here"
        return
    try:
        yield None if registered() else _register()
    finally:
        if (FORMATS / NAME).exists():
            (FORMATS / NAME).write_text("-1")
        if mounts:
            subprocess.run(["umount", FORMATS], check=False)
