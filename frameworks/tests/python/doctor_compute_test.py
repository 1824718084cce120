"""`xoe doctor --compute` with a real PyTorch: right products, and those of a device that is made to fail."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import ranks

PYTHON = pathlib.Path(ranks.interpreter())
# What a faulty memory cell does to all products but the first: a slow machine makes two.
FAULT = """
import torch
plain, count = torch.Tensor.__matmul__, 0
def faulty(left, right):
    global count
    product = plain(left, right)
    count += left.dtype == torch.float32
    if count > 1 and left.dtype == torch.float32:
        product[7, 9] += 1
    return product
torch.Tensor.__matmul__ = faulty
"""


def doctor(**variables):
    environment = ranks.environment(PATH=f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}", **variables)
    words = [ranks.BUILD / "bin" / "xoe", "doctor", "--only", "compute", "--json"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=ranks.HANGS, check=False)
    return done.returncode, {finding["id"]: finding for finding in json.loads(done.stdout)["findings"]}


class Compute(unittest.TestCase):
    def test_right_products(self):
        code, findings = doctor()
        self.assertEqual(code, 0, findings)
        cpu = findings["compute.cpu"]
        self.assertEqual(cpu["state"], "ok")
        for kind in ("float32", "bfloat16"):
            self.assertEqual(cpu["details"][kind]["wrong"], 0)
            self.assertGreater(cpu["details"][kind]["gflops"], 0)

    def test_one_wrong_element(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "sitecustomize.py").write_text(FAULT)
            code, findings = doctor(PYTHONPATH=folder)
        self.assertEqual(code, 1, findings)
        self.assertEqual(findings["compute.cpu"]["state"], "problem")
        self.assertEqual(findings["compute.cpu"]["details"]["float32"]["wrong"], 1)  # row


if __name__ == "__main__":
    unittest.main()
