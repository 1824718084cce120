"""A pool with two hosts and ten simulated users, to look at; `make pool-demo` runs it.

  demo_test.py XOE MOCK_NVML [--seconds N] [--stay]

Ends with one line of what was seen, and with 1 where something was not.
"""

import argparse
import collections
import json
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

from pool_program import PoolProgram

USERS = {  # each with a habit
    "ann": "vision",
    "bob": "vision",
    "cem": "vision",
    "dora": "vision",
    "eve": "speech",
    "finn": "speech",
    "gina": "speech",
    "hugo": "robots",
    "ida": "robots",
    "jan": "robots",
}
PURPOSES = ("ResNet-50, ablation", "fine-tuning", "evaluation", "sweep over rates", "data check", "demo for Friday")
WANTED = (
    "granted",
    "queued",
    "refused",
    "renewed",
    "released",
    "reserved",
    "gave way",
    "idle warned",
    "expiry warned",
    "taken back by a lead",
    "use without a lease",
)


class Hosts:
    """What the mock of NVML tells of the GPUs of two hosts: those of a lease are busy, unless its user is lazy."""

    def __init__(self, pool):
        self.pool = pool
        self.files = [pool.home / f"gpus-{host}" for host in (1, 2)]
        for file in self.files:
            file.write_text("")
        # A process of our own that runs on a GPU, for all of them.
        self.work = subprocess.Popen(["sleep", "1000"])
        self.strays = set()
        self.agents = [
            pool.start(
                "agent",
                "--host",
                f"gpu{host}",
                "--nvml",
                str(pool.mock),
                "--interval",
                "1s",
                XOE_MOCK_HOST=str(host),
                XOE_MOCK_STATE=str(file),
            )
            for host, file in enumerate(self.files, 1)
        ]

    def show(self, leases, lazy):
        busy = {uuid for lease in leases if lease["user"] not in lazy for uuid in lease["gpus"]} | self.strays
        held = {uuid for lease in leases for uuid in lease["gpus"]}
        for host, file in enumerate(self.files, 1):
            lines = []
            for index in range(4):
                uuid = f"GPU-0000000{host}-1111-2222-3333-44444444444{index}"
                if uuid in busy:
                    lines.append(f"{index} {random.randint(60, 99)} {random.randint(6000, 14000)} {self.work.pid}\n")
                elif uuid in held:
                    lines.append(f"{index} 0 1500\n")
            new = file.with_suffix(".new")
            new.write_text("".join(lines))
            new.replace(file)

    def end(self):
        for agent in self.agents:
            self.pool.stop(agent)
        self.work.kill()
        self.work.wait()


class Person(threading.Thread):
    """Takes GPUs, uses them for some seconds, and gives them back; waits in the queue in between."""

    def __init__(self, pool, name, token, seen, stop):
        super().__init__(daemon=True)
        self.pool, self.name, self.token, self.seen, self.stop = pool, name, token, seen, stop
        self.draw = random.Random(name)

    def ask(self, path, body=None):
        status, _, answer = self.pool.ask(path, self.token, body)
        return status, json.loads(answer)

    def run(self):
        self.stop.wait(0 if self.name == "jan" else self.draw.uniform(0.5, 4))
        while not self.stop.is_set():
            try:
                self.take()
            except OSError:
                return  # the server ends
            self.stop.wait(self.draw.uniform(0.5, 4))

    def take(self):
        draw = self.draw
        token = f"{draw.getrandbits(128):032x}"
        wait = draw.random() < 0.8
        wishes = {
            "token": token,
            "gpus": draw.choice((1, 1, 1, 2, 2, 3)),
            "seconds": draw.choice((12, 40, 3600, 7200)),
            "purpose": draw.choice(PURPOSES),
            "wait": wait,
        }
        if self.name == "ida":  # more important than the others
            wishes |= {"priority": 5, "gpus": 4, "wait": True}
        if self.name == "jan":  # the lazy one, who holds a GPU and does not use it
            wishes |= {"gpus": 1, "seconds": 3600, "wait": True, "priority": 6}
        status, answer = self.ask("/v1/leases", wishes)
        if status != 200:
            return
        lease = answer["lease"]
        if lease["state"] == "waiting":
            self.seen["queued"] += 1
        while lease["state"] == "waiting" and not self.stop.is_set():
            lease = self.ask(f"/v1/leases/{lease['id']}?wait=2")[1]["lease"]
        if lease["state"] != "open":
            self.seen["refused"] += 1
            return
        # Short leases end by themselves.
        self.stop.wait(1000 if self.name == "jan" else 14 if wishes["seconds"] == 12 else draw.uniform(4, 12))
        if draw.random() < 0.3 and self.ask(f"/v1/leases/{lease['id']}/renew", {"seconds": 5400})[0] == 200:
            self.stop.wait(3)
        self.ask(f"/v1/leases/{lease['id']}/release", {"token": token})


