"""`xoe pool vsphere` on a simulated vCenter: four T4s of one server, a Python machine and an R machine.

  vsphere_test.py XOE GPUSIM_SOURCE BUILD_FOLDER

Builds the simulator, gpusim, with Go; where Go or its modules are not to be had it says so and exits 77.
"""

import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

from pool_program import HANGS

XOE, SOURCE, BUILD = (pathlib.Path(arg).absolute() for arg in sys.argv[1:4])
SKIPPED = 77
PCI = [f"0000:{0x3B + i:02x}:00.0" for i in range(4)]


def build_gpusim():
    """Its path, or why there is none."""
    go = shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin")
    if go is None:
        return None, "Go is not there (https://go.dev/dl, 1.25 or later)"
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / "gpusim"
    built = subprocess.run(
        [go, "build", "-trimpath", "-o", program, "."],
        cwd=SOURCE,
        text=True,
        capture_output=True,
        env={**os.environ, "GOFLAGS": "-buildvcs=false -mod=readonly"},
        check=False,
    )
    if built.returncode == 0:
        return program, None
    missing = (
        "dial tcp",
        "no such host",
        "proxyconnect",
        "i/o timeout",
        "connection refused",
        "toolchain not available",
        "requires go >=",
    )
    if any(word in built.stderr for word in missing):
        return None, "gpusim's Go modules are not to be had: " + built.stderr.strip().splitlines()[-1]
    raise SystemExit(f"gpusim does not build:\n{built.stderr}")


class Simulator:
    """A running gpusim, and the files that its clients need."""

    def __init__(self, program, folder, *options):
        self.process = subprocess.Popen(
            [program, "-strict", *options], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.url = self.process.stdout.readline().strip()
        port = int(self.url.split(":")[2].split("/")[0])
        self.certificate = folder / "vcenter.pem"
        self.certificate.write_text(ssl.get_server_certificate(("127.0.0.1", port)))
        self.password = folder / "password"
        self.password.write_text("secret\n")
        self.password.chmod(0o600)
        self.options = [
            "--vcenter",
            self.url,
            "--vcenter-user",
            "pool",
            "--password-file",
            str(self.password),
            "--vcenter-ca",
            str(self.certificate),
        ]

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n", command

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=20)


