#!/usr/bin/env python3
"""Allreduce between two hosts, and starting jobs on them: Xoe beside torch.distributed's Gloo and Open MPI.

  core/bench/hosts/run.py [--quick] [--rates unlimited,1gbit] [--sizes 1K,64K,1M,16M] [--rounds 3] [--most 64]

The hosts are network namespaces of this machine, each with a name, an sshd and a link whose rate is limited (tc tbf); it
needs root. Two ranks on each. Every engine is measured in turn within a round; the tables show medians over rounds, and
bytes are counted on nodeA's link.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "core/tests/net"), str(ROOT / "measure")]

import starts
from compare import peers, processes
from compare.allreduce import size_text
from compare.program import Comparison, parse, parser_of, size_list, word_list
from compare.report import table
from netns_hosts import Hosts, why_not

PYTHON = ROOT / ".venv/bin/python"
SECONDS = 600  # for one measurement
XOE = ("hierarchical", "hierarchical-mpi", "gloo", "mpi", "placement-free", "encrypted")
# The hierarchical backend with an option.
OPTIONS = {"placement-free": ("--env", "XOE_DETERMINISTIC=placement-free"), "encrypted": ("--encrypt",)}


class Bench:
    """Engines on the hosts: what starts each, and what it says."""

    def __init__(self, hosts, folder, scratch):
        self.hosts = hosts
        self.folder = folder
        self.scratch = scratch
        self.mpirun = shutil.which("mpirun.openmpi")
        self.mpi_program = self.compile_mpi()

    def compile_mpi(self):
        compiler = shutil.which("mpicxx.openmpi")
        if not compiler or not self.mpirun:
            return None
        program, source = f"{self.scratch}/mpi_hosts", str(ROOT / "core/bench/hosts/mpi_hosts.cc")
        subprocess.run([compiler, "-O2", "-std=c++20", "-I", str(ROOT), "-o", program, source], check=True)
        return program

    def mpi_words(self, program):
        return [self.mpirun, "--allow-run-as-root", "-H", "nodeA:2,nodeB:2", "--mca", "plm_rsh_agent", "ssh", "--mca",
                "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", program]

    def words(self, engine, arguments):
        program = f"{self.folder}/xoe_bench_hosts"
        over = [f"{self.folder}/xoe", "run", "-H", "nodeA:2,nodeB:2", "--network-interface", "eth0", "--backend"]
        if engine in OPTIONS:
            return [*over, "hierarchical", *OPTIONS[engine], program, *arguments]
        if engine in ("hierarchical", "gloo"):
            return [*over, engine, program, *arguments]
        if engine in ("mpi", "hierarchical-mpi"):
            if not self.mpirun:
                return None
            return [*self.mpi_words("env"), f"XOE_BACKEND={engine.removesuffix('-mpi')}", program, *arguments]
        if engine == "openmpi":
            return self.mpi_program and [*self.mpi_words(self.mpi_program), *arguments]
        return None

    def start_torch(self, rank, arguments):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE="4", MASTER_ADDR="nodeA", MASTER_PORT="29511",
                   GLOO_SOCKET_IFNAME="eth0")
        program = [PYTHON, ROOT / "core/bench/hosts/gloo_hosts.py"]
        return processes.start(self.hosts.command("nodeA" if rank < 2 else "nodeB", *program, *arguments), env)

    def run(self, engine, arguments):
        """{bytes: {"seconds", "sent"}}; None where the engine is not here."""
        if engine == "torch-gloo":
            started = [self.start_torch(rank, arguments) for rank in range(4)]
        elif words := self.words(engine, arguments):
            started = [processes.start(self.hosts.command("nodeA", *words), None)]
        else:
            return None
        out = processes.outputs_of(started, SECONDS)[0]
        lines = [json.loads(line[line.index("{"):]) for line in out.splitlines() if '{"bytes"' in line]
        return {line["bytes"]: line for line in lines}


def label(engine, rate):
    return f"{engine}, link {rate}"


def times_text(figures):
    return ", ".join(f"{1e3 * one['seconds']:.2f} ms" for one in figures.values())


def measure(comparison, hosts, bench):
    """{rate: {engine: {bytes: {"seconds": median, "sent": median}}}}"""
    options, found = comparison.arguments, {}
    for rate in options.rates:
        for node in hosts.names if rate == "unlimited" else ("nodeA", "nodeB"):
            hosts.call(*(("unlimit", node) if rate == "unlimited" else ("rate", node, rate)))
        arguments = ["eth0", str(options.seconds), *map(str, options.sizes)]
        engines = {label(engine, rate): partial(bench.run, engine, arguments) for engine in options.peers}
        rounds = comparison.measure(engines, times_text)
        found[rate] = {}
        for engine in options.peers:
            own = [measured[label(engine, rate)] for measured in rounds if label(engine, rate) in measured]
            comparison.figures += [{"rate": rate, "engine": engine, **one} for figures in own for one in figures.values()]
            if own:
                found[rate][engine] = {
                    size: {key: statistics.median(figures[size][key] for figures in own) for key in ("seconds", "sent")}
                    for size in options.sizes
                }
        print_table(rate, found[rate], options.sizes)
    return found


def print_table(rate, result, sizes):
    rows = []
    for engine, figures in result.items():
        pairs = ((1e3 * figures[size]["seconds"], figures[size]["sent"] / size) for size in sizes)
        rows.append([engine, *(f"{ms:.2f} ({sent:.2f})" for ms, sent in pairs)])
    ours = result.get("hierarchical")
    rivals = [figures for engine, figures in result.items() if engine not in XOE]
    if ours and rivals:
        ratios = (min(rival[size]["seconds"] for rival in rivals) / ours[size]["seconds"] for size in sizes)
        rows.append(["best peer / ours", *(f"{ratio:.2f}x" for ratio in ratios)])
    print(f"\nallreduce, 2 ranks on each of 2 hosts, link {rate}: ms (times the array sent by a host)")
    print(table(["", *map(size_text, sizes)], rows))


def rows_of(figures, started):
    """For the file of measurements."""
    for figure in figures:
        name = f"Xoe {figure['engine']}" if figure["engine"] in XOE else figure["engine"]
        yield name, f"ms, allreduce of {size_text(figure['bytes'])}, link {figure['rate']}", True, 1e3 * figure["seconds"]
    yield from starts.rows_of(started)


def parse_arguments():
    engines = [*XOE, "torch-gloo", "openmpi"]
    parser = parser_of(__doc__, rounds=3, limit=120, peers=f"of {','.join(engines)}")
    parser.set_defaults(peers=engines)
    parser.add_argument("--rates", type=word_list, default=["unlimited", "1gbit"])
    parser.add_argument("--sizes", type=size_list, default="1K,64K,1M,4M,16M")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--most", type=int, default=64, help="hosts and processes of the largest start; 0: none is measured")
    return parse(parser, {"peers": engines}, rounds=1, sizes="64K,4M", seconds=0.3, most=8)


def main():
    arguments = parse_arguments()
    if reason := why_not():
        print(f"not measured: {reason}")
        return
    comparison = Comparison(arguments)
    comparison.versions = {"Xoe": peers.revision()}
    with tempfile.TemporaryDirectory(prefix="xoe-bench-") as scratch:
        hosts = Hosts(f"{scratch}/hosts")
        try:
            medians = measure(comparison, hosts, Bench(hosts, arguments.bin, scratch))
        finally:
            hosts.call("down")
    started = starts.measure(comparison, PYTHON) if arguments.most > 0 else {}
    starts.show(started)
    rows = rows_of(comparison.figures, started)
    comparison.save("hosts", "Allreduce between two hosts, and starts", rows, medians=medians, starts=started)


if __name__ == "__main__":
    main()
