"""Groups of torch.distributed whose members change (enable_reconfigure=True), of the backend "xoe": members that leave, come, are killed.

Processes without a launcher, which would end them when one is lost. They bring their handles together in a FileStore.
"""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import ranks

ROLE = "XOE_TEST_ROLE"
LATE = 3  # the number of a process that comes to the others' group later


# ---- in a process


class Member:
    """One process, and the group that it makes."""

    def __init__(self, others=3, timeout=60):
        import torch
        import torch.distributed as dist

        import xoe.torch.distributed  # noqa: F401

        torch.set_num_threads(1)
        self.torch, self.dist = torch, dist
        self.number = int(os.environ.get("XOE_TEST_NUMBER") or os.environ["XOE_RANK"])
        self.store = dist.FileStore(os.environ["XOE_TEST_STORE"], -1)
        dist.init_process_group(
            "xoe",
            store=self.store,
            rank=self.number,
            world_size=others,
            timeout=timedelta(seconds=timeout),
            enable_reconfigure=True,
        )
        self.group = dist.group.WORLD

    def handles(self, numbers, at):
        """Of these processes, in this order; each says its own under the name ``at``."""
        self.store.set(f"{at}/{self.number}", self.dist._get_reconfigure_handle())
        return [self.store.get(f"{at}/{number}").decode() for number in numbers]

    def meet(self, uuid, numbers, **options):
        """Reconfigures the group to these processes, in this order."""
        self.dist._reconfigure(uuid, self.handles(numbers, f"handles {uuid}"), **options).wait()
        assert (self.dist.get_rank(), self.dist.get_world_size()) == (numbers.index(self.number), len(numbers))

    def check(self, numbers):
        """The group adds up, broadcasts, and passes on what these processes have."""
        mine = self.torch.full((5,), float(self.number + 1))
        self.dist.all_reduce(mine)
        assert mine.tolist() == [float(sum(number + 1 for number in numbers))] * 5, mine
        last = len(numbers) - 1
        told = self.torch.tensor([float(self.number)])
        self.dist.broadcast(told, group_src=last)
        assert told.item() == numbers[last], told
        rank, received = self.dist.get_rank(), self.torch.zeros(2)
        if len(numbers) > 1:
            works = [
                self.group.recv([received], (rank - 1) % len(numbers), 7),
                self.group.send([self.torch.full((2,), float(self.number))], (rank + 1) % len(numbers), 7),
            ]
            for work in works:
                work.wait()
            assert received.tolist() == [float(numbers[rank - 1])] * 2, received

    def wait_for(self, name, numbers):
        self.store.set(f"{name}/{self.number}", "")
        self.store.wait([f"{name}/{number}" for number in numbers])

    def end(self):
        self.dist.destroy_process_group()
        print("good", flush=True)


def fails(call, kind, *words):
    """The error of a call."""
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), error
        return error
    raise AssertionError(f"no {kind.__name__}")


def come_and_go():
    """Three processes, then without one, alone, in another order, with one that comes late; in two groups, and together again."""
    member = Member()
    number = member.number
    if number != LATE:
        assert (member.dist.get_rank(), member.dist.get_world_size()) == (number, 3)
        fails(lambda: member.dist.all_reduce(member.torch.ones(1)), RuntimeError, "no members yet", "_reconfigure()")
        fails(lambda: member.group.send([member.torch.ones(1)], 1, 0), RuntimeError, "no members yet")
        fails(lambda: member.dist.new_group([0, 1]), RuntimeError, "no members yet")
        member.meet(1, [0, 1, 2])
        member.check([0, 1, 2])
        if number != 1:
            member.meet(2, [2, 0])
            member.check([2, 0])
        member.meet(10 + number, [number])
        member.check([number])
        member.meet(3, [2, 0, 1])
        member.check([2, 0, 1])
    member.wait_for("late", [0, 1, 2, LATE])
    everybody = [LATE, 1, 2, 0]
    member.meet(4, everybody)
    member.check(everybody)
    member.meet(4 + 1 + number % 2, [number % 2, number % 2 + 2])
    member.check([number % 2, number % 2 + 2])
    member.meet(7, everybody)
    member.check(everybody)
    check_parts(member, everybody)
    # A set: the members choose an order, all the same.
    handles = set(member.handles(everybody, "set"))
    member.dist._reconfigure(8, handles).wait()
    places = [None] * 4
    member.dist.all_gather_object(places, number)
    assert sorted(places) == [0, 1, 2, LATE] and places[member.dist.get_rank()] == number, places
    member.end()


