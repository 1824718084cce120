"""Members of a rendezvous: `xoe run --rendezvous` several times on this machine, each in the part of a pod or a host."""

import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import uuid

XOE = pathlib.Path(os.environ.get("XOE_BIN_DIR", "build/release/bin")) / "xoe"
SECRET = "00112233445566778899aabbccddeeff"
# Variables of whatever started this test would say that it is a member.
OURS = {name: value for name, value in os.environ.items()
        if not name.startswith(("PET_", "JAX_", "LWS_", "SLURM_", "JOB_COMPLETION", "XOE_"))}


def free_port():
    with socket.socket(socket.AF_INET6) as one:
        one.bind(("::", 0))
        return one.getsockname()[1]


def eventually(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Member:
    """One xoe run. `at` None: its place is in `env`."""

    def __init__(self, group, index, options, script, at, env=None, stdin=subprocess.DEVNULL, stdout=None, program=None):
        self.index = index
        self.out_file, self.err_file = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        place = ["--rendezvous", "auto"] if at is None else ["--rendezvous", at, "--node-rank", str(index), "--nodes",
                                                               str(group.count)]
        words = [str(XOE), "run", *place, *options, "--", *(program or ["bash", "-c", script])]
        self.process = subprocess.Popen(words, stdin=stdin, stdout=stdout or self.out_file, stderr=self.err_file,
                                        env={**OURS, "XOE_TEST_MARK": group.mark, **group.env, **(env or {})},
                                        start_new_session=True)

    @staticmethod
    def text(file):
        # The job writes where this file's position is, which stays as it is.
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")

    @property
    def out(self):
        return self.text(self.out_file)

    @property
    def err(self):
        return self.text(self.err_file)

    def signal(self, number):
        self.process.send_signal(number)

    def says(self, text, seconds=20):
        """Waits for it in its output."""
        if not eventually(lambda: text in self.out + self.err, seconds):
            raise AssertionError(f"member {self.index} does not say {text!r}: {self.out[-1000:]} {self.err[-2000:]}")

    def wait(self, seconds=30):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"member {self.index} hangs: {self.out[-1000:]} {self.err[-2000:]}") from None


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
        for member in self.members.values():
            if member.process.poll() is None:
                member.process.kill()
            member.process.wait()
        for member in self.started:
            member.out_file.close()
            member.err_file.close()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.folder.cleanup()

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
