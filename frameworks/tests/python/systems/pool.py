"""A pool from a wheel: its server with TLS, its page, its commands; a lease that takes the CPU, since the system has no GPU.

Arguments: the program `xoe`; a certificate for 127.0.0.1, and its private key. Without the two, the server speaks plain HTTP.
"""

import ctypes
import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.request

xoe, *tls = sys.argv[1:]
trusted = ["--tls-ca", tls[0]] if tls else []


def pool(*words, code=0):
    """What the command prints, errors included."""
    done = subprocess.run([xoe, "pool", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"xoe pool {' '.join(words)}: exit code {done.returncode}, not {code}: {done.stdout}")
    return done.stdout


def page(url, path):
    context = ssl.create_default_context(cafile=tls[0]) if tls else None
    with urllib.request.urlopen(url + path, timeout=600, context=context) as answer:
        return answer.read().decode()


with tempfile.TemporaryDirectory() as home:
    os.environ["HOME"] = home
    options = ["--tls-cert", tls[0], "--tls-key", tls[1]] if tls else []
    server = subprocess.Popen([xoe, "pool", "serve", "--port", "0", *options], stdout=subprocess.PIPE, text=True)
    try:
        url = os.environ["XOE_POOL"] = server.stdout.readline().split()[-1]
        assert url.startswith("https://" if tls else "http://"), url
        index = page(url, "/")
        assert "/app.js" in index, index
        assert len(page(url, "/app.js")) > 10_000
        assert json.loads(pool("status", "--json", *trusted))["hosts"] == []
        ran = pool("run", "--or-cpu", *trusted, "--", "sh", "-c", "echo on the CPU")
        assert "on the CPU" in ran, ran
        if tls:
            assert "certificate" in pool("status", code=5), "a certificate without a signature of the system is trusted"
        # libcurl is loaded when a vCenter is asked, and may be missing. Where it is there, it speaks TLS with the server above,
        # beside the program's own OpenSSL.
        with open(os.open(f"{home}/password", os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write("secret\n")
        vcenter = ["--vcenter-user", "ann", "--password-file", f"{home}/password", *(["--vcenter-ca", tls[0]] if tls else [])]
        said = pool("vsphere", "list", "--vcenter", url.replace("http://", "https://") + "/sdk", *vcenter, code=5)
        try:
            ctypes.CDLL("libcurl.so.4")
            wanted = "answered HTTP 404" if tls else "SSL"
        except OSError:
            wanted = "libcurl is not installed"
        assert wanted in said, said
    finally:
        server.terminate()
        server.wait()
print("the pool answers, with its page")
