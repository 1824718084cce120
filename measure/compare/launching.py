"""What it costs to start: `true`, and the shortest program with a collective."""

import os
import statistics
import subprocess
import time

from compare import peers, processes
from compare.program import in_turn


def commands(bin_dir, folder, say):
    """(what, launcher, command, environment) of everything that can be started here with two processes."""
    once = peers.xoe_launch(bin_dir, 2, "xoe_bench_once")
    run = once[:-1]
    result = [("true", "xoe run", [*run, "true"], {}), ("allreduce", "xoe run", once, {})]
    for mpi in peers.find_mpis():
        try:
            program = peers.compile_mpi(mpi, "once", bin_dir, folder)
        except subprocess.CalledProcessError as error:
            say(f"{mpi.name}: left out of the launches: {error.stderr.strip().splitlines()[-1:]}")
            continue
        result.append(("true", mpi.name, mpi.arguments(2, "true"), mpi.environment))
        result.append(("allreduce", mpi.name, mpi.arguments(2, program), mpi.environment))
    return result


def wall_ms(command, environment):
    started = time.perf_counter()
    processes.run(command, {**os.environ, **environment}, 60)
    return (time.perf_counter() - started) * 1e3


def measure(comparison, rounds):
    """Wall milliseconds, launchers in turns: a list of {what, launcher, runs_ms, median_ms, min_ms, p25_ms, p75_ms}."""
    starts = commands(comparison.arguments.bin, comparison.arguments.out, comparison.say)
    times = {(what, launcher): [] for what, launcher, _, _ in starts}
    for number in range(rounds + 1):  # the first only warms the file cache
        for what, launcher, command, environment in in_turn(starts, number):
            took = comparison.attempt(f"{launcher}, launch of `{what}`", wall_ms, command, environment)
            if took is not None and number > 0:
                times[what, launcher].append(took)
    return [
        {"what": what, "launcher": launcher, "runs_ms": took, **quartiles(took)}
        for (what, launcher), took in times.items()
        if took
    ]


def quartiles(took):
    ordered = sorted(took)

    def at(q):
        return ordered[round(q * (len(ordered) - 1))]

    return {
        "min_ms": ordered[0],
        "p25_ms": at(0.25),
        "median_ms": statistics.median(ordered),
        "p75_ms": at(0.75),
    }
