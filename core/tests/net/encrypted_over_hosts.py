#!/usr/bin/env python3
"""What a listener on the wire sees of a job over two hosts that encrypts: neither tensors nor their names.

  encrypted_over_hosts.py XOE ALLREDUCE_PROGRAM NAMED_TENSORS

Needs root, iproute2 and openssh-server; else it says what is missing and exits 77.
"""

import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

from netns_hosts import SKIPPED, Hosts, why_not

ALL_PROTOCOLS = 3  # ETH_P_ALL
SO_RCVBUFFORCE = 33
ONES = b"\x00\x00\x80\x3f" * 64  # float32, of the rank whose values are ones
NAMES = (b"conv1", b"conv2", b"conv3")


def listen(path):
    """Writes all packets that leave or reach this host into the file, until SIGTERM."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with open(path, "wb", buffering=0) as out:
        print("listening", flush=True)
        while True:
            packet, (interface, *_) = wire.recvfrom(1 << 17)
            if interface != "lo":
                out.write(packet)


def heard(hosts, folder, words):
    """What crossed nodeB's link while the command ran on nodeA."""
    path = folder / "wire"
    command = hosts.command("nodeB", sys.executable, __file__, "--listen", path)
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as listener:
        listener.stdout.readline()
        try:
            done = subprocess.run([str(word) for word in hosts.command("nodeA", *words)], capture_output=True,
                                  text=True, timeout=180, check=False)
        finally:
            listener.terminate()
    if done.returncode != 0:
        raise AssertionError(f"{words}: exit code {done.returncode}: {done.stderr} {done.stdout}")
    packets = path.read_bytes()
    print(f"{' '.join(map(str, words[1:6]))}: {len(packets):,} bytes heard")
    return packets


def main():
    if sys.argv[1] == "--listen":
        listen(sys.argv[2])
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        return SKIPPED
    xoe, sums, named = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        hosts = Hosts(folder / "hosts", ("nodeA", "nodeB"))
        try:
            where = ["-H", "nodeA:1,nodeB:1"]
            plain = heard(hosts, folder, [xoe, "run", *where, sums])
            assert ONES in plain, "the listener does not hear tensors that are not encrypted"
            sealed = heard(hosts, folder, [xoe, "run", *where, "--encrypt", sums])
            assert len(sealed) > len(plain) // 2, "the job sent nothing past the listener"
            assert ONES not in sealed, "tensors are readable in spite of --encrypt"
            packets = heard(hosts, folder, [xoe, "run", *where, "--encrypt", named])
            for name in NAMES:
                assert name not in packets, f"the listener reads the name {name}"
        finally:
            hosts.call("down")
    return 0


if __name__ == "__main__":
    sys.exit(main())
