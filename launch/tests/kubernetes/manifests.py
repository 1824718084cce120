"""The manifests of this project: those that `xoe run --print-kubernetes` prints, and the files of deploy/kubernetes."""

import json
import subprocess

from cluster import IMAGE, print_kubernetes
from container import ROOT
from control_plane import PROGRAMS

DEPLOY = ROOT / "deploy/kubernetes"
KINDS = ("job", "jobset", "trainjob", "mpijob")
PROGRAM = ("--", "python", "train.py", "--name", 'a "b" \\ c: #d', "$$(A) \r\x01\u2028x\ufeff")
COMMON = ("--image", IMAGE, "--nodes", "2", "-np", "2")


def documents(text):
    """The objects of YAML."""
    done = subprocess.run([PROGRAMS / "yaml-to-json", "/dev/stdin"], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"no YAML: {done.stderr}\n{text}")
    return json.loads(done.stdout)


def printed():
    """{what: YAML} of a command line of each kind, and with each option that changes what is printed."""
    found = {kind: print_kubernetes(kind, *COMMON, *PROGRAM) for kind in KINDS} | {"runtime": print_kubernetes("runtime")}
    for kind in ("job", "jobset", "mpijob"):
        found[f"{kind} with devices"] = print_kubernetes(kind, *COMMON, "--gpus-per-node", "8", "--device-class", "gpu.nvidia.com",
                                                         *PROGRAM)
    for kind in ("job", "jobset", "trainjob", "mpijob"):
        found[f"{kind} with all"] = print_kubernetes(kind, *COMMON, "--name", "big", "--gpus-per-node", "8", "--claim", "data:/data",
                                                     "--claim", "runs:/runs", "--queue", "team", "--secret-name", "kept", *PROGRAM)
    for kind in ("job", "jobset", "trainjob"):
        found[f"{kind} with options of xoe run"] = print_kubernetes(kind, *COMMON, "--restarts", "3", "--env", "A=b c", *PROGRAM)
    return found


def deployed():
    """{path: YAML} of the files that are applied as they are, and {folder} of those for Kustomize."""
    files = {str(path.relative_to(DEPLOY)): path.read_text() for path in sorted(DEPLOY.rglob("*.yaml"))
             if path.name != "kustomization.yaml" and "overlays" not in path.parts}
    return files, [path.parent for path in sorted(DEPLOY.rglob("kustomization.yaml"))]
