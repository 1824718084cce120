#!/usr/bin/env python3
"""xoe train over two hosts in network namespaces: the same losses as on one and under other launchers, and what crosses
the link.

  train_over_hosts.py BIN        the folder of xoe, xoe-train and, for the count of bytes, xoe_bench_hosts

Needs root, iproute2 and openssh-server; else it says what is missing and exits 77.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from netns_hosts import SKIPPED, Hosts, why_not

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "core/testing"))
from peer_python import peer_python, why_no

TRAIN = ["train", "--synthetic", "--classes", "10", "--model", "mlp", "--image-size", "16", "--batch", "4", "--steps",
         "12", "--seed", "5", "--report-every", "1", "--json"]
BYTES = 1 << 22


def lines_of(text):
    """The JSON of each line that has some."""
    return [json.loads(line[line.index("{"):]) for line in text.splitlines() if "{" in line]


def run(words, what):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=180, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{what}: exit code {done.returncode}: {done.stderr} {done.stdout}")
    return lines_of(done.stdout)


def losses(lines, what):
    found = [line["loss"] for line in lines if "loss" in line and "step" in line]
    if len(found) < 12:
        raise AssertionError(f"{what}: {len(found)} losses")
    return found


def check_losses(hosts, folder):
    xoe = f"{folder}/xoe"
    alone = losses(run([xoe, "run", "-np", "4", xoe, *TRAIN], "one host"), "one host")
    for backend in ("hierarchical", "gloo"):
        over = ["run", "-H", "nodeA:2,nodeB:2", "--backend", backend]
        first, second = (losses(run(hosts.command("nodeA", xoe, *over, xoe, *TRAIN), backend), backend)
                         for _ in range(2))
        if first != second:
            raise AssertionError(f"{backend}: two runs differ: {first} {second}")
        worst = max(abs(a - b) for a, b in zip(alone, first, strict=True))
        if worst > 1e-5:
            raise AssertionError(f"{backend}: losses differ by {worst} from those of one host: {alone} {first}")
        print(f"{backend}: two runs equal to the bit, within {worst:.1e} of one host")


def torchrun(hosts, program, python):
    """Both nodes' torchrun; what rank 0 prints."""
    words = [python, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2", "--master-addr", "nodeA",
             "--master-port", "29533", "--no-python"]
    nodes = [subprocess.Popen([str(word) for word in hosts.command(node, *words, "--node-rank", rank, program, *TRAIN[1:])],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for rank, node in enumerate(("nodeA", "nodeB"))]
    try:
        outputs = [node.communicate(timeout=180) for node in nodes]
    finally:
        for node in nodes:
            if node.poll() is None:
                node.kill()
    for node, (_, err) in zip(nodes, outputs, strict=True):
        if node.returncode != 0:
            raise AssertionError(f"torchrun: exit code {node.returncode}: {err}")
    return [json.loads(line) for line in outputs[0][0].splitlines() if line.startswith("{")]


def check_launchers(hosts, folder):
    """The same program under other launchers, without xoe run."""
    program = f"{folder}/xoe-train"
    over = losses(run(hosts.command("nodeA", f"{folder}/xoe", "run", "-H", "nodeA:2,nodeB:2", program, *TRAIN[1:]), "xoe run"),
                  "xoe run")
    launchers = {
        "mpirun.openmpi": ["--allow-run-as-root", "-H", "nodeA:2,nodeB:2", "--mca", "btl_tcp_if_include", "eth0", "--mca",
                           "oob_tcp_if_include", "eth0"],
        "mpirun.mpich": ["-hosts", "nodeA:2,nodeB:2", "-iface", "eth0"],
    }
    for launcher, options in launchers.items():
        if shutil.which(launcher) is None:
            print(f"skipped: {launcher} is not there")
            continue
        found = losses(run(hosts.command("nodeA", launcher, *options, program, *TRAIN[1:]), launcher), launcher)
        worst = max(abs(a - b) for a, b in zip(over, found, strict=True))
        if worst > 1e-5:
            raise AssertionError(f"{launcher}: losses differ by {worst}: {over} {found}")
        print(f"{launcher}: within {worst:.1e} of xoe run")
    python = peer_python("pytorch", "torch")
    if python is None:
        print(why_no("pytorch", "torch"))
        return
    found = losses(torchrun(hosts, program, python), "torchrun")
    if max(abs(a - b) for a, b in zip(over, found, strict=True)) > 1e-5:
        raise AssertionError(f"torchrun: other losses: {over} {found}")
    print("torchrun: the same losses")


def check_bytes(hosts, folder):
    sent = {}
    for backend in ("hierarchical", "gloo"):
        figures = run(hosts.command("nodeA", f"{folder}/xoe", "run", "-H", "nodeA:2,nodeB:2", "--backend", backend,
                                    f"{folder}/xoe_bench_hosts", "eth0", "0.2", BYTES), backend)
        sent[backend] = figures[0]["sent"]
        print(f"{backend}: a host sends {sent[backend] / BYTES:.2f} times the array")
    # A reduction between two hosts needs each host's half of the sum and its half of the result.
    if not 0.9 * BYTES < sent["hierarchical"] < 1.1 * BYTES:
        raise AssertionError(f"hierarchical sends {sent['hierarchical']} bytes for {BYTES}")
    if sent["hierarchical"] > 0.55 * sent["gloo"]:
        raise AssertionError(f"hierarchical sends {sent['hierarchical']} bytes, gloo alone {sent['gloo']}")


def main():
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="xoe-net-") as scratch:
        hosts = Hosts(f"{scratch}/hosts")
        try:
            check_losses(hosts, sys.argv[1])
            check_launchers(hosts, sys.argv[1])
            check_bytes(hosts, sys.argv[1])
        finally:
            hosts.call("down")
    return 0


if __name__ == "__main__":
    sys.exit(main())
