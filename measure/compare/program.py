"""What the programs that compare have in common: options, rounds, contestants that are given up, and the file of figures."""

import argparse
import datetime
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

from compare.machine import machine
from compare.placement import Canary
from compare.processes import GivenUp

ROOT = Path(__file__).resolve().parents[2]


def word_list(text):
    return text.split(",")


def number_list(text):
    return [int(item) for item in text.split(",")]


def parse_size(text):
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(i?B)?", text.strip(), re.IGNORECASE)
    size = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()] if match else 0
    if size <= 0 or size % 4 != 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: a multiple of 4 bytes such as 64K or 16M")
    return size


def size_list(text):
    return [parse_size(item) for item in text.split(",")]


def parser_of(text, rounds, limit, peers=""):
    """With the options that all of them have: so many rounds and minutes by default; `peers`: what --peers may name."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"over all peers (default {rounds})")
    text = f"minutes after which nothing is repeated (default {limit})"
    parser.add_argument("--limit", type=float, default=limit, help=text)
    if peers:
        parser.add_argument("--peers", type=word_list, help=f"only these: {peers}")
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin", help="where Xoe's programs are")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", help="where figures and page go")
    return parser


def parse(parser, known, **quick):
    """The arguments. known: {option: the words that it may have}; quick: the defaults with --quick."""
    text = " ".join(f"--{name} {','.join(value) if isinstance(value, list) else value}" for name, value in quick.items())
    parser.add_argument("--quick", action="store_true", help=f"short: the defaults are {text.replace('_', '-')}")
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(**quick)
    arguments = parser.parse_args()
    for name, words in known.items():
        if unknown := set(getattr(arguments, name) or ()) - set(words):
            parser.error(f"--{name}: not known: {', '.join(sorted(unknown))}; choose from {', '.join(words)}")
    if arguments.rounds < 1:
        parser.error("at least 1 round")
    return arguments


def in_turn(contestants, number):
    """In the order of this round, which is another one in each."""
    return random.Random(number).sample(contestants, len(contestants))


def measurements_of(rows):
    """As in docs/formats/measurements.md, of (name, quantity, whether less is better, value). Of each quantity the first
    is the baseline; what is not positive cannot be compared."""
    found = {}
    for name, quantity, less_is_better, value in rows:
        if value is not None and value > 0:
            found.setdefault((name, quantity, less_is_better), []).append(value)
    return [
        {
            "name": name,
            "series": "Xoe" if "xoe" in name.lower() else "others",
            "quantity": quantity,
            "less_is_better": less_is_better,
            "runs": runs,
        }
        for (name, quantity, less_is_better), runs in found.items()
    ]


class Comparison:
    """A run of a program that compares: its time, its figures, and what was given up."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.figures, self.given_up, self.versions = [], {}, {}
        self._started = time.monotonic()
        self._load = os.getloadavg()[0]  # of the minute before: whether others use the machine
        arguments.out.mkdir(parents=True, exist_ok=True)

    def say(self, text):
        """Prints a line behind the seconds since the start."""
        print(f"[{time.monotonic() - self._started:4.0f} s] {text}", flush=True)

    def late(self):
        """Whether nothing is repeated any more."""
        return time.monotonic() - self._started > 60 * self.arguments.limit

    def rounds(self):
        """The numbers of the rounds."""
        for number in range(self.arguments.rounds):
            if number == 0 or not self.late():
                yield number

    def give_up(self, name, why):
        lines = str(why).strip().splitlines()
        if len(lines) > 1:
            print(why, file=sys.stderr)
        # What the launcher says of the rank that failed first tells more than the last line.
        self.given_up[name] = next((line for line in lines if line.startswith("xoe run: rank")), lines[-1])
        self.say(f"{name}: given up, {self.given_up[name]}")

    def attempt(self, name, measure, *arguments):
        """What measure(*arguments) gives. None where it raises GivenUp, and from then on."""
        if name in self.given_up:
            return None
        try:
            return measure(*arguments)
        except GivenUp as why:
            self.give_up(name, why)
            return None

    def measure(self, contestants, text_of):
        """Each of {name: function} in turn in every round: [{name: what it gives}], a dictionary for each round."""
        rounds = []
        for number in self.rounds():
            measured = {}
            for name in in_turn(list(contestants), number):
                found = self.attempt(name, contestants[name])
                if found is not None:
                    measured[name] = found
                    self.say(f"round {number + 1}, {name}: {text_of(found)}")
            rounds.append({name: measured[name] for name in contestants if name in measured})
        return rounds

    def save(self, name, title, rows, **more):
        """Writes measurements_of(rows), and all figures, to a file named after this moment, and a page about it."""
        for contestant, why in self.given_up.items():
            print(f"not measured: {contestant}: {why}")
        now = datetime.datetime.now().astimezone()
        path = self.arguments.out / f"{name}-{now:%Y-%m-%d-%H%M%S}.json"
        environment = {
            **machine(),
            "load_before": self._load,
            "load_after": os.getloadavg()[0],
            "arguments": sys.argv[1:],
            "versions": self.versions,
        }
        result = {"benchmark": "measurements", "title": title, "date": now.isoformat(), "environment": environment}
        result |= {"measurements": measurements_of(rows), "given_up": self.given_up, "figures": self.figures, **more}
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        self.say(f"saved {path}")
        page = path.with_suffix(".html")
        command = [self.arguments.bin / "xoe", "bench", "compare", path, "--html", page]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        self.say(f"saved {page}" if made.returncode == 0 else f"no page: {made.stderr.strip()}")


def values_of(rounds, name):
    """Of a contestant, over the rounds in which it was measured."""
    return [measured[name] for measured in rounds if name in measured]


def ratios_of(rounds, above, below):
    """Of two contestants, within each round that has both."""
    return [measured[above] / measured[below] for measured in rounds if above in measured and below in measured]


def canary_of(arguments):
    """The harness's."""
    library = arguments.bin / "libxoe_bench_harness.so"
    if not library.exists():
        sys.exit(f"error: {library} is missing; run `make bench`, or build first")
    return Canary(library)


def print_tables(*tables):
    """(title, text) of each; an empty one is left out."""
    for title, text in tables:
        if text:
            print(f"\n{title}\n{text}")
