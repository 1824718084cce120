"""PyTorch's own tests of process groups whose members change, test/distributed/test_c10d_fault_tolerance.py, unchanged but for their
list of backends, in which "xoe" takes gloo's place. They need a checkout as new as the PyTorch that is installed.
"""

import re

import adopted
import ranks

BACKENDS = '("gloo", "cpu"),'
# The test of a time-out that ends a group by itself is skipped by PyTorch's own words: "specific to nccl2".
PASSED, SKIPPED = 13, 1


def test_reconfigure(folder):
    tests = adopted.checkout("pytorch", "test/distributed/test_c10d_fault_tolerance.py")
    adopted.need("expecttest")
    text = tests.read_text()
    assert text.count(BACKENDS) == 1, f"PyTorch's tests have changed: {BACKENDS} is not in {tests}"
    ours = folder / tests.name
    ours.write_text(text.replace(BACKENDS, '("xoe", "cpu"),'))
    printed = adopted.call([ranks.interpreter(), ours, "XoeFaultToleranceTest", "ReconfigureContractTest"], folder)
    ran = re.search(r"^Ran (\d+) tests", printed, re.MULTILINE)
    skipped = re.search(r"^OK \(skipped=(\d+)\)", printed, re.MULTILINE)
    skips = int(skipped[1]) if skipped else 0
    assert ran and int(ran[1]) - skips >= PASSED and skips <= SKIPPED, printed


ranks.drive(globals())
