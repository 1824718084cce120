"""Bare systems of Debian, made by debootstrap, for tests and measurements in containers and other roots."""

import os
import pathlib
import shutil
import subprocess
import time

# In name spaces of its own, which take mounts and processes along when they end. Arguments: system, folder, mounts ("FROM=TO"),
# "--", user, command. A network of its own has nothing but the loopback interface.
ENTER = r"""
set -e
root=$1 folder=$2; shift 2
mount --make-rprivate /
[ -z "$LOOPBACK" ] || ip link set lo up
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$folder" "$root/mnt"
while [ "$1" != -- ]; do
  [ -e "$root${1#*=}" ] || mkdir -p "$root${1#*=}"
  mount --bind -o ro "${1%%=*}" "$root${1#*=}"
  shift
done
user=$2; shift 2
cd /
exec chroot --userspec="$user" "$root" "$@"
"""


def mirror():
    """Where apt takes Debian's packages from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return next((uri for uri in listed if uri.rstrip("/").endswith("/debian")), None)


def why_no_system():
    """Why no system can be made and entered here, or None."""
    for condition, why in (
        (os.geteuid() == 0, "only root can make systems and enter them"),
        (shutil.which("debootstrap"), "no debootstrap; scripts/setup.sh --with net installs it"),
        (shutil.which("apt-get") and mirror(), "apt knows no mirror of Debian"),
    ):
        if not condition:
            return why
    return None


def install_system(folder, suite, packages=(), architecture=None):
    """Debian's smallest system of this suite with these packages, in `folder`, unless it is there. Why it cannot be had, or None.
    An architecture other than this machine's needs an emulator, which the kernel knows (emulation.py)."""
    mark = folder.with_name(f"{folder.name}.installed")
    wanted = f"{suite} {' '.join([*packages, *filter(None, [architecture])])}\n"
    if mark.exists() and mark.read_text() == wanted:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # A suite that is newer than debootstrap is made as sid is.
    script = pathlib.Path("/usr/share/debootstrap/scripts") / suite
    more = [] if script.exists() else [str(script.with_name("sid"))]
    include = [f"--include={','.join(packages)}"] if packages else []
    include += [f"--arch={architecture}"] if architecture else []
    started = time.monotonic()
    command = ["debootstrap", "--variant=minbase", *include, suite, str(folder), mirror(), *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        return f"debootstrap: {done.stdout.strip()[-1000:]}"
    shutil.rmtree(folder / "var/cache/apt")
    mark.write_text(wanted)
    print(f"{suite} with {', '.join(packages) or 'no other package'}: {time.monotonic() - started:.0f} s", flush=True)
    return None


class Failed(Exception):
    pass


class Inside:
    """One user in a system, whose /mnt is a folder of its own."""

    def __init__(self, root, folder, user, mounts, variables, network=True):
        self.root, self.folder, self.user, self.mounts = root, folder, user, mounts
        self.variables = {"PATH": "/mnt/venv/bin:/usr/bin:/bin", "HOME": "/mnt", "LC_ALL": "C.UTF-8", **variables}
        self.network = network

    def ended(self, *command, **variables):
        """The command's exit code, and what it printed."""
        settings = [f"{name}={value}" for name, value in {**self.variables, **variables}.items()]
        mounts = [f"{source}={target}" for source, target in self.mounts.items()]
        spaces = ["--mount", "--pid", *([] if self.network else ["--net"])]
        enter = ["unshare", *spaces, "--fork", "--kill-child", "sh", "-c", ENTER, "sh", self.root, self.folder]
        done = subprocess.run(
            [*enter, *mounts, "--", self.user, "env", "-i", *settings, *map(str, command)],
            env=os.environ | {"LOOPBACK": "" if self.network else "yes"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def run(self, *command, **variables):
        """What the command prints; Failed if it fails."""
        code, said = self.ended(*command, **variables)
        if code != 0:
            raise Failed(f"{' '.join(map(str, command))}: exit code {code}\n{said}")
        return said

    def fails(self, *command, **variables):
        """What the command prints; Failed if it does not fail."""
        code, said = self.ended(*command, **variables)
        if code == 0:
            raise Failed(f"{' '.join(map(str, command))} does not fail\n{said}")
        return said

    def timed(self, what, *command, **variables):
        started = time.monotonic()
        out = self.run(*command, **variables)
        print(f"  {what}: {time.monotonic() - started:.1f} s", flush=True)
        return out
