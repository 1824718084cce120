"""`xoe run --rendezvous HOST --nodes MIN:MAX`: members join and leave while a training goes on."""

import os
import re
import signal
import sys
import time

import ranks

os.environ.setdefault("XOE_BIN_DIR", str(ranks.BUILD / "bin"))
sys.path.insert(0, str(ranks.ROOT / "launch/tests"))
from members import Group

TRAINING = ranks.ROOT / "frameworks/tests/python/resize_training.py"
ELSEWHERE = 76


class Members(Group):
    """Members of a training; `limits` is MIN:MAX."""

    def __init__(self, limits):
        super().__init__(limits)
        self.stop = self.path / "stop"

    def join(self, index, options=()):
        program = [ranks.interpreter(), str(TRAINING), str(self.stop)]
        # The index stands for the slot of the one rank that each member has.
        return self.start(index, None, ["-np", "1", *options], env=ranks.environment(), program=program)

    def begins(self, index, size, slot=None, times=1):
        """Waits until the member's rank has begun in a world of this size; gives its pid."""
        member, slot = self.members[index], index if slot is None else slot
        pattern = rf"\[{slot}\] pid (\d+) rank \d+ of {size} from step"
        end = time.monotonic() + ranks.HANGS
        while len(found := re.findall(pattern, member.out)) < times:
            assert time.monotonic() < end and member.process.poll() is None, f"{member.out}\n{member.err}"
            time.sleep(0.01)
        return int(found[-1])


def test_members_join_and_are_lost_while_others_go_on(folder):
    with Members("2:3") as job:
        job.join(0), job.join(1)
        pids = [job.begins(0, 2), job.begins(1, 2)]
        job.join(2)
        assert [job.begins(0, 3), job.begins(1, 3)] == pids, "those that are there keep their process"
        newcomer = job.begins(2, 3)
        job.members[1].process.kill()
        assert [job.begins(0, 2, times=2), job.begins(2, 2)] == [pids[0], newcomer]
        job.join(1)  # as a pod that is started again
        job.begins(1, 3)
        job.stop.touch()
        assert [job.members[index].wait(ranks.HANGS) for index in range(3)] == [0, 0, 0], job.members[0].err
        assert "of member 1" not in job.members[0].err
        assert job.all_gone(ranks.HANGS)


def test_a_member_that_is_to_end_leaves_at_a_step(folder):
    with Members("1:3") as job:
        for index in range(3):
            job.join(index)
        for index in range(3):
            job.begins(index, 3)
        job.members[2].signal(signal.SIGTERM)
        job.begins(0, 2), job.begins(1, 2)
        assert job.members[2].wait(ranks.HANGS) == ELSEWHERE, job.members[2].err
        assert "lost" not in job.members[0].err, job.members[0].err
        job.stop.touch()
        assert [job.members[index].wait(ranks.HANGS) for index in range(2)] == [0, 0], job.members[0].err
        steps = [int(step) for step in re.findall(r"\[0\] step (\d+) by", job.members[0].out)]
        assert steps == list(range(1, steps[-1] + 1)), "no step is lost or computed again"


def test_without_member_0_the_others_end_and_say_so(folder):
    with Members("1:2") as job:
        job.join(0), job.join(1)
        job.begins(1, 2)
        job.members[0].process.kill()
        assert job.members[1].wait(ranks.HANGS) != 0
        assert "member 0" in job.members[1].err and "is lost" in job.members[1].err, job.members[1].err
        assert job.all_gone(ranks.HANGS)


def test_a_member_with_another_number_of_ranks_is_refused(folder):
    with Members("1:2") as job:
        job.join(0)
        job.begins(0, 1)
        job.join(1, ["-np", "2"])
        assert job.members[1].wait(ranks.HANGS) == 2, job.members[1].err
        assert "give all members the same -np" in job.members[1].err
        job.stop.touch()
        assert job.members[0].wait(ranks.HANGS) == 0, job.members[0].err


def test_mistakes(folder):
    with Members("2:3") as job:
        for options, said in (
            (["--min-np", "1"], "--nodes MIN:MAX"),
            (["--max-np", "1"], "--nodes MIN:MAX"),
        ):
            job.count = "3"
            member = job.join(0, options)
            assert member.wait(ranks.HANGS) == 2 and said in member.err, member.err


ranks.drive(globals())
