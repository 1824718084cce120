"""`xoe run -H ... --min-np` and `--host-discovery-script`: hosts that are lost are left behind, hosts come and go while a training goes on.
A script stands for ssh, so that the hosts are this one."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import ranks
import running_job

TRAINING = ranks.ROOT / "frameworks/tests/python/resize_training.py"
SSH = """#!/bin/sh
while [ $# -gt 2 ]; do shift; done
[ -e "{folder}/down.$1" ] && {{ echo "ssh: connect to host $1 port 22: No route to host" >&2; exit 255; }}
exec env -i PATH=/usr/bin:/bin HOME="$HOME" PLAYED_HOST="$1" PLAYED_BY={folder} sh -c "$2"
"""


class Hosts(running_job.RunningJob):
    """A job on hosts that this one plays."""

    def __init__(self, folder, *options, program=None):
        self.folder, self.stop, self.output = folder, folder / "stop", folder / "output"
        self.named = folder / "named"
        (folder / "ssh").write_text(SSH.format(folder=folder))
        (folder / "ssh").chmod(0o700)
        self.options, self.process = options, None
        self.program = program or [ranks.interpreter(), str(TRAINING), str(self.stop)]

    def start(self, *options):
        command = [str(ranks.BUILD / "bin" / "xoe"), "run", *self.options, *options, "--timeout", str(ranks.HANGS)]
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                [*command, "--ssh-command", str(self.folder / "ssh"), *self.program],
                env=ranks.environment(),
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        return self

    def name(self, *hosts):
        """Those that the discovery script prints from now on."""
        new = self.folder / "named.new"
        new.write_text("".join(f"{host}\n" for host in hosts))
        new.rename(self.named)

    def discovered(self):
        return ("--host-discovery-script", f"cat {self.named}")

    def processes(self, host=None):
        """Of the job: (pid, command line), of one host or of all."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"PLAYED_BY={self.folder}".encode() in environment and (
                host is None or f"PLAYED_HOST={host}".encode() in environment
            ):
                found.append((int(entry.name), command))
        return found

    def signal(self, host, number, only_agent=False):
        for pid, command in self.processes(host):
            if not only_agent or b"\0agent\0" in command + b"\0":
                os.kill(pid, number)

    def end(self):
        self.stop.touch()
        return self.ended()

    def ended(self):
        code = self.process.wait(timeout=ranks.HANGS)
        for _ in range(6000):
            if not self.processes():
                break
            time.sleep(0.01)
        assert not self.processes(), f"left: {self.processes()}"
        return code, self.text()


def test_a_host_whose_agent_is_killed_is_left_behind(folder):
    job = Hosts(folder).start("-H", "one:2,two:2", "--min-np", "2")
    pids = [job.begins(slot, 4) for slot in range(4)]
    job.signal("two", signal.SIGKILL, only_agent=True)
    killed = time.monotonic()
    assert [job.begins(0, 2), job.begins(1, 2)] == pids[:2], "survivors keep their process"
    job.until(r"\[0\] step \d+ by 2")
    print(f"a step after {time.monotonic() - killed:.2f} s", flush=True)
    code, text = job.end()
    assert code == 0, text
    assert "xoe run: host two: lost: the connection to its agent ended" in text
    assert "xoe run: 2 ranks go on without host two" in text and "the job goes on with 2 ranks" in text


def test_a_host_whose_supervisor_is_killed_is_lost_once(folder):
    options = ("--min-np", "1", "--restarts", "5", "--blacklist-cooldown-range", "1", "1", "--output-dir", folder / "out")
    job = Hosts(folder).start("-H", "one:1,two:1", *map(str, options))
    for slot in range(2):
        job.begins(slot, 2)
    supervisors = [
        pid for pid, _ in job.processes("two") if pathlib.Path(f"/proc/{pid}/comm").read_text() == "xoe-supervisor\n"
    ]
    os.kill(supervisors[0], signal.SIGKILL)
    job.begins(0, 1)
    job.begins(1, 2, times=2)  # it comes back
    code, text = job.end()
    assert code == 0, text
    assert text.count("host two: the process that supervises its ranks was killed") == 1, text
    assert text.count("host two is left out for 1 s") == 1 and "host two: lost" not in text, text
    events = json.loads((folder / "out/elastic.json").read_text())["events"]
    told = [event["what"] for event in events if event.get("host") == "two"]
    assert told == ["host_lost", "host_came"], events
    ended = events[-1]
    assert ended["what"] == "ended" and ended["code"] == 0 and ended["why"] == "the ranks exited with code 0", ended
    assert ended["seconds"] > 0 and ended["at"] >= events[-2]["at"], ended


