"""A build that goes on beside the check: on half of the processors, at low priority, and standing still while something is measured."""

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import threading
import time

import steps

NICE = 19


def half_of(processors):
    """Every second one, and at least one."""
    return set(sorted(processors)[::2])


class Build:
    """Runs its steps one after the other, the first that fails being the last, in a thread that waits for each.

    Thread safety: begin() first; then all members by one thread.
    """

    def __init__(self, build_steps, variables, log_path, folder):
        self.steps = build_steps
        self._variables = variables
        self._log_path = pathlib.Path(log_path)
        self._folder = folder
        self._lock = threading.Lock()  # guards what follows
        self._process = None
        self._paused = False
        self._ending = False
        self._results = {}
        self._working = 0.0  # seconds so far, without those of pauses
        self._resumed = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self):
        self._resumed = time.monotonic()
        self._thread.start()

    def _run(self):
        with open(self._log_path, "wb") as log:
            for step in self.steps:
                started = time.monotonic()
                with self._lock:
                    if self._ending:
                        return
                    begin = log.tell()
                    try:
                        self._process = steps.start(_modest(step), self._variables, log, self._folder)
                    except OSError as error:
                        self._results[step.name] = steps.result("failed", str(error))
                        return
                    if self._paused:
                        steps.signal_session(self._process.pid, signal.SIGSTOP)
                code = self._process.wait()
                seconds = time.monotonic() - started
                output = self._log_path.read_bytes()[begin:].decode(errors="replace")
                with self._lock:
                    reason = "" if code == 0 else steps.last_line(output)
                    self._results[step.name] = steps.result("passed" if code == 0 else "failed", reason, seconds)
                if code != 0:
                    return

    def pause(self):
        """Stops every process of it. When this returns none runs."""
        with self._lock:
            if self._paused or self._resumed is None:
                return
            self._paused = True
            self._working += time.monotonic() - self._resumed
            if self._process is not None:
                steps.signal_session(self._process.pid, signal.SIGSTOP)

    def go_on(self):
        with self._lock:
            if not self._paused:
                return
            self._paused = False
            self._resumed = time.monotonic()
            if self._process is not None:
                steps.signal_session(self._process.pid, signal.SIGCONT)

    def over(self):
        return not self._thread.is_alive()

    def good(self):
        """Whether it is over and everything was built."""
        return self.over() and [one["status"] for one in self._results.values()] == ["passed"] * len(self.steps)

    def results(self):
        """What became of each step so far, as steps.run() says it."""
        with self._lock:
            done = dict(self._results)
        unfinished = [step.name for step in self.steps if step.name not in done]
        if unfinished and all(one["status"] == "passed" for one in done.values()):
            done[unfinished[0]] = steps.result("skipped", self.progress() if self._thread.ident else "not begun")
        return done

    def _counted(self):
        """Ninja's "[done/all]", the last one; 0, 0 before it."""
        with contextlib.suppress(OSError):
            found = re.findall(rb"^\[(\d+)/(\d+)\]", self._log_path.read_bytes(), re.MULTILINE)
            if found:
                return tuple(map(int, found[-1]))
        return 0, 0

    def progress(self):
        done, everything = self._counted()
        return f"the build has not ended: {done} of {everything} steps" if everything else "the build has not ended"

    def seconds_left(self):
        """An estimate: as quick as it was so far, on twice as many processors. None: it cannot be told yet."""
        if self.over():
            return 0.0
        done, everything = self._counted()
        with self._lock:
            working = self._working + (0 if self._paused else time.monotonic() - self._resumed)
        return (working * (everything - done) / done / 2) if done else None

    def wait(self, seconds):
        """Goes on, on all processors, and waits so long at most. Whether it is over."""
        self.go_on()
        everything = os.sched_getaffinity(0)
        until = time.monotonic() + seconds
        while not self.over() and time.monotonic() < until:
            with self._lock:
                leader = self._process
            for pid in steps.session_of(leader.pid) if leader else ():
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(pid, everything)
            self._thread.join(min(1.0, max(0.0, until - time.monotonic())))
        return self.over()

    def end(self):
        with self._lock:
            self._ending = True
            if self._process is not None and self._process.poll() is None:
                steps.signal_session(self._process.pid, signal.SIGKILL)
        if self._thread.ident:
            self._thread.join()


def _modest(step):
    """The step on half of the processors, at low priority."""
    processors = ",".join(map(str, sorted(half_of(os.sched_getaffinity(0)))))
    command = ["nice", "-n", NICE, "taskset", "-c", processors, *step.command]
    return dataclasses.replace(step, command=command)
