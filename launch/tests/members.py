"""Members of a rendezvous: `xoe run --rendezvous` several times on this machine, each in the part of a pod or a host."""

import os
import pathlib
import signal
import socket
import sys
import tempfile
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from watched_process import WatchedProcess, eventually

XOE = pathlib.Path(os.environ.get("XOE_BIN_DIR", "build/release/bin")) / "xoe"
SECRET = "00112233445566778899aabbccddeeff"
# Variables of whatever started this test would say that it is a member.
OURS = {name: value for name, value in os.environ.items()
        if not name.startswith(("PET_", "JAX_", "LWS_", "SLURM_", "JOB_COMPLETION", "XOE_"))}


def free_port():
    with socket.socket(socket.AF_INET6) as one:
        one.bind(("::", 0))
        return one.getsockname()[1]


class Member(WatchedProcess):
    """One xoe run. `at` None: its place is in `env`."""

    def __init__(self, group, index, options, script, at, env=None, program=None, **more):
        self.index = index
        place = ["--rendezvous", "auto"] if at is None else ["--rendezvous", at, "--node-rank", index, "--nodes", group.count]
        super().__init__(f"member {index}", [XOE, "run", *place, *options, "--", *(program or ["bash", "-c", script])],
                         env={**OURS, "XOE_TEST_MARK": group.mark, **group.env, **(env or {})}, **more)

    def holds_sigterm(self):
        """Whether it takes the signal in its own time."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigBlk", "SigCgt"))]
        return any(mask >> (signal.SIGTERM - 1) & 1 for mask in masks)


class Group:
    """Members that meet at a free port of this machine; all processes of the job end with it."""

    def __init__(self, count, host="127.0.0.1"):
        self.count = count
        self.mark = uuid.uuid4().hex
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        (self.path / "secret").write_text(SECRET + "\n")
        self.env = {"XOE_RENDEZVOUS_SECRET_FILE": str(self.path / "secret"), "FOLDER": self.folder.name}
        self.port = free_port()
        self.at = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.members = {}  # by number, the last one
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.started:
            member.end()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.folder.cleanup()

    def connections(self):
        """The number of connections that the leader has, by /proc."""
        lines = [line.split() for name in ("tcp", "tcp6") for line in pathlib.Path("/proc/net", name).read_text().splitlines()]
        return sum(line[1].endswith(f":{self.port:04X}") and line[3] == "01" for line in lines)

    def start(self, index, script, options=(), auto=False, **more):
        member = Member(self, index, options, script, None if auto else self.at, **more)
        self.members[index] = member
        self.started.append(member)
        return member

    def start_all(self, script, options=(), **more):
        return [self.start(index, script, options, **more) for index in range(self.count)]

    def codes(self, seconds=30):
        return [self.members[index].wait(seconds) for index in sorted(self.members)]

    def processes(self):
        """Of the job, xoe run itself included."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def all_gone(self, seconds=10):
        return eventually(lambda: not self.processes(), seconds)
