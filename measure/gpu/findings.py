"""What `xoe doctor` finds on GPUs, NCCL and PyTorch, as a JSON line: findings.py XOE doctor OPTION..."""

import json
import subprocess
import sys

SHOWN = ("gpu.", "xoe.nccl", "python.torch")

done = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=False)
try:
    report = json.loads(done.stdout)
except ValueError:
    sys.exit(done.stderr.strip() or "xoe doctor gave no answer")
found = report.get("findings") or report.get("hosts", [{}])[0].get("findings", [])
print(json.dumps({"doctor": "; ".join(one["what"] for one in found if one["id"].startswith(SHOWN))}))
