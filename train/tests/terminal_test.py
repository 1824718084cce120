"""`xoe train` at a terminal: its progress bar under the launcher, and the question where a run's folder is taken."""

import contextlib
import os
import pathlib
import pty
import re
import subprocess
import tempfile
import unittest

XOE = pathlib.Path(os.environ["XOE_BIN_DIR"]) / "xoe"
QUICK = ["train", "--synthetic", "--model", "mlp", "--classes", "10", "--image-size", "8", "--batch", "4", "--device", "cpu"]
BAR = re.compile(r"\[0\] \[=* *\] \d+/\d+")


class Terminal:
    """A program with a terminal of its own, and what it has shown so far."""

    def __init__(self, words, folder):
        self.process, self.fd = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.environ.pop("NO_COLOR", None)
            os.execv(words[0], [os.fspath(word) for word in words])
        self.shown = ""

    def plain(self):
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", self.shown)

    def read(self):
        """More of what it shows; False: it has ended."""
        with contextlib.suppress(OSError):  # the other end is closed
            if part := os.read(self.fd, 65536):
                self.shown += part.decode(errors="replace")
                return True
        return False

    def wait_for(self, pattern):
        while not re.search(pattern, self.plain()):
            if not self.read():
                raise AssertionError(f"ended without {pattern}:\n{self.shown}")

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        """Its exit code, after all that it shows."""
        while self.read():
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


class AtATerminal(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def first_run(self):
        words = [XOE, *QUICK, "--steps", "1", "--run-dir", "runs/a", "--timeline", "runs/a/timeline.json"]
        subprocess.run(words, check=True, capture_output=True, cwd=self.folder, timeout=120)
        return words, {path.name: path.read_bytes() for path in (self.folder / "runs/a").iterdir()}

    def test_the_bar_shows_under_the_launcher(self):
        terminal = Terminal(
            [XOE, "run", "-np", "2", XOE, *QUICK, "--steps", "100000000", "--report-every", "1000000"], self.folder
        )
        terminal.wait_for(BAR)
        terminal.type("\x03")
        self.assertEqual(terminal.end(), 130, terminal.shown)
        # What comes after it does not stand behind the bar.
        self.assertRegex(terminal.plain(), r"(?m)^[^\n]*\[0\] interrupted at step")
        self.assertNotRegex(terminal.plain(), r"\d+/\d+\S*interrupted")

    def test_no_bar_where_the_launcher_has_no_terminal(self):
        words = [XOE, "run", "-np", "2", XOE, *QUICK, "--steps", "5"]
        outer = {**os.environ, "XOE_TERMINAL": "1"}  # of a launcher further out
        ended = subprocess.run(words, capture_output=True, cwd=self.folder, timeout=120, env=outer)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertNotIn(b"\r", ended.stdout)  # which text=True would hide
        self.assertNotRegex(ended.stdout.decode(), BAR)

    def test_no_bar_in_a_pipe_of_the_ranks_own(self):
        train = " ".join(map(str, [XOE, *QUICK, "--steps", "5"]))
        for behind in ("| tee log.$XOE_RANK", "> log.$XOE_RANK"):
            terminal = Terminal([XOE, "run", "-np", "2", "sh", "-c", f"{train} {behind}"], self.folder)
            self.assertEqual(terminal.end(), 0, terminal.shown)
            log = (self.folder / "log.0").read_bytes()
            self.assertIn(b"images/s", log)
            self.assertNotIn(b"\r", log, behind)

    def test_it_offers_another_folder(self):
        words, before = self.first_run()
        terminal = Terminal(words, self.folder)
        terminal.wait_for(r"runs/a already holds a run; write into runs/a-2 instead\? \[Y/n\]")
        terminal.type("\n")
        self.assertEqual(terminal.end(), 0, terminal.shown)
        for name, content in before.items():
            self.assertEqual((self.folder / "runs/a" / name).read_bytes(), content, name)
        self.assertTrue(
            {"metrics.jsonl", "curve.svg", "timeline.json"} <= {path.name for path in (self.folder / "runs/a-2").iterdir()}
        )

    def test_nobody_is_asked_in_the_background_or_for_json(self):
        words, _ = self.first_run()
        background = ["/bin/bash", "-c", 'set -m; "$@" & wait $!', "bash", *words]
        for command in (background, [*words, "--json"]):
            terminal = Terminal(command, self.folder)
            self.assertEqual(terminal.end(), 1, terminal.shown)
            self.assertIn("error: invalid_argument: runs/a already holds a run", terminal.shown)
            self.assertNotIn("[Y/n]", terminal.shown)

    def test_no_is_an_error_that_says_what_to_do(self):
        words, before = self.first_run()
        terminal = Terminal(words, self.folder)
        terminal.wait_for(r"\[Y/n\]")
        terminal.type("n\n")
        self.assertEqual(terminal.end(), 1, terminal.shown)
        self.assertIn("error: invalid_argument: runs/a already holds a run; write into another folder", terminal.shown)
        self.assertEqual((self.folder / "runs/a/metrics.jsonl").read_bytes(), before["metrics.jsonl"])
        self.assertFalse((self.folder / "runs/a-2").exists())


if __name__ == "__main__":
    unittest.main()
