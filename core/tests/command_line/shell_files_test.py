"""Completion in bash, and in zsh and fish where they are installed; manual pages."""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ["XOE_BIN_DIR"])
ZSH = shutil.which("zsh")
FISH = shutil.which("fish")

# The line up to the cursor, words that are offered, and words that are not.
CASES = [
    ("xoe ", ["run", "doctor", "timeline", "completion", "help"], ["--version"]),
    ("xoe do", ["doctor"], ["run"]),
    ("xoe run --bi", ["--bind-to"], ["--backend"]),
    ("xoe run --bind-to ", ["none", "core", "socket", "numa"], ["--help"]),
    ("xoe run -np 2 --backend h", ["hierarchical"], ["gloo"]),
    ("xoe timeline ", ["merge", "summary"], ["run"]),
    ("xoe timeline summary --te", ["--tensors"], ["--json"]),
    ("xoe timeline summary --tensors 3 --j", ["--json"], ["--tensors"]),
    ("xoe doctor --st", ["--strict"], ["--json"]),
    ("xoe completion ", ["bash", "zsh", "fish"], ["run"]),
    ("xoe help ", ["run", "doctor"], []),
]


def script(shell):
    return subprocess.run([BIN / "xoe", "completion", shell], capture_output=True, text=True, check=True).stdout


def in_bash(line):
    program = f"""{script("bash")}
line={line!r}
read -ra COMP_WORDS <<<"$line"
[[ $line == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_xoe
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    ended = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, check=True)
    if ended.stderr:
        raise AssertionError(ended.stderr)
    return ended.stdout.split()


def in_fish(line):
    program = f"{script('fish')}\ncomplete -C {line!r}\n"
    home = tempfile.mkdtemp()
    try:
        ended = subprocess.run(
            [FISH, "--no-config", "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "HOME": home, "PATH": f"{BIN}:{os.environ['PATH']}"},
        )
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return [entry.split("\t")[0] for entry in ended.stdout.splitlines()]


class Zsh:
    """A zsh at a terminal: only there it completes."""

    def __init__(self, folder):
        (pathlib.Path(folder) / "_xoe").write_text(script("zsh"))
        environment = {**os.environ, "HOME": folder, "ZDOTDIR": folder, "TERM": "dumb", "PATH": f"{BIN}:{os.environ['PATH']}"}
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(ZSH, [ZSH, "-f", "-i"], environment)
        self.say(f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; unsetopt beep; PS1=; LISTMAX=0")
        self.say("zstyle ':completion:*' list-prompt ''; setopt auto_list no_list_beep; stty -echo; stty cols 300")

    def say(self, line):
        os.write(self.terminal, f"{line}; echo re''ady\n".encode())
        self.until("ready")

    def until(self, mark):
        seen, deadline = "", time.monotonic() + 30
        while mark not in seen and time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 1)[0]:
                seen += os.read(self.terminal, 65536).decode(errors="replace")
        if mark not in seen:
            raise AssertionError(f"no {mark} in {seen!r}")
        return seen

    def complete(self, line):
        # The shell lists what it offers, or inserts it if it is alone; then the line is dropped, and a command ends it.
        os.write(self.terminal, line.encode() + b"\t\x15echo ma''rk\n")
        return re.findall(r"[\w-]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", " ", self.until("mark")))

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


class Completion(unittest.TestCase):
    def check(self, complete):
        for line, offered, others in CASES:
            with self.subTest(line):
                words = complete(line)
                for word in offered:
                    self.assertIn(word, words)
                for word in others:
                    self.assertNotIn(word, words)

    def test_in_bash(self):
        self.check(in_bash)

    def test_files_in_bash(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "trace.json").write_text("")
            (path / "sub").mkdir()
            self.assertIn(f"{folder}/trace.json", in_bash(f"xoe timeline summary {folder}/t"))
            self.assertEqual(in_bash(f"xoe run --output-dir {folder}/"), [f"{folder}/sub"])

    @unittest.skipUnless(FISH, "no fish")
    def test_in_fish(self):
        self.check(in_fish)

    @unittest.skipUnless(ZSH, "no zsh")
    def test_in_zsh(self):
        with tempfile.TemporaryDirectory() as folder:
            zsh = Zsh(folder)
            try:
                for line, offered, _ in CASES:
                    with self.subTest(line):
                        words = zsh.complete(line)
                        for word in offered:
                            self.assertIn(word, words)
            finally:
                zsh.close()

    def test_an_option_that_is_added_is_completed(self):
        """Every option of every help is offered."""
        for verb in ("run", "doctor", "timeline summary", "timeline merge"):
            told = subprocess.run([BIN / "xoe", *verb.split(), "--help"], capture_output=True, text=True, check=True).stdout
            for option in re.findall(r"(?m)^  (?:-\w+, )*(--[a-z][a-z-]+)", told):
                self.assertIn(option, in_bash(f"xoe {verb} {option[:4]}"))


class ManualPages(unittest.TestCase):
    def test_every_verb_has_one(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "scripts/shell_files.py", BIN, folder], check=True)
            names = {file.stem for file in pathlib.Path(folder, "man/man1").iterdir()}
            self.assertLessEqual({"xoe", "xoe-run", "xoe-doctor", "xoe-timeline", "xoe-timeline-merge", "xoe-timeline-view", "xoe-report"}, names)
            page = pathlib.Path(folder, "man/man1/xoe-run.1").read_text()
            for part in (".SH NAME", ".SH SYNOPSIS", ".SH EXAMPLES", ".SH EXIT STATUS", "\\-\\-bind\\-to"):
                self.assertIn(part, page)
            for file in ("bash-completion/completions/xoe", "zsh/site-functions/_xoe", "fish/vendor_completions.d/xoe.fish"):
                self.assertTrue(pathlib.Path(folder, file).read_text())
            if shutil.which("man"):
                for name in names:
                    ended = subprocess.run(
                        ["man", "--warnings", "-l", pathlib.Path(folder, f"man/man1/{name}.1")], capture_output=True, text=True
                    )
                    self.assertEqual((ended.returncode, ended.stderr), (0, ""), name)


if __name__ == "__main__":
    unittest.main()
