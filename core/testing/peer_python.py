"""The Python environments that data/bench/install_peers.sh makes, for tests that compare with what is in them."""

import os
import pathlib
import subprocess
import sys

SKIPPED = 77
_INSIDE = "XOE_PEER_INSIDE"  # set once the right interpreter runs the script


def peer_python(peer, package):
    """The interpreter that has `package`: XOE_PEERS_PYTHON, else that of the environment `peer`. None where it lacks it."""
    root = pathlib.Path(__file__).resolve().parents[2]
    python = os.environ.get("XOE_PEERS_PYTHON", str(root / "build" / "peers" / f"data-{peer}" / "bin" / "python"))
    look = f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"
    if not pathlib.Path(python).exists() or subprocess.run([python, "-c", look], check=False).returncode != 0:
        return None
    return python


def why_no(peer, package):
    return f"skipped: no {package}; data/bench/install_peers.sh {peer} installs it"


def run_inside(peer, package, variables):
    """Starts this script again in that interpreter, with these variables too; ends it with SKIPPED where there is none."""
    if os.environ.get(_INSIDE) == "1":
        return
    python = peer_python(peer, package)
    if python is None:
        print(why_no(peer, package))
        sys.exit(SKIPPED)
    os.execve(python, [python, *sys.argv], os.environ | variables | {_INSIDE: "1"})
