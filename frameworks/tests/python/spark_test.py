"""xoe.spark.run: ranks in barrier tasks of Spark, on this machine and on a cluster of two workers."""

import contextlib
import io
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import clusters

clusters.inside(__file__, "spark", "pyspark", "torch")

import xoe.spark

assert "pyspark" not in sys.modules  # Spark is imported on first use

import cloudpickle
import ranks
from checks import raises

import xoe
from xoe.runner import RankError
from xoe.spark.reports import Reporter, Reports

cloudpickle.register_pickle_by_value(clusters)


def where():
    import xoe

    return xoe.rank(), xoe.size(), xoe.local_rank(), xoe.local_size(), xoe.cross_rank(), xoe.cross_size()


def test_results_by_rank():
    def call(factor, offset=0):
        import xoe

        return factor * xoe.rank() + offset

    assert xoe.spark.run(call, [10], {"offset": 1}, num_proc=2) == [1, 11]
    assert xoe.spark.run(where) == [(rank, 3, rank, 3, 0, 1) for rank in range(3)]
    assert xoe.spark.default_num_proc() == 3


def test_output_is_forwarded():
    def speak():
        import xoe

        print("hello from", xoe.rank())
        print("and a warning", file=sys.stderr, end="")

    out, err = io.StringIO(), io.StringIO()
    xoe.spark.run(speak, num_proc=2, stdout=out, stderr=err)
    assert sorted(out.getvalue().splitlines()) == ["[0] hello from 0", "[1] hello from 1"], out.getvalue()
    assert sorted(err.getvalue().splitlines()) == ["[0] and a warning", "[1] and a warning"], err.getvalue()


def test_variables():
    def call():
        return os.environ["TEST_A"], os.environ["MASTER_ADDR"], os.environ["XOE_INTERFACE"]

    driver = spark.sparkContext.getConf().get("spark.driver.host")
    assert xoe.spark.run(call, num_proc=1, env={"TEST_A": 1}, network_interface="lo", join=False) == [("1", driver, "lo")]


def test_training_equals_one_process():
    clusters.check_training(xoe.spark.run(clusters.train, [20], num_proc=2))


def test_exception_of_a_rank():
    def fail():
        import torch

        import xoe.torch as hvd

        if hvd.rank() == 1:
            raise ValueError("no such label: 17")
        hvd.allreduce(torch.ones(1), name="after")

    err = io.StringIO()
    error = raises(ValueError, lambda: xoe.spark.run(fail, num_proc=2, stderr=err), "no such label: 17")
    assert "on rank 1" in str(error.__cause__) and "in fail" in str(error.__cause__), error.__cause__
    assert "PeerLostError" in err.getvalue() and "rank 1" in err.getvalue(), err.getvalue()

    def odd():
        class Odd(Exception):
            def __reduce__(self):
                raise TypeError("not this one")

        raise Odd("odd words")

    raises(RankError, lambda: xoe.spark.run(odd, num_proc=1, stderr=io.StringIO()), "rank 0 failed", "odd words")


def sum_for_ever(folder):
    """Writes the pid of this rank and of its task, and sums."""
    import torch

    import xoe.torch as hvd

    file = pathlib.Path(folder) / f"pids{hvd.rank()}"
    file.with_suffix(".part").write_text(f"{os.getpid()} {os.getppid()}")
    file.with_suffix(".part").rename(file)
    while True:
        hvd.allreduce(torch.ones(1000), name="x")


