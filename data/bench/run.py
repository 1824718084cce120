#!/usr/bin/env python3
"""Compares Xoe's input pipeline with others: `scripts/bench.sh data`, or data/bench/run.py --help.

data/bench/README.md describes the figures and the method.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "measure"))

import entrants
import sets
import summary
from compare.peers import revision
from compare.program import ROOT, Comparison, in_turn, number_list, parse, parser_of, print_tables, word_list
from entrants import ALL, BEST, DALI, EXACT, FAST, LIMIT, Timing

WORDS = {"xoe-exact": EXACT, "xoe-fast": FAST, "limit": LIMIT, "tf-best": BEST, "tf-new": entrants.NEW}
WORDS |= {"tf-old": entrants.OLD, "dali": DALI, "torchvision": entrants.TORCHVISION, "pil": entrants.PIL}
WORDS |= {"mlx": entrants.MLX}
# On the sets beside A, where the targets name tf.data's best alone.
FEW = (EXACT, FAST, LIMIT, BEST, DALI)
START_LIMIT_S = 90  # TensorFlow alone takes seconds to be imported, more on a busy machine


def parse_arguments():
    text = "Batches of images from files: Xoe and other pipelines, side by side."
    parser = parser_of(text, rounds=3, limit=60, peers=f"of {','.join(WORDS)} (default: all on A, some on other sets)")
    parser.add_argument("--sets", type=word_list, default=["A", "B", "C"], help=f"of {','.join(sets.SETS)} (default A,B,C)")
    parser.add_argument("--threads", type=number_list, default=[1, 2], help="default 1,2")
    parser.add_argument("--seconds", type=float, default=8, help="of each figure (default 8)")
    parser.add_argument("--warmup", type=float, default=3, help="seconds before each figure (default 3)")
    parser.add_argument("--consumer", type=float, default=2700, help="images/s of the emulated consumer; 0: none")
    parser.add_argument("--data", type=Path, default=ROOT / "build" / "bench-data", help="where the data sets are made")
    arguments = parse(parser, {"sets": sets.SETS, "peers": WORDS}, rounds=1, seconds=3, warmup=1, sets=["A"])
    if min(arguments.threads) < 1:
        parser.error("at least 1 thread")
    return arguments


def names_for(arguments, data_set):
    if arguments.peers:
        return [WORDS[word] for word in arguments.peers]
    return list(ALL) if data_set in ("A", "tiny") else list(FEW)


class Pipelines:
    """All figures of a comparison of pipelines."""

    def __init__(self, comparison, folders):
        self.comparison, self.arguments, self.folders = comparison, comparison.arguments, folders
        self.records, self.fed, self.revision = {}, {}, revision()

    def figure(self, name, data_set, threads, turn):
        timing = Timing(threads, self.arguments.seconds, self.arguments.warmup)
        words = entrants.command(name, self.arguments.bin, self.folders[data_set], timing)
        found = entrants.run(words, timing.seconds + timing.warmup + START_LIMIT_S)
        self.comparison.versions[name] = entrants.version(name, self.revision)
        self.comparison.figures.append(
            {**found, "entrant": name, "set": data_set, "round": turn, "load": os.getloadavg()[0]}
        )

    def reading(self):
        """One figure of each reader, without decoding."""
        folder, seconds = self.folders["A"], self.arguments.seconds
        count, size = sets.record_sizes(folder)
        readers = {
            summary.RECORDS_XOE: (entrants.records_of_xoe, self.arguments.bin, sorted(folder.glob("train-*")), seconds / 4),
            summary.RECORDS_TFDATA: (entrants.records_of_tfdata, folder, size / count, seconds / 2),
        }
        for name, reader in readers.items():
            found = self.comparison.attempt(f"reading records, {name}", *reader)
            if found is not None:
                self.records.setdefault(name, []).append(found)

    def round(self, turn):
        for data_set in self.arguments.sets:
            for threads in self.arguments.threads:
                self.comparison.say(f"round {turn}, set {data_set}, {summary.counted(threads, 'thread')}")
                for name in in_turn(names_for(self.arguments, data_set), turn):
                    self.comparison.attempt(name, self.figure, name, data_set, threads, turn)
        if "A" in self.arguments.sets and not self.arguments.peers:
            self.reading()

    def fed_consumer(self, name):
        """How well a consumer of a given speed is fed, on the first set."""
        timing = Timing(max(self.arguments.threads), self.arguments.seconds, self.arguments.warmup)
        words = entrants.command(name, self.arguments.bin, self.folders[self.arguments.sets[0]], timing)
        words += ["--consumer", str(self.arguments.consumer)]
        return entrants.run(words, 2 * timing.seconds + timing.warmup + START_LIMIT_S)["emulated_consumer"]

    def emulate(self):
        for name in entrants.OURS:
            if name not in self.comparison.given_up and name in names_for(self.arguments, self.arguments.sets[0]):
                found = self.comparison.attempt(f"{name}, emulated consumer", self.fed_consumer, name)
                if found is not None:
                    self.fed[name] = found


def print_report(pipelines):
    arguments, figures = pipelines.arguments, pipelines.comparison.figures
    most = max(arguments.threads)
    for data_set in arguments.sets:
        for threads in arguments.threads:
            title = f"set {data_set} ({sets.SETS[data_set].text}), {summary.counted(threads, 'thread')}: medians [all]"
            print_tables((title, summary.table_of(figures, data_set, threads)))
    print_tables(
        ("reading records of set A, every CRC checked", summary.records_table(pipelines.records)),
        ("a consumer that sleeps: an emulation, no accelerator is here", summary.consumer_table(pipelines.fed)),
        (f"targets, {summary.counted(most, 'thread')}", summary.targets(figures, pipelines.records, most)),
    )


def main():
    arguments = parse_arguments()
    comparison = Comparison(arguments)
    if not (arguments.bin / "xoe-data").exists():
        sys.exit(f"error: {arguments.bin}/xoe-data is missing; run `scripts/bench.sh data`, or build first")
    arguments.data.mkdir(parents=True, exist_ok=True)
    folders = {name: sets.make(sets.SETS[name], arguments.bin, arguments.data, comparison.say) for name in arguments.sets}
    for name, folder in folders.items():
        count, size = sets.record_sizes(folder)
        comparison.say(f"set {name}: {count} images, mean {size / count / 1e3:.1f} KB")
    pipelines = Pipelines(comparison, folders)
    for turn in comparison.rounds():
        pipelines.round(turn)
    if arguments.consumer > 0:
        pipelines.emulate()
    print_report(pipelines)
    rows = summary.rows(comparison.figures, pipelines.records)
    more = {"records_bytes_per_cpu_s": pipelines.records, "emulated_consumer": pipelines.fed}
    comparison.save("data", "Input pipelines side by side", rows, **more)


if __name__ == "__main__":
    main()
