"""xoe.run(): a function on several ranks, its results, what it prints, and its exceptions."""

import contextlib
import io
import os
import subprocess
import sys

import ranks

if "XOE_TEST_INSIDE" not in os.environ:
    done = subprocess.run(
        [ranks.interpreter(), __file__],
        env=ranks.environment(XOE_TEST_INSIDE="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout)
    sys.exit(done.returncode)

import xoe


def test_results_by_rank():
    def where(factor, offset=0):
        import xoe

        xoe.init()  # has been called
        return factor * xoe.rank() + offset, xoe.size()

    assert xoe.run(where, args=(10,), kwargs={"offset": 1}, np=3) == [(1, 3), (11, 3), (21, 3)]
    assert xoe.run(where, (1,)) == [(0, 1)]
    assert xoe.run(where, (1,), None, 2) == [(0, 2), (1, 2)]


def test_values_are_on_no_command_line():
    def look():
        import contextlib
        import os
        import pathlib

        lines = b""
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # of a process that has ended
                lines += file.read_bytes()
        return os.environ["TEST_TOKEN"], os.environ["TEST_TOKEN"].encode() in lines

    token = "-".join(["not", "for", "other", "users", str(os.getpid())])
    assert xoe.run(look, np=2, env={"TEST_TOKEN": token, "TEST_LINES": "a\nb"}) == [(token, False)] * 2


def test_what_ranks_print_appears():
    def speak():
        print("hello from", xoe.rank(), end="")

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        xoe.run(speak, np=2)
    assert "hello from 0" in out.getvalue() and "hello from 1" in out.getvalue(), out.getvalue()
    assert "xoe-" not in out.getvalue(), "the results were shown"


def test_exceptions_come_back():
    def fail():
        import xoe
        from xoe.objects import allgather_object

        if xoe.rank() == 1:
            raise KeyError("no such layer")
        allgather_object(1)  # the others lose it

    try:
        with contextlib.redirect_stderr(io.StringIO()):
            xoe.run(fail, np=2)
    except KeyError as error:
        assert "no such layer" in str(error) and "on rank 1" in str(error.__cause__), error.__cause__
        assert "fail" in str(error.__cause__)
    else:
        raise AssertionError("no exception")


def test_a_rank_that_is_killed():
    def die():
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    try:
        with contextlib.redirect_stderr(io.StringIO()):
            xoe.run(die, np=2)
    except xoe.XoeError as error:
        assert "137" in str(error) and "SIGKILL" in str(error), error
    else:
        raise AssertionError("no exception")


def test_shutting_down_inside():
    def leave():
        import xoe

        rank = xoe.rank()
        xoe.shutdown()
        return rank

    assert xoe.run(leave, np=2) == [0, 1]


ranks.call_tests(globals())
