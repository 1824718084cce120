"""measure/kubernetes/run.py in small: jobs in pods of a pretended cluster, a file of measurements for each place, and the page."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    # Not below /tmp, of which the cluster has a copy of its own.
    with tempfile.TemporaryDirectory(dir=os.environ["XOE_BUILD_DIR"]) as folder:
        command = [ROOT / "measure/kubernetes/run.py", "--build", os.environ["XOE_BUILD_DIR"], "--out", folder, "--rounds", "1"]
        command += ["--sizes", "4", "--iterations", "2", "--model", "mlp", "--image-size", "8", "--steps", "2"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        said = done.stdout + done.stderr
        if "not measured: " in said:
            print(f"skipped: {said.strip()}")
            return SKIPPED
        assert done.returncode == 0, said
        for place in ("bare", "pods"):
            file = json.loads(pathlib.Path(folder, f"{place}.json").read_text())
            assert len(file["measurements"]) == 4, file
            assert all(len(one["runs"]) == 1 and one["runs"][0] > 0 for one in file["measurements"]), file
        assert "pods" in said, said
        assert "<svg" in pathlib.Path(folder, "kubernetes.html").read_text()
    return 0


if __name__ == "__main__":
    sys.exit(main())
