"""`xoe pool` as its users see it: a server, agents on a mock of NVML, and commands.

program_test.py XOE MOCK_NVML
"""

import calendar
import copy
import errno
import http.server
import json
import os
import pathlib
import pwd
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import unittest

from pool_program import HANGS, PoolProgram

XOE, MOCK = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])


def resolved(schema, document):
    """Without references."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def members(value, schema, document):
    """Paths of the members of an answer, each with whether the description of the interface allows that it is left out."""
    schema = resolved(schema, document)
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from (((index, *path), free) for path, free in members(each, schema["items"], document))
    if not isinstance(value, dict) or "properties" not in schema:
        return
    for name, each in value.items():
        yield (name,), name not in schema.get("required", [])
        inner = members(each, schema["properties"][name], document)
        yield from (((name, *path), free) for path, free in inner)


class ReplayServer(http.server.ThreadingHTTPServer):
    """Answers as the pool did, without one member."""

    def __init__(self, answers):
        self.answers, self.without = answers, None
        super().__init__(("127.0.0.1", 0), ReplayServer.Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            path = self.path.split("?")[0]
            answer = copy.deepcopy(self.server.answers[path])
            if self.server.without is not None and self.server.without[0] == path:
                *folders, name = self.server.without[1]
                inner = answer
                for each in folders:
                    inner = inner[each]
                del inner[name]
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_):
            pass


class Pool(unittest.TestCase):
    def setUp(self):
        self.program = PoolProgram(XOE, MOCK, "--min-runtime", "1s").__enter__()
        self.home, self.env, self.server = self.program.home, self.program.env, self.program.server
        self.start, self.stop, self.pool = self.program.start, self.program.stop, self.program.run
        self.json, self.report = self.program.json, self.program.report

    def tearDown(self):
        self.program.server = self.server  # of the last start
        self.program.__exit__()

    def user(self, name, *options):
        path = self.home / f"{name}-token"
        path.write_text(self.pool("user", name, *options).stdout)
        path.chmod(0o600)
        return {"XOE_POOL_TOKEN_FILE": str(path)}

    def test_acquire_renew_release(self):
        self.report()
        lease = self.json("acquire", "--gpus", "2", "--same-nvlink", "--for", "1h", "--purpose", "a trial")
        self.assertEqual(lease["state"], "open")
        self.assertEqual(len(lease["gpus"]), 2)
        self.assertTrue(all(re.match("GPU-", uuid) for uuid in lease["gpus"]))
        number = str(lease["id"])
        renewed = self.json("renew", number, "--for", "2h")
        self.assertGreater(renewed["expires"], lease["expires"] + 3500)
        self.assertIn("a trial", self.pool("status").stdout)
        self.pool("release", number)
        self.assertEqual(self.json("status")["leases"], [])
        kinds = [event["kind"] for event in self.json("events")["events"] if event.get("lease") == lease["id"]]
        self.assertEqual(kinds, ["asked", "granted", "renewed", "ended"])

    def test_what_a_shell_reads(self):
        self.report()
        out = subprocess.run(
            ["bash", "-c", f'eval "$({XOE} pool acquire)"; echo $CUDA_VISIBLE_DEVICES; {XOE} pool release $XOE_POOL_LEASE'],
            env=self.env,
            text=True,
            capture_output=True,
            check=True,
        )
        self.assertRegex(out.stdout, "^GPU-")

    def test_files_of_leases_that_have_ended_go(self):
        self.report()
        folder = self.home / ".local/share/xoe/pool/leases"

        def acquire(*words):
            return str(self.json("acquire", *words)["id"])

        day = time.strftime("%Y-%m-%dT%H:%M", time.localtime(time.time() + 86400))
        kept = [acquire(), acquire("--at", day)]
        prefix = next(folder.iterdir()).name.rsplit("-", 1)[0]
        for number in range(1000, 1040):
            (folder / f"{prefix}-{number}").write_text("x")
        (folder / "http___another.pool-7").write_text("x")
        self.assertEqual(len(list(folder.iterdir())), 43)
        kept.append(acquire())
        self.assertEqual(
            {path.name for path in folder.iterdir()}, {f"{prefix}-{number}" for number in kept} | {"http___another.pool-7"}
        )
        for number in kept:
            self.pool("release", number)
        self.assertEqual([path.name for path in folder.iterdir()], ["http___another.pool-7"])

    def test_no_gpu_now(self):
        self.report()
        self.pool("acquire", "--gpus", "4")
        refused = self.pool("acquire", expect=3)
        self.assertRegex(refused.stderr, r"lease \d+ was refused: \S+ holds 4 GPUs .*; with --wait it would start at")

    def test_waiting_in_the_queue(self):
        self.report()
        first = self.json("acquire", "--gpus", "4")
        waits = self.start("acquire", "--gpus", "1", "--wait", "--json")
        self.assertRegex(waits.stderr.readline(), r"lease 2: 1 GPU, place 1 in the queue, starts at .* holds 4 GPUs")
        self.pool("release", str(first["id"]))
        out, _ = waits.communicate(timeout=HANGS)
        self.assertEqual(json.loads(out)["state"], "open")

    def test_who_is_interrupted_leaves_the_queue(self):
        self.report()
        self.pool("acquire", "--gpus", "4")
        for verb in (["acquire"], ["run", "--", "true"]):
            waits = self.start(verb[0], "--wait", *verb[1:])
            self.assertIn("place 1 in the queue", waits.stderr.readline())
            waits.send_signal(signal.SIGINT)
            _, err = waits.communicate(timeout=HANGS)
            self.assertIn("was given back", err)
            self.assertEqual(self.json("status")["queue"], [])

    def test_run_releases_whatever_happens(self):
        self.report()
        done = self.pool("run", "--gpus", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 9", expect=9)
        self.assertRegex(done.stdout, "^GPU-.*,GPU-")
        self.pool("run", "--", "sh", "-c", "kill -SEGV $$", expect=128 + signal.SIGSEGV)
        self.pool("run", "--", "./no-such-program", expect=127)
        running = self.start("run", "--", "sleep", "100")
        self.assertTrue(any("lease 4 until" in line for line in running.stderr))
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=HANGS)
        self.assertEqual(running.returncode, 128 + signal.SIGTERM)
        self.assertEqual(self.json("status")["leases"], [])

    def test_run_takes_gpus_of_its_host(self):
        self.report("a", "1")
        self.report("b", "2")
        for host, number in (("a", "1"), ("b", "2")):
            done = self.pool("run", "--host", host, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
            self.assertRegex(done.stdout, f"^GPU-0*{number}-")
        done = self.pool("run", "--", "echo", "ran", expect=1)
        self.assertIn("has several names in the pool: say with --host which one's GPUs to take: a, b", done.stderr)
        self.assertNotIn("ran", done.stdout)
        self.assertIn("the pool has 0 GPUs on c, and 1", self.pool("run", "--host", "c", "--", "true", expect=3).stderr)
        self.assertIn("the program runs on this host", self.pool("run", "--any-host", "--", "true", expect=1).stderr)

    def test_run_on_a_host_that_the_pool_does_not_know(self):
        gpu = {"uuid": "GPU-elsewhere", "name": "T4", "memory": 1 << 34, "pci": "0"}
        for host, machine in (("elsewhere", "another-boot/1"), ("silent", "")):
            report = {"host": host, "machine": machine, "gpus": [{**gpu, "uuid": f"GPU-{host}"}]}
            self.assertEqual(self.program.ask("/v1/report", self.program.admin_token(), json.dumps(report).encode())[0], 200)
        done = self.pool("run", "--", "echo", "ran", expect=1)
        self.assertIn("GPUs of other hosts are of no use here", done.stderr)
        self.assertIn("elsewhere, silent", done.stderr)
        self.assertNotIn("ran", done.stdout)
        done = self.pool("run", "--host", "elsewhere", "--", "echo", "ran", expect=1)
        self.assertIn("elsewhere is another machine, and the program would run on this one", done.stderr)
        self.assertNotIn("ran", done.stdout)
        self.assertEqual(self.json("status")["leases"], [])
        done = self.pool("run", "--or-cpu", "--", "sh", "-c", 'echo "[$CUDA_VISIBLE_DEVICES]"')
        self.assertEqual(done.stdout, "[]\n")
        self.report("ours")
        self.assertRegex(self.pool("run", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES").stdout, "^GPU-0")

    def test_what_enforces_a_lease(self):
        self.report()
        self.pool("acquire")
        self.assertIn("lease 1: environment only; a program that ignores it", self.pool("status").stdout)
        # The GPUs of the mock have no device files: no rule, so the program does not run either.
        done = self.pool("run", "--host", "a", "--device-rule", "--", "echo", "ran", expect=None)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("ran", done.stdout)
        self.assertRegex(done.stderr, "device file|cgroup|device rule")
        self.assertEqual(len(self.json("status")["leases"]), 1)

    def test_device_files_of_other_users_are_closed(self):
        host = self.home / "host"
        devices, driver = host / "dev", host / "proc/driver/nvidia"
        for folder in (devices, driver / "gpus", host / "run"):
            folder.mkdir(parents=True)
        self.home.chmod(0o755)
        guard = (
            "agent",
            "--host",
            "a",
            "--nvml",
            str(MOCK),
            "--guard-devices",
            "--system-root",
            str(host),
            "--interval",
            "0.1",
        )
        (driver / "params").write_text("ModifyDeviceFiles: 1\n")
        self.assertIn("NVreg_ModifyDeviceFiles=0" if os.geteuid() == 0 else "by root only", self.pool(*guard, expect=1).stderr)
        (driver / "params").write_text("ModifyDeviceFiles: 0\n")
        self.report()
        gpus = self.json("status")["gpus"]
        try:
            for index, gpu in enumerate(gpus):
                os.mknod(devices / f"nvidia{index}", stat.S_IFCHR | 0o666, os.makedev(195, index))
                (devices / f"nvidia{index}").chmod(0o666)
                (driver / f"gpus/{gpu['pci'][4:].lower()}").mkdir()
                information = f"GPU UUID: {gpu['uuid']}\nDevice Minor: {index}\n"
                (driver / f"gpus/{gpu['pci'][4:].lower()}/information").write_text(information)
        except PermissionError as error:
            self.skipTest(f"needs root: {error}")

        def opens(user):
            """The GPUs that it can open. There is no driver: who may open a file gets another error than who may not."""
            account = pwd.getpwnam(user)
            out, its_end = os.pipe()
            if os.fork() == 0:
                os.setgroups([])
                os.setgid(account.pw_gid)
                os.setuid(account.pw_uid)
                for index in range(len(gpus)):
                    try:
                        os.open(devices / f"nvidia{index}", os.O_RDWR)
                    except OSError as error:
                        os.write(its_end, bytes([error.errno]))
                os._exit(0)
            os.close(its_end)
            with os.fdopen(out, "rb") as errors:
                told = errors.read()
            os.wait()
            return [gpu["uuid"] for gpu, error in zip(gpus, told, strict=True) if error != errno.EACCES]

        if len(opens("daemon")) != len(gpus):
            self.skipTest("devices cannot be opened in the folder of this test")
        daemon, bin_ = self.user("daemon"), self.user("bin")
        self.program.silence("a")
        agent = self.start(*guard)
        try:
            self.wait_for(lambda: opens("daemon") == [])
            lease = self.json("acquire", "--gpus", "2", **daemon)  # returns when the files are open
            self.assertEqual(opens("daemon"), lease["gpus"])
            self.assertEqual(opens("bin"), [])
            self.assertIn("lease 1: file permissions; other users cannot open its GPUs", self.pool("status").stdout)
            self.assertTrue(self.json("status")["leases"][0]["guarded"])
            self.pool("release", "1", **daemon)
            self.pool("acquire", "--gpus", "4", **bin_)
            self.assertEqual(len(opens("bin")), 4)
            self.assertEqual(opens("daemon"), [])
        finally:
            self.stop(agent)
        self.assertEqual(len(opens("daemon")), 4)

    def wait_for(self, holds):
        end = time.monotonic() + HANGS
        while not holds():
            self.assertLess(time.monotonic(), end, "it does not happen")
            time.sleep(0.05)

    def test_instances_of_a_gpu_in_mig_mode(self):
        self.report(XOE_MOCK_GPUS="pair", XOE_MOCK_TROUBLE="mig")
        text = self.pool("status").stdout
        self.assertRegex(text, r"MIG-\S+ +NVIDIA A100-SXM4-40GB MIG 1g.5gb +5 GiB +not known +free\n")
        gpus = self.json("status")["gpus"]
        self.assertEqual([gpu["uuid"][:4] for gpu in gpus], ["GPU-", "MIG-", "MIG-"])
        self.assertNotIn("utilisation", gpus[1])  # the driver does not tell it
        lease = self.json("acquire", "--type", "1g.5gb", "--gpus", "2")
        self.assertEqual(lease["gpus"], [gpu["uuid"] for gpu in gpus[1:]])
        self.assertIn("the pool has 1 GPU", self.pool("acquire", "--gpus", "2", "--memory", "20G", expect=3).stderr)
        self.pool("release", str(lease["id"]))
        shown = self.pool("run", "--type", "1g.5gb", "--memory", "4G", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES").stdout
        self.assertRegex(shown, "^MIG-[0-9a-f-]+\n$")

    def test_run_ends_with_its_lease(self):
        self.report()
        running = self.start("run", "--", "sleep", "100")
        self.assertRegex(running.stderr.readline(), "lease 1 until")
        self.pool("revoke", "1", "--why", "maintenance")
        _, err = running.communicate(timeout=HANGS)
        self.assertIn("its lease has ended: maintenance", err)
        self.assertEqual(running.returncode, 128 + signal.SIGTERM)

    def test_run_or_cpu(self):
        done = self.pool("run", "--or-cpu", "--", "sh", "-c", 'echo "[$CUDA_VISIBLE_DEVICES]"')
        self.assertEqual(done.stdout, "[]\n")
        self.assertIn("runs on the CPU", done.stderr)

    def test_roles_and_tokens(self):
        self.report()
        self.pool("team", "vision", "--quota", "2")
        ann = self.user("ann", "--team", "vision", "--max-gpus", "2")
        lead = self.user("lea", "--team", "vision", "--role", "lead")
        agent = self.user("host-a", "--role", "agent")
        number = str(self.json("acquire", **ann)["id"])
        self.assertIn("the role user", self.pool("team", "x", expect=4, **ann).stderr)
        self.assertIn("the role agent", self.pool("acquire", expect=4, **agent).stderr)
        self.assertIn("ann may hold 2 GPUs at once, not 3", self.pool("acquire", "--gpus", "3", expect=1, **ann).stderr)
        self.assertIn("the role user", self.pool("events", expect=4, **ann).stderr)
        self.assertIn("the role user", self.pool("revoke", number, "--why", "x", expect=4, **ann).stderr)
        self.assertIn("needs a team", self.pool("user", "leo", "--role", "lead", expect=1).stderr)
        self.pool("team", "speech")
        other = self.user("leo", "--team", "speech", "--role", "lead")
        self.assertIn("only an admin or the lead", self.pool("revoke", number, "--why", "x", expect=1, **other).stderr)
        self.pool("revoke", number, "--why", "needed for a demo", **lead)
        teamless = str(self.json("acquire")["id"])
        refused = self.pool("revoke", teamless, "--why", "x", expect=1, **lead).stderr
        self.assertIn(f"only an admin may end lease {teamless}", refused)
        self.pool("release", teamless)
        self.pool("user", "ann", "--new-token")
        self.assertIn("no user has this token", self.pool("status", expect=4, **ann).stderr)
        loose = self.home / "loose"
        loose.write_text("0" * 32)
        loose.chmod(0o644)
        self.assertIn("chmod 600", self.pool("status", expect=1, XOE_POOL_TOKEN_FILE=str(loose)).stderr)
        self.assertEqual((self.home / ".config/xoe/pool-token").stat().st_mode & 0o777, 0o600)
        self.assertEqual((self.home / ".local/share/xoe/pool/pool.db").stat().st_mode & 0o777, 0o600)

    def test_use_without_a_lease_is_shown_and_adopted(self):
        state = self.home / "state"
        state.write_text(f"3 50 4000 {os.getpid()}\n")
        self.report(state=str(state))
        drift = self.json("status")["drift"]
        self.assertRegex(drift[0]["what"], rf"in use without a lease by \S+ \(process {os.getpid()}\)")
        self.assertIn("to look at:", self.pool("status").stdout)
        self.pool("acquire", "--gpus", "4", expect=3)
        self.assertEqual(self.json("adopt", drift[0]["gpu"])["gpus"], [drift[0]["gpu"]])
        self.assertEqual(self.json("status")["drift"], [])

    def test_use_that_no_process_shows(self):
        state = self.home / "state"
        state.write_text("0 0 447\n1 0 447\n2 0 447\n3 99 15000\n")
        for trouble in ("unlisted", ""):  # the driver does not list processes; it lists none
            self.report(state=str(state), XOE_MOCK_TROUBLE=trouble)
            for verb in (["events"], ["usage"], ["usage", "--csv"]):
                self.pool(*verb)
            text = self.pool("status").stdout
            self.assertEqual(re.findall(r"free|in use without a lease$", text, re.M), ["free"] * 3 + ["in use without a lease"])
            self.assertIn("to look at:\n  GPU-", text)
            gpus = self.json("status")["gpus"]
            self.assertEqual([gpu["use"] for gpu in gpus], ["free"] * 3 + ["unleased"])
            self.assertEqual(["processes" in gpu for gpu in gpus], [not trouble] * 4)
            metrics = self.program.ask("/metrics", self.program.admin_token())[2].decode()
            self.assertIn('xoe_pool_gpus{use="unleased"} 1\n', metrics)

    def test_a_program_that_pauses_keeps_its_gpu(self):
        state = self.home / "state"
        state.write_text("0 90 4000\n1 0 800\n2 0 800\n3 0 800\n")
        self.report(state=str(state), XOE_MOCK_GPUS="switch", XOE_MOCK_TROUBLE="unlisted")
        waiting = self.start("acquire", "--gpus", "4", "--wait")
        self.addCleanup(waiting.kill)
        self.assertIn("in use without a lease", waiting.stderr.readline())
        state.write_text("0 0 4000\n1 0 800\n2 0 800\n3 0 800\n")
        while [gpu["utilisation"] for gpu in self.json("status")["gpus"]] != [0] * 4:
            time.sleep(0.1)
        self.assertEqual([gpu["use"] for gpu in self.json("status")["gpus"]], ["unleased"] + ["free"] * 3)
        self.assertEqual(self.json("status")["leases"], [])
        state.write_text("0 0 20\n1 0 800\n2 0 800\n3 0 800\n")
        self.assertIn("export XOE_POOL_LEASE", waiting.stdout.readline())
        waiting.communicate(timeout=HANGS)

    def test_answers_that_leave_out_members(self):
        state = self.home / "state"
        state.write_text(f"3 50 4000 {os.getpid()}\n")
        self.report(state=str(state))
        admin = self.program.admin_token()
        esx = {"host": "esx", "vms": [{"name": "v"}], "gpus": [{"uuid": "vsphere:esx:1"}], "problem": "some"}
        self.assertEqual(self.program.ask("/v1/report", admin, esx)[0], 200)
        self.pool("team", "t")
        self.pool("acquire", "--gpus", "2", "--purpose", "a trial")
        waits = self.start("acquire", "--gpus", "2", "--wait")
        self.assertIn("place 1 in the queue", waits.stderr.readline())

        def answer(path, *body):
            return json.loads(self.program.ask(path, admin, *body)[2])

        status = answer("/v1/status")
        given = {"lease": status["leases"][0]}
        answers = {"/v1/status": status, "/v1/events": answer("/v1/events"), "/v1/usage": answer("/v1/usage")}
        answers |= {"/v1/leases": given, "/v1/leases/1": given}
        document = answer("/v1/openapi.json")
        waits.send_signal(signal.SIGINT)
        waits.communicate(timeout=HANGS)
        verbs = {
            "/v1/status": (["status"], "get"),
            "/v1/events": (["events"], "get"),
            "/v1/usage": (["usage"], "get"),
            "/v1/leases": (["acquire"], "post"),
        }
        replay = ReplayServer(answers)
        self.addCleanup(replay.server_close)
        self.addCleanup(replay.shutdown)
        for path, (verb, method) in verbs.items():
            self.pool(*verb, XOE_POOL=replay.url)
            schema = document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
            for member, may_be_left_out in list(members(answers[path], schema, document)):
                if path == "/v1/events" and member[1:] and member[1] > 9:
                    continue
                replay.without = (path, member)
                done = self.pool(*verb, expect=None, XOE_POOL=replay.url)
                with self.subTest(path=path, member=member):
                    self.assertNotIn("CUDA_VISIBLE_DEVICES=\n", done.stdout)
                    if member[-1] == "use":
                        others = [gpu["use"] for index, gpu in enumerate(status["gpus"]) if index != member[1]]
                        self.assertEqual(done.stdout.count(" free\n"), others.count("free"))
                    if done.returncode != 0:
                        self.assertFalse(may_be_left_out and member[-1] != "gpus", done.stderr)
                        self.assertEqual(done.returncode, 1, done.stderr)
                        self.assertIn("the server is of another version", done.stderr)
            replay.without = None

    def test_several_hosts_and_those_without_gpus(self):
        self.report("a", "1")
        self.report("b", "2")
        self.pool("agent", "--once", "--host", "c", "--nvml", "/nowhere/libnvidia-ml.so.1")
        status = self.json("status")
        self.assertEqual([gpu["host"] for gpu in status["gpus"]], ["a"] * 4 + ["b"] * 4)
        self.assertIn("c has no GPUs: ", self.pool("status").stdout)
        self.pool("acquire", "--gpus", "6", expect=3)
        self.assertEqual(self.json("acquire", "--gpus", "6", "--any-host")["hosts"], ["a", "b"])

    def test_what_a_killed_run_leaves_is_ended_before_its_gpus_are_free(self):
        self.report()
        child = self.home / "child"
        orphan = f"setsid sh -c 'trap \"\" TERM; echo $$ >{child}; exec sleep 300' & wait"
        run = self.start("run", "--gpus", "1", "--", "sh", "-c", orphan)
        while not child.exists() or not child.read_text().strip():
            time.sleep(0.02)
        pid = int(child.read_text())
        run.kill()
        run.communicate()
        while self.json("status")["leases"]:
            time.sleep(0.02)
        state = pathlib.Path(f"/proc/{pid}/stat")  # where no process of the machine collects orphans, it stays as a zombie
        self.assertTrue(not state.exists() or ") Z " in state.read_text(), "a process of the former holder has the GPU")

    def test_times_of_reservations(self):
        self.report()

        def refused(at, text, **variables):
            self.assertIn(text, self.pool("acquire", "--at", at, expect=1, **variables).stderr)

        refused("2027-02-30T09:00", "there is no such day")
        refused("2027-02-20T25:00", "no such time of the day")
        refused("tomorrow", "is no time")
        berlin = {"TZ": "Europe/Berlin"}
        refused("2027-03-28T02:30", "does not come that day", **berlin)
        refused("2027-10-31T02:30", "comes twice", **berlin)
        refused("2020-01-01T00:00Z", "is over")
        for _ in range(10):  # a minute that ends while it is asked for is over
            minute = time.strftime("%Y-%m-%dT%H:%M")
            done = self.pool("acquire", "--gpus", "1", "--at", minute, "--json", expect=None)
            if time.strftime("%Y-%m-%dT%H:%M") == minute:
                break
        self.assertEqual(json.loads(done.stdout)["state"], "open", done.stderr)
        day = time.gmtime(time.time() + 86400)
        for zone, hours in (("Z", 0), ("+02:00", 2), ("-0130", -1.5)):
            at = self.json("acquire", "--gpus", "1", "--for", "1h", "--at", time.strftime("%Y-%m-%dT%H:%M", day) + zone)["at"]
            self.assertEqual(at, calendar.timegm(day) // 60 * 60 - hours * 3600)

    def test_a_time_has_a_unit(self):
        self.assertIn("a time with its unit", self.pool("acquire", "--for", "4", expect=2).stderr)

    def test_a_team_keeps_what_is_not_told(self):
        self.pool("team", "t", "--quota", "2", "--no-borrowing")
        self.pool("team", "t")
        self.assertIs(self.json("status")["teams"][0]["may_borrow"], False)
        self.pool("team", "t", "--borrowing")
        told = [event["why"] for event in self.json("events")["events"] if event["subject"] == "t"]
        self.assertEqual(told, ["quota 2, may not borrow", "quota 2"])

    def test_a_host_that_is_gone_is_forgotten(self):
        self.report("b")
        self.assertIn("it is online", self.pool("forget", "b", expect=1).stderr)
        self.assertIn("there is no host c", self.pool("forget", "c", expect=1).stderr)

    def test_names_are_names(self):
        for name in ("a,b", "=cmd|x", "../../x", ".x", "a b"):
            self.assertIn("cannot be the name", self.pool("user", name, expect=1).stderr)
        self.assertIn("cannot be the name", self.pool("user", "--", "-rf", expect=1).stderr)
        self.report()
        for hidden in "\u202e\u200f\u061c\u200b\u2028\ufeff\u00ad\u180e\U000e0041":
            self.assertIn("purpose: ", self.pool("acquire", "--purpose", f"a{hidden}b", expect=1).stderr)
        for name in ("../../x", "/etc", "=cmd|x", "a\u200fb", "h" * 256):
            refused = "longer than 255 bytes" if name[0] == "h" else "cannot be the name of a team"
            self.assertIn(refused, self.pool("team", name, "--quota", "1", expect=1).stderr)
            agent = ("agent", "--once", "--host", name, "--nvml", str(MOCK))
            self.assertIn("cannot be the name of a host", self.pool(*agent, expect=1, XOE_MOCK_HOST="9").stderr)

    def test_messages_hide_nothing(self):
        self.report()
        hidden, shown = "a\u202eb", "a\ufffdb"
        for words in (["forget", hidden], ["adopt", hidden], ["team", hidden, "--quota", "1"], ["user", hidden]):
            text = self.pool(*words, expect=1).stderr
            self.assertIn(shown, text)
            self.assertNotIn(hidden, text)
        for option in ("--vm", "--type", "--host"):
            text = self.pool("acquire", option, hidden, expect=1).stderr
            self.assertIn(f"{option[2:]}: it has characters that are hidden", text)
            self.assertNotIn(hidden, text)
        for words in (["acquire", "--for", hidden], ["acquire", f"--{hidden}"], ["status", "--pool", hidden]):
            text = self.pool(*words, expect=None).stderr
            self.assertIn(shown, text)
            self.assertNotIn(hidden, text)

    def test_a_server_that_is_killed_keeps_its_leases(self):
        self.report()
        lease = self.json("acquire", "--gpus", "2")
        port = self.env["XOE_POOL"].rsplit(":", 1)[1]
        self.server.kill()
        self.server.communicate()
        silent = self.pool("agent", "--once", expect=5).stderr
        self.assertIn("does not answer: no connection can be made; see whether a server runs there", silent)
        self.server = self.start("serve", "--port", port)
        self.server.stdout.readline()
        self.assertEqual(self.json("status")["leases"][0]["gpus"], lease["gpus"])
        self.pool("release", str(lease["id"]))

    def test_usage_and_backup(self):
        self.report()
        self.pool("acquire", "--gpus", "2")
        self.assertRegex(self.pool("usage").stdout, r"team +user +GPU-hours held")
        self.assertRegex(self.pool("usage", "--csv").stdout, "^hour,team,user,held_gpu_hours")
        copy = self.home / "copy.db"
        self.pool("backup", str(copy))
        self.assertGreater(copy.stat().st_size, 1000)
        self.assertEqual(copy.stat().st_mode & 0o777, 0o600)
        self.assertIn("it exists; a backup needs a new file", self.pool("backup", str(copy), expect=1).stderr)
        self.assertIn('FILE "" is no path', self.pool("backup", "", expect=2).stderr)

    def test_a_token_that_cannot_be_looked_for(self):
        longest = "n" * 300
        token = str(self.home / ".config/xoe/pool-token")
        there = self.pool("release", "1", expect=1, HOME=f"/{longest}", XOE_POOL_TOKEN_FILE=token).stderr
        self.assertIn("cannot look for the token of lease 1 in /nnn", there)
        self.assertIn("File name too long", there)
        second = self.start("serve", "--port", "0", "--state", str(self.home / "other"), HOME=f"/{longest}")
        _, err = second.communicate(timeout=HANGS)
        self.assertIn("the place of the first user's token", err)
        self.assertIn("File name too long", err)
        self.assertEqual(second.returncode, 5)

    def test_a_second_server_on_the_same_state(self):
        second = self.start("serve", "--port", "0")
        _, err = second.communicate(timeout=HANGS)
        self.assertIn("another server has the pool's database", err)
        self.assertEqual(second.returncode, 5)

    def test_other_hosts_need_tls(self):
        done = self.pool("serve", "--listen", "0.0.0.0", "--port", "0", "--state", str(self.home / "other"), expect=1)
        self.assertIn("give --tls-cert and --tls-key", done.stderr)
        self.assertFalse((self.home / "other").exists())

    def test_requests_that_are_wrong(self):
        self.report()
        token = (self.home / ".config/xoe/pool-token").read_text().strip()
        host, port = self.env["XOE_POOL"].removeprefix("http://").split(":")

        def ask(path, body, authorization=f"Bearer {token}"):
            with socket.create_connection((host, int(port)), timeout=HANGS) as connection:
                head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\nConnection: close\r\n"
                connection.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
                answer = b""
                while part := connection.recv(65536):
                    answer += part
            head, _, body = answer.partition(b"\r\n\r\n")
            return int(head.split()[1]), json.loads(body)["error"]["message"]

        good = b'"token": "' + b"a" * 32 + b'"'
        for body, expected in [
            (b"", "token is missing"),
            (b"[]", "not a JSON object"),
            (b"\xff{", "not a JSON object"),
            (b"{" + good + b', "gpus": 1.5}', "gpus: 1.5 is not a whole number from 1 to 1024"),
            (b"{" + good + b', "gpus": 99999999999999999999}', "gpus: "),
            (b"{" + good + b', "gpu": 1}', 'unknown field "gpu"'),
            (b"{" + good + b', "seconds": -1}', "seconds: -1 is not a number"),
            (b"{" + good + b', "type": 7}', "type: not one line"),
            (b'{"token": "short"}', "32 to 128 random letters and digits"),
        ]:
            self.assertEqual(ask("/v1/leases", body)[0], 400, body)
            self.assertIn(expected, ask("/v1/leases", body)[1])
        self.assertEqual(ask("/v1/leases", b"{}", "Bearer wrong")[0], 400)
        self.assertEqual(ask("/v1/leases", b"{" + good + b"}", "Bearer wrong")[0], 401)
        self.assertEqual(ask("/v1/leases", b" " * (2 << 20))[0], 413)
        self.assertEqual(ask("/v1/nothing", b"{}")[0], 404)
        self.assertEqual(ask("/v1/leases/99/release", b"{" + good + b"}")[0], 400)
        self.assertEqual(self.json("status")["leases"], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
