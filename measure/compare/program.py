"""What the programs that compare have in common: options, the lines that they print, and the file of figures."""

import datetime
import json
import sys
import time
from pathlib import Path

from compare.machine import machine
from compare.placement import Canary

ROOT = Path(__file__).resolve().parents[2]


def word_list(text):
    return text.split(",")


def number_list(text):
    return [int(item) for item in text.split(",")]


def add_places(parser, out):
    """Options for folders. out: what --help says of the one of results."""
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin", help="where Xoe's programs are")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", help=out)


def need_known(parser, *pairs):
    """Ends the program where words of a pair's first list are not in its second."""
    for given, known in pairs:
        if set(given or ()) - set(known):
            parser.error(f"not known: {', '.join(sorted(set(given) - set(known)))}")


def clock():
    """A function that prints a line behind the seconds since now."""
    started = time.monotonic()

    def say(text):
        print(f"[{time.monotonic() - started:4.0f} s] {text}", flush=True)

    return say


def canary_of(arguments):
    """The harness's; makes the folder of results, too."""
    library = arguments.bin / "libxoe_bench_harness.so"
    if not library.exists():
        sys.exit(f"error: {library} is missing; run `make bench`, or build first")
    arguments.out.mkdir(parents=True, exist_ok=True)
    return Canary(library)


def print_tables(*tables):
    """(title, text) of each; an empty one is left out."""
    for title, text in tables:
        if text:
            print(f"\n{title}\n{text}")


def save(folder, prefix, say, **result):
    """Writes the figures to a JSON file named after this moment; gives its path, without the suffix."""
    now = datetime.datetime.now().astimezone()
    stem = folder / f"{prefix}{now:%Y-%m-%d-%H%M%S}"
    result = {"date": now.isoformat(), "arguments": sys.argv[1:], "machine": machine(), **result}
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    say(f"saved {stem}.json")
    return stem
