"""The pool's interfaces, each with a client that is not ours: metrics, TLS, webhooks, mail.

interfaces_test.py XOE MOCK_NVML
"""

import contextlib
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from peer_python import peer_python, why_no
from pool_program import HANGS, PoolProgram

# Requests that are right but for their token.
EXAMPLES = {
    "/v1/leases": {"token": "a" * 32},
    "/v1/leases/adopt": {"token": "a" * 32, "exact": ["GPU-1"]},
    "/v1/leases/{id}/renew": {"token": "a" * 32, "seconds": 60},
    "/v1/leases/{id}/release": {"token": "a" * 32},
    "/v1/leases/{id}/revoke": {"why": "x"},
    "/v1/leases/{id}/exempt": {"why": "x"},
    "/v1/report": {"host": "a"},
    "/v1/teams": {"name": "x"},
    "/v1/users": {"name": "x"},
    "/v1/users/remove": {"name": "x"},
    "/v1/hosts/forget": {"name": "x"},
    "/v1/backup": {"path": "/nowhere/x"},
}

# Prometheus' own parser: {name: [type, help, [[labels, value]...]]}
PARSE = """
import json, sys
from prometheus_client.parser import text_string_to_metric_families as parse
print(json.dumps({f.name: [f.type, f.documentation, [[s.labels, s.value] for s in f.samples]] for f in parse(sys.stdin.read())}))
"""

XOE, MOCK = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])


def wait_for(what, seconds=30):
    """The first result that is true."""
    end = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > end:
            raise AssertionError("it did not happen")
        time.sleep(0.05)
    return found


