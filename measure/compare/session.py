"""An engine that runs, and waits for commands (core/bench/collectives/harness.h, core/bench/engine/steps.h)."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from pathlib import Path


class Failed(Exception):
    """The engine gave no figure; the text says why. no_answer: it runs, but not to an end."""

    def __init__(self, text, no_answer=False):
        super().__init__(text)
        self.no_answer = no_answer


class Session:
    """The ranks of one peer. They sleep between figures."""

    START_TIMEOUT = 60

    def __init__(self, peer, ranks, sync_bytes):
        self.peer = peer
        self._lines = queue.Queue()
        handle, path = tempfile.mkstemp(prefix="xoe-bench-", dir="/dev/shm")
        os.ftruncate(handle, sync_bytes)
        os.close(handle)
        self._sync = Path(path)
        self._errors = tempfile.TemporaryFile()
        self._processes = []
        try:
            for index, (arguments, environment) in enumerate(peer.start(ranks)):
                first = index == 0
                self._processes.append(
                    subprocess.Popen(
                        arguments,
                        stdin=subprocess.PIPE if first else subprocess.DEVNULL,
                        stdout=subprocess.PIPE if first else subprocess.DEVNULL,
                        stderr=self._errors,
                        env={**os.environ, **environment, "XOE_BENCH_SYNC": path},
                        start_new_session=True,
                    )
                )
            threading.Thread(target=self._read, args=(self._processes[0].stdout,), daemon=True).start()
            self._answer(self.START_TIMEOUT)
        except OSError as error:
            self.close(kill=True)
            raise Failed(f"cannot start: {error}") from error
        except Failed:
            self.close(kill=True)
            raise

    def ask(self, command, timeout):
        """The harness's answer as a dictionary. After Failed the session is closed."""
        try:
            self._processes[0].stdin.write(f"{command}\n".encode())
            self._processes[0].stdin.flush()
            return self._answer(timeout)
        except OSError as error:
            self.close(kill=True)
            raise Failed(f"ended: {self._last_error()}") from error
        except Failed:
            self.close(kill=True)
            raise

    def close(self, kill=False):
        for process in self._processes:
            if process.stdin:
                with contextlib.suppress(OSError):  # it has ended
                    process.stdin.close()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.01 if kill else 10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # whatever is left of this launcher's own session
            process.wait()
        self._processes = []
        self._sync.unlink(missing_ok=True)

    def _read(self, stream):
        for line in stream:
            if line.startswith(b"{"):
                self._lines.put(line)
        self._lines.put(None)

    def _answer(self, timeout):
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise Failed(f"no answer within {timeout:.0f} s", no_answer=True) from None
        if line is None:
            raise Failed(f"ended: {self._last_error()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(f"{answer['error']} {self._last_error()}".strip())
        return answer

    def _last_error(self):
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "no message"
