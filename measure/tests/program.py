"""Runs `xoe` for the tests of `xoe bench`."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["XOE_BIN_DIR"])
SMALL = ["--model", "mlp", "--image-size", "8", "--batch-size", "4", "--threads", "1", "--device", "cpu"]


def xoe(*words, code=0, **variables):
    """The output of `xoe WORDS`; what it wrote to standard error where it is to fail."""
    done = subprocess.run([BIN / "xoe", *words], capture_output=True, text=True, timeout=1200, check=False,
                          env={**os.environ, **variables})
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stderr if code else done.stdout


def outputs(*words):
    """Standard output and standard error of `xoe WORDS`, which succeeds."""
    done = subprocess.run([BIN / "xoe", *words], capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


class BenchTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def json(self, name):
        return json.loads((self.folder / name).read_text())
