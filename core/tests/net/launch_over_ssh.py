#!/usr/bin/env python3
"""xoe run over real ssh, between hosts in network namespaces that this test sets up and removes.

  launch_over_ssh.py XOE PRINT_LAUNCH_INFO [TEST...]

Needs root, iproute2 and openssh-server; else it says what is missing and exits 77. XOE_NET_ROUNDS: how often each kill
and cut is done (default 1).
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from netns_hosts import SKIPPED, Hosts, why_not

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "core/testing"))
import cases

ROUNDS = int(os.environ.get("XOE_NET_ROUNDS", "1"))
# Ranks that stay: they print their pid and that of their agent, the parent of their supervisor.
STAY = 'read -r _ _ _ agent _ < /proc/$PPID/stat; echo "at $XOE_RANK $$ $agent"; exec sleep 1000'


class Job:
    """One xoe run, started on nodeA."""

    def __init__(self, hosts, xoe, options, script, stdin=subprocess.DEVNULL, env=None):
        self.hosts = hosts
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        words = hosts.command("nodeA", str(xoe), "run", *options, "bash", "-c", script)
        self.process = subprocess.Popen(words, stdin=stdin, stdout=self.out, stderr=self.err, env=env,
                                        start_new_session=True)

    def text(self, file):
        # The job writes where this file's position is, which stays as it is.
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")

    def wait(self, seconds=60):
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"xoe run hangs; it said: {self.text(self.err)}") from None
        return code, self.text(self.out), self.text(self.err)

    def wait_for_out(self, text, seconds=60):
        end = time.monotonic() + seconds
        while text not in self.text(self.out):
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"no {text!r}: {self.text(self.out)[-2000:]} {self.text(self.err)}")
            time.sleep(0.02)

    def places(self, ranks, seconds=30):
        """The lines `at RANK PID AGENT` as {rank: (pid, agent)}, when all are there."""
        end = time.monotonic() + seconds
        while True:
            lines = [line.split()[-3:] for line in self.text(self.out).splitlines(keepends=True)
                     if " at " in line and line.endswith("\n")]
            if len(lines) == ranks:
                return {int(rank): (int(pid), int(agent)) for rank, pid, agent in lines}
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"the ranks did not start: {self.text(self.out)[:2000]} {self.text(self.err)}")
            time.sleep(0.02)


class HostsTests:
    """What tests of jobs over these hosts have in common."""

    def __init__(self, hosts, xoe):
        self.hosts = hosts
        self.xoe = xoe

    def start(self, options, script, **more):
        return Job(self.hosts, self.xoe, options, script, **more)

    def run(self, options, script, **more):
        return self.start(options, script, **more).wait()

    def expect(self, condition, what):
        if not condition:
            raise AssertionError(what)

    def expect_end(self, job, code, *words, within=30.0):
        began = time.monotonic()
        got, out, err = job.wait()
        took = time.monotonic() - began
        self.expect((code is None and got != 0) or got == code, f"exit code {got} instead of {code}: {err}")
        for word in words:
            self.expect(word in err, f"{word!r} is not in: {err}")
        self.expect(took < within, f"it took {took:.1f} s: {err}")
        self.expect(self.hosts.all_gone(), f"left: {self.hosts.left()}")
        return out, err


class Tests(HostsTests):
    print_info = None

    def test_ranks_know_their_place(self):
        code, out, err = self.run(["-H", "nodeA:2,nodeB:2"],
                                  'echo "$(hostname) $XOE_HOSTNAME $XOE_RANK $XOE_CROSS_RANK/$XOE_CROSS_SIZE $XOE_STORE"')
        self.expect(code == 0 and err == "", err)
        lines = sorted(out.splitlines())
        starts = ("[0] nodeA nodeA 0 0/2", "[1] nodeA nodeA 1 0/2", "[2] nodeB nodeB 2 1/2", "[3] nodeB nodeB 3 1/2")
        for line, start in zip(lines, starts, strict=True):
            self.expect(line.startswith(start + " tcp:10."), out)

    def test_ranks_meet_in_the_store(self):
        code, out, err = self.run(["-H", "nodeA:2,nodeB:1,nodeC:1"], f"exec {self.print_info}")
        self.expect(code == 0, err)
        for rank, (local, here) in enumerate(((0, 2), (1, 2), (0, 1), (0, 1))):
            self.expect(f"[{rank}] xoe rank {rank} of 4 local {local} of {here} met" in out, out)

    def test_variables_reach_every_host(self):
        env = dict(os.environ, XOE_MINE="a b", OTHER="no", PYTHONPATH="/p")
        code, out, err = self.run(["-H", "nodeB,nodeC", "--env", "TOKEN=hidden"],
                                  'echo "$XOE_MINE|$OTHER|$PYTHONPATH|$TOKEN|$PWD"', env=env)
        self.expect(code == 0, err)
        want = f"a b||/p|hidden|{os.getcwd()}"
        self.expect(sorted(out.splitlines()) == [f"[0] {want}", f"[1] {want}"], out)

    def test_secrets_are_on_no_command_line(self):
        job = self.start(["-H", "nodeA,nodeB", "--env", "TOKEN"], 'echo "secret $XOE_SECRET"; ' + STAY,
                         env=dict(os.environ, TOKEN="do-not-show"))
        job.places(2)
        secret = job.text(job.out).split("secret ")[1].split()[0]
        self.expect(len(secret) == 32, secret)
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = file.read_bytes()
            except OSError:
                continue
            self.expect(secret.encode() not in words and b"do-not-show" not in words, words)
        # Nor in the environment of the remote shell.
        for file in pathlib.Path("/proc").glob("[0-9]*/comm"):
            try:
                if file.read_text().strip() in ("ssh", "sshd"):
                    self.expect(secret.encode() not in file.with_name("environ").read_bytes(), "in ssh's environment")
            except OSError:
                continue
        job.process.send_signal(signal.SIGTERM)
        job.wait()

    def test_exit_code_and_name(self):
        job = self.start(["-H", "nodeA:1,nodeB:2"], '[ "$XOE_RANK" = 2 ] || exec sleep 1000; echo bad >&2; exit 9')
        self.expect_end(job, 9, "rank 2 (host nodeB, pid ", "exited with code 9", "; its last line: bad")

    def test_output_is_whole(self):
        code, out, err = self.run(["-H", "nodeA:2,nodeB:2"], "seq 20000")
        self.expect(code == 0 and len(out.splitlines()) == 80000, err)

    def test_stdin_reaches_rank_0(self):
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * 3_000_000)
            file.seek(0)
            code, out, err = self.run(["-H", "nodeB,nodeC"], "wc -c", stdin=file)
        self.expect(code == 0 and sorted(out.splitlines()) == ["[0] 3000000", "[1] 0"], out + err)

    def test_unreachable(self):
        self.expect_end(self.start(["-H", "nodeB,nowhere"], "echo started"), 125, "host nowhere: unreachable")

    def test_wrong_key(self):
        keys = pathlib.Path(self.hosts.folder, "nodeC", "authorized_keys")
        before = keys.read_text()
        keys.write_text("")
        try:
            self.expect_end(self.start(["-H", "nodeB,nodeC"], "echo started"), 125,
                            "host nodeC: ssh was refused (permission denied)", "ssh-copy-id")
        finally:
            keys.write_text(before)

    def test_unknown_host_key(self):
        known = pathlib.Path(self.hosts.folder, "known_hosts")
        before = known.read_text()
        known.write_text("".join(line for line in before.splitlines(True) if not line.startswith("nodeC")))
        try:
            self.expect_end(self.start(["-H", "nodeB,nodeC"], "true"), 125, "host nodeC: host key verification failed")
        finally:
            known.write_text(before)

    def test_missing_on_one_host(self):
        place = pathlib.Path(self.hosts.folder, "only")
        place.mkdir()
        shutil.copy(self.xoe, place / "xoe")
        shutil.copy("/bin/true", place / "program")
        hide = self.hosts.command("nodeB", "mount", "-t", "tmpfs", "tmpfs", str(place))
        subprocess.run(hide, check=True)
        try:
            for options, program, words in (
                    (["--xoe-path", str(place / "xoe")], "true", "host nodeB: there is no xoe at"),
                    ([], str(place / "program"), f"host nodeB: cannot run {place}/program: no such file")):
                words_of = self.hosts.command("nodeA", str(self.xoe), "run", "-H", "nodeA,nodeB", *options, program)
                done = subprocess.run(words_of, capture_output=True, text=True, timeout=60, check=False)
                self.expect(done.returncode in (125, 127) and words in done.stderr, done.stderr)
            (place / "folder").mkdir()
            words_of = self.hosts.command("nodeA", "sh", "-c", f"cd {place}/folder && exec {self.xoe} run -H nodeB true")
            done = subprocess.run(words_of, capture_output=True, text=True, timeout=60, check=False)
            self.expect("host nodeB: cannot enter the working directory" in done.stderr, done.stderr)
        finally:
            subprocess.run(self.hosts.command("nodeB", "umount", str(place)), check=True)
            shutil.rmtree(place)

    def test_check(self):
        code, out, err = self.run(["-H", "nodeA,nodeB,nowhere", "--check"], "echo started")
        self.expect(code == 125 and "host nowhere: " in err, err)
        self.expect("host nodeA: ready" in out and "host nodeB: ready" in out and "started" not in out, out)

    def test_kill_a_rank(self):
        for _ in range(ROUNDS):
            job = self.start(["-H", "nodeA:2,nodeB:2"], STAY)
            os.kill(job.places(4)[3][0], signal.SIGKILL)
            self.expect_end(job, 137, "rank 3 (host nodeB, ", "SIGKILL", within=8)

    def test_kill_an_agent(self):
        for _ in range(ROUNDS):
            for rank, node in ((1, "nodeA"), (2, "nodeB")):
                job = self.start(["-H", "nodeA:2,nodeB:2"], STAY)
                os.kill(job.places(4)[rank][1], signal.SIGKILL)
                self.expect_end(job, 125, f"host {node}: lost: ", within=10)

    def test_kill_the_launcher(self):
        for _ in range(ROUNDS):
            job = self.start(["-H", "nodeA:2,nodeB:2"], STAY)
            job.places(4)
            job.process.kill()
            job.wait()
            self.expect(self.hosts.all_gone(), f"left: {self.hosts.left()}")

    def test_cut_a_link(self):
        for _ in range(ROUNDS):
            job = self.start(["-H", "nodeA:2,nodeB:2", "--host-timeout", "2"], STAY)
            job.places(4)
            self.hosts.call("cut", "nodeB")
            try:
                self.expect_end(job, 125, "host nodeB: lost: nothing was heard of it for 2", within=10)
            finally:
                self.hosts.call("heal", "nodeB")
            self.expect(self.hosts.all_gone(), f"left: {self.hosts.left()}")

    def test_ctrl_c(self):
        for _ in range(ROUNDS):
            job = self.start(["-H", "nodeA:2,nodeB:2"], STAY)
            job.places(4)
            os.killpg(job.process.pid, signal.SIGINT)
            self.expect_end(job, 130, within=8)

    # nodeA reaches nodeB, whose agent reaches nodeC.
    CHAIN = ("-H", "nodeA,nodeB,nodeC", "--fan-out", "1")

    def test_relay(self):
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * 3_000_000)
            file.seek(0)
            code, out, err = self.run(self.CHAIN, 'seq 20000; wc -c; echo "$(hostname) ${SSH_CONNECTION%% *}"', stdin=file)
        self.expect(code == 0 and len(out.splitlines()) == 60006, err)
        # nodeC saw the address of nodeB.
        for line in ("[0] 3000000", "[2] 0", "[1] nodeB 10.77.0.2", "[2] nodeC 10.77.0.3"):
            self.expect(line in out.splitlines(), f"{line!r}: {out[-300:]}")
        self.expect(self.hosts.all_gone(), f"left: {self.hosts.left()}")

    def test_relay_failures(self):
        self.expect_end(self.start(["-H", "nodeB,nowhere", "--fan-out", "1"], "echo started"), 125,
                        "host nowhere (reached from nodeB): unreachable")
        job = self.start(self.CHAIN, '[ "$XOE_RANK" = 2 ] || exec sleep 1000; echo bad >&2; exit 9')
        self.expect_end(job, 9, "rank 2 (host nodeC, pid ", "; its last line: bad")

    def test_kill_agents_of_a_chain(self):
        for _ in range(ROUNDS):
            for rank, words in ((1, ("host nodeB: lost: ", "nodeC is reached from nodeB")),
                                (2, ("host nodeC (reached from nodeB): lost: ",))):
                job = self.start(self.CHAIN, STAY)
                os.kill(job.places(3)[rank][1], signal.SIGKILL)
                self.expect_end(job, 125, *words, within=10)

    def test_kill_the_launcher_of_a_chain(self):
        for _ in range(ROUNDS):
            job = self.start(self.CHAIN, STAY)
            job.places(3)
            job.process.kill()
            job.wait()
            self.expect(self.hosts.all_gone(), f"left: {self.hosts.left()}")

    def test_cut_the_links_of_a_chain(self):
        for _ in range(ROUNDS):
            for node, words in (("nodeB", ("host nodeB: lost: nothing was heard of it for 2", "nodeC is reached from nodeB")),
                                ("nodeC", ("host nodeC (reached from nodeB): lost: nothing was heard of it for 2",))):
                job = self.start([*self.CHAIN, "--host-timeout", "2"], STAY)
                job.places(3)
                self.hosts.call("cut", node)
                try:
                    self.expect_end(job, 125, *words, within=10)
                finally:
                    self.hosts.call("heal", node)
                self.expect(self.hosts.all_gone(), f"left: {self.hosts.left()}")

    def test_interface(self):
        code, out, err = self.run(["-H", "nodeA,nodeB", "--network-interface", "10.77.0.0/24"], 'echo "$XOE_INTERFACE"')
        self.expect(code == 0 and sorted(out.splitlines()) == ["[0] 10.77.0.0/24", "[1] 10.77.0.0/24"], out + err)
        code, out, err = self.run(["-H", "nodeA,nodeB", "--network-interface", "ib0"], "true")
        self.expect(code == 125 and "host nodeB: --network-interface ib0" in err and "eth0 10.77.0.3" in err, err)


def main_of(kind, xoe, names):
    """Runs these tests of that class, or all of them."""
    if (missing := why_not()) is not None:
        print(f"skipped: {missing}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="xoe-net-") as scratch:
        hosts = Hosts(f"{scratch}/hosts")
        try:
            tests = kind(hosts, pathlib.Path(xoe).resolve())
            return cases.run(cases.chosen(cases.methods(tests), names))
        finally:
            hosts.call("down")


if __name__ == "__main__":
    Tests.print_info = pathlib.Path(sys.argv[2]).resolve()
    sys.exit(main_of(Tests, sys.argv[1], sys.argv[3:]))
