#!/usr/bin/env python3
"""Pods of another namespace, which reach every port of a job, cannot join, read, stall or end it.

  outsiders_test.py [TEST...]

No network policy is in force here: what keeps outsiders out is the job's secret alone.
"""

import base64
import json
import struct
import sys
import threading
import time

from cluster import IMAGE, expect, main_of
from training import Training

# Attacks each "ADDRESS PORT" of /data/ports until it is ended; what it hears goes to /data/heard, a byte for each connection to /data/met.
OUTSIDER = r"""
import os, socket, struct, sys, time

attack, held, times = sys.argv[1], [], {}
GREETINGS = [b"GET / HTTP/1.0\r\n\r\n", struct.pack("<Q", 1), struct.pack("<6Q", 48, 2, 1, 0, 0, 0),
             struct.pack("<6Q", 1 << 40, 1, 1, 0, 1 << 40, 0),
             b"xoe-mesh-3\n" + struct.pack("<II", 1, 0) + bytes(64), b"xoe-mesh-3\n" + struct.pack("<II", 0, 0) + bytes(64),
             struct.pack("<I", 45) + b"\x04xoe-store-5\n" + bytes(32) + struct.pack("<I", 33) + b"\x05" + bytes(32)]


def connect(address, data):
    client = socket.socket()
    client.setblocking(False)
    try:
        client.connect(address)
    except BlockingIOError:
        pass
    except OSError:
        return
    held.append([client, data, True])


print("attacks", flush=True)
heard, met = open("/data/heard", "ab", buffering=0), open("/data/met", "ab", buffering=0)
while True:
    try:
        addresses = [(host, int(port)) for host, port in map(str.split, open("/data/ports"))]
    except (OSError, ValueError):
        addresses = []
    for address in addresses:
        times[address] = times.get(address, 0) + 1
        if attack == "silent" and times[address] <= 50:
            connect(address, b"")
        elif attack == "greetings" and times[address] <= 20:
            for data in GREETINGS:
                connect(address, data)
        elif attack == "garbage" and times[address] <= 20:
            for size in (1, 100, 20000):
                connect(address, os.urandom(size))
        elif attack == "flood":
            for _ in range(50):
                connect(address, b"")
    for entry in held:
        client, data, new = entry
        try:
            client.getpeername()
            if new:
                met.write(b"x")
                entry[2] = False
            if data:
                client.send(data)
                entry[1] = b""
            heard.write(client.recv(1 << 16))
        except OSError:
            pass
    for entry in held[:-500]:
        entry[0].close()
    del held[:-500]
    time.sleep(0.01)
"""


class Tests(Training):
    def outsider(self, namespace, name, command):
        """Starts a pod that has the claim `data`."""
        spec = {"name": "node", "image": IMAGE, "command": command, "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
        self.cluster.api.call("POST", f"/api/v1/namespaces/{namespace}/pods", {
            "kind": "Pod", "metadata": {"name": name}, "spec": {
                "restartPolicy": "Never", "containers": [spec], "terminationGracePeriodSeconds": 1,
                "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}})
        return self.cluster.wait("outsider", lambda: self.cluster.kubelet.find(namespace, name))

    def publish_ports(self, victims, outsiders, stop):
        """Tells the outsiders every port on which a process of the job listens."""
        path = self.cluster.kubelet.claims / outsiders / "data/ports"
        while not stop.is_set():
            found = set()
            for pod in self.cluster.ran(victims):
                if pod.init is not None:
                    found |= {(pod.address, port) for port in self.listening(pod.init)}
            if path.parent.exists():
                path.write_text("".join(f"{address} {port}\n" for address, port in sorted(found)))
            time.sleep(0.05)

    @staticmethod
    def listening(process):
        found = set()
        for table in ("tcp", "tcp6"):
            try:
                with open(f"/proc/{process}/net/{table}") as lines:
                    rows = [line.split() for line in lines][1:]
            except OSError:
                continue
            for fields in rows:
                address, port = fields[1].split(":")
                local = table == "tcp" and struct.pack("=I", int(address, 16))[0] == 127
                if fields[3] == "0A" and not local:
                    found.add(int(port, 16))
        return found

    def test_attacks(self):
        for attack in ("silent", "greetings", "garbage", "flood"):
            with self.cluster.namespace(f"outsiders-{attack}") as outsiders, self.cluster.namespace(f"victim-{attack}") as victims:
                stop = threading.Event()
                publisher = threading.Thread(target=self.publish_ports, args=(victims, outsiders, stop))
                publisher.start()
                try:
                    outsider = self.outsider(outsiders, "outsider", ["python3", "-c", OUTSIDER, attack])
                    self.cluster.wait("attack", lambda: "attacks" in outsider.log.read_text())
                    began = time.monotonic()
                    self.submit("jobset", victims)
                    self.expect_trained("jobset", victims)
                finally:
                    stop.set()
                    publisher.join()
                expect(outsider.init is not None, f"the outsider has ended: {outsider.log.read_text()}")
                expect(len(self.cluster.ran(victims)) == 2, lambda: f"pods were lost: {self.cluster.state()}")
                heard = (self.cluster.kubelet.claims / outsiders / "data/heard").read_bytes()
                met = (self.cluster.kubelet.claims / outsiders / "data/met").stat().st_size
                expect(met > 0, "the outsider reached no port")
                expect(self.secret(victims) not in heard, "an outsider was told the secret")
                expect(b"loss" not in heard and b"train" not in heard, "an outsider was told of the job")
                print(f"{attack}: trained in {time.monotonic() - began:.1f} s; {met} connections, which heard {len(heard)} bytes", flush=True)

    def secret(self, namespace):
        found = self.cluster.api.get(f"/api/v1/namespaces/{namespace}/secrets/train-jobset-rendezvous")
        return base64.b64decode(found["data"]["secret"])

    def test_cannot_take_a_place(self):
        """A outsider says that it is pod 1, with a secret of its own, before and while the real one does."""
        with self.cluster.namespace("impostors") as outsiders, self.cluster.namespace("impostors-victim") as victims:
            script = ("printf 0%.0s $(seq 64) > /tmp/guess; chmod 600 /tmp/guess; exec xoe run --rendezvous "
                      f"train-node-0-0.train.{victims}:29500 --node-rank 1 --nodes 2 -np 2 --rendezvous-secret /tmp/guess "
                      "--rendezvous-timeout 20 -- touch /data/joined")
            self.outsider(outsiders, "impostor", ["bash", "-c", script])
            self.submit("jobset", victims)
            self.expect_trained("jobset", victims)
            impostor = self.cluster.kubelet.find(outsiders, "impostor")
            self.cluster.wait("end of the impostor", lambda: impostor.ended, 60)
            state = json.dumps(self.cluster.pods(outsiders)["impostor"]["status"])
            expect('"phase": "Failed"' in state, state)
            expect(not (self.cluster.kubelet.claims / outsiders / "data/joined").exists(), "an outsider has joined")
            expect(len(self.cluster.ran(victims)) == 2, lambda: f"pods were lost: {self.cluster.state()}")


if __name__ == "__main__":
    sys.exit(main_of(Tests))
