#!/usr/bin/env python3
"""Leases of `xoe pool` become allocations of a real Slurm of two nodes, which this test sets up and removes.

  pool_under_slurm.py XOE

Needs root, slurm-wlm and munge; else it says what is missing and exits 77.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from launch_under_slurm import SKIPPED, why_not

HERE = pathlib.Path(__file__).parent
XOE = pathlib.Path(sys.argv[1]).resolve()


class UnderSlurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin"
        cls.folder = tempfile.mkdtemp(prefix="xoe-pool-slurm-")
        cls.env = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "XOE_"))}
        cls.env |= {"SLURM_CONF": f"{cls.folder}/slurm.conf", "XOE_SLURM_PORT": "16917", "HOME": cls.folder}
        up = subprocess.run([HERE / "slurm_cluster.sh", cls.folder, "up"], env=cls.env, text=True, capture_output=True,
                            timeout=120, check=False)
        if up.returncode != 0:
            raise AssertionError(f"slurm_cluster.sh up: {up.stderr}")

    @classmethod
    def tearDownClass(cls):
        subprocess.run([HERE / "slurm_cluster.sh", cls.folder, "down"], env=cls.env, timeout=120, check=False)
        shutil.rmtree(cls.folder, ignore_errors=True)

    def setUp(self):
        state = tempfile.mkdtemp(dir=self.folder)
        self.env = {**type(self).env, "HOME": state}
        self.server = self.start("serve", "--port", "0", stdout=subprocess.PIPE)
        self.env["XOE_POOL"] = self.server.stdout.readline().split()[-1]
        self.agent = self.start("slurm", "agent", "--interval", "1s")
        self.wait_for(lambda: len(self.json("status")["gpus"]) == 4)

    def tearDown(self):
        for process in (self.agent, self.server):
            process.terminate()
            process.communicate(timeout=20)
        subprocess.run(["scancel", "--user=root"], env=self.env, check=False)
        self.wait_for(lambda: self.slurm("squeue", "-h") == "")

    def start(self, *words, stdout=None):
        return subprocess.Popen([XOE, "pool", *words], env=self.env, text=True, stdout=stdout)

    def pool(self, *words, expect=0):
        done = subprocess.run([XOE, "pool", *words], env=self.env, text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, expect, f"{words}: {done.stdout}{done.stderr}")
        return done

    def json(self, *words):
        return json.loads(self.pool(*words, "--json").stdout)

    def slurm(self, *words):
        return subprocess.run(words, env=self.env, text=True, capture_output=True, timeout=60, check=True).stdout

    def drift(self):
        return [each["what"] for each in self.json("status")["drift"]]

    def wait_for(self, holds):
        end = time.monotonic() + 40
        while not holds():
            if time.monotonic() > end:
                self.fail(self.slurm("squeue") + self.pool("status").stdout)
            time.sleep(0.2)

    def test_a_lease_becomes_an_allocation(self):
        self.pool("acquire", expect=3)  # programs of a host do not get them
        lease = self.json("acquire", "--slurm", "--gpus", "2", "--for", "1h")
        self.assertIn("job", lease)
        job = self.slurm("squeue", "-h", "-j", str(lease["job"]), "-o", "%j %T %b %N")
        self.assertRegex(job, rf"xoe-pool-{lease['id']} RUNNING (gres:)?gpu:2 {lease['hosts'][0]}")
        seen = self.slurm("srun", f"--jobid={lease['job']}", "--gres=gpu:2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.assertEqual(seen.strip(), "0,1")
        self.assertEqual(self.drift(), [])
        self.pool("renew", str(lease["id"]), "--for", "3h")
        self.wait_for(lambda: self.slurm("squeue", "-h", "-j", str(lease["job"]), "-o", "%L").startswith("2:5"))
        self.pool("release", str(lease["id"]))
        self.wait_for(lambda: self.slurm("squeue", "-h") == "")
        self.wait_for(lambda: self.drift() == [])

    def test_what_a_shell_reads(self):
        out = self.pool("acquire", "--slurm").stdout
        self.assertRegex(out, r"export XOE_POOL_LEASE=1 SLURM_JOB_ID=\d+\n")

    def test_jobs_without_a_lease_are_shown_and_left_alone(self):
        job = self.slurm("sbatch", "--parsable", "--output=/dev/null", "--gres=gpu:1", "-w", "n2", "--wrap", "sleep 300").strip()
        self.wait_for(lambda: f"in use without a lease by root (process {job})" in self.drift())
        first = self.json("acquire", "--slurm", "--gpus", "2")
        self.assertEqual(first["hosts"], ["n1"])
        self.pool("acquire", "--slurm", "--gpus", "2", expect=3)
        self.json("acquire", "--slurm", "--gpus", "1")
        self.assertIn(job, self.slurm("squeue", "-h", "-o", "%i"))

    def test_the_names_of_jobs_tell_nothing(self):
        lease = self.json("acquire", "--slurm", "--gpus", "1")
        other = self.slurm("sbatch", "--parsable", "--output=/dev/null", "--gres=gpu:1", "--wrap", "sleep 300").strip()
        forged = f"x\n{other}|root|n1|gpu:1|xoe-pool-99"
        names = [f"xoe-pool-{lease['id']}", "xoe-pool-99", forged]
        jobs = [other]
        for name in names[:2]:
            jobs.append(self.slurm("sbatch", "--parsable", "--output=/dev/null", "--gres=gpu:1", f"--job-name={name}", "--wrap",
                                   "sleep 300").strip())
        self.slurm("sbatch", "--output=/dev/null", "--gres=gpu:1", f"--job-name={forged}", "--hold", "--wrap", "sleep 300")
        self.wait_for(lambda: all(any(f"process {job})" in what for what in self.drift()) for job in jobs))
        self.pool("release", str(lease["id"]))
        self.wait_for(lambda: str(lease["job"]) not in self.slurm("squeue", "-h", "-o", "%i").split())
        time.sleep(3)  # three looks
        self.assertLessEqual(set(jobs), set(self.slurm("squeue", "-h", "-o", "%i").split()))

    def test_pools_share_a_cluster(self):
        lease = self.json("acquire", "--slurm", "--gpus", "1")
        with tempfile.TemporaryDirectory(dir=self.folder) as state:
            env = {**self.env, "HOME": state}
            server = subprocess.Popen([XOE, "pool", "serve", "--port", "0"], env=env, text=True, stdout=subprocess.PIPE)
            try:
                env["XOE_POOL"] = server.stdout.readline().split()[-1]
                for _ in range(2):
                    subprocess.run([XOE, "pool", "slurm", "agent", "--once", "--prefix", "other-"], env=env, check=True)
            finally:
                server.terminate()
                server.communicate(timeout=20)
        self.assertEqual(self.json("status")["leases"][0]["job"], lease["job"])
        self.assertIn(str(lease["job"]), self.slurm("squeue", "-h", "-o", "%i").split())

    def test_an_allocation_that_is_lost_is_made_again(self):
        lease = self.json("acquire", "--slurm", "--gpus", "1")
        self.slurm("scancel", str(lease["job"]))
        name = f"xoe-pool-{lease['id']}"
        self.wait_for(lambda: self.slurm("squeue", "-h", "-o", "%i %j %T").split()[1:] == [name, "RUNNING"]
                      and not self.slurm("squeue", "-h", "-o", "%i").startswith(str(lease["job"])))
        self.wait_for(lambda: self.drift() == [])

    def test_a_node_that_is_drained_is_not_given(self):
        self.slurm("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
        try:
            self.wait_for(lambda: "Slurm has it as" in self.pool("status").stdout)
            lease = self.json("acquire", "--slurm", "--gpus", "2")
            self.assertEqual(lease["hosts"], ["n2"])
        finally:
            self.slurm("scontrol", "update", "NodeName=n1", "State=RESUME")


if __name__ == "__main__":
    if (missing := why_not()) is not None:
        print(f"skipped: {missing}")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
