#!/usr/bin/env python3
"""How long a training takes to go on when a rank or a host is lost, and what a rank that joins costs the others.

Contestants: `xoe train` and a PyTorch program with xoe.torch's elastic.run(), both under `xoe run --min-np`, and the same PyTorch
program with DistributedDataParallel under torchrun, which restarts all ranks. Each figure is of a training of its own:

    rank      a random rank gets SIGKILL at a random moment of a step: the time to the report of the next step that is completed without
              it, which includes the computing of that step
    join      the lost rank is started again: by how much the step at whose beginning it becomes a rank is longer than the median of
              those that follow
    hosts     the same as rank, with the ranks on two hosts that are network namespaces of this machine (as root)
    cut       there, nothing that the second host sends arrives any more: the time to the next step without it
    overhead  where nothing fails: CPU-seconds of a step in a job that may change beside one of fixed size

    train/bench/elastic/run.py --rounds 20 --parts rank,join
    train/bench/elastic/run.py --rounds 100 --peers "xoe train" --parts hosts
"""

import contextlib
import functools
import itertools
import os
import pathlib
import random
import signal
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "core/tests/net"), str(ROOT / "measure")]

import jobs
from compare import peers
from compare.machine import machine
from compare.processes import GivenUp
from compare.program import Comparison, parse, parser_of, values_of, word_list
from compare.report import table
from netns_hosts import Hosts, why_not

BEFORE = 8  # steps before the kill, of which the first is not measured
AFTER = 12  # steps after a join
OF_OVERHEAD = 5  # steps that are done before those of which the CPU-seconds are measured
CONTESTANTS = {"xoe train": jobs.XoeTrain, "xoe.torch": jobs.XoePython, "torchrun": jobs.Torchrun}
PARTS = {
    "rank": "from SIGKILL of a rank to the next step",
    "join": "the step with which it comes back",
    "hosts": "from SIGKILL of a rank on one of two hosts",
    "cut": "from the cut of a host's link",
    "overhead": "CPU of a step, may change / fixed size",
}


@contextlib.contextmanager
def running(contestant, *more):
    job = contestant.changing(*more)
    try:
        job.until(lambda: len(job.steps) >= BEFORE)
        yield job
    finally:
        job.end()
        contestant.end()


def kill_one(job, contestant, number):
    """Kills a random rank at a random moment of a step; the time of it, and of a step before."""
    ranks = contestant.options.ranks
    step = job.step_seconds(ranks)
    draw = random.Random(number)
    victim = draw.randrange(ranks)
    time.sleep(draw.random() * step)
    killed = time.monotonic()
    os.kill(job.process_of(victim), signal.SIGKILL)
    return killed, step


def next_step(job, contestant, lost, since):
    """Of ranks that go on without those that are lost, or of those that were all started again."""
    ranks = contestant.options.ranks
    if not contestant.restarts:
        job.until(lambda: job.steps_of(ranks - lost, since))
        return job.steps_of(ranks - lost, since)[0]

    def after_restart():
        started = [when for when, _, _ in job.started if when > since]
        return [when for when, _, _ in job.steps if started and when > started[0]]

    job.until(after_restart)
    return after_restart()[0]


def found_of(job, lost_at, went_on, step):
    before = max(step for when, step, _ in job.steps if when < went_on)
    return {"seconds": went_on - lost_at, "step_s": step, "redone": before + 1 - next(step for when, step, _ in job.steps if when == went_on)}


def loss(contestant, number):
    with running(contestant) as job:
        killed, step = kill_one(job, contestant, number)
        return found_of(job, killed, next_step(job, contestant, 1, killed), step)


def join(contestant, number):
    if contestant.restarts:
        raise GivenUp("all its ranks are restarted, so none joins")
    ranks = contestant.options.ranks
    with running(contestant, "--restarts", 1) as job:
        killed, _ = kill_one(job, contestant, number)
        alone = next_step(job, contestant, 1, killed)
        job.until(lambda: len(job.steps_of(ranks, alone)) >= AFTER)
        first = job.steps_of(ranks, alone)
        seconds = first[0] - job.steps_of(ranks - 1, killed)[-1]
        step = statistics.median(after - before for before, after in itertools.pairwise(first))
        pause = next((pause for size, pause in job.pauses if size == ranks), None)
        return {"seconds": seconds, "step_s": step, "pause_s": pause, "cost_steps": seconds / step - 1}


def cut(contestant, number):
    del number
    hosts, lost = contestant.hosts, contestant.options.ranks // len(jobs.NODES)
    try:
        with running(contestant) as job:
            step = job.step_seconds(contestant.options.ranks)
            hosts.call("mute", jobs.NODES[1])
            muted = time.monotonic()
            return found_of(job, muted, next_step(job, contestant, lost, muted), step)
    finally:
        hosts.call("heal", jobs.NODES[1])


