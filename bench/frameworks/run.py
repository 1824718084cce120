#!/usr/bin/env python3
"""Measures what the bindings of frameworks cost on two ranks.

161 gradients of ResNet-50 (102 MB) through each framework, beside the engine alone and TensorFlow's MultiWorkerMirroredStrategy; and JAX's
psum on Xoe (xoe run --jax) beside JAX's own Gloo. Rounds are interleaved; figures are medians over rounds.

    bench/frameworks/run.py --rounds 3
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORKER = pathlib.Path(__file__).with_name("worker.py")
GRADIENTS = ("engine", "torch", "jax", "tensorflow", "mirrored")
SIZES = {"4 KiB": 4 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "16 MiB": 16 << 20}


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Bench:
    def __init__(self, options):
        self.options = options
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("XOE_", "JAX_"))}
        self.environment = {**clean, "PYTHONPATH": str(options.build / "python"), "OMP_NUM_THREADS": "1"}

    def words(self, *words):
        return [self.options.python, str(WORKER), *map(str, words)]

    def run(self, contestant, size=0):
        steps = self.options.steps * (10 if size else 1)
        if contestant == "mirrored":
            return self.finish(self.mirrored(steps))
        flags = ["--jax"] if contestant.startswith("psum") else []
        variables = {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"} if contestant == "psum gloo" else {}
        command = [str(self.options.build / "bin" / "xoe"), "run", "--no-tag-output", "-np", "2", *flags]
        command += self.words(contestant.split()[0], steps, *([size] if size else []))
        return self.finish([subprocess.Popen(command, env={**self.environment, **variables}, **PIPES)])

    def mirrored(self, steps):
        workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
        for rank in range(2):
            told = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})
            yield subprocess.Popen(self.words("mirrored", steps), env={**self.environment, "TF_CONFIG": told}, **PIPES)

    def finish(self, processes):
        results = []
        for process in list(processes):
            out, err = process.communicate(timeout=self.options.limit)
            if process.returncode != 0:
                sys.exit(f"error: {' '.join(process.args)} ended with {process.returncode}:\n{out[-2000:]}{err[-2000:]}")
            results += [json.loads(line)["ms"] for line in out.splitlines() if line.startswith("{")]
        return max(results)


PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-frameworks" / "bin" / "python"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30, help="of gradients; ten times as many of psum")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which a measurement counts as stuck")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    options = parser.parse_args()
    bench = Bench(options)
    todo = [(name, 0, "161 gradients") for name in GRADIENTS]
    todo += [(name, size, label) for label, size in SIZES.items() for name in ("psum xoe", "psum gloo")]
    found = {}
    for number in range(options.rounds):
        for name, size, label in todo:
            ms = bench.run(name, size)
            found.setdefault((label, name), []).append(ms)
            print(f"round {number + 1}  {label:<14} {name:<10} {ms:10.3f} ms", flush=True)
    medians = {key: statistics.median(values) for key, values in found.items()}
    print(f"\n161 gradients, medians of {options.rounds} rounds")
    alone = medians["161 gradients", "engine"]
    for name in GRADIENTS:
        ms = medians["161 gradients", name]
        print(f"{name:<12}{ms:>9.2f} ms  {ms / alone:>6.2f} of the engine alone")
    print("\npsum, JAX on Xoe and on Gloo")
    for label in SIZES:
        own, other = medians[label, "psum xoe"], medians[label, "psum gloo"]
        print(f"{label:<12}{own:>9.3f} ms {other:>9.3f} ms  {other / own:>6.1f} times as fast")
    if options.json:
        options.json.write_text(json.dumps([[*key, values] for key, values in found.items()], indent=1) + "\n")


if __name__ == "__main__":
    main()
