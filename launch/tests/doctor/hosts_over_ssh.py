#!/usr/bin/env python3
"""xoe doctor --hosts over real ssh, between hosts in network namespaces that this test sets up and removes.

  hosts_over_ssh.py XOE_DOCTOR

Needs root, iproute2 and openssh-server; else it says what is missing and exits 77.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "core/tests/net"))
from netns_hosts import SKIPPED, Hosts, why_not

MBIT = 1_000_000 / 8


class Cluster(Hosts):
    def __init__(self, folder, doctor):
        super().__init__(folder)
        self.doctor = doctor

    def examine(self, hosts, expected_code):
        done = subprocess.run(self.command("nodeA", self.doctor, "--json", "--hosts", hosts), capture_output=True, text=True,
                              timeout=120, check=False)
        report = json.loads(done.stdout)
        problems = [finding["what"] for finding in report["findings"] if finding["state"] == "problem"]
        assert done.returncode == expected_code, (done.returncode, problems, done.stderr)
        report["by_id"] = {finding["id"]: finding for finding in report["findings"]}
        return report


def ways(report):
    return {(pair["from"], pair["to"]): [way for way in pair["ways"] if way["reached"]] for pair in report["pairs"]}


def all_reached(cluster, engine_problem):
    report = cluster.examine("nodeA:2,nodeB:2,nodeC", engine_problem)
    assert [host["reached"] for host in report["hosts"]] == [True] * 3
    assert {host["report"]["host"] for host in report["hosts"]} == {"nodeA", "nodeB", "nodeC"}
    measured = ways(report)
    assert len(measured) == 6
    for pair, reached in measured.items():
        assert reached and reached[0]["latency_s"] > 0, pair
        assert reached[0]["bytes_per_s"] > 200 * MBIT, (pair, reached)
    for name in ("nodeA", "nodeB", "nodeC"):
        # It is one machine's clock.
        assert report["by_id"][f"hosts.clock.{name}"]["state"] == "ok"


def slow_link_is_seen(cluster, engine_problem):
    cluster.call("rate", "nodeB", "100mbit")
    report = cluster.examine("nodeA,nodeB,nodeC", engine_problem)
    measured = ways(report)
    for other in ("nodeA", "nodeC"):
        assert measured["nodeB", other][0]["bytes_per_s"] < 150 * MBIT, measured
    assert report["by_id"]["hosts.pairs"]["state"] == "warning"


def cut_and_absent_hosts_are_named(cluster, _):
    cluster.call("cut", "nodeC")
    report = cluster.examine("nodeA,nodeC,nowhere,nosuchname", 1)
    kinds = {name: report["by_id"][f"hosts.reach.{name}"]["details"].get("kind")
             for name in ("nodeA", "nodeC", "nowhere", "nosuchname")}
    assert kinds["nodeA"] is None, kinds
    assert kinds["nodeC"] in ("timeout", "unreachable"), kinds
    assert kinds["nowhere"] in ("timeout", "unreachable"), kinds
    assert kinds["nosuchname"] == "unknown_name", kinds
    for name in ("nodeC", "nowhere", "nosuchname"):
        assert report["by_id"][f"hosts.reach.{name}"]["fix"]
    cluster.call("heal", "nodeC")


def nothing_is_left(cluster, _):
    for name in ("nodeA", "nodeB"):
        for pid in cluster.call("pids", name).split():
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            assert b"xoe-doctor" not in command, command


def main():
    doctor = pathlib.Path(sys.argv[1]).resolve()
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    os.environ.pop("XOE_PLUGIN_DIR", None)  # ssh does not hand it on
    # Without Gloo and MPI no engine joins hosts, which is a problem; all else about these hosts is fine.
    alone = json.loads(subprocess.run([doctor, "--json", "--only", "xoe"], capture_output=True, check=True).stdout)
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(f"{folder}/hosts", doctor)
        try:
            for test in (all_reached, slow_link_is_seen, cut_and_absent_hosts_are_named, nothing_is_left):
                print(test.__name__, flush=True)
                test(cluster, 0 if alone["engines"] else 1)
        finally:
            cluster.call("down")
    return 0


if __name__ == "__main__":
    sys.exit(main())