def check_parts(member, numbers):
    """Groups of some of the members, which have been in different numbers of groups before."""
    rank = member.dist.get_rank()
    for _ in range(2):
        part = member.dist.new_group([0, 1, 3])
        if rank in (0, 1, 3):
            mine = member.torch.full((3,), float(member.number))
            member.dist.all_reduce(mine, group=part)
            assert mine.tolist() == [float(numbers[0] + numbers[1] + numbers[3])] * 3, mine
            member.dist.destroy_process_group(part)
    if hasattr(member.dist, "split_group"):
        half = member.group.split_group([[0, 2], [1, 3]][rank % 2], group_name=f"half {rank % 2}")
        mine = member.torch.full((3,), float(member.number))
        half.allreduce([mine]).wait()
        assert mine.tolist() == [float(numbers[rank % 2] + numbers[rank % 2 + 2])] * 3, mine
        half.shutdown()


def aborted():
    """After an abort, which all members hear of; the group is as good as before when it has been reconfigured."""
    from torch._C._distributed_c10d import ErrorType

    from xoe.errors import HorovodInternalError

    member = Member()
    member.meet(1, [0, 1, 2])
    member.check([0, 1, 2])
    if member.number == 0:
        member.wait_for("waiting", [0, 1, 2])
        member.group.abort()
        fails(lambda: member.dist.all_reduce(member.torch.ones(1)), HorovodInternalError)
        assert member.group.get_error() == ErrorType.SUCCESS, "its own abort is no error"
    else:
        work = member.dist.all_reduce(member.torch.ones(1), async_op=True)
        member.wait_for("waiting", [0, 1, 2])
        fails(work.wait, HorovodInternalError)
        assert member.group.get_error() == ErrorType.REMOTE_ERROR, member.group.get_error()
    member.meet(2, [0, 1, 2])
    assert member.group.get_error() == ErrorType.SUCCESS
    member.check([0, 1, 2])
    member.end()


def late_operation():
    """An operation that one member does not take part in fails in the time of the group; then they go on."""
    from torch._C._distributed_c10d import ErrorType

    from xoe.errors import OperationTimeoutError

    member = Member()
    member.meet(1, [0, 1, 2])
    member.group.set_timeout(timedelta(seconds=1))
    if member.number != 0:
        fails(lambda: member.dist.all_reduce(member.torch.ones(1)), OperationTimeoutError, "Timed out")
        assert member.group.get_error() == ErrorType.TIMEOUT
    member.group.set_timeout(timedelta(seconds=60))
    member.wait_for("seen", [0, 1, 2])
    member.meet(2, [0, 1, 2])
    member.check([0, 1, 2])
    member.end()


def refused():
    """Calls that are wrong change nothing; members that do not come are named."""
    from xoe.errors import InvalidArgumentError, OperationTimeoutError

    member = Member(timeout=2)
    dist = member.dist
    assert dist._supports_reconfigure()
    own = dist._get_reconfigure_handle()
    member.meet(1, [0, 1])
    fails(lambda: dist._reconfigure(1, [own]), InvalidArgumentError, "uuid 1 was already used")
    fails(lambda: dist._reconfigure(2, []), InvalidArgumentError, "own handle")
    fails(lambda: dist._reconfigure(2, [own, own]), InvalidArgumentError, "twice")
    fails(lambda: dist._reconfigure(2, [own, "gloo:0:1:"]), InvalidArgumentError, "gloo:0:1:", "xoe")
    member.check([0, 1])
    handles = member.handles([0, 1], "named")
    if member.number == 0:
        work = dist._reconfigure(3, handles)
        fails(work.wait, OperationTimeoutError, "rank 1", f"process {handles[1].split(' ')[2]} of host")
        fails(lambda: dist.all_reduce(member.torch.ones(1)), RuntimeError, "no members yet")
    member.wait_for("told", [0, 1])
    member.meet(4, [1, 0])
    member.check([1, 0])
    dist.destroy_process_group()
    dist.init_process_group("xoe", store=dist.HashStore(), rank=0, world_size=1)
    assert not dist._supports_reconfigure(), "this group has the members that it was made with"
    member.end()


