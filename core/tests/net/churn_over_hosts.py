#!/usr/bin/env python3
"""Random events in a training over three hosts in network namespaces: ranks and agents are killed, ranks pause, links are cut,
hosts are to be taken away, leave and come. The training must go on after each, with the right names in what the launcher says,
each record once in each epoch, and nothing left at the end.

  churn_over_hosts.py BIN [--events 25] [--seed N]

BIN: the folder of xoe and xoe-train. Prints a table: per kind of event the time to the next step, median and worst.
Needs root, iproute2 and openssh-server; else it says what is missing and exits 77.
"""

import argparse
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from netns_hosts import SKIPPED, Hosts, why_not

SLOTS = {"nodeA": 1, "nodeB": 2, "nodeC": 1}
LEAVING = ("nodeB", "nodeC")  # nodeA has the launcher
IMAGES = 1500  # of which some are held out
SILENCE = 3  # --host-timeout


class Training:
    def __init__(self, hosts, folder, xoe, hangs):
        self.hangs = hangs
        self.hosts, self.folder, self.xoe = hosts, pathlib.Path(folder), xoe
        self.named, self.output = self.folder / "named", self.folder / "output"
        self.ledger, self.run_folder = self.folder / "ledger", self.folder / "run"
        self.process = None
        self.name(SLOTS)

    def name(self, hosts):
        new = self.folder / "named.new"
        new.write_text("".join(f"{host}:{SLOTS[host]}\n" for host in hosts))
        new.rename(self.named)
        self.there = set(hosts)

    def start(self):
        make = ["data", "make", "--images", IMAGES, "--classes", "3", "--size-min", "16", "--size-max", "16", self.folder / "data"]
        subprocess.run([self.xoe, *map(str, make)], check=True, capture_output=True)
        run = ["run", "--host-discovery-script", f"cat {self.named}", "--min-np", "1", "--max-np", sum(SLOTS.values()),
               "--restarts", "10000", "--blacklist-cooldown-range", "1,2", "--host-timeout", SILENCE, "--change-interval", "0.2",
               "--output-dir", self.folder / "out"]
        train = ["train", "--data", self.folder / "data", "--model", "mlp", "--image-size", "16", "--device", "cpu", "--batch", "4",
                 "--threads", "1", "--remainder", "keep", "--epochs", "100000", "--report-every", "1", "--run-dir", self.run_folder, "--ledger", self.ledger]
        with self.output.open("w") as out:
            self.process = subprocess.Popen(self.hosts.command("nodeA", self.xoe, *map(str, run), self.xoe, *map(str, train)),
                                            stdout=out, stderr=subprocess.STDOUT)

    def text(self):
        return self.output.read_text(errors="replace")

    def said(self):
        """What the launcher said, and errors of ranks: around the first of these, and at the end."""
        lines = [line for line in self.text().splitlines() if not line.startswith("[") or "error" in line]
        first = next((at for at, line in enumerate(lines) if line.startswith("[")), 0)
        return "\n".join([*lines[max(0, first - 25):first + 15], "...", *lines[-25:]])

    def steps(self):
        """How many have been reported so far."""
        try:
            return len(re.findall(r'"event": ?"report"', (self.run_folder / "metrics.jsonl").read_text()))
        except OSError:
            return 0

    def until(self, condition, what):
        end = time.monotonic() + self.hangs
        while not condition():
            if self.process.poll() is not None:
                raise AssertionError(f"the job has ended with {self.process.returncode} ({what}): {self.said()}")
            if time.monotonic() > end:
                raise AssertionError(f"it hangs: {what}: {self.said()}")
            time.sleep(0.005)

    def step_after(self, before, what):
        self.until(lambda: self.steps() > before, what)

    def processes(self, host, word):
        """Of the job on a host: pids whose command line has this word."""
        found = []
        for pid in self.hosts.call("pids", host).split():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(word in one for one in words[:2]) and not words[0].startswith("sshd"):
                found.append(int(pid))
        return found

    def certain(self):
        """How many ranks have the training's state for certain: those of the last world, but for what was lost since."""
        try:
            events = json.loads((self.folder / "out/elastic.json").read_text())["events"]
        except OSError:
            return sum(SLOTS.values())
        there = sum(SLOTS.values())
        for event in events:
            if event["what"] == "world":
                there = event["ranks"]
            elif event["what"] == "rank_lost":
                there -= 1
            elif event["what"] in ("host_lost", "host_leaves"):
                there -= SLOTS[event["host"]]
        return there

    def ranks(self, host):
        return self.processes(host, "xoe-train")

    def agents(self, host):
        return self.processes(host, "agent")


