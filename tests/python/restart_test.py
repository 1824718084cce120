"""Ranks that die and are started anew: `xoe run --restarts N`. Elastic training goes on from its last commit, and ends with the
parameters of one that nothing happened to; a training without elastic state begins again, with all ranks."""

import re
import textwrap

import ranks

python = ranks.interpreter()

TRAINING = """
import os, pathlib, signal, sys
import torch
import xoe.torch as hvd

folder, *victims = sys.argv[1:]
hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()

def dies_at(step):
    mark = pathlib.Path(folder, f"{RANK}.{step}")
    if f"{RANK}:{step}" in victims and not mark.exists():
        mark.touch()
        return True
    return False

def network():
    torch.manual_seed(RANK)  # made equal by sync()
    return torch.nn.Linear(4, 2)

def gradient_step(model, optimizer, number):
    optimizer.zero_grad()
    model(torch.full((1, 4), float(number + RANK))).sum().backward()
    if dies_at(number):
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.step()

@hvd.elastic.run
def train(state):
    print(f"pid {os.getpid()} from step {state.step}", flush=True)
    while state.step < 12:
        gradient_step(state.model, state.optimizer, state.step)
        state.step += 1
        if state.step % 3 == 0:
            state.commit()

model = network()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), model.named_parameters())
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
train(state)
assert state.step == 12
values = [round(x, 5) for p in model.parameters() for x in p.flatten().tolist()]
print("ended with", values, flush=True)
"""


def train(folder, size, victims, restarts):
    script = folder / "training.py"
    script.write_text(TRAINING)
    marks = folder / "marks"
    marks.mkdir(exist_ok=True)
    return ranks.run(size, script, marks, *victims, options=("--restarts", str(restarts)), timeout=200)


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
    done = ranks.run(2, script, folder, options=("--restarts", "4"), timeout=100)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("done on") == 2, done.stdout


ranks.drive(globals())
