#!/usr/bin/env python3
"""Jobs over two pretended hosts while another user of this machine attacks every port and every socket that they open.

  attacks_on_a_host.py BUILD [ATTACK...]      BUILD: the folder of the build; XOE_NET_ROUNDS: jobs under each attack (default 2)

Jobs and attackers live in a network namespace of their own, with nothing in it but loopback: the attackers reach all that the
jobs open, and nothing else. It needs root, unshare and iproute2; else it says what is missing and exits 77.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
ROUNDS = int(os.environ.get("XOE_NET_ROUNDS", "2"))
NOBODY = 65534
FAKE_SSH = '#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\nexec env -i PATH=/usr/bin:/bin sh -c "$2"\n'

# Attacks every TCP port and abstract socket that appears, until it is killed. Runs as another user.
ATTACKER = r"""
import os, socket, struct, sys, time

attack = sys.argv[1]
held, seen = [], {}


def ports():
    for family, table in ((socket.AF_INET, "/proc/net/tcp"), (socket.AF_INET6, "/proc/net/tcp6")):
        with open(table) as lines:
            next(lines)
            for line in lines:
                fields = line.split()
                if fields[3] != "0A":
                    continue
                words, port = fields[1].split(":")
                raw = b"".join(struct.pack("=I", int(words[i : i + 8], 16)) for i in range(0, len(words), 8))
                host = socket.inet_ntop(family, raw)
                yield family, ({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), int(port, 16)), fields[9]
    with open("/proc/net/unix") as lines:
        next(lines)
        for line in lines:
            fields = line.split()
            if len(fields) == 8 and fields[7].startswith("@") and fields[3] == "00010000":
                yield socket.AF_UNIX, "\0" + fields[7][1:], fields[6]


def connect(family, address, data=b""):
    client = socket.socket(family)
    client.setblocking(False)
    try:
        client.connect(address)
    except BlockingIOError:
        pass
    except OSError:
        return
    held.append((client, data))


def flush():
    for i, (client, data) in enumerate(held):
        if data:
            try:
                client.send(data)
                held[i] = (client, b"")
            except BlockingIOError:
                pass
            except OSError:
                held[i] = (client, b"")


GREETINGS = [
    struct.pack("<Q", 1),  # the number of a pair
    struct.pack("<6Q", 48, 2, 1, 0, 0, 0),  # Gloo: ready to send
    struct.pack("<6Q", 1 << 40, 1, 1, 0, 1 << 40, 0),  # Gloo: a terabyte
    b"xoe-mesh-1\n" + struct.pack("<I", 1) + bytes(64),
    b"xoe-mesh-3\n" + struct.pack("<II", 1, 0) + bytes(64),
    struct.pack("<I", 45) + b"\x04xoe-store-5\n" + bytes(32) + struct.pack("<I", 33) + b"\x05" + bytes(32),
]
while True:
    for family, address, inode in ports():
        times = seen[inode] = seen.get(inode, 0) + 1
        if attack == "connect" and times == 1:
            connect(family, address)
        elif attack == "hijack" and times <= 3:
            for data in GREETINGS:
                connect(family, address, data)
        elif attack == "garbage" and times <= 3:
            for size in (1, 100, 20_000):
                connect(family, address, os.urandom(size))
        elif attack == "flood":
            for _ in range(100):
                connect(family, address)
    flush()
    for client, _ in held[:-800]:
        client.close()
    del held[:-800]
    time.sleep(0.0002)
"""
ATTACKS = ("connect", "hijack", "garbage", "flood")


def why_not():
    """What is missing for this test, or None."""
    if os.geteuid() != 0:
        return "it needs root, for a network namespace and another user"
    for program, package in (("ip", "iproute2"), ("unshare", "util-linux"), ("/usr/bin/python3", "python3")):
        if shutil.which(program) is None:
            return f"{program} is not there (Debian: {package})"
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else f"namespaces cannot be made here: {probe.stderr.strip()}"


PROGRAMS = ("allreduce_program", "messages_test")  # collectives, and messages from rank to rank


def run_job(build, ssh, program):
    """A job of four ranks on two hosts: its exit code and what it said."""
    command = [build / "bin" / "xoe", "run", "-H", "one:2,two:2", "--ssh-command", ssh, "--timeout", "100"]
    done = subprocess.run([*command, build / "tests" / program], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def under(attack, build, ssh):
    """How many of the jobs did not end well, or said more than that clients were unauthenticated."""
    attacker = subprocess.Popen(
        ["/usr/bin/python3", "-c", ATTACKER, attack], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", start_new_session=True
    )
    bad = told = 0
    try:
        for program in PROGRAMS * ROUNDS:
            code, said = run_job(build, ssh, program)
            lines = [line for line in said.splitlines() if line.strip()]
            others = [line for line in lines if "unauthenticated" not in line]
            told += len(lines) - len(others)
            if code != 0 or others:
                bad += 1
                print(f"{attack}, {program}: exit code {code}\n" + "\n".join(others[:20]), flush=True)
        assert attacker.poll() is None, "the attacker has ended"
    finally:
        attacker.kill()
        attacker.wait()
    print(f"{attack}: {bad} of {len(PROGRAMS) * ROUNDS} jobs were ended or disturbed; {told} lines about them", flush=True)
    return bad


def main():
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        return SKIPPED
    if "XOE_TEST_INSIDE" not in os.environ:
        inside = ["unshare", "--net", "--", sys.executable, __file__, *sys.argv[1:]]
        return subprocess.run(inside, env={**os.environ, "XOE_TEST_INSIDE": "1"}, check=False).returncode
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    build, attacks = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] or ATTACKS
    with tempfile.TemporaryDirectory(prefix="xoe-attacks-") as folder:
        ssh = pathlib.Path(folder) / "ssh"
        ssh.write_text(FAKE_SSH)
        ssh.chmod(0o755)
        for program in PROGRAMS:
            code, said = run_job(build, ssh, program)
            assert code == 0, f"{program} without an attack fails: {said}"
        return 1 if sum(under(attack, build, ssh) for attack in attacks) else 0


if __name__ == "__main__":
    sys.exit(main())
