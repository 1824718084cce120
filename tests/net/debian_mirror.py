"""Where bare systems come from."""

import subprocess


def mirror():
    """Where apt takes Debian's packages from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return next((uri for uri in listed if uri.rstrip("/").endswith("/debian")), None)
