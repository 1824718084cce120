"""The command lines of all programs: help, version, and what they say of mistakes."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import random
import re
import struct
import subprocess
import tempfile
import termios
import unittest

BIN = pathlib.Path(os.environ["XOE_BIN_DIR"])
PROGRAMS = ("train", "data", "timeline", "report", "doctor", "pool")
DATA_VERBS = ("make", "make-xray", "convert", "inspect", "verify", "stats", "index", "bench", "compare")
POOL_VERBS = ("serve", "agent", "acquire", "adopt", "renew", "release", "revoke", "exempt", "run", "status", "events", "usage", "team",
              "user", "backup")


def xoe(*words, **options):
    environment = {**os.environ, **options.pop("environment", {})}
    return subprocess.run(
        [BIN / "xoe", *words], capture_output=True, text=True, timeout=60, env=environment, stdin=subprocess.DEVNULL, **options
    )


def is_built(words):
    """Whether these words behind `xoe` need no program that this build lacks, as `xoe train` without libtorch."""
    return not words or words[0] not in PROGRAMS or (BIN / f"xoe-{words[0]}").exists()


def verbs():
    """Every verb of every program, as words behind `xoe`."""
    found = [
        ("run",),
        ("doctor",),
        ("train",),
        ("train", "export"),
        ("timeline",),
        ("timeline", "merge"),
        ("timeline", "summary"),
        ("timeline", "view"),
        ("report",),
        ("data",),
        ("pool",),
        ("completion",),
    ]
    found += [("data", verb) for verb in DATA_VERBS] + [("pool", verb) for verb in POOL_VERBS]
    return [words for words in found if is_built(words)]


# The words behind `xoe`, and what the one line on stderr must contain.
MISTAKES = [
    # the first word
    ("trian --synthetic", "did you mean train?"),
    ("rum -np 2 true", "did you mean run?"),
    ("docter", "did you mean doctor?"),
    ("timline summary x", "did you mean timeline?"),
    ("dta make x", "did you mean data?"),
    ("hlep", "did you mean help?"),
    ("zebra", "see xoe --help"),
    ("-np 2 python train.py", "did you mean `xoe run -np 2 python train.py`?"),
    ("-np2 python", "did you mean `xoe run -np2 python`?"),
    ("--hosts=a:2 prog", "did you mean `xoe run --hosts=a:2 prog`?"),
    ("python3 train.py", "`xoe run -np 2 python3 train.py`"),
    ("--verbose", "see xoe --help"),
    ("completion", "say for which shell: bash, zsh or fish"),
    ("completion bsh", "did you mean bash?"),
    ("completion --shell bash", "say for which shell"),
    # run
    ("run", "no program given; for example: xoe run -np 2 python train.py"),
    ("run true", "how many ranks? For example: xoe run -np 2 true"),
    ("run -np 2", "no program given"),
    ("run -np", "-np needs a value"),
    ("run -np two true", "-np two: expected a number of ranks"),
    ("run -np 0 true", "at least 1 rank"),
    ("run -np -3 true", "at least 1 rank"),
    ("run -np2x true", "-np 2x: expected a number of ranks"),
    ("run --npp 2 true", "did you mean --np?"),
    ("run -np 2 --timout 3 true", "did you mean --timeout?"),
    ("run -np 2 --timeout soon true", "--timeout soon: expected seconds"),
    ("run -np 2 --output-dri logs true", "did you mean --output-dir?"),
    ("run -np 2 --output-dir --timeout 3 true", "--output-dir needs a value, but --timeout, an option, follows it"),
    ("run -np 2 --bind-to cores true", "did you mean core?"),
    ("run -np 2 --bind-to gpu true", "expected none, core, socket or numa"),
    ("run -np 2 --map-by nodes true", "did you mean node?"),
    ("run -np 2 --backend glo true", "did you mean gloo?"),
    ("run -np 2 --tag-output=yes true", "--tag-output takes no value"),
    ("run -np 2 --restart 3 true", "did you mean --restarts?"),
    ("run -np 2 --env =1 true", "expected NAME=VALUE or NAME"),
    ("run -np 2 --ssh-port 99999 true", "1 to 65535"),
    ("run -np 2 --config-file none.toml true", "none.toml"),
    ("run -np 2 --hostfile none true", "none"),
    ("run -H a:0 true", "a:0"),
    ("run -H a:1 --hostfile b true", "choose one of them"),
    # doctor
    ("doctor --jsn", "did you mean --json?"),
    ("doctor json", "did you mean --json?"),
    ("doctor --only gpuu", "did you mean gpu?"),
    ("doctor --only", "--only needs a value"),
    ("doctor --root none", "--root none"),
    ("doctor --ssh-port 0", "--ssh-port 0: expected a whole number from 1 to 65535"),
    ("doctor --connect-timeout long", "--connect-timeout long: expected a whole number from 1 to 600"),
    ("doctor -H a --hostfile b", "exclude each other"),
    ("doctor --stirct", "did you mean --strict?"),
    ("doctor --hostfile none", "none"),
    # pool
    ("pool", "say what to do"),
    ("pool aquire", "did you mean acquire?"),
    ("pool acquire --gpu 2", "did you mean --gpus?"),
    ("pool acquire --gpus 0", "--gpus 0: expected a number from 1 to 1024"),
    ("pool acquire --for soon", "--for soon: expected a time with its unit, such as 90s, 30m, 4h or 2d"),
    ("pool acquire --memory much", "expected a size such as 16G"),
    ("pool run", "PROGRAM is missing"),
    ("pool serve --give-way recliam", "did you mean reclaim?"),
    ("pool renew", "LEASE is missing"),
    ("pool renew x", "LEASE x"),
    # timeline
    ("timeline", "say what to do: merge, summary or view"),
    ("timeline sumary x", "did you mean summary?"),
    ("timeline summary", "FILE is missing; usage: xoe timeline summary [options] FILE"),
    ("timeline merge out.json", "FILES is missing; usage: xoe timeline merge"),
    ("timeline summary a b", 'unexpected word "b"'),
    ("timeline summary a --tensors many", "--tensors many: expected a whole number"),
    ("timeline summary a --tensors -1", "--tensors -1: expected a whole number, 0 or more"),
    ("data make x --seed -1", "--seed -1: expected a whole number, 0 or more"),
    ("timeline summary a --jason", "did you mean --json?"),
    ("timeline --tensors 3 summary a", "write it behind the verb"),
    ("timeline veiw a", "did you mean view?"),
    ("timeline view", "FILES is missing; usage: xoe timeline view"),
    ("timeline view a --events none", "--events none: expected a"),
    ("report", "RUN is missing; usage: xoe report [options] RUN"),
    ("reprt runs/a", "did you mean report?"),
    ("report a b", 'say where the page of several runs goes: -o FILE'),
    ("timeline view a --events 0", "--events 0: expected a whole number from 1 to 1000000000"),
    ("timeline view a --events 9223372036854775808", "--events 9223372036854775808: expected a whole number from 1 to"),
    ("report a --events 0", "--events 0: expected a whole number from 1 to 1000000000"),
    ("report a --events 9223372036854775808", "--events 9223372036854775808: expected a whole number from 1 to"),
    ("report a --ouput b", "did you mean --output?"),
    # data
    ("data", "say what to do: make, make-xray, convert"),
    ("data mak x", "did you mean make?"),
    ("data verfy x", "did you mean verify?"),
    ("data make", "DIR is missing; usage: xoe data make [options] DIR"),
    ("data make --imgaes 5 x", "did you mean --images?"),
    ("data make x --images many", "--images many: expected a whole number"),
    ("data make x --images 0x10", "--images 0x10: expected a whole number"),
    ("data make x --images 2.5", "--images 2.5: expected a whole number"),
    ("data make x --images", "--images needs a value"),
    ("data make x --format tfrecords", "did you mean tfrecord?"),
    ("data make x --format parquet", "expected tfrecord, folder, tar or nih"),
    ("data make x --images 5 --images 6", "--images is given twice"),
    ("data make x --width 5", "--height"),
    ("data make x y", 'unexpected word "y"'),
    ("data make x --images 0", "images"),
    ("data convert x", "TO is missing; usage: xoe data convert [options] FROM TO"),
    ("data convert x y --to folders", "did you mean folder?"),
    ("data convert x y --compression gz", "gzip"),
    ("data convert x y --keep-order --shuffle 3", "exclude each other"),
    ("data inspect x --record -1", "--record -1: expected a whole number, 0 or more"),
    ("data stats x --split trian", "did you mean train?"),
    ("data bench x --dtype float", "did you mean float16?"),
    ("data bench x --mode quick", "expected exact or fast"),
    ("data bench x --seconds -1", "--seconds -1: expected a number from 0.01 to"),
    ("data bench x --interpolation bicubik", "did you mean bicubic?"),
    ("data bench x --image-size big", "--image-size big: expected pixels of a side"),
    ("data index x --threads 5000", "--threads 5000: expected a whole number from 0 to 1024"),
    ("data --images 5 make x", "write it behind the verb"),
    ("data verify x --decode=all", "--decode takes no value"),
    ("data verify x --decodee", "did you mean --decode?"),
    # train
    ("train", "say what to train on: --data DIR or --synthetic"),
    ("train --sinthetic", "did you mean --synthetic?"),
    ("train synthetic", "did you mean --synthetic?"),
    ("train --synthetic --model resnet19", "did you mean resnet18?"),
    ("train --synthetic --model", "--model needs a value"),
    ("train --synthetic --model --steps 3", "--model needs a value, but --steps, an option, follows it"),
    ("train --synthetic --optimizer sdg", "did you mean sgd?"),
    ("train --synthetic --precision fp8", "expected fp32, bf16 or fp16"),
    ("train --synthetic --device gpu", "expected auto, cpu or cuda"),
    ("train --synthetic --batch 0x10", "--batch 0x10: expected a whole number"),
    ("train --synthetic --batch 00", "--batch 00: expected a whole number, 1 to 1048576"),
    ("train --synthetic --seed 0b1", "--seed 0b1: expected a whole number"),
    ("train exprot runs/a model.pt", "did you mean export?"),
    ("train export", "RUN is missing; usage: xoe train export [options] RUN FILE"),
    ("train export runs/a", "FILE is missing"),
    ("train export runs/a model.onnx", "expected a name that ends in .pt"),
    ("train export runs/a model.pt other", "unexpected word"),
    ("train --batch 4 export runs/a model.pt", "--batch is an option of training"),
    ("train export --batch 4 runs/a model.pt", "unknown option --batch"),
    ("train --synthetic --batch many", "--batch many: expected a whole number"),
    ("train --synthetic --batch 0", "--batch 0: expected a whole number, 1 to 1048576"),
    ("train --synthetic --epocs 3", "did you mean --epochs?"),
    ("train --data x --epochs -1", "--epochs -1: expected a number, above 0, or auto"),
    ("train --synthetic --steps 3 --epochs 1", "exclude each other"),
    ("train --synthetic --data x", "exclude each other"),
    ("train --synthetic --data-threads lots", "--data-threads lots: expected a whole number, 0 to 1024, or auto"),
    ("train --synthetic --lr fast", "--lr fast: expected a number, above 0, or auto"),
    ("train --synthetic --resume", "--checkpoint"),
    ("train --synthetic --json=3", "--json takes no value"),
]


class CommandLine(unittest.TestCase):
    def assert_one_line(self, words, ended, says):
        line = " ".join(words)
        self.assertEqual(ended.returncode, 2, f"{line}: {ended.stderr}")
        self.assertEqual(ended.stdout, "", line)
        self.assertEqual(ended.stderr.count("\n"), 1, f"{line}: {ended.stderr}")
        self.assertTrue(ended.stderr.startswith("xoe"), f"{line}: {ended.stderr}")
        self.assertIn(says, ended.stderr, line)
        self.assertTrue(ended.stderr.rstrip("\n").isprintable(), f"{line}: {ended.stderr!r}")

    def test_mistakes_are_told_in_one_line(self):
        self.assertGreater(len(MISTAKES), 60)
        for line, says in MISTAKES:
            words = line.split()
            with self.subTest(line):
                if is_built(words):
                    self.assert_one_line(words, xoe(*words), says)

    def test_one_wrong_letter_in_any_option_is_understood(self):
        letters = random.Random(7)
        for verb in verbs():
            help_text = xoe(*verb, "--help").stdout
            options = re.findall(r"(?m)^  (?:-\w+, )*(--[a-z][a-z-]{4,})", help_text)
            self.assertTrue(options, verb)
            for option in letters.sample(options, min(4, len(options))):
                at = letters.randrange(3, len(option))
                wrong = option[:at] + letters.choice("qxz") + option[at + 1 :]
                if wrong in options:
                    continue
                with self.subTest(verb=verb, wrong=wrong):
                    self.assert_one_line([*verb, wrong], xoe(*verb, wrong), "did you mean --")

    def test_help_fits_a_terminal(self):
        for words in [(), *verbs()]:
            with self.subTest(words):
                ended = xoe(*words, "--help")
                self.assertEqual((ended.returncode, ended.stderr), (0, ""))
                self.assertIn("Usage: " + " ".join(("xoe", *words)), ended.stdout)
                self.assertRegex(ended.stdout, "(?m)^Examples?:$")
                for line in ended.stdout.splitlines():
                    self.assertLessEqual(len(line), 80, line)
                    self.assertTrue(line.isprintable(), repr(line))
                if words:
                    self.assertEqual(xoe("help", *words).stdout, ended.stdout)

    def test_version_is_the_same_everywhere(self):
        version = xoe("--version").stdout
        self.assertRegex(version, r"^xoe \d+\.\d+\.\d+\S*\n$")
        for verb in verbs():
            ended = xoe(*verb, "--version")
            self.assertEqual((ended.returncode, ended.stdout), (0, version), verb)

    def test_help_wins_over_mistakes_behind_it(self):
        self.assertEqual(xoe("timeline", "merge", "--help", "--jason").returncode, 0)

    def test_an_option_of_several_values_takes_several_words(self):
        ended = xoe("doctor", "--only", "cpu", "memory", "--json")
        self.assertEqual(ended.stderr, "")
        self.assertIn(ended.returncode, (0, 1))

    def test_the_number_of_ranks_may_touch_its_option(self):
        for form in ("-np2", "-np=2", "-n2", "--np=2"):
            ended = xoe("run", form, "--no-tag-output", "echo", "here")
            self.assertEqual((ended.returncode, ended.stdout), (0, "here\nhere\n"), ended.stderr)

    @unittest.skipUnless(is_built(("timeline",)), "no xoe timeline")
    def test_tables_fit_the_terminal(self):
        name = "a long name of a lane " * 4
        span = {"ph": "X", "pid": 0, "ts": 0, "dur": 123456789.0}
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder, "trace.json")
            lanes = [{"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": name}}]
            trace.write_text(json.dumps([*lanes, {**span, "tid": 1, "name": name}]))
            for columns in (80, 120):
                screen, terminal = pty.openpty()
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
                ended = subprocess.run([BIN / "xoe", "timeline", "summary", trace], stdout=terminal, stderr=subprocess.PIPE)
                os.close(terminal)
                shown = b""
                with contextlib.suppress(OSError):  # the other end is closed
                    while part := os.read(screen, 65536):
                        shown += part
                os.close(screen)
                self.assertEqual(ended.returncode, 0, ended.stderr)
                lines = re.sub(r"\x1b\[\d+m", "", shown.decode()).splitlines()
                table = [line for line in lines if line.startswith("  ")]
                self.assertTrue(table, shown)
                for line in table:
                    self.assertLessEqual(len(line), columns, line)

    def test_no_color(self):
        for verb in verbs():
            self.assertNotIn("\x1b", xoe(*verb, "--help", environment={"NO_COLOR": "1"}).stdout)


if __name__ == "__main__":
    unittest.main()