class Vsphere(unittest.TestCase):
    gpusim = None
    simulator_options = ()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.home = pathlib.Path(self.folder.name)
        self.env = {**os.environ, "HOME": str(self.home)}
        for name in [name for name in self.env if name.startswith("XOE_POOL") or "proxy" in name.lower()]:
            del self.env[name]
        self.server = subprocess.Popen(
            [XOE, "pool", "serve", "--port", "0", "--host-timeout", "1h"],
            env=self.env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.env["XOE_POOL"] = self.server.stdout.readline().split()[-1]
        self.vcenter = Simulator(self.gpusim, self.home, *self.simulator_options)

    def tearDown(self):
        self.vcenter.stop()
        self.server.terminate()
        self.server.communicate(timeout=20)
        self.folder.cleanup()

    def pool(self, *words, expect=0):
        done = subprocess.run([XOE, "pool", *words], env=self.env, text=True, capture_output=True, timeout=100, check=False)
        self.assertEqual(done.returncode, expect, f"{words}: {done.stdout}{done.stderr}")
        return done

    def json(self, *words):
        return json.loads(self.pool(*words, "--json").stdout)

    def look(self, *options):
        """One round of the agent."""
        self.pool("vsphere", "agent", *self.vcenter.options, "--once", *options)

    def devices(self):
        """What each VM has, by vCenter's own word."""
        listed = self.json("vsphere", "list", *self.vcenter.options)
        return {vm["name"]: sorted(vm["devices"]) for vm in listed["vms"]}

    def running(self):
        return {vm["name"]: vm["running"] for vm in self.json("vsphere", "list", *self.vcenter.options)["vms"]}

    def drift(self):
        return [each["what"] for each in self.json("status")["drift"]]

    def acquire(self, vm, gpus, *options):
        return self.json("acquire", "--vm", vm, "--gpus", str(gpus), *options)

    def release(self, *leases):
        for lease in leases:
            self.pool("release", str(lease["id"]))


class Scenario(Vsphere):
    def test_two_machines_share_four_gpus(self):
        self.look()
        listed = self.pool("vsphere", "list", *self.vcenter.options).stdout
        self.assertIn("0000:3b:00.0  Tesla T4, 16 GiB, for DirectPath I/O", listed)
        self.assertIn("VM python on DC0_C0_H0: off\n", listed)

        two = self.acquire("python", 2), self.acquire("r", 2)  # 2 + 2
        self.assertIn("which does not have it yet", " ".join(self.drift()))
        self.look()
        have = self.devices()
        self.assertEqual((len(have["python"]), len(have["r"])), (2, 2))
        self.assertEqual(sorted(have["python"] + have["r"]), PCI)
        self.assertEqual(self.drift(), [])
        fifth = self.pool("acquire", "--vm", "r", expect=3)
        self.assertRegex(fifth.stderr, r"was refused: \S+ holds 2 GPUs")

        self.release(*two)  # 4 + 0
        self.look()
        self.assertEqual(self.devices(), {"python": [], "r": []})
        four = self.acquire("python", 4)
        self.look()
        self.assertEqual(self.devices(), {"python": PCI, "r": []})
        self.pool("acquire", "--vm", "r", expect=3)

        self.release(four)  # 1 + 3
        self.look()
        split = self.acquire("python", 1), self.acquire("r", 3)
        self.look()
        have = self.devices()
        self.assertEqual((len(have["python"]), len(have["r"])), (1, 3))
        self.assertEqual(sorted(have["python"] + have["r"]), PCI)

        self.release(*split)  # 0 + 0
        self.look()
        self.assertEqual(self.devices(), {"python": [], "r": []})
        self.assertEqual(self.drift(), [])
        self.assertNotIn("lease", self.json("status")["gpus"][0])

    def test_a_machine_that_runs_is_refused_with_the_reason(self):
        self.vcenter.tell("on python")
        self.look()
        refused = self.pool("acquire", "--vm", "python", expect=1)
        self.assertIn("VM python is running, and a GPU is given only while it is off: shut it down", refused.stderr)
        refused = self.pool("acquire", "--vm", "python", "--power-cycle", expect=1)
        self.assertIn("may not shut down VMs", refused.stderr)
        self.assertIn("there is no VM perl", self.pool("acquire", "--vm", "perl", expect=1).stderr)

    def test_a_machine_without_reserved_memory_is_refused(self):
        self.vcenter.tell("reserve r false")
        self.look()
        refused = self.pool("acquire", "--vm", "r", expect=1)
        self.assertIn("VM r cannot have a GPU: not all of its memory is reserved", refused.stderr)
        self.assertIn("not all of its memory is reserved", self.pool("status").stdout)

    def test_a_machine_that_was_started_meanwhile_keeps_what_it_has(self):
        self.look()
        lease = self.acquire("python", 1)
        self.look()
        self.vcenter.tell("on python")
        self.release(lease)
        self.look()
        self.assertEqual(self.devices()["python"], PCI[:1])
        self.assertIn(
            "VM python has it without a lease: the VM is running; GPUs change only while it is off: shut it down", self.drift()
        )
        three = self.acquire("r", 3)  # the fourth is not to be had while python runs
        self.pool("acquire", "--vm", "r", expect=3)
        self.release(three)
        self.vcenter.tell("off python")
        self.look()
        self.assertEqual(self.devices()["python"], [])
        self.assertEqual(self.drift(), [])

    def test_who_may_use_which_machine(self):
        self.pool("team", "vision")
        tokens = {}
        for name, *options in (("ann", "--team", "vision"), ("bob",)):
            tokens[name] = self.home / f"{name}-token"
            tokens[name].write_text(self.pool("user", name, *options).stdout)
            tokens[name].chmod(0o600)

        def may(name, vm, **expect):
            return self.pool("acquire", "--vm", vm, "--token-file", str(tokens[name]), **expect)

        rules = ("--vm-users", "python=bob", "--vm-users", "*=@vision")
        self.look(*rules)
        self.assertIn("VM python is for bob, not for ann", may("ann", "python", expect=1).stderr)
        self.assertIn("VM r is for @vision, not for bob", may("bob", "r", expect=1).stderr)
        status = self.pool("status").stdout
        self.assertRegex(status, r"python +DC0_C0_H0 +off +0 +bob\b")
        self.assertRegex(status, r"r +DC0_C0_H0 +off +0 +@vision\b")
        may("ann", "r")
        may("bob", "python")
        self.acquire("python", 1)  # an admin
        self.look(*rules)
        have = self.devices()
        self.assertEqual((len(have["python"]), len(have["r"])), (2, 1))
        # The list of python changes: what bob has stays, what it waits for does not start.
        with subprocess.Popen(
            [XOE, "pool", "acquire", "--vm", "python", "--gpus", "2", "--wait", "--token-file", str(tokens["bob"])],
            env=self.env,
            text=True,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as waits:
            self.assertIn("place 1 in the queue", waits.stderr.readline())
            self.look("--vm-users", "*=@vision")
            self.assertIn("VM python is not for bob any more", waits.communicate(timeout=30)[1])
            self.assertEqual(waits.returncode, 3)
        self.assertEqual(len(self.json("status")["leases"]), 3)
        self.assertIn(
            "expected VM=USER",
            self.pool("vsphere", "agent", *self.vcenter.options, "--once", "--vm-users", "python=", expect=2).stderr,
        )

    def test_power_cycle(self):
        refused = self.pool("vsphere", "agent", *self.vcenter.options, "--once", "--allow-power-cycle", expect=2)
        self.assertIn("--only-vm", refused.stderr)  # else any user could have any VM shut down
        self.vcenter.tell("on python")
        self.look("--only-vm", "python", "--allow-power-cycle")
        lease = self.acquire("python", 2, "--power-cycle")
        self.look("--only-vm", "python", "--allow-power-cycle")
        self.assertEqual(len(self.devices()["python"]), 2)
        self.assertTrue(self.running()["python"])
        self.release(lease)
        self.look("--only-vm", "python", "--allow-power-cycle")
        self.assertEqual(self.devices()["python"], [])
        self.assertTrue(self.running()["python"])

    def test_programs_do_not_get_gpus_of_machines(self):
        self.look()
        refused = self.pool("acquire", expect=3)
        self.assertIn("the pool has 0 GPU", refused.stderr)

    def test_a_device_that_somebody_gave_by_hand(self):
        self.look()
        self.vcenter.tell(f"steal r {PCI[0]}")
        self.look()
        self.assertEqual(self.drift(), ["VM r has it without a lease"])
        self.assertEqual(self.devices()["r"], PCI[:1])  # not the pool's to take back
        self.pool("acquire", "--vm", "python", "--gpus", "4", expect=3)
        uuid = next(gpu["uuid"] for gpu in self.json("status")["gpus"] if gpu["pci"] == PCI[0])
        adopted = self.json("adopt", uuid, "--vm", "r")
        self.assertEqual(self.drift(), [])
        self.release(adopted)
        self.look()
        self.assertEqual(self.devices()["r"], [])


class Faults(Vsphere):
    def test_a_session_that_expires(self):
        self.look()
        self.acquire("python", 1)
        agent = subprocess.Popen(
            [XOE, "pool", "vsphere", "agent", *self.vcenter.options, "--interval", "1s"],
            env=self.env,
            text=True,
            stderr=subprocess.PIPE,
        )
        try:
            self.wait_for(lambda: self.devices()["python"] == PCI[:1])
            self.vcenter.tell("expire")
            self.acquire("r", 1)
            self.wait_for(lambda: self.devices()["r"] == PCI[1:2] and self.drift() == [])
            self.assertIsNone(agent.poll(), "the agent ended")
        finally:
            agent.terminate()
            agent.communicate(timeout=20)

    def wait_for(self, holds):
        end = time.monotonic() + HANGS
        while not holds():
            self.assertLess(time.monotonic(), end, f"{self.devices()} {self.drift()}")
            time.sleep(0.2)

    def test_a_device_that_is_busy(self):
        self.look()
        self.acquire("python", 2)
        self.vcenter.tell("busy 1")
        self.look()
        self.assertEqual(self.devices()["python"], [])
        problem = " ".join(self.drift())
        self.assertIn("leased by", problem)
        self.assertIn("which does not have it yet: vCenter refuses ReconfigVM_Task", problem)
        self.look()
        self.assertEqual(self.devices()["python"], PCI[:2])
        self.assertEqual(self.drift(), [])

    def test_a_power_cycle_in_vain_is_not_repeated(self):
        self.vcenter.tell("on python")
        self.look("--only-vm", "python", "--allow-power-cycle")
        self.acquire("python", 1, "--power-cycle")
        self.vcenter.tell("busy 1000")
        agent = subprocess.Popen(
            [
                XOE,
                "pool",
                "vsphere",
                "agent",
                *self.vcenter.options,
                "--interval",
                "1s",
                "--only-vm",
                "python",
                "--allow-power-cycle",
            ],
            env=self.env,
            text=True,
            stderr=subprocess.PIPE,
        )
        try:
            self.wait_for(lambda: any("it was shut down in vain" in what for what in self.drift()))
            self.assertTrue(self.running()["python"])
            self.vcenter.tell("off python")
            self.vcenter.tell("busy 0")
            self.wait_for(lambda: self.devices()["python"] == PCI[:1] and self.drift() == [])
        finally:
            agent.terminate()
            agent.communicate(timeout=20)

    def test_a_slow_task(self):
        self.look()
        self.acquire("python", 1)
        self.vcenter.tell("slow 3")
        self.look()
        self.assertEqual(self.devices()["python"], PCI[:1])
        self.assertEqual(self.drift(), [])

    def test_a_vcenter_that_does_not_answer(self):
        options = [word.replace(self.vcenter.url, "https://127.0.0.1:1/sdk") for word in self.vcenter.options]
        self.assertIn("https://127.0.0.1:1/sdk: ", self.pool("vsphere", "list", *options, expect=5).stderr)
        self.vcenter.password.write_text("wrong")
        refused = self.pool("vsphere", "list", *self.vcenter.options, expect=1)
        self.assertIn("vCenter refuses to log in pool", refused.stderr)
        self.vcenter.password.chmod(0o644)
        self.assertIn("chmod 600", self.pool("vsphere", "list", *self.vcenter.options, expect=1).stderr)


class VirtualGpus(Vsphere):
    simulator_options = ("-shared", "2")

    def test_profiles(self):
        profile = ("--vgpu-profile", "grid_t4-8q")
        self.look(*profile)
        names = [gpu["name"] for gpu in self.json("status")["gpus"]]
        self.assertEqual(sorted(names), ["Tesla T4"] * 2 + ["grid_t4-8q"] * 4)
        python = self.acquire("python", 1, "--type", "grid_t4-8q")
        r = self.acquire("r", 3, "--type", "grid_t4-8q")
        self.pool("acquire", "--vm", "r", "--type", "grid_t4-8q", expect=3)
        self.look(*profile)
        self.assertEqual(self.devices(), {"python": ["grid_t4-8q"], "r": ["grid_t4-8q"] * 3})
        self.assertEqual(self.drift(), [])
        self.release(python, r)
        self.look(*profile)
        self.assertEqual(self.devices(), {"python": [], "r": []})
        self.assertEqual(self.drift(), [])


if __name__ == "__main__":
    Vsphere.gpusim, missing = build_gpusim()
    if missing is not None:
        print(f"skipped: {missing}")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
