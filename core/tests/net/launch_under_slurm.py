#!/usr/bin/env python3
"""xoe run inside the allocations of a real Slurm of two nodes, which this test sets up and removes.

  launch_under_slurm.py XOE PRINT_LAUNCH_INFO [TEST...]

Needs root, slurm-wlm and munge; else it says what is missing and exits 77.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from train_over_hosts import TRAIN, lines_of, losses

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "core/testing"))
import cases
from cases import SKIPPED

HERE = pathlib.Path(__file__).parent
DEPLOY = HERE.parents[2] / "deploy/slurm"
OWN_MOUNTS = "XOE_TEST_OWN_MOUNTS"


def why_not():
    """What is missing for this test, or None."""
    if os.geteuid() != 0:
        return "it needs root, to run slurmd"
    for program, package in (("slurmctld", "slurm-wlm"), ("slurmd", "slurm-wlm"), ("munged", "munge")):
        if shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin") is None:
            return f"{program} is not there (Debian: {package})"
    return None


class Tests:
    def __init__(self, folder, xoe, print_info):
        self.folder = pathlib.Path(folder)
        self.xoe = xoe
        self.print_info = print_info
        self.mark = f"XOE_TEST_MARK={os.getpid()}"
        name, value = self.mark.split("=")
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "XOE_"))}
        self.env |= {"SLURM_CONF": f"{folder}/slurm.conf", "XOE": str(xoe), name: value}

    def run(self, *words, seconds=60, **env):
        return subprocess.run([str(word) for word in words], env=self.env | env, capture_output=True, text=True,
                              timeout=seconds, stdin=subprocess.DEVNULL, check=False)

    def batch(self, script, *words, options=(), **env):
        """Runs a batch script to its end: (exit code, output)."""
        out = self.folder / "batch.out"
        done = self.run("sbatch", "--wait", f"--output={out}", *options, DEPLOY / script, *words, **env)
        return done.returncode, out.read_text()

    def expect(self, condition, what):
        if not condition:
            raise AssertionError(what)

    def left(self):
        """Processes of the jobs: those with our mark that are xoe or were started by it."""
        found = []
        for file in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                words = file.with_name("cmdline").read_bytes()
                if self.mark.encode() in file.read_bytes().split(b"\0") and (b"xoe" in words or b"sleep" in words):
                    found.append(words)
            except OSError:
                continue
        return found

    def all_gone(self, seconds=15):
        end = time.monotonic() + seconds
        while self.left():
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def start(self, *words):
        out = open(self.folder / "started.out", "w+")
        job = subprocess.Popen([str(word) for word in words], env=self.env, stdout=out, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, start_new_session=True)
        end = time.monotonic() + 30
        text = ""
        while text.count("ready") < 4:
            self.expect(time.monotonic() < end and job.poll() is None, f"it did not start: {text}")
            time.sleep(0.05)
            text = (self.folder / "started.out").read_text()
        return job, text

    def test_salloc(self):
        done = self.run("salloc", "--nodes=2", "--ntasks-per-node=2", self.xoe, "run", "sh", "-c",
                        "echo $SLURMD_NODENAME $XOE_HOSTNAME $XOE_RANK/$XOE_SIZE $XOE_LOCAL_RANK $XOE_CROSS_RANK")
        self.expect(done.returncode == 0, done.stderr)
        want = ["[0] n1 n1 0/4 0 0", "[1] n1 n1 1/4 1 0", "[2] n2 n2 2/4 0 1", "[3] n2 n2 3/4 1 1"]
        self.expect(sorted(done.stdout.splitlines()) == want, done.stdout)

    def test_fewer_and_more_ranks_than_tasks(self):
        done = self.run("salloc", "--nodes=2", "--ntasks-per-node=2", self.xoe, "run", "-np", "3", "--map-by", "node", "sh",
                        "-c", "echo $XOE_HOSTNAME")
        self.expect(sorted(done.stdout.splitlines()) == ["[0] n1", "[1] n2", "[2] n1"], done.stdout + done.stderr)
        done = self.run("salloc", "--nodes=2", self.xoe, "run", "-np", "3", "true")
        self.expect(done.returncode == 2 and "the hosts have 2 slots" in done.stderr, done.stderr)

    def test_sbatch(self):
        code, out = self.batch("run.sbatch", "sh", "-c", "echo $XOE_HOSTNAME $XOE_RANK; seq 10000",
                               XOE_RUN_OPTIONS="--no-tag-output")
        self.expect(code == 0 and len(out.splitlines()) == 40004, f"{code}: {out[:2000]}")
        self.expect({"n1 0", "n1 1", "n2 2", "n2 3"} <= set(out.splitlines()), out[:2000])

    def test_each_rank_sees_its_gpu(self):
        code, out = self.batch("gpus.sbatch", "sh", "-c", "echo $XOE_RANK $CUDA_VISIBLE_DEVICES")
        self.expect(code == 0 and sorted(out.splitlines()) == ["[0] 0 0", "[1] 1 1", "[2] 2 0", "[3] 3 1"], out)
        code, out = self.batch("gpus.sbatch", "sh", "-c", "echo $XOE_RANK $CUDA_VISIBLE_DEVICES",
                               XOE_RUN_OPTIONS="--no-gpu-binding")
        self.expect(code == 0 and sorted(out.splitlines())[3] == "[3] 3 0,1", out)

    def test_srun_alone(self):
        code, out = self.batch("srun.sbatch", self.print_info)
        self.expect(code == 0, out)
        for rank in range(4):
            self.expect(f"slurm rank {rank} of 4 local {rank % 2} of 2 met" in out, out)

    def test_training_gives_the_losses_of_one_host(self):
        program = pathlib.Path(self.xoe).parent / "xoe-train"
        if not program.exists():
            raise unittest.SkipTest("no xoe-train beside xoe")
        one_host = self.run(self.xoe, "run", "-np", "4", "--no-tag-output", program, *TRAIN[1:])
        self.expect(one_host.returncode == 0, one_host.stderr)
        expected = losses(lines_of(one_host.stdout), "one host")
        code, out = self.batch("run.sbatch", program, *TRAIN[1:], XOE_RUN_OPTIONS="--no-tag-output")
        self.expect(code == 0, out)
        found = {"sbatch, xoe run": out}
        code, found["sbatch, srun"] = self.batch("srun.sbatch", program, *TRAIN[1:])
        self.expect(code == 0, found["sbatch, srun"])
        done = self.run("salloc", "--nodes=2", "--ntasks-per-node=2", self.xoe, "run", "--no-tag-output", program,
                        *TRAIN[1:])
        self.expect(done.returncode == 0, done.stderr)
        found["salloc, xoe run"] = done.stdout
        for how, text in found.items():
            worst = max(abs(a - b) for a, b in zip(expected, losses(lines_of(text), how), strict=True))
            self.expect(worst <= 1e-5, f"{how}: losses differ by {worst}")

    def test_one_command_on_every_node(self):
        # Both nodes are this machine, whose names no one resolves.
        done = self.run("salloc", "--nodes=2", "--ntasks-per-node=1", "srun", self.xoe, "run", "--rendezvous", "127.0.0.1:29533", "-np", "2",
                        "sh", "-c", "echo $SLURMD_NODENAME $XOE_RANK/$XOE_SIZE $XOE_LOCAL_RANK $XOE_CROSS_RANK")
        self.expect(done.returncode == 0, done.stderr)
        want = ["[0] n1 0/4 0 0", "[1] n1 1/4 1 0", "[2] n2 2/4 0 1", "[3] n2 3/4 1 1"]
        self.expect(sorted(done.stdout.splitlines()) == want, done.stdout + done.stderr)
        done = self.run("salloc", "--nodes=2", "--ntasks-per-node=1", "srun", self.xoe, "run", "--rendezvous", "auto", "--dry-run", "-np", "2",
                        "true")
        for node in (0, 1):
            self.expect(f"member {node} of 2, 2 ranks here; member 0 is at n1, port 29500 (from Slurm)" in done.stdout, done.stdout)

    def test_inside_a_step_it_is_a_job_of_that_node(self):
        done = self.run("srun", "--nodes=1", "--ntasks=1", self.xoe, "run", "-np", "2", "sh", "-c",
                        "echo $XOE_RANK/$XOE_SIZE")
        self.expect(sorted(done.stdout.splitlines()) == ["[0] 0/2", "[1] 1/2"], done.stdout + done.stderr)

    def test_a_failing_rank(self):
        code, out = self.batch("run.sbatch", "sh", "-c", "[ $XOE_RANK = 3 ] && exit 7; exec sleep 1000")
        self.expect(code == 7 and "rank 3 (host n2, pid " in out and "exited with code 7" in out, f"{code}: {out}")
        self.expect(self.all_gone(), f"left: {self.left()}")

    def test_a_missing_program(self):
        code, out = self.batch("run.sbatch", "no-such-program")
        self.expect(code == 127 and "host n2: cannot run no-such-program" in out, f"{code}: {out}")

    def test_a_killed_launcher(self):
        job, _ = self.start("salloc", "--nodes=2", "--ntasks-per-node=2", self.xoe, "run", "sh", "-c",
                            "echo ready $PPID; exec sleep 1000")
        for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = file.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == job.pid:
                os.kill(int(file.parent.name), signal.SIGKILL)
        job.wait(30)
        self.expect(self.all_gone(), f"left: {self.left()}")

    def signal_launchers(self, node, number, word=b"--rendezvous"):
        """As `pkill -x xoe` does there: the processes of both nodes are this machine's. word: of their command lines."""
        for file in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if (file.with_name("comm").read_text() == "xoe\n" and word in file.with_name("cmdline").read_bytes().split(b"\0")
                        and f"SLURMD_NODENAME={node}".encode() in file.read_bytes().split(b"\0")):
                    os.kill(int(file.parent.name), number)
            except OSError:
                continue

    def test_a_node_is_given_back_and_the_last_one_saves(self):
        program = pathlib.Path(self.xoe).parent / "xoe-train"
        if not program.exists():
            raise unittest.SkipTest("no xoe-train beside xoe")
        out, folder = self.folder / "elastic.out", self.folder / "elastic"
        script = self.folder / "elastic.sh"
        script.write_text(f"""#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --no-kill --output={out}
srun --no-kill --kill-on-bad-exit=0 {self.xoe} run --rendezvous 127.0.0.1:29541 --nodes 1:2 -np 1 {program} --synthetic --model mlp \\
  --image-size 16 --device cpu --threads 1 --batch 64 --steps 10000000 --report-every 10 --checkpoint {folder}
echo "srun: $?"
""")
        number = self.run("sbatch", "--parsable", script).stdout.strip()
        try:
            self.until(lambda: re.search(r"(?m)^\[0\] 10 ", self.text(out)), out)
            self.signal_launchers("n2", signal.SIGUSR1)
            self.until(lambda: "this host has left the job" in self.text(out), out)
            done = self.run("scontrol", "update", f"jobid={number}", "nodelist=n1")
            self.expect(done.returncode == 0, done.stderr)
            self.expect(self.run("squeue", "-h", "-o", "%N", "-j", number).stdout.strip() == "n1", "the node was not given back")
            steps = self.text(out).count("\n[0] ")
            self.until(lambda: self.text(out).count("\n[0] ") > steps + 2, out)
            # As `--signal=USR1@60` does, to all processes of the step.
            self.run("scancel", "--signal=USR1", f"{number}.0")
            self.until(lambda: re.search("srun: 7[56]", self.text(out)), out)
            self.expect("every host is to leave" in self.text(out) and any(folder.iterdir()), self.text(out))
        finally:
            self.run("scancel", number)
        self.expect(self.all_gone(40), f"left: {self.left()}")

    def test_a_node_whose_agent_is_lost_is_tried_again(self):
        program = pathlib.Path(self.xoe).parent / "xoe-train"
        if not program.exists():
            raise unittest.SkipTest("no xoe-train beside xoe")
        out = self.folder / "lost.out"
        train = [program, "--synthetic", "--model", "mlp", "--image-size", "16", "--device", "cpu", "--threads", "1", "--batch", "64",
                 "--steps", "10000000", "--report-every", "10"]
        run = ["salloc", "--nodes=2", "--ntasks-per-node=1", "--no-kill", self.xoe, "run", "--min-np", "1", "--restarts", "10",
               "--blacklist-cooldown-range", "1,2", *train]
        with out.open("w") as file:
            job = subprocess.Popen([str(word) for word in run], env=self.env, stdout=file, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            self.until(lambda: re.search(r"(?m)^\[0\] 10 ", self.text(out)), out)
            self.signal_launchers("n2", signal.SIGKILL, b"agent")
            self.until(lambda: "goes on with 1 rank" in self.text(out), out)
            self.until(lambda: "goes on with 2 ranks" in self.text(out), out)
            self.expect("host n2" in self.text(out), self.text(out))
        finally:
            job.terminate()
            job.wait(60)
        self.expect(self.all_gone(40), f"left: {self.left()}")

    @staticmethod
    def text(path):
        return path.read_text() if path.exists() else ""

    def until(self, condition, out, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            self.expect(time.monotonic() < end, f"not in time: {self.text(out)}")
            time.sleep(0.05)

    def test_scancel(self):
        job, text = self.start("salloc", "--nodes=2", "--ntasks-per-node=2", self.xoe, "run", "sh", "-c",
                               "echo ready; exec sleep 1000")
        self.run("scancel", text.split("Granted job allocation ")[1].split()[0])
        job.wait(40)
        self.expect(self.all_gone(40), f"left: {self.left()}")


def name_the_nodes(folder):
    """Ranks of n1 and n2 find each other by these names. Seen by this process and its children only."""
    hosts = pathlib.Path(folder, "hosts")
    hosts.write_text(pathlib.Path("/etc/hosts").read_text() + "\n127.0.0.1 n1 n2\n")
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)


def main():
    if (missing := why_not()) is not None:
        print(f"skipped: {missing}")
        return SKIPPED
    if OWN_MOUNTS not in os.environ:
        probe = subprocess.run(["unshare", "--mount", "--propagation", "private", "true"], capture_output=True, text=True)
        if probe.returncode != 0:
            print(f"skipped: mounts of its own cannot be made here: {probe.stderr.strip()}")
            return SKIPPED
        os.environ[OWN_MOUNTS] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin"
    folder = tempfile.mkdtemp(prefix="xoe-slurm-")
    cluster = [HERE / "slurm_cluster.sh", folder]
    try:
        name_the_nodes(folder)
        up = subprocess.run([*cluster, "up"], capture_output=True, text=True, timeout=120, check=False)
        if up.returncode != 0:
            print(f"FAILED  slurm_cluster.sh up: {up.stderr}")
            return 1
        tests = Tests(folder, pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
        return cases.run(cases.chosen(cases.methods(tests), sys.argv[3:]))
    finally:
        subprocess.run([*cluster, "down"], timeout=120, check=False)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
