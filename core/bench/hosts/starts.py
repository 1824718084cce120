"""Seconds to start a job over ssh and end it: xoe run, Open MPI's mpirun, torchrun.

The processes are `true`, so that nothing but starting counts; `one sum` is a job of Xoe that sums one value. torchrun starts
processes on its own host only: one is started on each host over ssh, all at once, as its users do.
"""

import shlex
import shutil
import statistics
import tempfile
import time

from compare import processes
from compare.program import in_turn
from compare.report import table
from netns_hosts import Hosts

SPREAD = (2, 8, 32, 64)  # hosts, a process on each
PACKED = (4, 8, 32, 64)  # processes on two hosts
TORCHRUN_HOSTS = 8  # each imports PyTorch: two to three seconds of processor time
LIMIT_S = 60
TITLES = {"spread": "hosts, a process on each", "packed": "processes on two hosts"}
STARTERS = ("xoe run", "mpirun", "torchrun", "xoe run, one sum")


def words_of(starter, places, folder, python):
    """The command on the first host for [(host, processes)]; None where it cannot be had."""
    hosts = ",".join(f"{host}:{count}" for host, count in places)
    xoe = [f"{folder}/xoe", "run", "-H", hosts, "--network-interface", "eth0"]
    if starter == "xoe run":
        return [*xoe, "true"]
    if starter == "xoe run, one sum":
        return [*xoe, f"{folder}/xoe_bench_once"]
    if starter == "mpirun":
        mpirun = shutil.which("mpirun.openmpi")
        return mpirun and [mpirun, "--allow-run-as-root", "-H", hosts, "--mca", "plm_rsh_agent", "ssh", "--mca",
                           "oob_tcp_if_include", "eth0", "true"]
    if not python.exists() or len(places) > TORCHRUN_HOSTS:
        return None
    agents = []
    for rank, (host, count) in enumerate(places):
        torchrun = [str(python), "-m", "torch.distributed.run", "--nnodes", str(len(places)), "--node-rank", str(rank),
                    "--nproc-per-node", str(count), "--master-addr", places[0][0], "--master-port", "29544",
                    "--no-python", "true"]
        agents.append(shlex.join(torchrun if rank == 0 else ["ssh", host, shlex.join(torchrun)]))
    return ["bash", "-c", " & ".join(agents) + " & code=0; for job in $(jobs -p); do wait $job || code=1; done; exit $code"]


def start(hosts, starter, places, folder, python):
    """Seconds; None where it cannot be had."""
    words = words_of(starter, places, folder, python)
    if words is None:
        return None
    began = time.monotonic()
    processes.run(hosts.command(places[0][0], *words), None, LIMIT_S)
    return time.monotonic() - began


def measure(comparison, python):
    """{"spread" or "packed": {count: {starter: seconds of all rounds}}} for counts up to the most wanted."""
    most, folder = comparison.arguments.most, comparison.arguments.bin
    counts = [count for count in SPREAD if count <= most]
    found = {"spread": {}, "packed": {}}
    with tempfile.TemporaryDirectory(prefix="xoe-bench-") as scratch:
        hosts = Hosts(f"{scratch}/hosts", [f"node{i:02}" for i in range(max(counts))])
        try:
            jobs = [("spread", count, [(name, 1) for name in hosts.names[:count]]) for count in counts]
            jobs += [("packed", count, [(name, count // 2) for name in hosts.names[:2]]) for count in PACKED if count <= most]
            for shape, count, places in jobs:
                times = found[shape][count] = {starter: [] for starter in STARTERS}
                for number in comparison.rounds():
                    for starter in in_turn(STARTERS, number):
                        what = f"{starter}, {shape} {count}"
                        seconds = comparison.attempt(what, start, hosts, starter, places, folder, python)
                        if seconds is not None:
                            comparison.say(f"{what}: {seconds:.2f} s")
                            times[starter].append(seconds)
        finally:
            hosts.call("down")
    return found


def show(found):
    for shape, counts in [(shape, counts) for shape, counts in found.items() if counts]:
        print(f"\nstart over ssh and end, s, by {TITLES[shape]}")
        rows = [[starter, *map(median_text, (times[starter] for times in counts.values()))] for starter in STARTERS]
        print(table(["", *counts], rows))


def median_text(times):
    return f"{statistics.median(times):.2f}" if times else "-"


def rows_of(found):
    """For the file of measurements."""
    for shape, counts in found.items():
        for count, starters in counts.items():
            for starter, times in starters.items():
                yield from ((starter, f"s to start on {count} {TITLES[shape]}", True, seconds) for seconds in times)
