"""`xoe train` within a TrainJob posts its progress to Kubeflow Trainer's server, here one of this test, over HTTPS."""

import concurrent.futures
import http.server
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

XOE = pathlib.Path(os.environ["XOE_BIN_DIR"]) / "xoe"
TRAIN = [str(XOE), "run", "-np", "2", str(XOE), "train", "--synthetic", "--model", "mlp", "--classes", "10", "--image-size", "8", "--batch", "4",
         "--device", "cpu", "--report-every", "5"]
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/job/status"


class Server(http.server.ThreadingHTTPServer):
    """Keeps what was posted: (path, headers, body), and by how many connections."""

    def __init__(self, folder, answer=200):
        super().__init__(("127.0.0.1", 0), Handler)
        self.posts, self.answer, self.connections = [], answer, 0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert", folder / "key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that does not trust us

    @property
    def url(self):
        return f"https://127.0.0.1:{self.server_address[1]}{PATH}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections += 1

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append((self.path, dict(self.headers), json.loads(body)))
        self.send_response(self.server.answer)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
class JobStatus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        for name in ("", "other-"):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                            "-subj", "/CN=trainer", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", cls.folder / f"{name}key",
                            "-out", cls.folder / f"{name}cert"], check=True, capture_output=True)
        (cls.folder / "token").write_text("a.b.c\n")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train(self, url, steps=20, ca="cert", token="token"):
        began = time.monotonic()
        done = subprocess.run([*TRAIN, "--steps", str(steps)], capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "KUBEFLOW_TRAINER_SERVER_URL": url,
                                   "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(self.folder / ca),
                                   "KUBEFLOW_TRAINER_SERVER_TOKEN": str(self.folder / token)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("done at step", done.stdout)
        return done, time.monotonic() - began

    def test_progress_arrives(self):
        with Server(self.folder) as server:
            done, _ = self.train(server.url)
            self.assertNotIn("TrainJob", done.stderr)
            self.assertGreaterEqual(len(server.posts), 2)
            self.assertEqual(server.connections, 1)  # so that the end needs no name server
            for path, headers, _ in server.posts:
                self.assertEqual(path, PATH)
                self.assertEqual(headers["Authorization"], "Bearer a.b.c")
                self.assertEqual(headers["Content-Type"], "application/json")
            first, last = (server.posts[i][2]["trainerStatus"] for i in (0, -1))
            self.assertEqual(first["progressPercentage"], 0)
            self.assertEqual((last["progressPercentage"], last["estimatedRemainingSeconds"]), (100, 0))
            metrics = {metric["name"]: float(metric["value"]) for metric in last["metrics"]}
            self.assertEqual(metrics["step"], 20)
            self.assertGreater(metrics["images_per_second"], 0)
            self.assertGreater(metrics["loss"], 0)

    def test_failures_are_told_once_and_harm_nothing(self):
        with Server(self.folder, answer=403) as server, Server(self.folder) as foreign, socket.create_server(("127.0.0.1", 0)) as silent:
            quiet = f"https://127.0.0.1:{silent.getsockname()[1]}/"
            cases = (("HTTP 403", server.url, {}), ("certificate", foreign.url, {"ca": "other-cert"}),
                     ("no-token", server.url, {"token": "no-token"}), ("", "https://127.0.0.1:1/", {}), ("", quiet, {}),
                     ("rotocol", "http://127.0.0.1:1/", {}))
            with concurrent.futures.ThreadPoolExecutor(len(cases)) as threads:
                # Some hundred steps: the failure is told while the training goes on.
                runs = [threads.submit(self.train, url, steps=200, **more) for _, url, more in cases]
            for (what, url, _), run in zip(cases, runs, strict=True):
                with self.subTest(url=url, what=what):
                    done, took = run.result()
                    told = done.stderr.splitlines()
                    if url != quiet:
                        self.assertEqual(sum("could not be posted" in line for line in told), 1, done.stderr)
                        self.assertIn(what, done.stderr)
                    last = [line for line in told if "the last status of the TrainJob was not posted to " in line]
                    self.assertEqual(len(last), 1, done.stderr)
                    self.assertIn("; none has arrived", last[0])
                    self.assertLess(took, 60)
            self.assertEqual(foreign.posts, [])


if __name__ == "__main__":
    unittest.main()
