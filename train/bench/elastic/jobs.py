"""A running job of each contestant: what it prints, when, and the processes of its ranks."""

import itertools
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from compare import processes

WORKER = pathlib.Path(__file__).with_name("worker.py")
TICKS = os.sysconf("SC_CLK_TCK")
NODES = ("nodeA", "nodeB")


def seconds_of_cpu(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Job:
    """commands: of its programs, whose lines of JSON tell of processes ({"event": "process", "rank", "pid"}), of steps ({"event":
    "report", "step", "ranks"}) and of changes ({"event": "resized", "ranks", "seconds"})."""

    def __init__(self, commands, limit, environment):
        self.limit = limit
        self.changed = threading.Condition()
        self.lines, self.steps, self.pauses, self.started = [], [], [], []  # started: (when, rank, pid)
        self.programs = [
            subprocess.Popen(
                list(map(str, command)), env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )
            for command in commands
        ]  # fmt: skip
        self.readers = [threading.Thread(target=self.read, args=(program.stdout,), daemon=True) for program in self.programs]
        for reader in self.readers:
            reader.start()

    def read(self, stream):
        for line in stream:
            now = time.monotonic()
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.note(now, line)
                self.changed.notify_all()

    def note(self, now, line):
        start = line.find('{"event"')
        try:
            found = json.loads(line[start:]) if start >= 0 else {}
        except ValueError:
            return
        match found.get("event"):
            case "process":
                self.started.append((now, found["rank"], found["pid"]))
            case "resized":
                self.pauses.append((found["ranks"], found.get("seconds")))  # none where the first rank is one that joined
            case "report":
                self.steps.append((now, found["step"], found["ranks"]))

    def process_of(self, rank):
        """The last one that was started there."""
        return [pid for _, of, pid in self.started if of == rank][-1]

    def until(self, test):
        with self.changed:
            met = self.changed.wait_for(lambda: test() or self.ended(), self.limit) and test()
            if not met:
                raise processes.GivenUp("\n".join([*self.lines[-20:], f"no step within {self.limit:g} s"]))

    def ended(self):
        return all(program.poll() is not None for program in self.programs)

    def steps_of(self, ranks, since=0.0):
        return [when for when, _, of in self.steps if of == ranks and when > since]

    def step_seconds(self, ranks):
        times = self.steps_of(ranks)[1:]
        return statistics.median(after - before for before, after in itertools.pairwise(times))

    def end(self):
        for program in self.programs:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGTERM)
        for program in self.programs:
            try:
                program.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
        for reader, program in zip(self.readers, self.programs, strict=True):
            reader.join()
            program.stdout.close()


class Contestant:
    """restarts: whether all ranks are started again when one fails, and then as many."""

    restarts = False

    def __init__(self, options, hosts=None):
        self.options, self.hosts = options, hosts

    def start(self, *more):
        environment = processes.clean_environment(PYTHONPATH=str(self.options.bin.parent / "python"), OMP_NUM_THREADS="1")
        return Job([self.command(*more)], self.options.seconds, environment)

    def command(self, *more):
        """Of `xoe run`; more: its options."""
        where = ["-np", self.options.ranks]
        if self.hosts:
            where = ["-H", ",".join(f"{node}:{self.options.ranks // len(NODES)}" for node in NODES)]
        own = self.hosts.command(NODES[0]) if self.hosts else []
        return [*own, self.options.bin / "xoe", "run", *where, *more, *self.program()]

    def worker_options(self):
        return [
            word for name in ("batch", "image_size", "classes", "every")
            for word in (f"--{name.replace('_', '-')}", getattr(self.options, name))
        ]  # fmt: skip

    def changing(self, *more):
        """The options with which it goes on without a rank."""
        return self.start("--min-np", 1, *more)

    def end(self):
        """Removes what its last job has left."""


class XoeTrain(Contestant):
    def program(self):
        data = ["--data", self.options.data] if self.options.data else ["--synthetic"]
        train = [
            self.options.bin / "xoe", "train", *data, "--model", self.options.model, "--image-size", self.options.image_size,
            "--batch", self.options.batch, "--device", "cpu", "--threads", 1, "--classes", self.options.classes, "--steps", 10**6,
            "--report-every", 1, "--lr", 1e-4, "--json",
        ]  # fmt: skip
        told = 'echo "{\\"event\\":\\"process\\",\\"rank\\":$XOE_RANK,\\"pid\\":$$}"; exec "$@"'
        return ["sh", "-c", told, "sh", *train]

    def fixed(self):
        return self.start()


class XoePython(Contestant):
    contestant = "xoe"

    def program(self):
        return [self.options.python, WORKER, self.contestant, "-", *self.worker_options()]

    def fixed(self):
        one = XoePython(self.options, self.hosts)
        one.contestant = "fixed"
        return one.start()


class Torchrun(Contestant):
    """PyTorch's launcher, with one agent on each host."""

    restarts = True

    def changing(self, *more):
        del more
        self.folder = tempfile.mkdtemp(prefix="xoe-elastic-")
        run = [self.options.python, "-m", "torch.distributed.run", "--max-restarts", 1000]
        work = [WORKER, "ddp", self.folder, *self.worker_options()]
        environment = processes.clean_environment(OMP_NUM_THREADS="1")
        if not self.hosts:
            return Job([[*run, "--standalone", "--nproc-per-node", self.options.ranks, *work]], self.options.seconds, environment)
        of_host = [*run, "--nnodes", f"1:{len(NODES)}", "--nproc-per-node", self.options.ranks // len(NODES), "--rdzv-backend",
                   "c10d", "--rdzv-endpoint", f"{NODES[0]}:29400", "--rdzv-id", "elastic"]  # fmt: skip
        environment |= {"GLOO_SOCKET_IFNAME": "eth0"}
        return Job([self.hosts.command(node, *of_host, *work) for node in NODES], self.options.seconds, environment)

    def end(self):
        shutil.rmtree(self.folder, ignore_errors=True)
