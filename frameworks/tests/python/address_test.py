"""The Python tests that matter most to memory, with Xoe built for the address sanitizer, whose library is loaded into Python first.

Leaks are not looked for: neither Python nor PyTorch gives everything back at its end. leak_test.py counts ours.
"""

import os
import pathlib
import re
import subprocess

import ranks

ranks.interpreter()
HERE = pathlib.Path(__file__).resolve().parent


def library(name):
    """The path of one of the compiler's own libraries."""
    path = subprocess.run(
        [os.environ.get("CXX", "c++"), f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True, check=True
    )
    return os.path.realpath(path.stdout.strip())


def passes(folder, script, size):
    reports = folder / "report"
    done = ranks.run(
        size,
        HERE / script,
        XOE_TEST_RANK="1",
        # Exceptions of C++ are seen only where the library that throws them comes right after.
        LD_PRELOAD=f"{library('libasan.so')}:{library('libstdc++.so.6')}",
        ASAN_OPTIONS=f"detect_leaks=0:alloc_dealloc_mismatch=0:log_path={reports}",
    )
    print(f"{script} on {size} ranks: exit code {done.returncode} after {done.seconds:.1f} s", flush=True)
    found = [path.read_text(errors="replace") for path in folder.glob("report.*")]
    ours = [text for text in found if re.search(r"xoe|_core\.", text)]
    assert not ours, "\n".join(ours)[:10000]
    assert done.returncode == 0, "\n".join([done.stdout[-5000:], *found])[:10000]


def test_the_sanitizer_is_there(folder):
    script = folder / "overrun.py"
    script.write_text(
        "import torch, xoe.torch as hvd\nfrom xoe import _core, world\nhvd.init()\nx = torch.ones(1000)\n"
        "world.current().engine.submit_in_place('x', x.data_ptr(), (10_000_000,), 7, _core.Request(0), x).wait()\n"
    )
    try:
        passes(folder, script, 2)
    except AssertionError as error:
        assert "AddressSanitizer" in str(error), error
    else:
        raise AssertionError("an array that ends before its size says was read without a report")


def test_collectives(folder):
    passes(folder, "collectives_test.py", 2)


def test_the_optimizer(folder):
    passes(folder, "optimizer_test.py", 2)


def test_data(folder):
    passes(folder, "data_test.py", 2)


def test_every_call_of_horovod(folder):
    passes(folder, "horovod_api_test.py", 3)


ranks.drive(globals())
