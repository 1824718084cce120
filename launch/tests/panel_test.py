"""The panel of `xoe run`, as a user sees it: on a terminal that tmux draws, and on others."""

import contextlib
import fcntl
import itertools
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

XOE = pathlib.Path(os.environ["XOE_BIN_DIR"]) / "xoe"
LIBRARY = XOE.parents[1] / "lib/libxoe.so.0"

# Trains at some 50 steps a second; a file `late.N` keeps rank N from submitting, and `stop` ends all.
PROGRAM = f"""
import ctypes, os, pathlib, sys, time
xoe = ctypes.CDLL({str(LIBRARY)!r})
folder, rank = pathlib.Path(sys.argv[1]), os.environ["XOE_RANK"]

class Tensor(ctypes.Structure):
    _fields_ = [("input", ctypes.c_void_p), ("output", ctypes.c_void_p), ("shape", ctypes.c_void_p),
                ("ndim", ctypes.c_int32), ("dtype", ctypes.c_int32), ("reserved", ctypes.c_uint64 * 4)]

class Request(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("kind", ctypes.c_int32), ("reduce", ctypes.c_int32),
                ("tensors", ctypes.c_void_p), ("count", ctypes.c_size_t), ("others", ctypes.c_char * 144)]

if (folder / "alone").exists():  # each rank trains by itself, in the slot of its own
    os.environ.update(XOE_RANK="0", XOE_SIZE="1", XOE_LOCAL_SIZE="1", XOE_CROSS_RANK="0", XOE_CROSS_SIZE="1")
engine, request = ctypes.c_void_p(), Request()
assert xoe.xoe_init(None, ctypes.byref(engine)) == 0
value = ctypes.c_float(1)
tensor = Tensor(input=ctypes.addressof(value), output=ctypes.addressof(value), dtype=7)
xoe.xoe_request_init(ctypes.byref(request), ctypes.c_size_t(ctypes.sizeof(Request)))
request.name, request.tensors, request.count = b"layer1.weight", ctypes.addressof(tensor), 1
request.reduce = 2  # the minimum: all ranks stop in the same step
(folder / f"pid.{{rank}}").write_text(str(os.getpid()))
print("ready", flush=True)
step = 0
while value.value > 0:
    while (folder / f"late.{{rank}}").exists():
        time.sleep(0.01)
    value.value = not (folder / "stop").exists()
    assert xoe.xoe_run(engine, ctypes.byref(request)) == 0
    xoe.xoe_note_step(engine)
    step += 1
    if step % 50 == 0:
        print(f"{{step}} steps", flush=True)
    time.sleep(0.02)
xoe.xoe_shutdown(engine)
"""


