"""Bare systems of Debian, made by debootstrap, for tests and measurements in containers and other roots."""

import pathlib
import shutil
import subprocess
import time


def mirror():
    """Where apt takes Debian's packages from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return next((uri for uri in listed if uri.rstrip("/").endswith("/debian")), None)


def install_system(folder, suite, packages=()):
    """Debian's smallest system of this suite with these packages, in `folder`, unless it is there. Why it cannot be had, or None."""
    mark = folder.with_name(f"{folder.name}.installed")
    wanted = f"{suite} {' '.join(packages)}\n"
    if mark.exists() and mark.read_text() == wanted:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # A suite that is newer than debootstrap is made as sid is.
    script = pathlib.Path("/usr/share/debootstrap/scripts") / suite
    more = [] if script.exists() else [str(script.with_name("sid"))]
    include = [f"--include={','.join(packages)}"] if packages else []
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
