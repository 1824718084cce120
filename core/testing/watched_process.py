"""A process whose output a test reads while it runs."""

import os
import subprocess
import tempfile
import time


def eventually(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class WatchedProcess:
    """`name` is what messages call it."""

    def __init__(self, name, words, env=None, stdin=subprocess.DEVNULL, stdout=None):
        self.name = name
        self.out_file, self.err_file = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(word) for word in words], stdin=stdin, stdout=stdout or self.out_file,
                                        stderr=self.err_file, env=env, start_new_session=True)

    @staticmethod
    def _text(file):
        # The process writes where this file's position is, which stays as it is.
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")

    @property
    def out(self):
        return self._text(self.out_file)

    @property
    def err(self):
        return self._text(self.err_file)

    def _fail(self, what):
        raise AssertionError(f"{self.name} {what}: {self.out[-1000:]} {self.err[-2000:]}")

    def signal(self, number):
        self.process.send_signal(number)

    def says(self, text, seconds=30):
        """Waits for it in its output."""
        if not eventually(lambda: text in self.out + self.err, seconds):
            self._fail(f"does not say {text!r}")

    def wait(self, seconds=60):
        """Its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._fail("hangs")

    def end(self):
        """Kills it, if it still runs, and forgets its output."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.out_file.close()
        self.err_file.close()
