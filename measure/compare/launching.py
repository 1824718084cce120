"""What it costs to start: `true`, and the shortest program with a collective."""

import os
import statistics
import subprocess
import time

from compare import peers


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


def measure(bin_dir, folder, rounds, say):
    """Wall milliseconds, launchers in turns: a list of {what, launcher, median_ms, min_ms, p25_ms, p75_ms}."""
    todo = commands(bin_dir, folder, say)
    times = {(what, launcher): [] for what, launcher, _, _ in todo}
    failed = set()
    for round_number in range(rounds + 1):  # the first only warms the file cache
        for what, launcher, command, environment in todo:
            if (what, launcher) in failed:
                continue
            started = time.perf_counter()
            try:
                ended = subprocess.run(
                    command,
                    env={**os.environ, **environment},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=60,
                    check=False,
                )
                code, text = ended.returncode, ended.stderr.decode(errors="replace").strip()
            except (OSError, subprocess.TimeoutExpired) as error:
                code, text = -1, str(error)
            if code != 0:
                failed.add((what, launcher))
                say(f"{launcher}: `{what}` failed: {text.splitlines()[-1:] or code}")
            elif round_number > 0:
                times[what, launcher].append((time.perf_counter() - started) * 1e3)
    return [
        {"what": what, "launcher": launcher, "samples": len(took), **quartiles(took)}
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