class Churn:
    def __init__(self, training, draw):
        self.training, self.draw = training, draw
        self.times = {}

    def expect(self, pattern, since):
        self.training.until(lambda: re.search(pattern, self.training.text()[since:]), pattern)

    def host_with(self, find, hosts):
        """One of the hosts that has such a process; (host, pid) or None."""
        found = [(host, pid) for host in hosts for pid in find(host)]
        return self.draw.choice(found) if found else None

    def spare(self, ranks):
        """With the last rank that has it the training's state is lost: that ends what this is about."""
        return self.training.certain() > ranks

    def kill_rank(self, since):
        chosen = self.host_with(self.training.ranks, self.training.there)
        if chosen is None or not self.spare(1):
            return False
        os.kill(chosen[1], signal.SIGKILL)
        # One that had not joined yet is named without its number.
        self.expect(rf"pid {chosen[1]}\) was killed by SIGKILL|the rank that was to (join|leave).* was killed by SIGKILL", since)
        return True

    def kill_agent(self, since):
        chosen = self.host_with(self.training.agents, self.training.there & set(LEAVING))
        if chosen is None or not self.spare(SLOTS[chosen[0]]):
            return False
        os.kill(chosen[1], signal.SIGKILL)
        self.expect(rf"host {chosen[0]}: ", since)
        return True

    def pause_rank(self, since):
        chosen = self.host_with(self.training.ranks, self.training.there)
        if chosen is None:
            return False
        try:
            os.kill(chosen[1], signal.SIGSTOP)
            time.sleep(self.draw.uniform(0.05, 1))
        finally:
            os.kill(chosen[1], signal.SIGCONT)
        return True

    def cut_link(self, since):
        """Longer than the time after which a host counts as lost, or shorter."""
        host = self.draw.choice(LEAVING)
        if host not in self.training.there or not self.spare(SLOTS[host]):
            return False
        for_good = self.draw.random() < 0.7 and self.training.ranks(host)
        self.training.hosts.call("mute", host)
        try:
            if for_good:
                self.expect(rf"host {host}: lost: nothing was heard of it", since)
            else:
                time.sleep(self.draw.uniform(0.2, SILENCE / 2))
        finally:
            self.training.hosts.call("heal", host)
        return True

    def notice(self, since):
        chosen = self.host_with(self.training.agents, self.training.there & set(LEAVING))
        if chosen is None:
            return False
        os.kill(chosen[1], signal.SIGTERM)
        return True

    def leave(self, _since):
        gone = self.training.there & set(LEAVING)
        if not gone:
            return False
        self.training.name(self.training.there - {self.draw.choice(sorted(gone))})
        return True

    def join(self, _since):
        away = set(LEAVING) - self.training.there
        if not away:
            return False
        self.training.name(self.training.there | {self.draw.choice(sorted(away))})
        return True

    def event(self):
        kind = self.draw.choice([self.kill_rank, self.kill_rank, self.kill_agent, self.pause_rank, self.cut_link, self.notice,
                                 self.leave, self.join, self.join])
        if kind in (self.kill_rank, self.kill_agent, self.cut_link):
            # Who has joined has the training's state when a step is done.
            self.training.step_after(self.training.steps() + 1, "before the event")
        since = len(self.training.text())
        self.last = kind.__name__
        begun = time.monotonic()
        if not kind(since):
            return None
        after = self.training.steps()
        self.training.step_after(after, kind.__name__)
        self.times.setdefault(kind.__name__, []).append(time.monotonic() - begun)
        return kind.__name__


def check_ledger(training):
    done = subprocess.run([training.xoe, "data", "ledger", str(training.ledger), "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"xoe data ledger: {done.returncode}: {done.stdout[:6000]} {done.stderr[-3000:]}")
    print(f"ledger: {done.stdout.strip()[:400]}")


def churn(hosts, folder, options):
    training = Training(hosts, folder, f"{options.bin}/xoe", options.hangs)
    training.start()
    training.until(lambda: training.steps() > 3, "the first steps")
    churning = Churn(training, random.Random(options.seed))
    done = 0
    while done < options.events:
        if churning.event() is not None:
            done += 1
            if done % options.tell == 0:
                print(f"{done} events, the last: {churning.last}; {training.steps()} steps", flush=True)
        time.sleep(churning.draw.uniform(0, 0.6))
    # A training that is asked to end does so at a step, with its records in the ledger.
    launcher = training.processes("nodeA", "xoe")
    before = training.steps()
    training.step_after(before, "the end")
    main = min(pid for pid in launcher if b"--host-discovery-script" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(main, signal.SIGTERM)
    code = training.process.wait(timeout=training.hangs)
    if code not in (0, 130, 128 + signal.SIGTERM):  # 130: of a training that was interrupted
        raise AssertionError(f"exit code {code}: {training.text()[-3000:]}")
    if not hosts.all_gone(30):
        raise AssertionError(f"left on the hosts: {hosts.left()}")
    events = json.loads((pathlib.Path(folder) / "out/elastic.json").read_text())["events"]
    print(f"{len(events)} lines in elastic.json: "
          f"{ {what: sum(one['what'] == what for one in events) for what in sorted({one['what'] for one in events})} }")
    check_ledger(training)
    for kind, times in sorted(churning.times.items()):
        print(f"{kind:12} {len(times):4}  next step after {statistics.median(times):6.2f} s, worst {max(times):6.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--events", type=int, default=25)
    parser.add_argument("--hangs", type=float, default=300, help="seconds without a step: a rank takes a while to start on a busy machine")
    parser.add_argument("--tell", type=int, default=25, help="a line after so many events")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    if why := why_not():
        print(f"skipped: {why}")
        return SKIPPED
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="xoe-churn-") as folder:
        hosts = Hosts(f"{folder}/net")
        try:
            work = pathlib.Path(folder) / "work"
            work.mkdir()
            churn(hosts, work, options)
        finally:
            hosts.call("down")
    return 0


sys.exit(main())
