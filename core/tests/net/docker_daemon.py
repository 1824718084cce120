"""A Docker daemon of a test's own, which keeps all it writes in the test's folder."""

import os
import pathlib
import shutil
import subprocess
import time


def why_not():
    """What is missing for a daemon, or None."""
    if os.geteuid() != 0:
        return "it needs root, to run dockerd"
    for program, package in (("docker", "docker.io"), ("dockerd", "docker.io"), ("containerd", "containerd")):
        if shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin") is None:
            return f"{program} is not there (Debian: {package})"
    return None


class Docker:
    """Without options it has no network."""

    def __init__(self, folder, options=("--bridge=none", "--iptables=false", "--ip6tables=false")):
        self.folder = folder
        self.socket = f"unix://{folder}/docker.sock"
        self.log = open(f"{folder}/log", "w+", encoding="utf-8")
        words = ["dockerd", *options, f"--data-root={folder}/data",
                 f"--exec-root={folder}/exec", f"--pidfile={folder}/pid", "-H", self.socket]
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        self.daemon = subprocess.Popen(words, stdout=self.log, stderr=self.log, env=os.environ | {"PATH": path})

    def command(self, *words):
        return ["docker", "-H", self.socket, *map(str, words)]

    def call(self, *words, expected=(0,), timeout=120):
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode not in expected:
            raise AssertionError(f"docker {' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr}")
        return done.stdout

    def import_folder(self, folder, image):
        """The system in this folder becomes an image."""
        tar = subprocess.Popen(["tar", "-C", str(folder), "-c", "."], stdout=subprocess.PIPE)
        subprocess.run(self.command("import", "-", image), stdin=tar.stdout, check=True, stdout=subprocess.DEVNULL)
        if tar.wait() != 0:
            raise AssertionError(f"tar of {folder} failed")

    def wait_until_up(self):
        """False where it ended: not every machine lets one run."""
        end = time.monotonic() + 60
        while self.daemon.poll() is None and time.monotonic() < end:
            if subprocess.run(self.command("info"), capture_output=True, check=False).returncode == 0:
                return True
            time.sleep(0.1)
        return False

    def why(self):
        self.log.seek(0)
        return self.log.read()[-500:]

    def end(self):
        self.daemon.terminate()
        try:
            self.daemon.wait(30)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait()
        for network in pathlib.Path(self.folder, "exec", "netns").glob("*"):
            subprocess.run(["umount", str(network)], capture_output=True, check=False)
