#!/usr/bin/env python3
"""The manifests of deploy/kubernetes are what `xoe run --print-kubernetes` prints for the command in their first line.

  deployed_manifests_test.py [--write]      with XOE_BIN_DIR; --write: writes them
"""

import os
import pathlib
import shlex
import subprocess
import sys
import unittest

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy/kubernetes"
XOE = pathlib.Path(os.environ["XOE_BIN_DIR"]) / "xoe"
BEGIN = "# xoe run --print-kubernetes "


def manifests():
    """{path: text} of the files that have such a line."""
    texts = {path: path.read_text() for path in sorted(DEPLOY.rglob("*.yaml"))}
    return {path: text for path, text in texts.items() if text.startswith(BEGIN)}


def printed(text):
    words = shlex.split(text.splitlines()[0].removeprefix("# xoe"))
    done = subprocess.run([XOE, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stderr}")
    return done.stdout


class DeployedManifests(unittest.TestCase):
    def test_are_what_is_printed(self):
        found = manifests()
        self.assertGreaterEqual(len(found), 6)
        for path, text in found.items():
            self.assertEqual(text, printed(text), f"{path}: {sys.argv[0]} --write writes it")

    def test_have_no_secret(self):
        for path, text in manifests().items():
            self.assertNotIn("kind: Secret", text, path)


if __name__ == "__main__":
    if "--write" in sys.argv:
        for path, text in manifests().items():
            path.write_text(printed(text))
    else:
        unittest.main()
