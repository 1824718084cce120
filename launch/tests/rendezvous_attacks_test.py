"""Unauthenticated programs at the port of a rendezvous: they learn and change nothing, stall nothing and end nothing."""

import contextlib
import pathlib
import socket
import struct
import sys
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from members import Group, eventually

PLACE = "echo place $XOE_RANK/$XOE_SIZE"
MAGIC = b"xoe-mesh-3\n"


def hello(member=1, lane=0):
    return MAGIC + struct.pack("<II", member, lane) + bytes(32)


class Attacks(unittest.TestCase):
    def setUp(self):
        self.sockets = []

    def tearDown(self):
        for one in self.sockets:
            one.close()

    def connect(self, group):
        one = socket.create_connection(("127.0.0.1", group.port), timeout=10)
        self.sockets.append(one)
        return one

    def leader_of_two(self, group):
        leader = group.start(0, PLACE, ["--rendezvous-timeout", "60"])

        def listens():
            try:
                self.connect(group).close()
            except OSError:
                return False
            return True

        self.assertTrue(eventually(listens), leader.err)
        return leader

    def expect_a_job(self, group, within=10):
        """The other member joins, and the job runs, in spite of all."""
        began = time.monotonic()
        group.start(1, PLACE)
        self.assertEqual(group.codes(), [0, 0], group.members[0].err)
        self.assertLess(time.monotonic() - began, within)
        self.assertIn("place 1/2", group.members[1].out)

    def test_silent_ones(self):
        with Group(2) as group:
            self.leader_of_two(group)
            for _ in range(600):
                self.connect(group)
            self.expect_a_job(group)

    def test_garbage_and_huge_frames(self):
        with Group(2) as group:
            self.leader_of_two(group)
            for bytes_ in (b"GET / HTTP/1.1\r\n\r\n" * 10, b"\xff" * 65536, struct.pack("<I", 0xffffffff) + b"x" * 65536,
                           MAGIC, hello()[:-1], b"\0" * 51):
                one = self.connect(group)
                with contextlib.suppress(OSError):  # it has hung up
                    one.sendall(bytes_)
            self.expect_a_job(group)

    def test_a_hello_without_a_proof(self):
        with Group(2) as group:
            self.leader_of_two(group)
            for member in (0, 1, 2, 0xffffffff):
                one = self.connect(group)
                one.sendall(hello(member))
                one.settimeout(10)
                answer = b""
                try:
                    while len(answer) < 64 and (more := one.recv(64)):
                        answer += more
                    # A nonce and the leader's proof of it, and only for a member that there may be.
                    self.assertEqual(len(answer), 64 if member == 1 else 0)
                    one.sendall(bytes(32))
                    self.assertEqual(one.recv(1), b"")
                except ConnectionResetError:
                    self.assertNotEqual(member, 1)
            self.expect_a_job(group)

    def test_a_proof_is_good_once(self):
        """What a member sent, read on the way, opens nothing when it is sent again."""
        with Group(2) as group:
            self.leader_of_two(group)
            seen = []
            with socket.create_server(("127.0.0.1", 0)) as between:
                direct, group.at = group.at, f"127.0.0.1:{between.getsockname()[1]}"
                group.start(1, PLACE, ["--rendezvous-timeout", "20"])
                client, _ = between.accept()
                leader = self.connect(group)
                sent = client.recv(4096)
                seen.append(sent)
                leader.sendall(sent)
                client.sendall(leader.recv(64, socket.MSG_WAITALL))
                proof = client.recv(32, socket.MSG_WAITALL)
                client.close()  # before the leader has it: member 1 will try again
                again = self.connect(group)
                again.sendall(seen[0])
                again.recv(64, socket.MSG_WAITALL)
                again.sendall(proof)
                with contextlib.suppress(ConnectionResetError):
                    self.assertEqual(again.recv(1), b"")
            group.members[1].process.kill()
            group.members[1].process.wait()
            group.at = direct
            self.expect_a_job(group)

    def test_someone_in_the_leaders_place_learns_nothing(self):
        with Group(2) as group, socket.create_server(("127.0.0.1", group.port)) as impostor:
            member = group.start(1, PLACE, ["--rendezvous-timeout", "1"])
            impostor.settimeout(5)
            while member.process.poll() is None:
                try:
                    client, _ = impostor.accept()
                except OSError:
                    break
                with client:
                    said = client.recv(4096)
                    self.assertEqual(len(said), len(MAGIC) + 8 + 32)
                    client.sendall(b"A" * 64)
            self.assertEqual(member.wait(), 2)
            self.assertIn("does not know this job's secret", member.err)
            self.assertEqual(member.out, "")

    def test_the_port_is_closed_once_all_are_there(self):
        with Group(2) as group:
            members = group.start_all("echo ready; while [ ! -e $FOLDER/go ]; do sleep 0.05; done")
            for member in members:
                member.says("ready")
            with self.assertRaises(ConnectionRefusedError):
                self.connect(group)
            (group.path / "go").touch()
            self.assertEqual(group.codes(), [0, 0])


if __name__ == "__main__":
    unittest.main()
