#!/usr/bin/env python3
"""xoe doctor --hosts over real ssh, between hosts in network namespaces that this test sets up and removes.

  hosts_over_ssh.py XOE_DOCTOR NETNS_HOSTS

NETNS_HOSTS: tests/net/netns_hosts.sh. Needs root, iproute2 and openssh-server; else it says what is missing and exits 77.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
MBIT = 1_000_000 / 8


def why_not(script):
    """What is missing for this test, or None."""
    if not script.exists():
        return f"{script.name} is not there"
    if os.geteuid() != 0:
        return "it needs root, for network namespaces"
    for program, package in (("ip", "iproute2"), ("/usr/sbin/sshd", "openssh-server"), ("ssh", "openssh-client"),
                             ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            return f"{program} is not there (Debian: {package})"
    probe = subprocess.run(["unshare", "--net", "--mount", "--uts", "true"], capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else f"namespaces cannot be made here: {probe.stderr.strip()}"


class Cluster:
    def __init__(self, script, folder, doctor):
        self.script, self.folder, self.doctor = script, folder, doctor

    def call(self, *words):
        done = subprocess.run([self.script, self.folder, *words], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"netns_hosts.sh {' '.join(words)}: {done.stderr}")
        return done.stdout

    def examine(self, hosts, expected_code):
        done = subprocess.run([self.script, self.folder, "exec", "nodeA", self.doctor, "--json", "--hosts", hosts],
                              capture_output=True, text=True, timeout=120, check=False)
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
    doctor, script = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    reason = why_not(script)
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    os.environ.pop("XOE_PLUGIN_DIR", None)  # ssh does not hand it on
    # Without Gloo and MPI no engine joins hosts, which is a problem; all else about these hosts is fine.
    alone = json.loads(subprocess.run([doctor, "--json", "--only", "xoe"], capture_output=True, check=True).stdout)
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(script, f"{folder}/hosts", doctor)
        try:
            cluster.call("up", "nodeA", "nodeB", "nodeC")
            for test in (all_reached, slow_link_is_seen, cut_and_absent_hosts_are_named, nothing_is_left):
                print(test.__name__, flush=True)
                test(cluster, 0 if alone["engines"] else 1)
        finally:
            cluster.call("down")
    return 0


if __name__ == "__main__":
    sys.exit(main())
