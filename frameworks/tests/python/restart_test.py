"""Ranks that die and are restarted by `xoe run --restarts N`. Elastic training continues from its last commit, and ends with
the parameters of an undisturbed run; training without elastic state starts again, with all ranks."""

import re
import textwrap

import ranks

TRAINING = ranks.ROOT / "frameworks/tests/python/restart_training.py"
AT_ONCE = ranks.ROOT / "frameworks/tests/python/restart_at_once.py"


def train(folder, size, victims, restarts):
    marks = folder / "marks"
    marks.mkdir(exist_ok=True)
    return ranks.run(size, TRAINING, marks, *victims, options=("--restarts", str(restarts)))


def ends(output):
    return set(re.findall(r"ended with (.*)", output))


def begins(output, rank):
    """(pid, step) of each beginning of the training on a rank."""
    return [(int(pid), int(step)) for pid, step in re.findall(rf"\[{rank}\] pid (\d+) from step (\d+)", output)]


def test_training_goes_on(folder):
    wanted = ends(train(folder / ".", 3, (), 0).stdout)
    assert len(wanted) == 1, wanted
    for number, victims in enumerate((("1:4",), ("0:7",), ("2:1", "0:10"), ("1:5", "2:5"))):
        below = folder / str(number)
        below.mkdir()
        done = train(below, 3, victims, len(victims))
        assert done.returncode == 0, done.stdout
        assert ends(done.stdout) == wanted, f"{victims}: {done.stdout}"
        assert done.stdout.count("was killed by SIGKILL") == len(victims), done.stdout
        assert f"0 of {len(victims)} restarts left" in done.stdout, done.stdout
        hit = {int(victim.split(":")[0]) for victim in victims}
        for rank in range(3):
            pids = {pid for pid, _ in begins(done.stdout, rank)}
            assert len(pids) == (2 if rank in hit else 1), f"{victims}: rank {rank}: {done.stdout}"
        # From the last commit, also on the rank that knew nothing of it.
        last = max(int(victim.split(":")[1]) for victim in victims) // 3 * 3
        assert all(begins(done.stdout, rank)[-1][1] == last for rank in range(3)), f"{victims}: {done.stdout}"


def test_a_second_rank_dies_while_the_first_one_is_restarted(folder):
    """Whatever the survivor does at that moment: it must not wait for the version of the world that has passed."""
    wanted = str(sum(3 * step + 3 for step in range(12)))
    for number in range(10):
        below = folder / str(number)
        below.mkdir()
        done = ranks.run(3, AT_ONCE, below, str(0.05 * number), options=("--restarts", "2"))
        assert done.returncode == 0, f"{number}: {done.stdout}"
        assert re.findall(r"ended with (.*)", done.stdout) == [wanted] * 3, f"{number}: {done.stdout}"
        assert done.stdout.count("was killed by SIGKILL") == 2, f"{number}: {done.stdout}"
        assert "0 of 2 restarts left" in done.stdout, f"{number}: {done.stdout}"


def test_no_restart_is_left(folder):
    done = train(folder, 2, ("1:2", "1:5"), 1)
    assert done.returncode == 137, done.stdout
    assert "0 of 1 restarts left" in done.stdout and "rank 1 (host" in done.stdout, done.stdout


def test_plain_training_begins_again(folder):
    script = folder / "plain.py"
    script.write_text(
        textwrap.dedent("""
            import pathlib, sys
            import torch
            import xoe.torch as hvd

            hvd.init()
            mark = pathlib.Path(sys.argv[1], "failed")
            for step in range(5):
                hvd.allreduce(torch.ones(1), name="x")
                if step == 3 and hvd.rank() == 1 and not mark.exists():
                    mark.touch()
                    sys.exit(3)
            print("done on", hvd.rank(), flush=True)
            """)
    )
    done = ranks.run(2, script, folder, options=("--restarts", "4"))
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("done on") == 2, done.stdout


ranks.drive(globals())
