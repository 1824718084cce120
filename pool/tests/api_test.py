"""The pool's HTTP interface, fuzzed from its own OpenAPI document with Schemathesis: no answer 5xx, none that the document does not have.

api_test.py XOE MOCK_NVML [EXAMPLES]     EXAMPLES: of each operation; default 25
"""

import pathlib
import re
import subprocess
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from peer_python import run_inside
from pool_program import PoolProgram

XOE, MOCK = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
EXAMPLES = sys.argv[3] if len(sys.argv) > 3 else "25"
FUZZER = pathlib.Path(sys.executable).parent / "st"
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,negative_data_rejection,"
    "missing_required_header,allow_header_conformance,ignored_auth"
)
# A list that is too long may make a body that is too large.
SETTINGS = """
[checks]
negative_data_rejection.expected-statuses = ["400", "401", "403", "404", "409", "413", "429"]
"""


class Api(unittest.TestCase):
    def fuzz(self, pool, token, *options):
        (pool.home / "schemathesis.toml").write_text(SETTINGS)
        done = subprocess.run(
            [
                FUZZER,
                "run",
                f"{pool.url}/v1/openapi.json",
                "--header",
                f"Authorization: Bearer {token}",
                "--checks",
                CHECKS,
                "--max-examples",
                EXAMPLES,
                "--seed",
                "1",
                "--request-timeout",
                "20",
                "--exclude-path",
                "/v1/events/stream",
                "--phases",
                "examples,coverage,fuzzing",
                "--suppress-health-check",
                "all",
                "--warnings",
                "off",
                "--continue-on-failure",
                # Before 3.13 Python counts the depth of syntax trees for all threads together, and parsing in two at once may fail.
                "--workers",
                "1",
                "--no-color",
                "--generation-database",
                "none",
                *options,
            ],
            text=True,
            capture_output=True,
            timeout=1200,
            cwd=pool.home,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr)
        return done.stdout

    def test_what_it_says_it_does(self):
        # The rate limit would answer most of the requests.
        program = PoolProgram(XOE, MOCK, "--max-rate", "0")
        with program as pool:
            pool.report()
            pool.run("team", "vision")
            for name, role in (("ann", "user"), ("lea", "lead"), ("node", "agent")):
                with self.subTest(role=role):
                    self.fuzz(pool, pool.user(name, "--team", "vision", "--role", role), "--max-examples", "5")
            # A path of a backup is one of the server's host: an admin is trusted with it, a fuzzer is not.
            said = self.fuzz(pool, pool.admin_token(), "--exclude-path", "/v1/backup")
            print(re.search(r"\d+ generated[^\n]*", said).group(0), flush=True)
            self.assertEqual(pool.ask("/v1/openapi.json")[0], 200)
        self.assertNotIn("Sanitizer", program.errors)
        self.assertEqual(pool.server.returncode, 0, program.errors)

    def test_oversize_bodies_are_refused(self):
        with PoolProgram(XOE, MOCK) as pool:
            for path in ("/v1/leases", "/v1/report", "/v1/users"):
                self.assertEqual(pool.ask(path, pool.admin_token(), b" " * (2 << 20))[0], 413)
            deep = b"[" * 200_000 + b"]" * 200_000
            for field in (b"token", b"gpus", b"wait", b"exact", b"nothing"):
                body = b'{"' + field + b'":' + deep + b"}"
                self.assertEqual(pool.ask("/v1/leases", pool.admin_token(), body)[0], 400, field)
            self.assertEqual(pool.ask("/v1/me", pool.admin_token())[0], 200)


if __name__ == "__main__":
    run_inside("pool", "schemathesis", {})
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
