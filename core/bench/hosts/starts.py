"""Seconds to start a job over ssh and end it: xoe run, Open MPI's mpirun, torchrun.

The processes are `true`, so that nothing but starting counts; `one sum` is a job of Xoe that sums one value. torchrun starts
processes on its own host only: one is started on each host over ssh, all at once, as its users do.
"""

import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from netns_hosts import Hosts

SPREAD = (2, 8, 32, 64)  # hosts, a process on each
PACKED = (4, 8, 32, 64)  # processes on two hosts
TORCHRUN_HOSTS = 8  # each imports PyTorch: two to three seconds of processor time
LIMIT_S = 60
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
    words = words_of(starter, places, folder, python)
    if words is None:
        return None
    began = time.monotonic()
    try:
        done = subprocess.run([str(word) for word in hosts.command(places[0][0], *words)], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        print(f"{starter}: given up after {LIMIT_S} s", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"{starter}: given up: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return time.monotonic() - began


def measure(folder, python, rounds, most):
    """{"spread" or "packed": {count: {starter: median seconds}}} for counts up to `most`."""
    counts = [count for count in SPREAD if count <= most]
    found = {"spread": {}, "packed": {}}
    with tempfile.TemporaryDirectory(prefix="xoe-bench-") as scratch:
        hosts = Hosts(f"{scratch}/hosts", [f"node{i:02}" for i in range(max(counts))])
        try:
            jobs = [("spread", count, [(name, 1) for name in hosts.names[:count]]) for count in counts]
            jobs += [("packed", count, [(name, count // 2) for name in hosts.names[:2]]) for count in PACKED if count <= most]
            for shape, count, places in jobs:
                times = {starter: [] for starter in STARTERS}
                for _ in range(rounds):
                    for starter in STARTERS:
                        times[starter].append(start(hosts, starter, places, folder, python))
                        if times[starter][-1]:
                            print(f"{shape} {count}: {starter} {times[starter][-1]:.2f} s", file=sys.stderr)
                found[shape][count] = {starter: statistics.median(all_times) for starter, all_times in times.items()
                                       if all(all_times)}
        finally:
            hosts.call("down")
    return found


def show(found):
    titles = {"spread": "hosts, a process on each", "packed": "processes on two hosts"}
    for shape, counts in found.items():
        print(f"\nstart over ssh and end, s, by {titles[shape]}")
        print(f"{'':18}" + "".join(f"{count:>10}" for count in counts))
        for starter in STARTERS:
            cells = [figures.get(starter) for figures in counts.values()]
            print(f"{starter:18}" + "".join("         -" if cell is None else f"{cell:10.2f}" for cell in cells))
