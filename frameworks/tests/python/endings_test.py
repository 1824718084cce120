"""How a job of Python programs ends when one of them does: what is said first, how soon, with which exit code."""

import os
import pathlib
import re
import signal
import subprocess
import textwrap
import time
import unittest

import ranks

# What each script begins with: the others wait in a collective for the rank that ends.
_HEAD = """
    import os, sys, signal, time
    {imports}
    import xoe
    from xoe.objects import allgather_object
    xoe.init()
    allgather_object(xoe.rank())
    rank, size = xoe.rank(), xoe.size()
    print("ready", os.getpid(), flush=True)
"""
_WAIT = """
    allgather_object(rank, name="what the others wait for")
"""


def script(folder, name, last, imports="", wait=True):
    text = textwrap.dedent(_HEAD).format(imports=imports) + textwrap.dedent(last) + (textwrap.dedent(_WAIT) if wait else "")
    path = pathlib.Path(folder) / f"{name}.py"
    path.write_text(text)
    return path


def ended(done, code, *words, seconds=None):
    """The job ended with this code, said these words in this order, and, where given, soon after `ready`."""
    print(f"  exit code {done.returncode} after {done.seconds:.1f} s", flush=True)
    assert done.returncode == code, f"exit code {done.returncode} instead of {code}:\n{done.stdout}"
    at = 0
    for word in words:
        found = re.search(word, done.stdout[at:])
        assert found, f"{word!r} is not in what follows {words[: words.index(word)]}:\n{done.stdout}"
        at += found.end()


def gone(done):
    """No process of the job is left."""
    for pid in re.findall(r"ready (\d+)", done.stdout):
        assert not pathlib.Path(f"/proc/{pid}").exists(), f"process {pid} is still there"


def test_an_exception(folder):
    last = """
    def train():
        if rank == 1:
            raise ValueError("learning rate is negative")
    train()
    """
    done = ranks.run(3, script(folder, "exception", last))
    ended(done, 1, "ready", r"\[1\] Traceback", r"\[1\] ValueError: learning rate is negative", "rank 1 .*exited with code 1")
    first = next(line for line in done.stdout.splitlines() if "Traceback" in line)
    assert first.startswith("[1]"), f"that traceback does not come first:\n{done.stdout}"
    gone(done)


def test_an_exception_with_torch(folder):
    last = """
    import xoe.torch as hvd
    x = torch.ones(3)
    hvd.allreduce(x, name="gradients")
    if rank == 0:
        raise RuntimeError("out of luck")
    hvd.allreduce(x, name="gradients")
    """
    done = ranks.run(2, script(folder, "exception_torch", last, "import torch"))
    ended(done, 1, r"\[0\] RuntimeError: out of luck", "rank 0 .*exited with code 1")
    gone(done)


def slow_to_end(folder, then="", **variables):
    """Rank 1 raises, and then takes two seconds to end; the others tell when they learn it, and do `then`."""
    last = f"""
    import atexit
    def last_words():
        time.sleep(2)
        print("has ended", flush=True)
    if rank == 1:
        atexit.register(last_words)
        time.sleep(0.3)  # the others are done with the first operation
        sys.stdout.write("the last word")
        print(" raises", time.monotonic(), flush=True)
        raise ValueError("learning rate is negative")
    try:
        allgather_object(rank, name="what the others wait for")
    except xoe.PeerLostError as error:
        print("told", time.monotonic(), error, flush=True)
        assert error.ranks == (1,), error.ranks
        {then or "raise"}
    """
    done = ranks.run(3, script(folder, "slow", last, wait=False), **variables)
    ended(
        done,
        1,
        "ready",
        r"\[1\] the last word raises",
        r"\[1\] has ended",
        "rank 1 .*exited with code 1.*learning rate is negative",
    )
    raised = float(re.search(r"raises ([\d.]+)", done.stdout)[1])
    for rank in (0, 2):
        told = re.search(rf"\[{rank}\] told ([\d.]+) .*rank 1 failed: ValueError: learning rate is negative", done.stdout)
        assert told, done.stdout
        assert float(told[1]) - raised < 1.5, f"rank {rank} learnt it only when rank 1 had ended:\n{done.stdout}"
    gone(done)


