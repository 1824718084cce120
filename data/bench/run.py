#!/usr/bin/env python3
"""Compares Xoe's input pipeline with others: `scripts/bench.sh data`, or data/bench/run.py --help.

data/bench/README.md describes the figures and the method.
"""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "measure"))

import entrants
import sets
import summary
from compare.peers import version_of
from compare.program import ROOT, clock, need_known, number_list, print_tables, save, word_list
from entrants import ALL, BEST, DALI, EXACT, FAST, LIMIT, GivenUp, Timing

WORDS = {"xoe-exact": EXACT, "xoe-fast": FAST, "limit": LIMIT, "tf-best": BEST, "tf-new": entrants.NEW}
WORDS |= {"tf-old": entrants.OLD, "dali": DALI, "torchvision": entrants.TORCHVISION, "pil": entrants.PIL}
WORDS |= {"mlx": entrants.MLX}
# On the sets beside A, where the targets name tf.data's best alone.
FEW = (EXACT, FAST, LIMIT, BEST, DALI)
START_LIMIT_S = 90  # TensorFlow alone takes seconds to be imported, more on a busy machine


def parse_arguments():
    parser = argparse.ArgumentParser(description="Batches of images from files: Xoe and other pipelines, side by side.")
    parser.add_argument("--quick", action="store_true", help="set A alone, one round of short figures")
    parser.add_argument("--sets", type=word_list, help=f"of {','.join(sets.SETS)} (default A,B,C; --quick A)")
    parser.add_argument("--threads", type=number_list, default=[1, 2])
    parser.add_argument("--peers", type=word_list, help=f"of {','.join(WORDS)} (default: all on A, some on other sets)")
    parser.add_argument("--rounds", type=int, help="over all peers (default 3; --quick 1)")
    parser.add_argument("--seconds", type=float, help="of each figure (default 8; --quick 3)")
    parser.add_argument("--warmup", type=float, help="seconds before each figure (default 3; --quick 1)")
    parser.add_argument("--consumer", type=float, default=2700, help="images/s of the emulated consumer; 0: none")
    parser.add_argument("--limit", type=float, default=60, help="minutes after which no further round begins")
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin", help="where Xoe's programs are")
    parser.add_argument("--data", type=Path, default=ROOT / "build" / "bench-data", help="where the data sets are made")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", help="where JSON and plot go")
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.sets = arguments.sets or (["A"] if quick else ["A", "B", "C"])
    arguments.rounds = arguments.rounds or (1 if quick else 3)
    arguments.seconds = arguments.seconds or (3 if quick else 8)
    arguments.warmup = arguments.warmup or (1 if quick else 3)
    need_known(parser, (arguments.sets, sets.SETS), (arguments.peers, WORDS))
    if min(arguments.threads) < 1 or arguments.rounds < 1:
        parser.error("at least 1 thread and 1 round")
    return arguments


def names_for(arguments, data_set):
    if arguments.peers:
        return [WORDS[word] for word in arguments.peers]
    return list(ALL) if data_set in ("A", "tiny") else list(FEW)


