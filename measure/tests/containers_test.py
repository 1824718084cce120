"""measure/containers/run.py in small: real containers, a file of measurements for each place, and the page."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    with tempfile.TemporaryDirectory() as folder:
        command = [ROOT / "measure/containers/run.py", "--build", os.environ["XOE_BUILD_DIR"], "--out", folder, "--rounds", "1"]
        command += ["--sizes", "4", "--iterations", "2", "--model", "mlp", "--image-size", "8", "--steps", "2"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        said = done.stdout + done.stderr
        if "not measured: " in said or "error: debootstrap" in said or "dockerd does not run here" in said:
            print(f"skipped: {said.strip()}")
            return SKIPPED
        assert done.returncode == 0, said
        for place in ("bare", "host-network", "bridge-network"):
            file = json.loads(pathlib.Path(folder, f"{place}.json").read_text())
            assert len(file["measurements"]) == 4, file
            assert all(len(one["runs"]) == 1 and one["runs"][0] > 0 for one in file["measurements"]), file
        assert "bridge network" in said, said
        assert "<svg" in pathlib.Path(folder, "containers.html").read_text()
    return 0


if __name__ == "__main__":
    sys.exit(main())
