"""Builds the documentation site with the programs of this build: no warning, no broken link, nothing from the network."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def main():
    missing = [tool for tool in ("build/peers/docs/bin/sphinx-build",) if not (ROOT / tool).exists()]
    if missing or subprocess.run(["which", "doxygen"], capture_output=True, check=False).returncode != 0:
        print("skipped: the tools of the site are missing; `make docs` installs them")
        return SKIPPED
    programs = pathlib.Path(os.environ["XOE_BUILD_DIR"]) / "bin"
    done = subprocess.run([ROOT / "scripts/docs.sh", "--programs", programs], check=False)
    if done.returncode != 0:
        for log in sorted((ROOT / "build/logs").glob("docs-*.log")):
            print(f"--- {log.name}\n{log.read_text()[-4000:]}")
        return 1
    for page in (
        "index.html",
        "guide/tutorial.html",
        "reference/python/xoe.torch.html",
        "reference/cpp-core.html",
        "search.html",
    ):
        assert (ROOT / "build/docs/html" / page).exists(), page
    return 0


if __name__ == "__main__":
    sys.exit(main())