def cpu_of_steps(contestant, job):
    """CPU-seconds of all ranks for a step, from one early step to a late one."""
    options = contestant.options
    try:
        job.until(lambda: len(job.steps) >= OF_OVERHEAD)
        pids = [job.process_of(rank) for rank in range(options.ranks)]
        begun, before = len(job.steps), sum(map(jobs.seconds_of_cpu, pids))
        job.until(lambda: len(job.steps) >= begun + options.overhead_steps)
        ended, after = len(job.steps), sum(map(jobs.seconds_of_cpu, pids))
        return (after - before) / (ended - begun)
    finally:
        job.end()


def overhead(contestant, number):
    if contestant.restarts:
        raise GivenUp("it has no jobs of fixed size")
    starts = {"changing_s": contestant.changing, "fixed_s": contestant.fixed}
    names = random.Random(number).sample(sorted(starts), 2)
    found = {name: cpu_of_steps(contestant, starts[name]()) for name in names}
    return {**found, "seconds": found["changing_s"] / found["fixed_s"], "step_s": found["fixed_s"]}


MEASURES = {"rank": loss, "join": join, "hosts": loss, "cut": cut, "overhead": overhead}


def arguments():
    parser = parser_of(__doc__, 20, 60, ",".join(CONTESTANTS))
    parser.add_argument("--parts", type=word_list, help=f"only these: {','.join(PARTS)}")
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-pytorch" / "bin" / "python"), help="with PyTorch and torchvision")
    parser.add_argument("--ranks", type=int, default=2, help="of each training (default 2)")
    parser.add_argument("--model", default="resnet18", help="of xoe train; PyTorch's programs have resnet18")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8, help="per rank (default 8)")
    parser.add_argument("--every", type=int, default=10, help="steps from one commit or checkpoint to the next (default 10)")
    parser.add_argument("--data", help="folder of a data set, for xoe train; default: synthetic images")
    parser.add_argument("--overhead-steps", type=int, default=150, help="(default 150)")
    parser.add_argument("--seconds", type=float, default=120, help="within which a training answers (default 120)")
    options = parse(parser, {"peers": list(CONTESTANTS), "parts": list(PARTS)}, rounds=3)
    options.peers = options.peers or list(CONTESTANTS)
    options.parts = options.parts or list(PARTS)
    return options


def contestants_of(bench, part, hosts):
    """{name: what measures it in the next round}"""
    options, measures = bench.arguments, {}
    for name in options.peers:
        if name != "xoe train" and not pathlib.Path(options.python).exists():
            bench.give_up(f"{part}, {name}", f"{options.python} is not there: data/bench/install_peers.sh pytorch")
            continue
        contestant, numbers = CONTESTANTS[name](options, hosts), iter(range(10**9))
        measures[f"{part}, {name}"] = functools.partial(lambda one, each, how: how(one, next(each)), contestant, numbers, MEASURES[part])
    return measures


def text_of(found):
    return ", ".join(f"{name} {value:.3f}" for name, value in found.items() if value is not None)


def rows_of(name, found):
    seconds = [one["seconds"] for one in found]
    step = statistics.median(one["step_s"] for one in found)
    more = "cost_steps" if "cost_steps" in found[0] else "redone"
    others = [one[more] for one in found if more in one]
    told = f"{statistics.median(others):.1f} (worst {max(others):.1f})" if others else "-"
    return [name, *(f"{value:.3f}" for value in (statistics.median(seconds), max(seconds), min(seconds), step)), told, len(found)]


def measure(bench, part, hosts):
    rounds = bench.measure(contestants_of(bench, part, hosts), text_of)
    names = [name for name in (f"{part}, {peer}" for peer in bench.arguments.peers) if values_of(rounds, name)]
    if not names:
        return []
    header = [PARTS[part], "median", "most", "least", "a step", "costs steps" if part == "join" else "steps redone", "of"]
    print(table(header, [rows_of(name.partition(", ")[2], values_of(rounds, name)) for name in names]))
    bench.figures += [{"part": part, "contestant": name.partition(", ")[2], **one} for name in names for one in values_of(rounds, name)]
    unit = "ratio" if part == "overhead" else "s"
    return [(name.partition(", ")[2], f"{PARTS[part]}, {unit}", True, one["seconds"]) for name in names for one in values_of(rounds, name)]


def main():
    options = arguments()
    bench = Comparison(options)
    bench.versions = {"xoe": peers.revision(), "torch": peers.version_of([options.python, "-c", "import torch; print(torch.__version__)"])}
    facts = machine()
    print(f"{facts['cpu']}, {facts['cores']} cores; {options.model}, batch {options.batch}, {options.image_size}x{options.image_size}, {options.ranks} ranks")
    measured = [row for part in options.parts if part not in ("hosts", "cut") for row in measure(bench, part, None)]
    of_hosts = [part for part in options.parts if part in ("hosts", "cut")]
    if of_hosts and (why := why_not()):
        bench.give_up("hosts", why)
    elif of_hosts:
        with tempfile.TemporaryDirectory(prefix="xoe-elastic-hosts-") as folder:
            hosts = Hosts(f"{folder}/net", jobs.NODES)
            try:
                measured += [row for part in of_hosts for row in measure(bench, part, hosts)]
            finally:
                hosts.call("down")
    bench.save("elastic", "Ranks and hosts that are lost, and ranks that join", measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