def test_a_rank_that_is_slow_to_end(folder):
    slow_to_end(folder)
    slow_to_end(folder, "sys.exit(3)")
    slow_to_end(folder, "os._exit(0)")
    slow_to_end(folder, XOE_PRETEND_HOSTS="2")


def test_it_is_blamed_before_those_that_it_ends(folder):
    # With a restart that one of the others takes; and where another raises later, because of it.
    for options, others in (
        (("--restarts", "1"), "os._exit(3)"),
        ((), "if rank == 0: later = RuntimeError('training failed')"),
    ):
        last = f"""
        import atexit
        time.sleep(0.3)
        if rank == 1:
            atexit.register(time.sleep, 1)
            raise ValueError("learning rate is negative")
        later = None
        try:
            allgather_object(rank, name="what the others wait for")
        except xoe.PeerLostError as error:
            {others}
        if later:
            raise later
        sys.exit(3)
        """
        for _ in range(3):
            done = ranks.run(3, script(folder, "blamed", last, wait=False), options=options)
            ended(done, 1, r"\n(xoe run: )?rank 1 .*exited with code 1" if not options else r"rank 1 .*exited with code 1")


def test_what_an_exception_is_not(folder):
    # Shown by a program that goes on; told of with text that is not UTF-8, or looks like Xoe's own.
    last = r"""
    try:
        {}["learning rate"]
    except KeyError:
        if rank == 1:
            sys.excepthook(*sys.exc_info())
    allgather_object(rank, name="that goes on")
    if rank == 1:
        raise ValueError("expected rank 3 tensor, got ranks 0 and 2: \udcff")
    try:
        allgather_object(rank, name="what the others wait for")
    except xoe.PeerLostError as error:
        print("told", error.ranks, ascii(str(error)), flush=True)
        raise
    """
    done = ranks.run(2, script(folder, "not", last, wait=False))
    ended(done, 1, r"\[0\] told \(1,\) .*rank 1 failed: ValueError: expected rank 3 tensor", "rank 1 .*exited with code 1")
    assert "Error in sys.excepthook" not in done.stdout, done.stdout


def test_an_exception_because_of_a_lost_rank(folder):
    last = """
    if rank == 1:
        os._exit(7)
    try:
        allgather_object(rank, name="what the others wait for")
    except xoe.PeerLostError as error:
        raise RuntimeError("training failed")
    """
    done = ranks.run(3, script(folder, "because", last, wait=False))
    ended(done, 7, "rank 1 .*exited with code 7")
    assert " failed: RuntimeError" not in done.stdout, done.stdout


def test_sys_exit_with_torch(folder):
    last = """
    if rank == 0:
        sys.exit(9)
    """
    done = ranks.run(2, script(folder, "sys_exit_torch", last, "import torch"))
    ended(done, 9, "rank 0 .*exited with code 9")
    gone(done)