def test_a_host_of_which_nothing_is_heard_is_left_behind(folder):
    job = Hosts(folder).start("-H", "one:1,two:2", "--min-np", "1", "--host-timeout", "2")
    pid, _, _ = [job.begins(slot, 3) for slot in range(3)]
    try:
        job.signal("two", signal.SIGSTOP)
        assert job.begins(0, 1) == pid
        job.until(r"\[0\] step \d+ by 1")
    finally:
        job.signal("two", signal.SIGCONT)
    code, text = job.end()
    assert code == 0, text
    assert re.search(r"host two: lost: nothing was heard of it for 2", text), text


def test_rank_0_and_its_host_are_left_behind_like_others(folder):
    job = Hosts(folder).start("-H", "one:1,two:1,three:1", "--min-np", "1")
    pids = [job.begins(slot, 3) for slot in range(3)]
    os.kill(pids[0], signal.SIGKILL)
    assert job.begins(1, 2) == pids[1]
    job.signal("two", signal.SIGKILL)
    assert job.begins(2, 1) == pids[2]
    code, text = job.end()
    assert code == 0, text
    assert "2 ranks go on\n" in text and "1 rank goes on without host two" in text


def test_with_too_few_ranks_left_the_job_ends_and_names_the_host(folder):
    job = Hosts(folder).start("-H", "one:1,two:1", "--min-np", "2")
    for slot in range(2):
        job.begins(slot, 2)
    job.signal("two", signal.SIGKILL, only_agent=True)
    code, text = job.ended()
    assert code == 125 and "host two: lost" in text, text


def test_a_job_begins_without_hosts_that_cannot_be_reached(folder):
    (folder / "down.two").touch()
    job = Hosts(folder).start(
        "-H", "one:1,two:1,three:1", "--min-np", "2", "--restarts", "5", "--blacklist-cooldown-range", "1", "1"
    )
    assert job.begins(0, 2) and job.begins(2, 2)
    assert "host two: unreachable" in job.text()
    (folder / "down.two").unlink()
    job.begins(1, 3)
    job.until(r"\[0\] step \d+ by 3")
    code, text = job.end()
    assert code == 0, text


def test_too_few_hosts_at_the_start_are_tried_again(folder):
    (folder / "down.two").touch()
    job = Hosts(folder)
    job.name("one:1", "two:1")
    again = ("--min-np", "2", "--blacklist-cooldown-range", "1", "1")
    for where in (job.discovered(), ("-H", "one:1,two:1", "--restarts", "5")):
        (folder / "down.two").touch()
        job = Hosts(folder).start(*where, *again)
        job.until(r"host two: unreachable")
        job.until(r"too few hosts for 2 ranks \(--min-np\); they are tried again in 1 s")
        (folder / "down.two").unlink()
        assert job.begins(0, 2) and job.begins(1, 2)
        code, text = job.end()
        assert code == 0, text
        job.stop.unlink()
    (folder / "down.two").touch()
    job = Hosts(folder).start("-H", "one:1,two:1", "--restarts", "5", *again, "--elastic-timeout", "3")
    code, text = job.ended()
    assert code == 125 and text.count("host two: unreachable") >= 2 and text.endswith("nothing was started\n"), text
    # Without restarts, what cannot be reached stays so.
    job = Hosts(folder).start("-H", "one:1,two:1", "--min-np", "2")
    code, text = job.ended()
    assert code == 125 and "tried again" not in text, text


def test_a_script_that_cannot_be_run_is_an_error_at_once(folder):
    script = folder / "hosts.sh"
    for text, said in ((None, "no such file"), ("echo one:1\n", "permission denied")):
        if text:
            script.write_text(text)
        job = Hosts(folder).start("--host-discovery-script", f"{script} --all", "--min-np", "1")
        code, output = job.ended()
        assert code == 2 and f"--host-discovery-script {script} --all: cannot run {script}: {said}" in output, output
        assert "chmod +x" in output, output
    # One that fails for a moment, with whatever code, is asked again.
    ready = folder / "ready"
    script.write_text(f"#!/bin/sh\n[ -e {ready} ] || {{ touch {ready}; exit 127; }}\necho one:1\n")
    script.chmod(0o700)
    job = Hosts(folder).start("--host-discovery-script", str(script), "--min-np", "1")
    job.begins(0, 1)
    code, output = job.end()
    assert code == 0 and "exited with code 127" in output, output


def test_hosts_come_and_go_as_the_script_says(folder):
    job = Hosts(folder)
    job.name("one:2")
    job.start(*job.discovered(), "-np", "2", "--min-np", "1", "--max-np", "4")
    pids = [job.begins(slot, 2) for slot in range(2)]
    job.name("one:2", "two:2")
    assert [job.begins(slot, 4) for slot in range(2)] == pids
    newcomers = [job.begins(slot, 4) for slot in (2, 3)]
    job.name("two:2")  # the host of rank 0 goes
    assert [job.begins(slot, 2) for slot in (2, 3)] == newcomers
    job.until(r"host one leaves")
    job.name("one:2", "two:2")
    again = [job.begins(slot, 4, times=2) for slot in range(2)]
    assert not set(again) & set(pids)
    code, text = job.end()
    assert code == 0, text
    assert "lost" not in text, text
    steps = [int(step) for step in re.findall(r"\[3\] step (\d+) by", text)]
    assert steps == list(range(steps[0], steps[-1] + 1)), "no step is lost or computed again"


