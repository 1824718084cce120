"""How a pretended container is started: a script that makes its file system, takes its identity and becomes its program.

The image of every container is this machine's own files, read through an overlay, with the programs of the build on its PATH.
"""

import os
import pathlib
import shlex
import typing

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
READY = b"ready\n"


class Mount(typing.NamedTuple):
    source: str
    path: str  # in the container
    read_only: bool = False


class Image(typing.NamedTuple):
    """What a registry would say of an image."""

    path: str  # its PATH
    user: int = 65532
    entrypoint: tuple = ("xoe",)
    mounts: tuple = ()  # what it has beside this machine's files
    opened: tuple = (ROOT / "Makefile",)  # files of this machine that its user may reach, whatever the rights of the folders above them


class Identity(typing.NamedTuple):
    user: int
    group: int
    no_new_privileges: bool = False
    drop_all: bool = False


class Setup(typing.NamedTuple):
    """All that start_script() needs."""

    layer: pathlib.Path  # a folder for what is mounted
    files: dict  # of /etc: hosts, hostname, resolv.conf
    mounts: list
    opened: tuple
    identity: Identity
    read_only: bool
    environment: dict
    directory: str
    command: list
    host_name: str
    ready: int  # descriptor on which READY is written before the program begins


def start_script(setup):
    quote = shlex.quote
    root = f"{setup.layer}/root"
    lines = ["set -e", "mount --make-rprivate /", f"hostname {quote(setup.host_name)}",
             f"mount -t tmpfs tmpfs {setup.layer}",
             f"mkdir {setup.layer}/upper {setup.layer}/work {root}",
             f"mount -t overlay overlay -o lowerdir=/,upperdir={setup.layer}/upper,workdir={setup.layer}/work {root}",
             f"mount -t proc proc {root}/proc", f"mount --rbind /sys {root}/sys",
             f"mount -t tmpfs -o mode=755 tmpfs {root}/dev", f"mkdir {root}/dev/shm",
             f"mount -t tmpfs -o mode=1777,size=64m shm {root}/dev/shm", f"mount -t tmpfs -o mode=1777 tmp {root}/tmp",
             f"ln -s /proc/self/fd {root}/dev/fd", f"ln -s /proc/self/fd/1 {root}/dev/stdout",
             f"ln -s /proc/self/fd/2 {root}/dev/stderr"]
    for name in DEVICES:
        lines.append(f"touch {root}/dev/{name}; mount --bind /dev/{name} {root}/dev/{name}")
    for name, source in setup.files.items():
        lines.append(f"rm -f {root}/etc/{name}; touch {root}/etc/{name}; mount --bind {source} {root}/etc/{name}")
    for mount in setup.mounts:
        lines.append(f"target={root}$(chroot {root} realpath -m {quote(mount.path)})")  # /var/run is a link, which begins there
        make = 'mkdir -p "$target"' if os.path.isdir(mount.source) else 'mkdir -p "$(dirname "$target")"; touch "$target"'
        lines.append(f'{make}; mount --bind {quote(mount.source)} "$target"')
        if mount.read_only:
            lines.append('mount -o remount,bind,ro "$target"')
    # The build is part of the image, wherever it is.
    build = quote(f"{root}{ROOT}")
    lines.append(f"[ -e {build}/Makefile ] || {{ mkdir -p {build}; mount --rbind {quote(str(ROOT))} {build}; }}")
    for folder in sorted({str(folder) for path in setup.opened for folder in path.parents}):
        lines.append(f"chmod o+x {quote(f'{root}{folder}')}")
    if setup.read_only:
        lines += [f"mount -o remount,ro {root}", f"mount -o remount,ro {root}/tmp" if not any(
            mount.path == "/tmp" for mount in setup.mounts) else ":"]
    identity = ["setpriv", "--reuid", str(setup.identity.user), "--regid", str(setup.identity.group), "--clear-groups"]
    if setup.identity.no_new_privileges:
        identity.append("--no-new-privs")
    if setup.identity.drop_all:
        identity += ["--bounding-set", "-all", "--inh-caps", "-all"]
    words = [*identity, "env", "-i", "-C", setup.directory, *(f"{name}={value}" for name, value in setup.environment.items()),
             *setup.command]
    lines += [f"echo ready >&{setup.ready}", f"exec {setup.ready}>&-", f"exec chroot {root} {shlex.join(words)}"]
    return "\n".join(lines) + "\n"