def eventually(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    value = None
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not in {seconds} s: {what}")


NUMBERS = itertools.count()


class Screen:
    """A terminal of 90 columns that tmux draws."""

    def __init__(self, folder, command, rows=30):
        # A server that ends may still hold its socket.
        self.base = ["tmux", "-S", str(folder / f"socket-{next(NUMBERS)}"), "-f", "/dev/null"]
        environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TMUX")}
        shell = ["bash", "--norc", "-c", command]
        subprocess.run([*self.base, "new-session", "-d", "-x", "90", "-y", str(rows), *shell], check=True, env=environment)

    def text(self):
        return subprocess.run([*self.base, "capture-pane", "-p"], capture_output=True, text=True).stdout

    def all_text(self):
        return subprocess.run([*self.base, "capture-pane", "-p", "-S", "-"], capture_output=True, text=True).stdout

    def keys(self, *keys):
        subprocess.run([*self.base, "send-keys", *keys], check=True)

    def resize(self, columns, rows):
        subprocess.run([*self.base, "resize-window", "-x", str(columns), "-y", str(rows)], check=True)

    def close(self):
        subprocess.run([*self.base, "kill-server"], capture_output=True)


def panel_of(text):
    """The panel's rows, from its header on; none: an empty list."""
    lines = text.rstrip().splitlines()
    headers = [i for i, line in enumerate(lines) if line.startswith("-- ")]
    return lines[headers[-1] :] if headers else []


class PanelTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.program = self.folder / "program.py"
        self.program.write_text(PROGRAM)

    def command(self, ranks=4, options=""):
        return f"{XOE} run -np {ranks} {options} {sys.executable} {self.program} {self.folder}"

    def screen(self, command, **options):
        if shutil.which("tmux") is None:
            self.skipTest("no tmux")
        screen = Screen(self.folder, command, **options)
        self.addCleanup(screen.close)
        self.addCleanup(self.stop)
        return screen

    def stop(self):
        (self.folder / "stop").touch()

    def panel(self, screen, matches, what):
        def found():
            rows = panel_of(screen.text())
            return rows if rows and matches(rows) else None

        try:
            return eventually(found, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{screen.text()}") from None

    def test_it_shows_rates_last_lines_and_whom_ranks_wait_for(self):
        screen = self.screen(self.command() + "; echo code $?; read -r _")
        rows = self.panel(
            screen, lambda rows: len(rows) == 5 and all("steps/s" in r and " steps" in r for r in rows[1:]), "rates"
        )
        self.assertTrue(rows[0].startswith("-- 4 ranks, "), rows)
        for rank in range(4):
            self.assertTrue(rows[rank + 1].startswith(f"[{rank}] "), rows)
        # Log lines are above, each whole.
        above = screen.text()[: screen.text().index("-- 4 ranks")]
        self.assertIn("[0] ready", above.splitlines())
        (self.folder / "late.2").touch()
        rows = self.panel(screen, lambda rows: "3 ranks wait for it" in rows[3], "a rank that is late")
        for rank in (0, 1, 3):
            self.assertRegex(rows[rank + 1], r"waits \d+ s for rank 2: layer1\.weight")
        (self.folder / "late.2").unlink()
        self.panel(screen, lambda rows: "wait for it" not in rows[3], "the end of the wait")
        self.stop()
        text = eventually(lambda: "code 0" in screen.text() and screen.text(), "the end")
        self.assertEqual(panel_of(text), [], text)
        self.assertEqual([line for line in text.split("\n") if line and not line.startswith(("[", "code 0"))], [], text)

    def test_agents_tell_of_the_ranks_on_their_hosts(self):
        (self.folder / "alone").touch()
        ssh = self.folder / "ssh"
        ssh.write_text('#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\nexec env -i PATH=/usr/bin:/bin sh -c "$2"\n')
        ssh.chmod(0o755)
        command = f"{XOE} run -H one:1,two:1 --ssh-command {ssh} {sys.executable} {self.program} {self.folder}"
        screen = self.screen(command + "; echo code $?; read -r _")
        rows = self.panel(screen, lambda rows: len(rows) == 3 and all("steps/s" in row for row in rows[1:]), "rates")
        self.assertTrue(rows[0].startswith("-- 2 ranks, "), rows)
        self.stop()
        eventually(lambda: "code 0" in screen.text(), "the end")

    def test_a_prompt_stays_below_it(self):
        asks = self.folder / "ask.py"
        asks.write_text(
            PROGRAM.replace('print("ready", flush=True)', 'rank == "0" and print("got", input("name? "), flush=True)')
        )
        screen = self.screen(f"{XOE} run -np 2 {sys.executable} {asks} {self.folder}; echo code $?; read -r _")
        eventually(lambda: screen.text().rstrip().endswith("name?") and panel_of(screen.text()), "the prompt")
        screen.keys("me", "Enter")
        self.panel(screen, lambda rows: len(rows) == 3 and "steps/s" in rows[1], "rates")
        self.assertIn("got me", screen.text())
        self.assertEqual(screen.all_text().count("-- 2 ranks"), 1, screen.all_text())
        self.stop()
        eventually(lambda: "code 0" in screen.text(), "the end")

    def test_ctrl_c_leaves_a_clean_terminal(self):
        screen = self.screen(self.command(2) + "; echo code $?; read -r _")
        self.panel(screen, lambda rows: "steps/s" in rows[1], "rates")
        screen.keys("C-c")
        text = eventually(lambda: "code 1" in screen.text() and screen.text(), "the end")
        self.assertEqual(panel_of(text), [], text)

    def test_ctrl_z_takes_it_away_and_fg_draws_it_again(self):
        screen = self.screen(f"set -m; {self.command(2)}; echo stopped; read -r _; fg; echo code $?; read -r _")
        self.panel(screen, lambda rows: "steps/s" in rows[1], "rates")
        screen.keys("C-z")
        text = eventually(lambda: "stopped" in screen.text() and screen.text(), "the stop")
        self.assertEqual(panel_of(text), [], text)
        screen.keys("Enter")
        self.panel(screen, lambda rows: "steps/s" in rows[1], "the panel again")
        self.stop()
        text = eventually(lambda: "code 0" in screen.text() and screen.text(), "the end")
        self.assertEqual(panel_of(text), [], text)

    def test_it_follows_the_terminals_size(self):
        # A panel that is drawn at the very moment of a change may leave its first row: no one can tell which size came first.
        self.assertTrue(any(self.panels_left_by_changes_of_size() == 0 for _ in range(3)))

    def panels_left_by_changes_of_size(self):
        screen = self.screen(f"{self.command(4)}; echo code $?; read -r _")
        self.panel(screen, lambda rows: len(rows) == 5 and "steps/s" in rows[4], "rates")
        left = 0
        for columns, rows, most in ((50, 30, 5), (120, 30, 5), (90, 12, 4), (90, 9, 0), (90, 40, 5)):
            screen.resize(columns, rows)
            if most == 0:
                eventually(lambda: not panel_of(screen.text()), "a low terminal has none")
                continue
            # The header ends before the last column.
            found = self.panel(
                screen,
                lambda rows, most=most, columns=columns: len(rows) == most and len(rows[0]) == columns - 1,
                f"{most} rows at {columns}x{rows}",
            )
            self.assertLessEqual(max(map(len, found)), columns)
            if most == 4:
                self.assertEqual(found[-1], "and 2 more ranks")
            # The one before was taken away, also where the terminal has wrapped it.
            left = max(left, sum(line.startswith("-- ") for line in screen.all_text().splitlines()) - 1)
        self.stop()
        eventually(lambda: "code 0" in screen.text(), "the end")
        screen.close()
        (self.folder / "stop").unlink()
        return left

    def test_where_it_is_left_out(self):
        self.stop()
        plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        asks = [XOE, "run", "-np", "2", "bash", "-c", 'echo "has $XOE_STATUS."']
        for has, environment, options in (
            (True, {"TERM": "xterm"}, []),
            (False, {"TERM": "dumb"}, []),
            (False, {"TERM": "xterm", "NO_COLOR": "1"}, []),
            (True, {"TERM": "dumb", "NO_COLOR": "1"}, ["--panel"]),
            (False, {"TERM": "xterm"}, ["--no-panel"]),
            (False, {"TERM": "xterm"}, ["-np", "1"]),
            (True, {"TERM": "xterm"}, ["-np", "1", "--panel"]),
        ):
            with self.subTest(environment=environment, options=options):
                shown = self.at_terminal([*asks[:4], *options, *asks[4:]], {**plain, **environment})
                self.assertEqual("has /proc/" in shown, has, shown)
        # Elsewhere than on a terminal it is never drawn.
        for options in ([], ["--panel"]):
            ended = subprocess.run([*asks[:4], *options, *asks[4:]], capture_output=True, text=True, timeout=60, env=plain)
            self.assertEqual(sorted(ended.stdout.splitlines()), ["[0] has .", "[1] has ."])

    def at_terminal(self, command, environment):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(command[0], [str(word) for word in command], environment)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        seen = b""
        with contextlib.suppress(OSError):
            while chunk := os.read(terminal, 4096):
                seen += chunk
        os.close(terminal)
        os.waitpid(pid, 0)
        return seen.decode()

    def test_a_rank_that_is_killed_is_named(self):
        screen = self.screen(self.command(2) + "; echo code $?; read -r _")
        self.panel(screen, lambda rows: "steps/s" in rows[1], "rates")
        os.kill(int((self.folder / "pid.1").read_text()), signal.SIGKILL)
        text = eventually(lambda: "code 137" in screen.text() and screen.text(), "the end")
        self.assertEqual(panel_of(text), [], text)
        self.assertIn("xoe run: rank 1 ", text)


if __name__ == "__main__":
    unittest.main()