def killed(which, folder, *words):
    """Kills rank 1's process (0) or the task that started it (1) while the ranks sum."""
    files = [pathlib.Path(folder) / f"pids{rank}" for rank in range(2)]
    noted = []

    def kill():
        clusters.wait_until(lambda: all(file.exists() for file in files), 120, "no ranks")
        noted.extend([int(word) for word in file.read_text().split()] for file in files)
        time.sleep(0.5)
        noted.append(time.monotonic())
        os.kill(noted[1][which], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    err = io.StringIO()
    error = raises(
        xoe.PeerLostError, lambda: xoe.spark.run(sum_for_ever, [str(folder)], num_proc=2, stderr=err), "rank 1", *words
    )
    thread.join()
    took = time.monotonic() - noted.pop()
    assert took < ranks.told_within(30), took
    assert f"pid {noted[1][0]}" in str(error) and socket.gethostname() in str(error) and error.ranks == (1,), error
    clusters.wait_until(lambda: not any(clusters.runs(pids[0]) for pids in noted), 10, "a rank is left")
    print(f"  named after {took:.1f} s: {error}", flush=True)
    return err.getvalue()


def test_killed_rank():
    with ranks.tempfile.TemporaryDirectory() as folder:
        said = killed(0, folder, "SIGKILL")
    assert "PeerLostError" in said and "rank 1" in said, said


def test_killed_task():
    with ranks.tempfile.TemporaryDirectory() as folder:
        killed(1, folder, "its Spark task", "ended")
    assert xoe.spark.run(where, num_proc=2)[1][:2] == (1, 2)


def test_one_that_computes_is_ended():
    def call():
        import xoe

        if xoe.rank() == 1:
            os._exit(3)
        time.sleep(3600)

    started = time.monotonic()
    raises(xoe.PeerLostError, lambda: xoe.spark.run(call, num_proc=2), "rank 1", "exit code 3")
    assert time.monotonic() - started < ranks.told_within(90)


def test_no_room():
    def call():
        return 0

    words = ("of 4 tasks run after 5 s", "4 slots", "num_proc")
    raises((TimeoutError, RankError), lambda: xoe.spark.run(call, num_proc=4, start_timeout=5), *words)
    raises(xoe.InvalidArgumentError, lambda: xoe.spark.run(call, num_proc=0), "at least 1")


def test_no_secret_is_shown():
    def call():
        return os.environ["XOE_SECRET"]

    with ranks.tempfile.TemporaryDirectory() as folder:

        def wait(folder):
            import xoe

            file = pathlib.Path(folder) / str(xoe.rank())
            file.with_suffix(".part").write_text(os.environ["XOE_SECRET"])
            file.with_suffix(".part").rename(file)
            while not (pathlib.Path(folder) / "seen").exists():
                time.sleep(0.05)

        thread = threading.Thread(target=xoe.spark.run, args=(wait, [folder]), kwargs={"num_proc": 2})
        thread.start()
        files = [pathlib.Path(folder) / str(rank) for rank in range(2)]
        clusters.wait_until(lambda: all(file.exists() for file in files), 120, "no ranks")
        secret = files[0].read_text()
        assert secret == files[1].read_text() and len(secret) == 64
        shown = clusters.shown_to_others(secret)
        (pathlib.Path(folder) / "seen").touch()
        thread.join()
        assert shown == [], shown


def test_reports_are_authenticated():
    reports = Reports("127.0.0.1", 0, b"key")
    with contextlib.closing(reports):
        good = Reporter("127.0.0.1", reports.port, b"key", 10)
        good.send("begun", index=0)
        assert reports.events.get(timeout=10) == {"kind": "begun", "index": 0, "link": 1}
        bad = Reporter("127.0.0.1", reports.port, b"another key", 10)
        bad.send("begun", index=1)
        bad.wait_for_end()
        huge = socket.create_connection(("127.0.0.1", reports.port), 10)
        huge.recv(32)
        huge.sendall(struct.pack("!I", 1 << 31) + bytes(64))
        with contextlib.suppress(ConnectionResetError):
            assert not huge.recv(1)
        good._number += 1  # as if a frame had been left out
        good.send("done")
        assert reports.events.get(timeout=10) == {"kind": "end", "link": 1}
        assert reports.events.empty()
        last = Reporter("127.0.0.1", reports.port, b"key", 10)
        reports.close()
        last.wait_for_end()


def test_without_spark():
    spark.stop()
    raises(xoe.UnavailableError, lambda: xoe.spark.run(where), "SparkSession")
    known = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "pyspark"}
    for name in known:
        del sys.modules[name]
    sys.modules["pyspark"] = None
    try:
        raises(xoe.UnavailableError, lambda: xoe.spark.run(where), "pip install pyspark")
    finally:
        del sys.modules["pyspark"]
        sys.modules.update(known)


CLUSTER = """
import os, pathlib, signal, sys
import clusters, xoe.spark
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
def call():
    import torch
    import xoe.torch as hvd
    return hvd.rank(), hvd.local_size(), hvd.allreduce(torch.ones(1), op=hvd.Sum).item()
assert xoe.spark.run(call, num_proc=2) == [(0, 2, 2.0), (1, 2, 2.0)]
def once(folder):
    import torch
    import xoe.torch as hvd
    file = pathlib.Path(folder) / "seen"
    again = file.exists()
    jobs = hvd.allgather_object((os.environ["XOE_JOB"], os.environ["XOE_SECRET"]))
    assert len(set(jobs)) == 1
    if hvd.rank() == 1 and not again:
        file.write_text(jobs[0][0])
        os.kill(os.getppid(), signal.SIGKILL)
    while not again:
        hvd.allreduce(torch.ones(1000), name="x")
    return file.read_text(), jobs[0][0]
first, second = xoe.spark.run(once, [sys.argv[1]], num_proc=2, retries=1)[0]
assert first != second, (first, second)
os.unlink(pathlib.Path(sys.argv[1]) / "seen")
try:
    xoe.spark.run(once, [sys.argv[1]], num_proc=2)
except xoe.PeerLostError as error:
    assert "rank 1" in str(error), error
else:
    raise AssertionError
spark.stop()
print("retried")
"""


def test_cluster():
    """Two executors; after a task was killed the ranks start again where that is wanted, as another job."""
    spark.stop()
    with ranks.tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", CLUSTER, folder], capture_output=True, text=True, timeout=ranks.HANGS, check=False
        )
    assert done.returncode == 0 and "retried" in done.stdout, f"{done.stdout}\n{done.stderr}"


OTHER_PYTHON = """
import sys, xoe, xoe.spark
from pyspark.sql import SparkSession
spark = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false").getOrCreate()
def python():
    import sys
    return sys.executable
try:
    print("found", set(xoe.spark.run(python, num_proc=2)) == {sys.executable})
except xoe.XoeError as error:
    print("error", error)
spark.stop()
"""


def test_workers_run_in_this_python():
    """The first python3 of PATH may be another one, without Xoe."""
    spark.stop()
    with ranks.tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder, "python3")
        other.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
        other.chmod(0o755)
        known = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
        known["PATH"] = f"{folder}:{known['PATH']}"
        for more, expected in (({}, "found True"), ({"PYSPARK_PYTHON": str(other)}, "")):
            command = [sys.executable, "-c", OTHER_PYTHON, "local[2]"]
            done = subprocess.run(
                command, env={**known, **more}, capture_output=True, text=True, timeout=ranks.HANGS, check=False
            )
            assert expected in done.stdout and (expected or "error" in done.stdout), f"{done.stdout}\n{done.stderr}"


def test_guide():
    """The programs of docs/guide/spark.md."""
    trained = r"\[\(0, 0\.\d+\), \(1, 0\.\d+\)\]"
    clusters.run_page("spark.md", [[trained], [r"y__output", r"only showing top 4 rows"]])


if __name__ == "__main__":
    spark = clusters.spark_session(3)
    clusters.run_on_spark(globals(), spark)
