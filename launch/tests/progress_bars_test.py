"""Progress bars of a job, as a user sees them: on a terminal, which tmux draws, and in a file."""

import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from peer_python import peer_python

XOE = pathlib.Path(os.environ["XOE_BIN_DIR"]) / "xoe"
# tqdm itself where it is installed; else a bar that writes the same bytes.
PYTHON = peer_python("pytorch", "tqdm") or sys.executable
STEPS = 10

LOOP = """
import os, pathlib, sys, time
try:
    from tqdm import tqdm
except ImportError:
    def tqdm(steps, desc="", **options):
        for step in steps:
            print(f"\\r{desc}: {100 * step // len(steps)}%|", end="", file=sys.stderr, flush=True)
            yield step
        print(f"\\r{desc}: 100%|", file=sys.stderr, flush=True)

folder, rank = pathlib.Path(sys.argv[1]), os.environ["XOE_RANK"]
for step in tqdm(range(10), desc=f"epoch of {rank}", mininterval=0, ascii=True):
    if step == 4:
        print("halfway", rank, flush=True)
        (folder / f"halfway.{rank}").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)
"""

NESTED = """
import sys
from tqdm import tqdm
for epoch in tqdm(range(3), desc="outer", mininterval=0, ascii=True):
    for step in tqdm(range(20), desc=f"inner {epoch}", mininterval=0, ascii=True, leave=False):
        pass
print("the end", file=sys.stderr)
"""

# The last state of a bar, and nothing after it until it was seen.
ENDED = """
import pathlib, sys, time
print("\\r 50%|", end="", file=sys.stderr, flush=True)
print("\\r100%|", file=sys.stderr, flush=True)
while not (pathlib.Path(sys.argv[1]) / "go").exists():
    time.sleep(0.01)
"""


def eventually(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not in {seconds} s: {what}")


NUMBERS = itertools.count()


class Screen:
    """A terminal of 100 columns that tmux draws."""

    def __init__(self, folder, command):
        # A server that ends may still hold its socket.
        self.base = ["tmux", "-S", str(folder / f"socket-{next(NUMBERS)}"), "-f", "/dev/null"]
        subprocess.run([*self.base, "new-session", "-d", "-x", "100", "-y", "40", "bash", "--norc", "-c", command], check=True)

    def text(self):
        return subprocess.run([*self.base, "capture-pane", "-p", "-S", "-"], capture_output=True, text=True).stdout

    def close(self):
        subprocess.run([*self.base, "kill-server"], capture_output=True)


class ProgressBars(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        for name, text in (("loop.py", LOOP), ("nested.py", NESTED), ("ended.py", ENDED)):
            (self.folder / name).write_text(text)

    def halfway(self):
        return all((self.folder / f"halfway.{rank}").exists() for rank in range(4))

    @unittest.skipUnless(shutil.which("tmux"), "no tmux")
    def test_rank_0s_is_seen_on_a_terminal_while_it_runs(self):
        end = f"echo code $?; touch {self.folder}/ended; read -r _"
        screen = Screen(self.folder, f"{XOE} run -np 4 {PYTHON} {self.folder}/loop.py {self.folder}; {end}")
        self.addCleanup(screen.close)
        eventually(self.halfway, "all ranks halfway")
        text = eventually(lambda: (t := screen.text()).count("halfway") == 4 and "40%|" in t and t, "the bar at 40 %")
        self.assertEqual(text.count("%|"), 1, text)
        self.assertRegex(text, r"\[0\] epoch of 0: +40%\|")
        # It stands below the others.
        self.assertTrue(text.rstrip().splitlines()[-1].startswith("[0] epoch of 0:"), text)
        (self.folder / "go").touch()
        eventually((self.folder / "ended").exists, "the end")
        text = eventually(lambda: "code 0" in screen.text() and screen.text(), "its code")
        lines = [line for line in text.splitlines() if "%|" in line]
        self.assertEqual(len(lines), 4, text)
        for rank in range(4):
            self.assertTrue(any(line.startswith(f"[{rank}] epoch of {rank}: 100%|") for line in lines), text)

    def test_in_a_file_they_are_lines(self):
        (self.folder / "go").touch()
        command = [XOE, "run", "-np", "4", PYTHON, self.folder / "loop.py", self.folder]
        ended = subprocess.run(command, capture_output=True, timeout=60)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertNotIn(b"\r", ended.stderr)  # which text=True would hide
        lines = ended.stderr.decode().splitlines()
        for rank in range(4):
            # The last state, and of rank 0 the first one, too, unless all came at once.
            own = [line for line in lines if line.startswith(f"[{rank}] epoch of {rank}: ")]
            self.assertLessEqual(len(own), 2 if rank == 0 else 1, ended.stderr)
            self.assertIn("100%|", own[-1])
        self.assertLessEqual(len(lines), 5, ended.stderr)

    def test_a_bar_that_ended_is_a_line_though_nothing_follows(self):
        command = [XOE, "run", "-np", "2", "--timeout", "20", sys.executable, self.folder / "ended.py", self.folder]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as launcher:
            lines = []
            for line in launcher.stderr:
                lines.append(line)
                if {"[0] 100%|\n", "[1] 100%|\n"} <= set(lines):
                    (self.folder / "go").touch()
        self.assertEqual(launcher.returncode, 0, lines)
        self.assertEqual([line for line in lines if line.startswith("[1]")], ["[1] 100%|\n"])
        self.assertEqual(lines.count("[0] 100%|\n"), 1, lines)

    def test_what_a_rank_wrote_is_kept_as_it_is(self):
        (self.folder / "go").touch()
        command = [XOE, "run", "-np", "1", "--output-dir", self.folder / "out", PYTHON, self.folder / "loop.py", self.folder]
        subprocess.run(command, capture_output=True, check=True, timeout=60)
        self.assertGreater((self.folder / "out/rank.0/stderr").read_bytes().count(b"\r"), STEPS)

    @unittest.skipUnless(sys.executable != PYTHON, "no tqdm")
    def test_bars_below_each_other(self):
        command = [XOE, "run", "-np", "2", PYTHON, self.folder / "nested.py"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        own = [line for line in ended.stderr.splitlines() if line.startswith("[1] ")]
        self.assertEqual(len(own), 2, ended.stderr)
        self.assertTrue(own[0].startswith("[1] outer: 100%|"), ended.stderr)
        self.assertEqual(own[1], "[1] the end")
        self.assertNotIn("\x1b", ended.stderr)


if __name__ == "__main__":
    unittest.main()