def test_a_host_that_fails_is_left_out_for_a_while(folder):
    job = Hosts(folder)
    job.name("one:1", "two:1")
    job.start(*job.discovered(), "--min-np", "1", "--blacklist-cooldown-range", "2", "60")
    for slot in range(2):
        job.begins(slot, 2)
    job.signal("two", signal.SIGKILL, only_agent=True)
    job.begins(0, 1)
    job.until(r"host two is left out for 2 s")
    job.begins(1, 2, times=2)  # it comes back
    job.signal("two", signal.SIGKILL, only_agent=True)
    job.until(r"host two is left out for 4 s")
    code, text = job.end()
    assert code == 0, text


def test_a_host_that_is_to_be_taken_away_leaves_at_a_step(folder):
    job = Hosts(folder).start("-H", "one:1,two:1,three:1", "--min-np", "1")
    for slot in range(3):
        job.begins(slot, 3)
    job.signal("two", signal.SIGTERM, only_agent=True)
    job.until(r"host two: it got SIGTERM and is to leave")
    job.until(r"host two leaves")
    job.begins(0, 2), job.begins(2, 2)
    code, text = job.end()
    assert code == 0 and "lost" not in text, text
    steps = [int(step) for step in re.findall(r"\[2\] step (\d+) by", text)]
    assert steps == list(range(1, steps[-1] + 1)), "no step is lost or computed again"


def test_a_host_is_told_by_a_file(folder):
    notice = folder / "leaving"
    job = Hosts(folder).start("-H", "one:1,two:1", "--min-np", "1", "--notice", f"file:{notice}")
    for slot in range(2):
        job.begins(slot, 2)
    notice.write_text("600 the power is cut\n")  # both hosts are told; the job needs one of them
    job.until(r"host \w+: it is to be taken away: the file \S+ is there: the power is cut")
    job.until(r"host \w+ leaves")
    job.until(r"the job cannot go on without it yet")
    code, text = job.end()
    assert code == 0 and "lost" not in text, text


def test_where_every_host_is_to_leave_the_ranks_save(folder):
    saves = ["sh", "-c", "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"]
    # On one's own machine alone, too.
    for number, where in enumerate((("-H", "one:1,two:1"), ("-np", "2"), ("-H", "localhost:1,127.0.0.1:1"))):
        notice = folder / f"leaving-{number}"
        job = Hosts(folder, *where, program=saves).start("--min-np", "1", "--notice", f"file:{notice}")
        job.until(r"\[[01]\] ready", times=2)
        notice.write_text("20 the power is cut\n")
        job.until(r"every host is to leave: the ranks get SIGTERM")
        code, text = job.ended()
        assert text.count("] saved") == 2 and "lost" not in text, (where, text)
        assert code == 143 and "every host was to leave: begin it again" in text, (where, text)


def test_a_new_host_has_the_slots_of_one_that_is_gone(folder):
    job = Hosts(folder)
    job.name("one:1", "two:2")
    job.start(*job.discovered(), "--min-np", "1")
    first = [job.begins(slot, 3) for slot in range(3)]
    job.name("one:1")
    assert job.begins(0, 1) == first[0]
    while job.processes("two"):
        time.sleep(0.01)
    job.name("one:1", "three:2")
    again = [job.begins(slot, 3, times=2) for slot in (1, 2)]
    assert not set(again) & set(first) and {pid for pid, _ in job.processes("three")} >= set(again)
    code, text = job.end()
    assert code == 0 and "lost" not in text, text
    assert "[3]" not in text, text


def test_no_process_is_left_when_the_launcher_is_killed(folder):
    job = Hosts(folder)
    job.name("one:1")
    job.start(*job.discovered(), "--min-np", "1")
    job.begins(0, 1)
    job.name("one:1", "two:1")
    job.begins(1, 2)
    job.process.kill()
    job.ended()


def test_a_script_that_fails_changes_nothing(folder):
    job = Hosts(folder)
    job.name("one:1", "two:1")
    job.start(*job.discovered(), "--min-np", "1")
    for slot in range(2):
        job.begins(slot, 2)
    job.named.unlink()
    job.until(r"--host-discovery-script .*exited with code 1.*No such file")
    job.name("one:1", "two 2:x")
    job.until(r"is not a host, or HOST:SLOTS")
    before = len(re.findall(r"\[1\] step \d+ by 2", job.text()))
    job.until(r"\[1\] step \d+ by 2", times=before + 5)
    code, text = job.end()
    assert code == 0, text


ranks.drive(globals())