def test_the_others_see_who_is_lost(folder):
    last = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends this rank at once: let it speak first
    allgather_object("deaf")
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        allgather_object(rank, name="weights")
    except xoe.PeerLostError as error:
        assert isinstance(error, xoe.HorovodInternalError)
        assert 1 in error.ranks, error.ranks
        print(f"caught: {error}", flush=True)
        sys.exit(3)
    """
    done = ranks.run(2, script(folder, "killed", last, wait=False), options=ranks.LET_SPEAK)
    ended(done, 128 + signal.SIGKILL, "ready")
    assert re.search(r"\[0\] caught: .*weights.*rank 1", done.stdout), done.stdout
    assert re.search(r"rank 1 .*SIGKILL", done.stdout), done.stdout
    gone(done)


def test_sys_exit_in_one_rank(folder):
    last = """
    if rank == 1:
        sys.exit(7)
    """
    done = ranks.run(2, script(folder, "sys_exit", last))
    ended(done, 7, "rank 1 .*exited with code 7")
    gone(done)


def test_leaving_too_early(folder):
    last = """
    if rank == 1:
        sys.exit(0)
    """
    done = ranks.run(2, script(folder, "early", last))
    ended(done, 1, r"\[0\] Traceback", r"PeerLostError: .*what the others wait for.*rank 1")
    gone(done)


def test_an_import_that_fails_on_one_rank(folder):
    path = pathlib.Path(folder) / "imports.py"
    path.write_text(
        textwrap.dedent("""
        import os
        print("ready", os.getpid(), flush=True)
        if os.environ["XOE_RANK"] == "1":
            import no_such_module
        import xoe
        xoe.init()
        """)
    )
    done = ranks.run(2, path)
    ended(done, 1, r"\[1\] ModuleNotFoundError: No module named 'no_such_module'", "rank 1 .*exited with code 1")
    gone(done)


def test_mismatched_code(folder):
    last = """
    from xoe import _core, world
    request = _core.Request(_core.KINDS["allgather"])
    import array
    data = array.array("f", [1.0] * 8)
    shape = (4, 2) if rank == 0 else (2, 4)
    tensor = (data.buffer_info()[0], 0, shape, _core.DTYPES["float32"])
    world.current().engine.submit("features", [tensor], request, keep=data).wait()
    """
    done = ranks.run(2, script(folder, "mismatch", last, wait=False))
    ended(done, 1, r"MismatchError: .*features.*ranks disagree.*rank 0 .*\[4, 2\].*rank 1 .*\[2, 4\]")
    gone(done)


def test_out_of_memory(folder):
    """The kernel kills a rank whose cgroup is full: as root only, and where cgroups can be made."""
    group = pathlib.Path("/sys/fs/cgroup/memory") / f"xoe-test-{os.getpid()}"
    if os.geteuid() != 0 or not group.parent.is_dir():
        raise unittest.SkipTest("needs root and a memory cgroup")
    last = f"""
    if rank == 1:
        open("{group}/cgroup.procs", "w").write(str(os.getpid()))
        held = []
        while True:
            held.append(bytearray(b"x" * (8 << 20)))
    """
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(200 << 20))
        done = ranks.run(2, script(folder, "memory", last))
    finally:
        time.sleep(0.2)
        group.rmdir()
    ended(done, 128 + signal.SIGKILL, "rank 1 .*SIGKILL")
    gone(done)


def test_ctrl_c(folder):
    last = """
    if rank == 1:
        time.sleep(60)
    """
    path = script(folder, "ctrl_c", last)
    job = subprocess.Popen(
        ranks.command(2, path),
        env=ranks.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines = []
    while sum("ready" in line for line in lines) < 2:
        line = job.stdout.readline()
        assert line, "".join(lines)
        lines.append(line)
    time.sleep(0.5)  # one waits in the collective, the other sleeps
    started = time.monotonic()
    job.send_signal(signal.SIGINT)
    rest = job.communicate(timeout=ranks.HANGS)[0]
    job.seconds = time.monotonic() - started
    job.stdout = "".join(lines) + rest
    ended(job, 128 + signal.SIGINT, "KeyboardInterrupt")
    gone(job)


def test_without_the_other_ranks(folder):
    """A rank that is started alone says for whom it waits."""
    path = pathlib.Path(folder) / "alone.py"
    path.write_text("import xoe\nxoe.init(start_timeout=1)\n")
    variables = ranks.environment(XOE_RANK="0", XOE_SIZE="2", XOE_JOB=f"alone{os.getpid()}")
    done = subprocess.run(
        [ranks.interpreter(), str(path)],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "OperationTimeoutError" in done.stdout and "rank" in done.stdout, done.stdout


ranks.drive(globals())
