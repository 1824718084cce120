"""`xoe torchrun` knows every option of the torchrun that PyTorch brings along, and which of them take a value."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from peer_python import run_inside

run_inside("pytorch", "torch", {})

from torch.distributed.run import get_args_parser

XOE = pathlib.Path(os.environ["XOE_BIN_DIR"]) / "xoe"


class Options(unittest.TestCase):
    def test_all_are_known(self):
        known = 0
        for action in get_args_parser()._actions:
            for name in action.option_strings:
                with self.subTest(name):
                    # --help follows: behind an option with a value it would be that value.
                    words = [name, *(["1"] if action.nargs != 0 else []), "--help"]
                    done = subprocess.run([XOE, "torchrun", *words], capture_output=True, text=True, timeout=60, check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("Usage: xoe torchrun", done.stdout)
                    known += 1
        self.assertGreater(known, 30)


if __name__ == "__main__":
    unittest.main()
