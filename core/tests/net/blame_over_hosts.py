#!/usr/bin/env python3
"""Who is named when part of a job over two or three hosts dies: by the launcher, and by every rank that survives.

  blame_over_hosts.py XOE KILL_WORKER [TEST...]

The hosts are network namespaces that this test sets up and removes. It needs root, iproute2 and openssh-server; else it
says what is missing and exits 77. XOE_NET_ROUNDS: how often each is done over each number of hosts (default 2).
"""

import os
import pathlib
import random
import re
import signal
import sys
import time

from launch_over_ssh import HostsTests, main_of

ROUNDS = int(os.environ.get("XOE_NET_ROUNDS", "2"))
NODES = ("nodeA", "nodeB", "nodeC")
AT = 'read -r _ _ _ agent _ < /proc/$PPID/stat; echo "at $XOE_RANK $PPID $agent"; '


class Round:
    """A job over `hosts` hosts with two ranks each, in the middle of its work."""

    def __init__(self, tests, hosts, options, command):
        self.ranks = 2 * hosts
        self.job = tests.start(["-H", ",".join(f"{node}:2" for node in NODES[:hosts]), *options],
                               AT + command.format(worker=tests.worker))
        self.places = self.job.places(self.ranks)
        for rank in range(self.ranks):
            self.job.wait_for_out(f"] ready {rank} ")
        self.pids = {int(rank): int(pid)
                     for rank, pid in re.findall(r"\] ready (\d+) (\d+)", self.job.text(self.job.out))}
        time.sleep(random.uniform(0, 0.02))


def node_of(rank):
    return NODES[rank // 2]


class Tests(HostsTests):
    worker = None

    def over_hosts(self, options, act, command="exec {worker} 1000 private", heal=lambda: None):
        """Rounds of a job; act(round) hurts it, and returns the exit code, the launcher's words, and the survivors with the
        words of each. heal() comes after the job."""
        wrong = []
        for hosts in (2, 3):
            for turn in range(ROUNDS):
                one = Round(self, hosts, options, command)
                code, words, survivors, told = act(one)
                got, out, err = one.job.wait()
                heal()
                if got != code or words not in err:
                    wrong.append(f"{hosts} hosts, round {turn}: exit code {got} instead of {code}, {words!r}: {err}")
                for rank in survivors:
                    said = re.findall(rf"^\[{rank}\] failed .*$", out, re.MULTILINE)
                    if len(said) != 1 or told not in said[0]:
                        wrong.append(f"{hosts} hosts, round {turn}: rank {rank} does not name {told!r}: {said}")
                self.expect(self.hosts.all_gone(), f"left: {self.hosts.left()}")
        self.expect(not wrong, f"{len(wrong)} wrong in {2 * ROUNDS} rounds:\n  " + "\n  ".join(wrong))

    def kill_a_rank(self, one, words):
        rank = random.randrange(one.ranks)
        os.kill(one.pids[rank], signal.SIGKILL)
        return (137, words.format(rank=rank, node=node_of(rank), pid=one.pids[rank]), set(range(one.ranks)) - {rank},
                f"rank {rank} (host {node_of(rank)}, pid {one.pids[rank]})")

    def lose_a_host(self, one, words, lose, nodes=NODES[1:]):
        node = random.choice(nodes[:one.ranks // 2 - (len(NODES) - len(nodes))])
        ranks = {rank for rank in range(one.ranks) if node_of(rank) == node}
        lose(node, one.places[min(ranks)])
        return 125, words.format(node=node), set(range(one.ranks)) - ranks, f"host {node}"

    def test_rank(self):
        self.over_hosts([], lambda one: self.kill_a_rank(
            one, "rank {rank} (host {node}, pid {pid}) was killed by SIGKILL"))

    def test_rank_behind_a_shell(self):
        self.over_hosts([], lambda one: self.kill_a_rank(one, "rank {rank} (host {node}, pid "),
                        "{worker} 1000 private; exit $?")

    def test_agent(self):
        self.over_hosts([], lambda one: self.lose_a_host(
            one, "host {node}: lost: ", lambda _node, place: os.kill(place[1], signal.SIGKILL), NODES))

    def test_supervisor(self):
        self.over_hosts([], lambda one: self.lose_a_host(
            one, "supervisor process of the ranks on host {node} was killed",
            lambda _node, place: os.kill(place[0], signal.SIGKILL), NODES))

    def processes(self, node, name, word):
        for pid in self.hosts.call("pids", node).split():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if pathlib.Path(os.fsdecode(words[0])).name.startswith(name) and word.encode() in b" ".join(words):
                yield int(pid)

    def test_ssh(self):
        def lose(node, _place):
            for pid in self.processes("nodeA", "ssh", node):
                os.kill(pid, signal.SIGKILL)
        self.over_hosts([], lambda one: self.lose_a_host(one, "host {node}: lost: ", lose))

    def test_ssh_session(self):
        def lose(node, _place):
            for pid in self.processes(node, "sshd", "@notty"):
                os.kill(pid, signal.SIGKILL)
        self.over_hosts([], lambda one: self.lose_a_host(one, "host {node}: lost: ", lose))

    def cut(self, verb):
        cut_off = []

        def lose(node, _place):
            cut_off.append(node)
            self.hosts.call(verb, node)

        def act(one):
            return self.lose_a_host(one, "host {node}: lost: nothing was heard of it for ", lose)

        try:
            self.over_hosts(["--host-timeout", "2"], act, heal=lambda: self.hosts.call("heal", cut_off.pop()))
        finally:
            for node in cut_off:
                self.hosts.call("heal", node)

    def test_cut(self):
        self.cut("cut")

    def test_mute(self):
        self.cut("mute")

    def test_deaf(self):
        self.cut("deafen")


if __name__ == "__main__":
    Tests.worker = pathlib.Path(sys.argv[2]).resolve()
    sys.exit(main_of(Tests, sys.argv[1], sys.argv[3:]))