def killed():
    """A process dies in a step of training; the others train on without it, within a second."""
    from xoe.errors import PeerLostError

    member = Member()
    torch, victim = member.torch, int(os.environ["XOE_TEST_VICTIM"])
    member.meet(1, [0, 1, 2])
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 300))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        model(torch.full((2, 300), float(member.number))).square().mean().backward()
        optimizer.step()

    for _ in range(4):  # DDP's buckets now lie in memory that the members share
        step()
    member.wait_for("trained", [0, 1, 2])
    if member.number == victim:
        member.store.set("killed at", str(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)
    others = [number for number in range(3) if number != victim]
    fails(step, RuntimeError, f"rank {victim}")
    assert isinstance(fails(lambda: member.dist.all_reduce(torch.ones(1)), PeerLostError), PeerLostError)
    member.meet(2, others)
    step()
    seconds = time.monotonic() - float(member.store.get("killed at"))
    member.check(others)
    for _ in range(3):
        step()
    weights = [None, None]
    member.dist.all_gather_object(weights, [one.tolist() for one in model.parameters()])
    assert weights[0] == weights[1], "the survivors' weights differ"
    assert seconds < ranks.told_within(1.0), f"{seconds:.2f} s from the kill to the end of the next step"
    print(f"{seconds:.2f} s from the kill to the end of the next step")
    member.end()


# ---- the driver


def variables(folder, role, **more):
    """Of the processes of a role."""
    return ranks.environment(XOE_TEST_STORE=str(folder / f"store of {role}"), **{ROLE: role}, **more)


def named(hosts, number):
    return {"XOE_HOSTNAME": hosts[number]} if hosts else {}


def run(folder, role, numbers, hosts=(), **more):
    """What the processes of a role print, and their exit codes. hosts: the names of theirs, by number."""
    processes = {
        number: subprocess.Popen(
            [ranks.interpreter(), __file__],
            env=variables(folder, role, XOE_TEST_NUMBER=str(number), **named(hosts, number), **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in numbers
    }
    try:
        return {number: (one.communicate(timeout=ranks.HANGS)[0], one.returncode) for number, one in processes.items()}
    finally:
        for process in processes.values():
            process.kill()


def all_good(found, role):
    for number, (output, code) in found.items():
        assert code == 0 and "good" in output, f"{role}: process {number}: {code}: {output}"


def test_members_come_and_go(folder):
    all_good(run(folder, "come_and_go", [0, 1, 2, LATE]), "come_and_go")


def test_members_of_two_hosts(folder):
    """Two names of this host, so that the members of one share no memory with those of the other."""
    hosts = ("localhost", "127.0.0.1", "localhost", "127.0.0.1")
    all_good(run(folder, "come_and_go", [0, 1, 2, LATE], hosts=hosts), "come_and_go")
    found = run(folder, "killed", [0, 1, 2], hosts=hosts, XOE_TEST_VICTIM="0")
    assert found.pop(0)[1] == -signal.SIGKILL
    all_good(found, "killed")


def test_after_an_abort(folder):
    all_good(run(folder, "aborted", [0, 1, 2]), "aborted")


def test_after_a_timeout(folder):
    all_good(run(folder, "late_operation", [0, 1, 2]), "late_operation")


def test_refusals(folder):
    all_good(run(folder, "refused", [0, 1]), "refused")


def test_survivors_of_a_killed_member(folder):
    for victim in (0, 1):  # the members have met at process 0
        part = folder / str(victim)
        part.mkdir()
        found = run(part, "killed", [0, 1, 2], XOE_TEST_VICTIM=str(victim))
        assert found.pop(victim)[1] == -signal.SIGKILL
        all_good(found, "killed")
        print(*(output.splitlines()[-2] for output, _ in found.values()), sep="; ")


def test_survivors_under_xoe_run(folder):
    done = subprocess.run(
        ranks.command(3, __file__, options=("--min-np", "2", "--timeout", str(ranks.HANGS))),
        env=variables(folder, "killed", XOE_TEST_VICTIM="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.count("good") == 2 and "2 ranks go on" in done.stdout, done.stdout


def main():
    look = "import inspect, sys, torch.distributed as d; sys.exit('enable_reconfigure' not in inspect.signature(d.init_process_group).parameters)"
    if subprocess.run([ranks.interpreter(), "-c", look], check=False).returncode != 0:
        print("skipped: this PyTorch has no reconfigure")
        sys.exit(ranks.peer_python.SKIPPED)
    ranks.drive(globals())


if __name__ == "__main__":
    globals()[os.environ.get(ROLE, "main")]()
