"""`xoe notice` against servers that answer as the clouds document it, and with files."""

import datetime
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

XOE = pathlib.Path(os.environ.get("XOE_BIN_DIR", "build/release/bin")) / "xoe-notice"
LIMIT = 120


class Cloud:
    """A metadata server. `answers`: by method and path, (status, text); what it was asked is in `asked`."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []
        cloud = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                cloud.asked.append((self.command, self.path, dict(self.headers)))
                status, text = cloud.answers.get((self.command, self.path), (404, "Not Found"))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = answer  # noqa: N815
            do_PUT = answer  # noqa: N815

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def notice(*words):
    return subprocess.run([XOE, *words], capture_output=True, text=True, timeout=LIMIT, check=False)


def seconds_of(done):
    return float(done.stdout.split()[0])


def in_seconds(seconds):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)


TOKEN = ("PUT", "/latest/api/token")
ACTION = ("GET", "/latest/meta-data/spot/instance-action")
PREEMPTED = ("GET", "/computeMetadata/v1/instance/preempted")
MAINTENANCE = ("GET", "/computeMetadata/v1/instance/maintenance-event")
NAME = ("GET", "/metadata/instance/compute/name?api-version=2021-02-01&format=text")
EVENTS = ("GET", "/metadata/scheduledevents?api-version=2020-07-01")


class Aws(unittest.TestCase):
    def test_without_an_action_the_machine_stays(self):
        with Cloud({TOKEN: (200, "tkn")}) as cloud:
            done = notice("aws", "--once", "--endpoint", cloud.url)
            self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
            self.assertEqual(cloud.asked[1][2].get("X-aws-ec2-metadata-token"), "tkn")

    def test_its_time_is_that_of_the_action(self):
        text = json.dumps({"action": "terminate", "time": in_seconds(100).strftime("%Y-%m-%dT%H:%M:%SZ")})
        with Cloud({TOKEN: (200, "tkn"), ACTION: (200, text)}) as cloud:
            done = notice("aws", "--endpoint", cloud.url)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(90 < seconds_of(done) <= 100, done.stdout)
            self.assertIn("terminate", done.stdout)

    def test_the_first_version_of_the_service_has_no_token(self):
        text = json.dumps({"action": "stop", "time": in_seconds(60).strftime("%Y-%m-%dT%H:%M:%SZ")})
        with Cloud({ACTION: (200, text)}) as cloud:
            self.assertEqual(notice("aws", "--once", "--endpoint", cloud.url).returncode, 0)

    def test_an_answer_that_is_not_known_is_no_word_that_the_machine_stays(self):
        for status, text in ((200, "<html>"), (200, '{"action": "dance"}'), (500, "")):
            with self.subTest(text=text), Cloud({TOKEN: (200, "t"), ACTION: (status, text)}) as cloud:
                done = notice("aws", "--once", "--endpoint", cloud.url)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn("AWS", done.stderr)

    def test_a_server_that_cannot_be_reached(self):
        done = notice("aws", "--once", "--endpoint", "http://127.0.0.1:1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("127.0.0.1:1", done.stderr)

    def test_it_waits_until_there_is_one(self):
        with Cloud({TOKEN: (200, "t")}) as cloud:
            with subprocess.Popen([XOE, "aws", "--every", "0.1", "--endpoint", cloud.url], stdout=subprocess.PIPE, text=True) as waits:
                end = time.monotonic() + LIMIT
                while sum(path == ACTION[1] for _, path, _ in cloud.asked) < 3:
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.02)
                cloud.answers[ACTION] = (200, json.dumps({"action": "terminate"}))
                out, _ = waits.communicate(timeout=LIMIT)
            self.assertEqual(waits.returncode, 0)
            self.assertTrue(out.startswith("0.000 AWS"), out)


class GoogleCloud(unittest.TestCase):
    def test_answers(self):
        for preempted, event, code in (("FALSE", "NONE", 3), ("TRUE", "NONE", 0), ("FALSE", "TERMINATE_ON_HOST_MAINTENANCE", 0),
                                       ("FALSE", "MIGRATE_ON_HOST_MAINTENANCE", 3), ("PERHAPS", "NONE", 1), ("FALSE", "", 1)):
            with self.subTest(preempted=preempted, event=event), \
                    Cloud({PREEMPTED: (200, preempted), MAINTENANCE: (200, event)}) as cloud:
                done = notice("gcp", "--once", "--endpoint", cloud.url)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(cloud.asked[0][2].get("Metadata-Flavor"), "Google")

    def test_it_is_stopped_soon(self):
        with Cloud({PREEMPTED: (200, "TRUE\n")}) as cloud:
            done = notice("gcp", "--json", "--endpoint", cloud.url)
            self.assertTrue(20 < json.loads(done.stdout)["seconds"] <= 30, done.stdout)


class Azure(unittest.TestCase):
    def ask(self, *events, name="vm_1"):
        text = json.dumps({"DocumentIncarnation": 1, "Events": list(events)})
        with Cloud({NAME: (200, name), EVENTS: (200, text)}) as cloud:
            return notice("azure", "--once", "--endpoint", cloud.url)

    def event(self, kind, seconds, machines=("vm_1",)):
        return {"EventType": kind, "Resources": list(machines), "EventStatus": "Scheduled",
                "NotBefore": in_seconds(seconds).strftime("%a, %d %b %Y %H:%M:%S GMT")}

    def test_the_first_event_of_this_machine_counts(self):
        done = self.ask(self.event("Reboot", 500), self.event("Preempt", 40), self.event("Preempt", 5, ["vm_2"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(30 < seconds_of(done) <= 40, done.stdout)
        self.assertIn("Preempt", done.stdout)

    def test_a_freeze_and_other_machines_do_not(self):
        self.assertEqual(self.ask(self.event("Freeze", 5), self.event("Terminate", 5, ["vm_2"])).returncode, 3)
        self.assertEqual(self.ask().returncode, 3)

    def test_no_list_of_events_is_not_known(self):
        with Cloud({NAME: (200, "vm_1"), EVENTS: (200, "{}")}) as cloud:
            self.assertEqual(notice("azure", "--once", "--endpoint", cloud.url).returncode, 1)


class Files(unittest.TestCase):
    def test_it_may_say_how_long(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "leaving"
            self.assertEqual(notice(f"file:{path}", "--once").returncode, 3)
            path.write_text("")
            self.assertTrue(25 < seconds_of(notice(f"file:{path}", "--once")) <= 30)
            path.write_text("120 by hand\n")
            done = notice(f"file:{path}", "--once")
            self.assertTrue(110 < seconds_of(done) <= 120 and done.stdout.endswith("by hand\n"), done.stdout)
            path.write_text("\x1b[31m\n")
            self.assertNotIn("\x1b", notice(f"file:{path}", "--once").stdout)

    def test_another_source_is_a_mistake(self):
        done = notice("oracle")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected aws, gcp, azure or file:PATH", done.stderr)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
