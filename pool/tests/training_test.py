"""`xoe run --pool`: ranks on GPUs of a pool, also a training that gives GPUs back while it runs and takes them again.

  training_test.py XOE MOCK_NVML

The GPUs are a mock's, and the ranks compute on the CPU.
"""

import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from pool_program import HANGS

XOE, MOCK = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
HAS_TRAINER = (XOE.parent / "xoe-trainer").exists()


def processes_with(text):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if text.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


class RefusingProxy:
    """In front of a server, which it does not let see the first releases: it answers 503, then 429."""

    def __init__(self, server):
        answers, refused = [503, 429], []
        self.refused = refused

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.pass_on(None)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path.endswith("/release") and answers:
                    refused.append(answers.pop(0))
                    self.answer(refused[-1], b'{"error": {"message": "not now"}}')
                else:
                    self.pass_on(body)

            def pass_on(self, body):
                headers = {name: self.headers[name] for name in ("Authorization", "Content-Type") if name in self.headers}
                try:
                    with urllib.request.urlopen(urllib.request.Request(server + self.path, body, headers)) as reply:
                        self.answer(reply.status, reply.read())
                except urllib.error.HTTPError as refusal:
                    self.answer(refusal.code, refusal.read())

            def answer(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class PoolTraining(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.home = pathlib.Path(self.folder.name)
        self.mark = f"XOE_TEST_MARK={self.folder.name}"
        self.env = {**os.environ, "HOME": str(self.home), "XOE_MOCK_GPUS": "four", "OMP_NUM_THREADS": "1"}
        for name in [name for name in self.env if name.startswith("XOE_POOL")]:
            del self.env[name]
        self.serve("--port", "0")
        self.agents = [self.start("pool", "agent", "--nvml", str(MOCK))]
        self.agents[0].stderr.readline()

    def tearDown(self):
        for process in (*self.agents, self.server):
            process.terminate()
            process.communicate(timeout=HANGS)
        self.assertEqual(processes_with(self.mark), [])
        self.folder.cleanup()

    def serve(self, *options):
        self.server = self.start("pool", "serve", *options)
        self.env["XOE_POOL"] = self.server.stdout.readline().split()[-1]

    def start(self, *words, output=None, **variables):
        """With `output`, a file, in place of pipes that would fill up."""
        out, err = (output, subprocess.STDOUT) if output else (subprocess.PIPE, subprocess.PIPE)
        return subprocess.Popen([XOE, *words], env={**self.env, **variables}, text=True, stdout=out, stderr=err)

    def xoe(self, *words, expect=0, **variables):
        done = subprocess.run(
            [XOE, *words], env={**self.env, **variables}, text=True, capture_output=True, timeout=HANGS, check=False
        )
        self.assertEqual(done.returncode, expect, f"{words}: {done.stdout}{done.stderr}")
        return done

    def status(self):
        return json.loads(self.xoe("pool", "status", "--json").stdout)

    def leases(self):
        return self.status()["leases"]

    def until(self, condition, what):
        end = time.monotonic() + HANGS
        while not (found := condition()):
            self.assertLess(time.monotonic(), end, f"not within {HANGS} s: {what}")
            time.sleep(0.05)
        return found

    def marked(self, *words, output=None):
        name, _, value = self.mark.partition("=")
        process = self.start(*words, output=output, **{name: value})
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        """After a test that failed while it ran."""
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=HANGS)

    def test_a_rank_for_each_gpu(self):
        done = self.xoe(
            "run",
            "--pool",
            "--gpus",
            "2",
            "--no-tag-output",
            "--",
            "sh",
            "-c",
            "echo $XOE_RANK of $XOE_SIZE on $CUDA_VISIBLE_DEVICES",
        )
        lines = sorted(done.stdout.splitlines())
        self.assertEqual(len(lines), 2)
        for rank, line in enumerate(lines):
            self.assertRegex(line, rf"^{rank} of 2 on GPU-[-0-9a-f]+$")
        self.assertNotEqual(lines[0].split()[-1], lines[1].split()[-1])
        self.assertEqual(self.leases(), [])

    def test_exit_codes_and_wrong_usage(self):
        self.xoe("run", "--pool", "--", "sh", "-c", "exit 7", expect=7)
        for words, expected in [
            (["--gpus", "2", "true"], "--gpus is for GPUs of a pool: add --pool"),
            (["--pool", "-np", "2", "true"], "say --gpus 2"),
            (["--pool", "-H", "a:1", "true"], "--any-host lets it take several"),
            (["--pool", "--gpus", "1:2", "--any-host", "true"], "--gpus MIN:MAX is for GPUs of this host"),
            (["--pool", "--gpus", "4:2", "true"], "expected a number from 1 to 1024, or MIN:MAX"),
            (["--pool", "--gpus", "0", "true"], "expected a number from 1 to 1024, or MIN:MAX"),
            (["--devices", "a,b", "-np", "3", "true"], "one for each"),
            (["--resize", "77:4", "true"], "descriptor 77 is not open"),
        ]:
            done = subprocess.run([XOE, "run", *words], env=self.env, text=True, capture_output=True, check=False)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(expected, done.stderr, words)
        self.assertIn("--pool --gpus 1:2", self.xoe("pool", "run", "--gpus", "1:2", "--", "true", expect=1).stderr)
        self.assertEqual(self.leases(), [])

    def test_ranks_on_gpus_of_several_hosts(self):
        """Two further hosts, which ssh reaches; each has two A100s, and this host has four T4s."""

        def report(host, number):
            agent = ("pool", "agent", f"--host={host}", "--nvml", str(MOCK))
            mock = {"XOE_MOCK_HOST": number, "XOE_MOCK_GPUS": "pair"}
            self.xoe(*agent, "--once", **mock)
            self.agents.append(self.start(*agent, "--interval", "0.3", **mock))

        report("one", "1")
        report("two", "2")
        ssh = self.home / "ssh"
        ssh.write_text('#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\nexec env -i PATH=/usr/bin:/bin sh -c "$2"\n')
        ssh.chmod(0o755)

        def run(*options, expect=0):
            done = self.xoe(
                "run",
                "--pool",
                "--any-host",
                *options,
                "--ssh-command",
                str(ssh),
                "--no-tag-output",
                "--",
                "sh",
                "-c",
                "echo $XOE_RANK $XOE_SIZE $XOE_LOCAL_RANK ${XOE_HOSTNAME:-here} $CUDA_VISIBLE_DEVICES",
                expect=expect,
            )
            return sorted(line.split() for line in done.stdout.splitlines()), done.stderr

        here = socket.gethostname()
        ranks, _ = run("--gpus", "4", "--type", "a100")
        self.assertEqual(
            [rank[:4] for rank in ranks],
            [["0", "4", "0", "one"], ["1", "4", "1", "one"], ["2", "4", "0", "two"], ["3", "4", "1", "two"]],
        )
        self.assertEqual([rank[4][:12] for rank in ranks], ["GPU-00000001"] * 2 + ["GPU-00000002"] * 2)
        self.assertEqual(len({rank[4] for rank in ranks}), 4)
        ranks, _ = run("--gpus", "6")  # this host's ranks are the first
        other = ranks[-1][3]  # that whose agent was the first to report after its GPUs had been given back
        self.assertEqual([rank[3] for rank in ranks], [here] * 4 + [other] * 2)
        gpus = {"one": "GPU-00000001", "two": "GPU-00000002"}[other]
        self.assertEqual([rank[4][:12] for rank in ranks], ["GPU-00000000"] * 4 + [gpus] * 2)
        ranks, _ = run("--gpus", "2", "--type", "t4")
        self.assertEqual([rank[2:4] for rank in ranks], [["0", "here"], ["1", "here"]])
        self.assertEqual(len({rank[4] for rank in ranks}), 2)
        report("root@three", "3")
        ranks, said = run("--gpus", "6", "--type", "a100", expect=1)
        self.assertEqual(ranks, [])
        self.assertIn("which is no name that ssh could reach", said)
        self.assertEqual(self.leases(), [])

    @unittest.skipUnless(os.environ.get("XOE_TEST_FULL"), "slow: of the full tier")
    def test_without_a_gpu_on_the_cpu(self):
        command = ["--no-tag-output", "--", "sh", "-c", 'echo "$XOE_RANK [$CUDA_VISIBLE_DEVICES]"']
        self.assertEqual(self.xoe("run", "--pool", "--gpus", "5", *command, expect=3).stdout, "")
        done = self.xoe("run", "--pool", "--gpus", "5", "--or-cpu", *command)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{rank} []" for rank in range(5)])
        self.assertIn("): sh runs on the CPU", done.stderr)
        done = self.xoe("run", "--pool", "--or-cpu", *command, XOE_POOL="http://127.0.0.1:1")
        self.assertEqual(done.stdout, "0 []\n")

    def test_whoever_is_killed_gives_back(self):
        for victim in ("xoe run", "xoe pool run"):
            running = self.marked("run", "--pool", "--gpus", "1:3", "--", "sleep", "100")
            self.until(lambda: len(self.leases()) == 3 and len(processes_with(self.mark)) >= 5, "all run")
            launcher = running.pid
            if victim == "xoe run":
                children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
                launcher = int(children[0])
            os.kill(launcher, signal.SIGKILL)
            self.until(lambda: not self.leases(), f"{victim} was killed")
            running.communicate(timeout=HANGS)
            self.until(lambda: not processes_with(self.mark), "nothing is left")
            self.assertEqual(self.status()["queue"], [])

    def test_a_server_that_is_away_for_a_while(self):
        running = self.marked("run", "--pool", "--gpus", "1:3", "--", "sleep", "100")
        other = self.marked("run", "--pool", "--", "sleep", "100")
        self.until(lambda: len(self.leases()) == 4, "all run")
        port = self.env["XOE_POOL"].rsplit(":", 1)[1]
        self.server.kill()
        self.server.communicate()
        time.sleep(1)
        self.assertIsNone(running.poll())
        # It is killed while no server can take its leases back.
        os.kill(running.pid, signal.SIGKILL)
        self.serve("--port", port)
        self.until(lambda: len(self.leases()) == 1, "they are given back later")
        running.wait(timeout=HANGS)
        other.send_signal(signal.SIGTERM)
        other.communicate(timeout=HANGS)
        running.communicate(timeout=HANGS)
        self.until(lambda: not self.leases(), "so is the other")

    def test_a_signal_gives_back(self):
        running = self.marked("run", "--pool", "--gpus", "1:3", "--", "sleep", "100")
        self.until(lambda: len(self.leases()) == 3, "all run")
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=HANGS)
        self.assertNotEqual(running.returncode, 0)
        self.assertEqual(self.leases(), [])

    def test_whoever_is_killed_in_the_queue_leaves_it(self):
        holder = json.loads(self.xoe("pool", "acquire", "--gpus", "4", "--json").stdout)
        waiting = self.marked("pool", "run", "--wait", "--", "sleep", "100")
        self.until(lambda: self.status()["queue"], "it waits")
        waiting.kill()
        waiting.communicate(timeout=HANGS)
        # At once; after the server's patience, where it was killed before it had heard of its place.
        self.until(lambda: not self.status()["queue"], "the queue is empty")
        self.xoe("pool", "release", str(holder["id"]))

    def test_what_a_program_leaves_running_is_ended_before_its_gpus_are_given_back(self):
        script = "trap '' TERM; (setsid sh -c \"trap '' TERM; sleep 100\" >/dev/null 2>&1 &); exit 7"
        running = self.marked("pool", "run", "--grace", "1s", "--", "sh", "-c", script)
        self.assertIn("the program left 1 process running", running.communicate(timeout=30)[1])
        self.assertEqual(running.returncode, 7)
        self.assertEqual(processes_with(self.mark), [])
        self.assertEqual(self.leases(), [])

    def test_a_server_that_refuses_for_a_moment_still_gets_its_gpus_back(self):
        proxy = RefusingProxy(self.env["XOE_POOL"])
        self.addCleanup(proxy.close)
        holder = json.loads(self.xoe("pool", "acquire", "--gpus", "3", "--json").stdout)
        # The further rank fails at once, so that its GPU is given back.
        script = "[ $XOE_RANK = 1 ] && exit 3; sleep 100"
        url, self.env["XOE_POOL"] = self.env["XOE_POOL"], proxy.url
        running = self.marked("run", "--pool", "--gpus", "1:2", "--", "sh", "-c", script)
        self.env["XOE_POOL"] = url
        self.until(lambda: len(self.leases()) == 2 and self.status()["queue"], "one runs, and one waits")
        self.xoe("pool", "release", str(holder["id"]))
        self.until(lambda: len(proxy.refused) == 2, "its release is refused")
        self.until(lambda: len(self.leases()) == 1, "it was tried again")
        self.assertIsNone(running.poll())
        running.terminate()
        running.communicate(timeout=HANGS)
        self.assertEqual(self.leases(), [])

    def test_a_program_that_cannot_change_its_size_loses_the_rank_at_the_end_of_the_grace(self):
        running = self.marked("run", "--pool", "--gpus", "1:2", "--", "sh", "-c", "sleep 100")
        self.until(lambda: len(self.leases()) == 2, "both run")
        extra = next(lease for lease in self.leases() if lease["yields"])
        self.xoe("pool", "revoke", str(extra["id"]), "--why", "a test")
        err = ""
        while "did not leave in time" not in err:
            line = running.stderr.readline()
            self.assertTrue(line, err)
            err += line
        self.until(lambda: len(processes_with(f"CUDA_VISIBLE_DEVICES={extra['gpus'][0]}")) == 0, "its rank is gone")
        running.terminate()
        running.communicate(timeout=HANGS)

    @unittest.skipUnless(HAS_TRAINER, "this build has no trainer")
    def test_a_training_shrinks_for_another_and_grows_back(self):
        run = self.home / "run"
        output = (self.home / "output").open("w+")
        self.addCleanup(output.close)
        training = self.marked(
            "run",
            "--pool",
            "--gpus",
            "1:3",
            "--",
            XOE,
            "train",
            "--device",
            "cpu",
            "--synthetic",
            "--model",
            "resnet18",
            "--image-size",
            "32",
            "--batch",
            "8",
            "--steps",
            "100000",
            "--report-every",
            "1",
            "--run-dir",
            str(run),
            "--checkpoint",
            str(self.home / "checkpoints"),
            output=output,
        )
        metrics = run / "metrics.jsonl"

        def events(kind):
            if not metrics.exists():
                return []
            lines = metrics.read_text().splitlines()
            return [event for line in lines if (event := json.loads(line))["event"] == kind]

        def sizes():
            return [start["ranks"] for start in events("start")]

        self.until(lambda: len(events("report")) > 5, "the training runs")
        self.assertEqual(sizes(), [3])
        other = json.loads(self.xoe("pool", "acquire", "--gpus", "2", "--wait", "--json").stdout)
        self.assertEqual(other["state"], "open")
        held = {gpu for lease in self.leases() if lease["yields"] for gpu in lease["gpus"]}
        self.assertEqual(held & set(other["gpus"]), set())
        self.until(lambda: sizes()[-1] == 2, "it goes on with 2 ranks")
        count = len(events("report"))
        self.until(lambda: len(events("report")) > count + 5, "steps with 2 ranks")

        self.xoe("pool", "release", str(other["id"]))
        self.until(lambda: sizes()[-1] == 3, "it grows back")
        count = len(events("report"))
        self.until(lambda: len(events("report")) > count + 5, "steps with 3 ranks")
        training.send_signal(signal.SIGTERM)
        training.wait(timeout=HANGS)
        output.seek(0)
        told = output.read()
        steps = [report["step"] for report in events("report")]
        self.assertEqual(steps, list(range(1, len(steps) + 1)), told)
        self.assertEqual(sizes(), [3, 2, 3], told)
        self.assertIn("leaves at the next step", told)
        self.assertNotIn("did not leave in time", told)
        self.assertEqual(self.leases(), [])


def long_options(text):
    return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE))


def help_of(*command):
    return subprocess.run([XOE, *command, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout


# Those of the connection to the pool, which variables give, and those that ranks do not need.
NOT_PASSED_ON = {"--pool", "--token-file", "--tls-ca", "--json", "--host", "--ranks", "--device-rule", "--grace", "--help", "--version"}


class Options(unittest.TestCase):
    def test_the_launcher_passes_on_those_of_pool_run(self):
        """It does not see the pool's table of options, and has one of its own."""
        section = re.search(r"^GPUs of a pool:\n(.*?)^\S", help_of("run"), re.MULTILINE | re.DOTALL)[1]
        self.assertEqual(long_options(section) - {"--pool"}, long_options(help_of("pool", "run")) - NOT_PASSED_ON)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
