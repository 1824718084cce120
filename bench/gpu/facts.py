"""What of this machine the figures depend on, as a JSON line: facts.py XOE, the program whose `doctor` is asked."""

import json
import subprocess
import sys

import torch


def findings(program):
    """What `xoe doctor` says about GPUs and NCCL."""
    done = subprocess.run([program, "doctor", "--only", "gpu,xoe", "--json"], capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return done.stderr.strip() or "no answer"
    found = report.get("findings") or report.get("hosts", [{}])[0].get("findings", [])
    return "; ".join(one["what"] for one in found if one["id"].startswith("gpu.") or one["id"] == "xoe.nccl")


def driver():
    try:
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


facts = {"torch": torch.__version__, "driver": driver(), "doctor": findings(sys.argv[1])}
if torch.cuda.is_available():
    facts["gpu"] = torch.cuda.get_device_name()
    facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
print(json.dumps(facts))
