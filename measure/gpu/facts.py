"""What of this machine the figures depend on, as a JSON line."""

import importlib.metadata
import json
import pathlib
import platform
import re
import subprocess

import torch


def driver():
    try:
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return None


def processor():
    found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


facts = {
    "torch": torch.__version__,
    "driver": driver(),
    "cpu": processor(),
    "python": platform.python_version(),
    "jax": version_of("jax"),
    "keras": version_of("keras"),
}
if torch.cuda.is_available():
    facts["gpu"] = torch.cuda.get_device_name()
    facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
print(json.dumps(facts))