class Interfaces(unittest.TestCase):
    def test_who_may_do_what(self):
        with PoolProgram(XOE, MOCK) as pool:
            pool.report()
            pool.run("team", "vision", "--quota", "2")
            tokens = {
                "user": pool.user("ann", "--team", "vision"),
                "lead": pool.user("lea", "--team", "vision", "--role", "lead"),
                "agent": pool.user("node", "--role", "agent"),
                "admin": pool.admin_token(),
            }
            document = json.loads(pool.ask("/v1/openapi.json")[2])
            self.assertEqual(document["openapi"], "3.1.0")
            allowed = {
                "user": {"user", "lead", "admin"},
                "lead": {"lead", "admin"},
                "admin": {"admin"},
                "agent": {"agent", "admin"},
            }
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    if operation.get("security") == []:
                        continue
                    where = path.replace("{id}", "9999")
                    body = EXAMPLES.get(path) if method == "post" else None
                    with self.subTest(path=path, role="none"):
                        self.assertEqual(pool.ask(where, "wrong" * 8, body)[0], 401)
                        self.assertEqual(pool.ask(where, None, body)[0], 401)
                    if path == "/v1/events/stream":
                        continue  # it does not end
                    needs = operation["description"].split()[1].rstrip(".,")
                    for role, token in tokens.items():
                        status = pool.ask(where, token, body)[0]
                        with self.subTest(path=path, role=role):
                            self.assertEqual(status == 403, role not in allowed[needs], status)

    def test_metrics_are_what_prometheus_reads(self):
        python = peer_python("pool", "prometheus_client")
        if python is None:
            self.skipTest(why_no("pool", "prometheus_client"))
        with PoolProgram(XOE, MOCK) as pool:
            pool.report()
            pool.run("team", 'a "quoted" \\ team', "--quota", "2")
            pool.run("acquire", "--gpus", "3")
            status, headers, text = pool.ask("/metrics", pool.admin_token())
            self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
            parsed = subprocess.run([python, "-c", PARSE], input=text, capture_output=True, check=True, timeout=HANGS)
            families = json.loads(parsed.stdout)
            samples = {name: {json.dumps(labels): value for labels, value in found} for name, (_, _, found) in families.items()}
            self.assertEqual(samples["xoe_pool_gpus"]['{"use": "leased"}'], 3)
            self.assertEqual(samples["xoe_pool_gpus"]['{"use": "free"}'], 1)
            self.assertEqual(samples["xoe_pool_team_quota_gpus"][json.dumps({"team": 'a "quoted" \\ team'})], 2)
            self.assertEqual(set(samples["xoe_pool_gpu_memory_bytes"].values()), {15 << 30})
            self.assertEqual(families["xoe_pool_http_answers"][0], "counter")
            for name, (_, help_text, found) in families.items():
                self.assertTrue(name.startswith("xoe_pool_") and help_text and found, name)

    @unittest.skipUnless(os.environ.get("XOE_TEST_FULL"), "slow: of the full tier")
    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            key, certificate, other = (f"{folder}/{name}" for name in ("key.pem", "certificate.pem", "other.pem"))
            for out in (other, certificate):
                subprocess.run(
                    [
                        "openssl",
                        "req",
                        "-x509",
                        "-newkey",
                        "ec",
                        "-pkeyopt",
                        "ec_paramgen_curve:prime256v1",
                        "-nodes",
                        "-days",
                        "2",
                        "-subj",
                        "/CN=pool",
                        "-addext",
                        "subjectAltName=IP:127.0.0.1",
                        "-keyout",
                        key,
                        "-out",
                        out,
                    ],
                    check=True,
                    capture_output=True,
                )
            with PoolProgram(XOE, MOCK, "--listen", "0.0.0.0", "--tls-cert", certificate, "--tls-key", key) as pool:
                self.assertRegex(pool.url, "^https://0.0.0.0:")
                pool.url = pool.env["XOE_POOL"] = pool.url.replace("0.0.0.0", "127.0.0.1")
                trusted = ("--tls-ca", certificate)
                pool.run("agent", "--once", "--host", "a", "--nvml", str(MOCK), *trusted)
                lease = json.loads(pool.run("acquire", "--json", *trusted).stdout)
                self.assertEqual(lease["state"], "open")
                distrusted = pool.run("status", "--tls-ca", other, expect=5).stderr
                self.assertIn("does not answer: its certificate is for another name, or signed by none whom", distrusted)
                self.assertIn(f"--tls-ca is {other}", distrusted)
                token = pool.admin_token()
                context = ssl.create_default_context(cafile=certificate)
                self.assertEqual(pool.ask("/v1/me", token, context=context)[0], 200)
                request = urllib.request.Request(pool.url + "/v1/events/stream", headers={"Authorization": f"Bearer {token}"})
                with urllib.request.urlopen(request, timeout=HANGS, context=context) as stream:
                    self.assertTrue(any(line.startswith(b"event: status") for line in stream))
                with self.assertRaises((ssl.SSLError, urllib.error.URLError)):
                    pool.ask("/v1/me", token, context=ssl.create_default_context(cafile=other))
                # Handshakes that are never ended hold no thread.
                port = int(pool.url.rsplit(":", 1)[1])
                with contextlib.ExitStack() as stack:
                    for _ in range(900):  # more than the server has threads
                        drip = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=HANGS))
                        drip.sendall(b"\x16\x03\x01\x02\x00\x01")
                    self.assertEqual(pool.ask("/v1/me", token, context=context)[0], 200)
                pool.url = pool.url.replace("https", "http")  # plain text is no conversation here
                with self.assertRaises(OSError):
                    pool.ask("/v1/me", token)
                pool.run("status", *trusted)

    def test_webhooks(self):
        received, refuse = [], []

        class Hook(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(503 if refuse else 204)
                self.end_headers()
                if refuse:
                    refuse.pop()
                else:
                    received.append((self.path, self.headers, body))

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Hook) as hook, tempfile.NamedTemporaryFile("w") as secret:
            threading.Thread(target=hook.serve_forever, daemon=True).start()
            secret.write("a secret\n")
            secret.flush()
            url = f"http://127.0.0.1:{hook.server_port}/hooks/1"
            with PoolProgram(XOE, MOCK, "--webhook", url, "--webhook-secret", secret.name) as pool:
                pool.report()
                (pool.home / "ann").write_text(pool.user("ann"))
                (pool.home / "ann").chmod(0o600)
                ann = {"XOE_POOL_TOKEN_FILE": str(pool.home / "ann")}
                refuse.append(1)  # it is sent again
                lease = pool.json("acquire", "--gpus", "2", "--purpose", "a trial", **ann)
                wait_for(lambda: received)
                path, headers, body = received.pop()
                self.assertEqual(path, "/hooks/1")
                self.assertEqual(
                    headers["X-Xoe-Signature"], "sha256=" + hmac.new(b"a secret", body, hashlib.sha256).hexdigest()
                )
                notice = json.loads(body)
                self.assertRegex(notice["text"], rf"lease {lease['id']}: 2 GPUs on a until ")
                self.assertEqual((notice["event"]["kind"], notice["lease"]["gpus"]), ("granted", lease["gpus"]))
                pool.run("revoke", str(lease["id"]), "--why", "maintenance")
                own = str(pool.json("acquire", **ann)["id"])
                pool.run("release", own, **ann)  # of one's own doing: no news
                wait_for(lambda: len(received) == 2)
                self.assertIn("has ended: maintenance", json.loads(received[0][2])["text"])
                metrics = pool.ask("/metrics", pool.admin_token())[2].decode()
                self.assertIn('xoe_pool_notices_total{result="sent"} 3', metrics)
            hook.shutdown()

    def test_a_webhook_that_is_down_stops_nothing(self):
        with PoolProgram(XOE, MOCK, "--webhook", "http://127.0.0.1:1/nowhere") as pool:
            pool.report()
            for _ in range(5):
                pool.run("release", str(pool.json("acquire")["id"]))

    def test_mail(self):
        with tempfile.TemporaryDirectory() as folder:
            box = pathlib.Path(folder) / "box"
            with PoolProgram(XOE, MOCK, "--mail-command", f"cat >> {box}", "--mail-domain", "lab.example") as pool:
                pool.report()
                pool.run("acquire")
                text = wait_for(lambda: box.exists() and box.read_text())
                head, _, body = text.partition("\n\n")
                self.assertRegex(head, r"^To: \S+@lab.example\nSubject: \[GPU pool\] lease 1: granted\n")
                self.assertRegex(body, "^lease 1: 1 GPU on a until ")

    def test_the_page_and_its_headers(self):
        with PoolProgram(XOE, MOCK) as pool:
            status, headers, body = pool.ask("/")
            self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
            self.assertIn(b"<title>GPU pool</title>", body)
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Cache-Control"], "no-store")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
