#!/usr/bin/env python3
"""Allreduce between two hosts, and starting jobs on them: Xoe beside torch.distributed's Gloo and Open MPI.

  core/bench/hosts/run.py [--quick] [--rates unlimited,1gbit] [--sizes 1K,64K,1M,16M] [--rounds 3] [--most 64]

The hosts are network namespaces of this machine, each with a name, an sshd and a link whose rate is limited (tc tbf); it
needs root. Two ranks on each. Every engine is measured in turn within a round; the tables show medians over rounds, and
bytes are counted on nodeA's link. JSON goes to build/bench/.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "core/tests/net"))

import starts
from netns_hosts import Hosts, why_not

XOE = ("hierarchical", "hierarchical-mpi", "gloo", "mpi", "placement-free", "encrypted")
# The hierarchical backend with an option.
OPTIONS = {"placement-free": ("--env", "XOE_DETERMINISTIC=placement-free"), "encrypted": ("--encrypt",)}


def size_of(text):
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1].upper()] if text[-1].upper() in units else int(text)


def human(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} B"


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
        program = f"{self.scratch}/mpi_hosts"
        subprocess.run([compiler, "-O2", "-std=c++20", "-I", str(ROOT), "-o", program, str(ROOT / "core/bench/hosts/mpi_hosts.cc")], check=True)
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

    def run(self, engine, arguments):
        if engine == "torch-gloo":
            return self.run_torch(arguments)
        words = self.words(engine, arguments)
        if words is None:
            return None
        done = subprocess.run([str(word) for word in self.hosts.command("nodeA", *words)], capture_output=True, text=True,
                              timeout=600, check=False)
        return self.figures(engine, done.returncode, done.stdout, done.stderr)

    def run_torch(self, arguments):
        python = ROOT / ".venv/bin/python"
        processes = []
        for rank in range(4):
            env = dict(os.environ, RANK=str(rank), WORLD_SIZE="4", MASTER_ADDR="nodeA", MASTER_PORT="29511",
                       GLOO_SOCKET_IFNAME="eth0")
            words = self.hosts.command("nodeA" if rank < 2 else "nodeB", str(python), str(ROOT / "core/bench/hosts/gloo_hosts.py"),
                                       *arguments)
            processes.append(subprocess.Popen([str(word) for word in words], env=env, text=True, stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE))
        try:
            outputs = [process.communicate(timeout=600) for process in processes]
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
        return self.figures("torch-gloo", max(process.returncode for process in processes), outputs[0][0], outputs[0][1])

    @staticmethod
    def figures(engine, code, out, err):
        if code != 0:
            print(f"{engine}: given up (exit code {code}): {err.strip()[-300:]}", file=sys.stderr)
            return None
        lines = [json.loads(line[line.index("{"):]) for line in out.splitlines() if '{"bytes"' in line]
        return {line["bytes"]: line for line in lines}


def measure(bench, engines, arguments, rounds):
    """{engine: {bytes: {"seconds": median, "sent": median}}}"""
    all_figures = {engine: [] for engine in engines}
    for _ in range(rounds):
        for engine in engines:
            figures = bench.run(engine, arguments)
            if figures:
                all_figures[engine].append(figures)
    result = {}
    for engine, rounds_of in all_figures.items():
        if not rounds_of:
            continue
        result[engine] = {size: {key: statistics.median(figures[size][key] for figures in rounds_of)
                                 for key in ("seconds", "sent")} for size in rounds_of[0]}
    return result


def table(rate, result, sizes):
    print(f"\nallreduce, 2 ranks on each of 2 hosts, link {rate}: ms (times the array sent by a host)")
    print(f"{'':18}" + "".join(f"{human(size):>20}" for size in sizes))
    for engine, figures in result.items():
        cells = [f"{1e3 * figures[size]['seconds']:.2f} ({figures[size]['sent'] / size:.2f})" for size in sizes]
        print(f"{engine:18}" + "".join(f"{cell:>20}" for cell in cells))
    ours = result.get("hierarchical")
    peers = [figures for engine, figures in result.items() if engine not in XOE]
    if ours and peers:
        ratios = [min(peer[size]["seconds"] for peer in peers) / ours[size]["seconds"] for size in sizes]
        print(f"{'best peer / ours':18}" + "".join(f"{ratio:>19.2f}x" for ratio in ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--out", default=str(ROOT / "build/bench"))
    parser.add_argument("--rates", default="unlimited,1gbit")
    parser.add_argument("--sizes", default="1K,64K,1M,4M,16M")
    parser.add_argument("--engines", default="hierarchical,hierarchical-mpi,gloo,mpi,placement-free,encrypted,torch-gloo,openmpi")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--most", type=int, default=64, help="hosts and processes of the largest start; 0: none is measured")
    parser.add_argument("--quick", action="store_true", help="one round, two sizes, starts of at most 8")
    options = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"not measured: {reason}")
        return 0
    if options.quick:
        options.rounds, options.sizes, options.seconds, options.most = 1, "64K,4M", 0.3, 8
    sizes = [size_of(text) for text in options.sizes.split(",")]
    report = {"sizes": sizes, "allreduce": {}, "start": {}}
    with tempfile.TemporaryDirectory(prefix="xoe-bench-") as scratch:
        hosts = Hosts(f"{scratch}/hosts")
        try:
            bench = Bench(hosts, options.bin, scratch)
            for rate in filter(None, options.rates.split(",")):
                for node in hosts.names if rate == "unlimited" else ():
                    hosts.call("unlimit", node)
                if rate != "unlimited":
                    for node in ("nodeA", "nodeB"):
                        hosts.call("rate", node, rate)
                arguments = ["eth0", str(options.seconds), *map(str, sizes)]
                result = measure(bench, options.engines.split(","), arguments, options.rounds)
                table(rate, result, sizes)
                report["allreduce"][rate] = result
        finally:
            hosts.call("down")
    if options.most > 0:
        report["start"] = starts.measure(options.bin, ROOT / ".venv/bin/python", options.rounds, options.most)
        starts.show(report["start"])
    pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
    path = pathlib.Path(options.out) / time.strftime("hosts-%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(f"saved {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