class Comparison:
    """All figures. A peer that fails once is given up, with the reason, and not tried again."""

    def __init__(self, arguments, folders, say):
        self.arguments, self.folders, self.say = arguments, folders, say
        self.figures, self.records, self.fed, self.given_up = [], {}, {}, {}

    def give_up(self, name, why):
        self.given_up[name] = str(why)
        self.say(f"{name}: given up, {why}")

    def attempt(self, name, measure):
        """What it gives; None where it gives up, or has before."""
        if name in self.given_up:
            return None
        try:
            return measure()
        except GivenUp as why:
            self.give_up(name, why)
            return None

    def figure(self, name, data_set, threads, turn):
        timing = Timing(threads, self.arguments.seconds, self.arguments.warmup)
        limit = timing.seconds + timing.warmup + START_LIMIT_S
        folder = self.folders[data_set]
        found = self.attempt(name, lambda: entrants.run(entrants.command(name, self.arguments.bin, folder, timing), limit))
        if found is not None:
            self.figures.append({**found, "entrant": name, "set": data_set, "round": turn, "load": os.getloadavg()[0]})

    def reading(self):
        """One figure of each reader, without decoding."""
        folder = self.folders["A"]
        count, size = sets.record_sizes(folder)
        files = sorted(folder.glob("train-*"))
        readers = {
            summary.RECORDS_XOE: lambda: entrants.records_of_xoe(self.arguments.bin, files, self.arguments.seconds / 4),
            summary.RECORDS_TFDATA: lambda: entrants.records_of_tfdata(folder, size / count, self.arguments.seconds / 2),
        }
        for name, measure in readers.items():
            found = self.attempt(f"reading records, {name}", measure)
            if found is not None:
                self.records.setdefault(name, []).append(found)

    def round(self, turn):
        for data_set in self.arguments.sets:
            for threads in self.arguments.threads:
                self.say(f"round {turn}, set {data_set}, {summary.counted(threads, 'thread')}")
                for name in names_for(self.arguments, data_set):
                    self.figure(name, data_set, threads, turn)
        if "A" in self.arguments.sets and not self.arguments.peers:
            self.reading()

    def emulate(self):
        """How well a consumer of a given speed is fed, on the first set."""
        data_set, most = self.arguments.sets[0], max(self.arguments.threads)
        timing = Timing(most, self.arguments.seconds, self.arguments.warmup)
        for name in entrants.OURS:
            if name in self.given_up or name not in names_for(self.arguments, data_set):
                continue
            words = entrants.command(name, self.arguments.bin, self.folders[data_set], timing)
            words += ["--consumer", str(self.arguments.consumer)]
            limit = 2 * timing.seconds + timing.warmup + START_LIMIT_S
            found = self.attempt(f"{name}, emulated consumer", lambda: entrants.run(words, limit)["emulated_consumer"])
            if found is not None:
                self.fed[name] = found


def versions(names, revision):
    found = {}
    for name in names:
        try:
            found[name] = entrants.version(name, revision)
        except GivenUp as why:
            found[name] = str(why)
    return found


def print_report(comparison):
    arguments, figures = comparison.arguments, comparison.figures
    for data_set in arguments.sets:
        for threads in arguments.threads:
            title = f"set {data_set} ({sets.SETS[data_set].text}), {summary.counted(threads, 'thread')}: medians [all]"
            print_tables((title, summary.table_of(figures, data_set, threads)))
    print_tables(
        ("reading records of set A, every CRC checked", summary.records_table(comparison.records)),
        ("a consumer that sleeps: an emulation, no accelerator is here", summary.consumer_table(comparison.fed)),
        (
            f"targets, {summary.counted(max(arguments.threads), 'thread')}",
            summary.targets(figures, comparison.records, max(arguments.threads)),
        ),
    )
    for name, why in comparison.given_up.items():
        print(f"not measured: {name}: {why}")


def main():
    arguments = parse_arguments()
    started, say = time.monotonic(), clock()
    if not (arguments.bin / "xoe-data").exists():
        sys.exit(f"error: {arguments.bin}/xoe-data is missing; run `scripts/bench.sh data`, or build first")
    arguments.out.mkdir(parents=True, exist_ok=True)
    arguments.data.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]  # of the minute before: whether others use the machine
    folders = {name: sets.make(sets.SETS[name], arguments.bin, arguments.data, say) for name in arguments.sets}
    say(
        "data: "
        + ", ".join(
            f"{name}: {count} images, mean {size / count / 1e3:.1f} KB"
            for name, (count, size) in ((n, sets.record_sizes(f)) for n, f in folders.items())
        )
    )
    comparison = Comparison(arguments, folders, say)
    for turn in range(arguments.rounds):
        if turn == 0 or time.monotonic() - started < 60 * arguments.limit:
            comparison.round(turn)
    if arguments.consumer > 0:
        comparison.emulate()
    print_report(comparison)
    names = sorted({name for data_set in arguments.sets for name in names_for(arguments, data_set)}, key=ALL.index)
    stem = save(
        arguments.out,
        "data-",
        say,
        load_before=load,
        load_after=os.getloadavg()[0],
        versions=versions(names, version_of(["git", "-C", str(ROOT), "describe", "--always", "--dirty"])),
        given_up=comparison.given_up,
        figures=comparison.figures,
        records_bytes_per_cpu_s=comparison.records,
        emulated_consumer=comparison.fed,
    )
    if comparison.figures and summary.plot(comparison.figures, arguments.sets, arguments.threads, stem):
        say(f"saved {stem}.svg and .png")


if __name__ == "__main__":
    main()
