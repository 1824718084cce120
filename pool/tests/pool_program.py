"""A pool for tests: a server, reports of agents on a mock of NVML, and commands, in a home of their own."""

import json
import os
import pathlib
import subprocess
import tempfile
import urllib.error
import urllib.request

HANGS = 900  # seconds: a limit for what hangs, far beyond what it takes beside a load of 20


class PoolProgram:
    """`with PoolProgram(xoe, mock, "--option") as pool`: the server runs in between."""

    def __init__(self, xoe, mock, *options):
        self.xoe, self.mock, self.options = xoe, mock, options
        self.folder = tempfile.TemporaryDirectory()
        self.home = pathlib.Path(self.folder.name)
        self.env = {**os.environ, "HOME": str(self.home), "XOE_MOCK_GPUS": "four"}
        for name in [name for name in self.env if name.startswith("XOE_POOL")]:
            del self.env[name]
        self.agents = {}

    def __enter__(self):
        self.server = self.start("serve", "--port", "0", *self.options)
        self.url = self.env["XOE_POOL"] = self.server.stdout.readline().split()[-1]
        return self

    def __exit__(self, *_):
        for host in list(self.agents):
            self.silence(host)
        self.errors = self.stop(self.server)
        self.folder.cleanup()

    def start(self, *words, **variables):
        return subprocess.Popen(
            [self.xoe, "pool", *words], env={**self.env, **variables}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def stop(self, process):
        """Its last words."""
        process.terminate()
        return process.communicate(timeout=HANGS)[1]

    def run(self, *words, expect=0, **variables):
        """expect: the exit code; None: any."""
        done = subprocess.run(
            [self.xoe, "pool", *words], env={**self.env, **variables}, text=True, capture_output=True, timeout=HANGS, check=False
        )
        if expect is not None and done.returncode != expect:
            raise AssertionError(f"{words}: {done.returncode}, not {expect}: {done.stdout}{done.stderr}")
        return done

    def json(self, *words, **variables):
        return json.loads(self.run(*words, "--json", **variables).stdout)

    def report(self, host="a", number="0", state="", **mock):
        """As the agent of a host, now and from then on: a GPU that was given back is free with the next report."""
        self.silence(host)
        agent = ("agent", "--host", host, "--nvml", str(self.mock))
        mock |= {"XOE_MOCK_HOST": number, "XOE_MOCK_STATE": state}
        self.run(*agent, "--once", **mock)
        self.agents[host] = self.start(*agent, "--interval", "0.3", **mock)

    def silence(self, host):
        """Ends the host's agent, if there is one."""
        if host in self.agents:
            self.stop(self.agents.pop(host))

    def admin_token(self):
        return (self.home / ".config/xoe/pool-token").read_text().strip()

    def user(self, name, *options):
        """Its token."""
        return self.run("user", name, *options).stdout.strip()

    def ask(self, path, token=None, body=None, **options):
        """Status, headers and bytes of an answer, whatever it is."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=HANGS, **options) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.headers, refused.read()