def note(seen, pool, token):
    """Counts what the audit log tells."""
    after = 0
    while lines := json.loads(pool.ask(f"/v1/events?after={after}", token)[2])["events"]:
        after = lines[-1]["number"]
        for line in lines:
            kind, why = line["kind"], line["why"]
            seen["granted"] += kind == "granted"
            seen["renewed"] += kind == "renewed"
            seen["reserved"] += kind == "reserved"
            seen["released"] += kind == "ended" and why == "released"
            seen["gave way"] += kind == "give-way"
            seen["idle warned"] += kind == "idle-warned"
            seen["expiry warned"] += kind == "expiry-warned"
            seen["taken back by a lead"] += kind == "ended" and line["actor"] == "lea"
            seen["use without a lease"] += kind == "unleased-use"


def play(pool, seconds, stay):
    admin, seen, stop = pool.admin_token(), collections.Counter(), threading.Event()
    for team, quota in (("vision", 4), ("speech", 2), ("robots", 2)):
        pool.run("team", team, "--quota", str(quota))
    people = [
        Person(pool, name, pool.user(name, "--team", team, "--max-priority", "9"), seen, stop) for name, team in USERS.items()
    ]
    lead = pool.user("lea", "--team", "vision", "--role", "lead")
    hosts = Hosts(pool)
    try:
        print(f"the page:   {pool.url}/")
        print(f"the token:  {admin}   (an admin's; a lead's: {lead})", flush=True)
        while len(json.loads(pool.ask("/v1/status", admin)[2])["gpus"]) < 8:
            time.sleep(0.1)
        people[0].ask(
            "/v1/leases", {"token": "r" * 32, "gpus": 4, "at": time.time() + 7200, "seconds": 3600, "purpose": "a course"}
        )
        lease = people[0].ask("/v1/leases", {"token": "n" * 32, "seconds": 60, "purpose": "a short look"})[1]["lease"]
        people[0].ask(f"/v1/leases/{lease['id']}/renew", {"seconds": 120})
        people[0].ask(f"/v1/leases/{lease['id']}/release", {})
        for person in people:
            person.start()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 or stay:
            status = json.loads(pool.ask("/v1/status", admin)[2])
            used = {uuid for lease in status["leases"] for uuid in lease["gpus"]}
            if 0 < left < seconds / 2 and not hosts.strays:
                hosts.strays = set([gpu["uuid"] for gpu in status["gpus"] if gpu["uuid"] not in used][:1])
            hosts.show(status["leases"], {"jan"})
            mine = [lease for lease in status["leases"] if lease["team"] == "vision"]
            if left < seconds / 3 and mine and not seen["asked back"]:
                seen["asked back"] = pool.ask(f"/v1/leases/{mine[0]['id']}/revoke", lead, {"why": "needed for a demo"})[0]
            time.sleep(1)
    except KeyboardInterrupt:
        print()
    stop.set()
    note(seen, pool, admin)
    for person in people:
        if person.ident:
            person.join(10)
    hosts.end()
    print("seen:", ", ".join(f"{seen[what]} {what}" for what in WANTED))
    missing = [what for what in WANTED if not seen[what]]
    if missing:
        print("not seen:", ", ".join(missing))
    return 1 if missing and not stay else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xoe", type=pathlib.Path)
    parser.add_argument("mock", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=75, help="for which the users act (75)")
    parser.add_argument("--stay", action="store_true", help="until Ctrl-C")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with PoolProgram(
        options.xoe.absolute(),
        options.mock.absolute(),
        "--min-runtime",
        "5s",
        "--give-way",
        "reclaim",
        "--give-way-grace",
        "5s",
        "--reclaim-idle",
        "--no-process-window",
        "1m",
        "--idle-window",
        "1m",
        "--idle-warn-grace",
        "5s",
        "--idle-signal-grace",
        "5s",
    ) as pool:
        return play(pool, options.seconds, options.stay)


if __name__ == "__main__":
    sys.exit(main())
