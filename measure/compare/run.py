#!/usr/bin/env python3
"""Compares Xoe with the other engines of this machine: `make bench`, or measure/compare/run.py --help.

measure/compare/README.md, core/bench/collectives/harness.h and measure/compare/placement.py describe the figures and the method.
"""

import argparse
import contextlib
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compare import launching, peers, report
from compare.allreduce import Point, Runner, Sessions
from compare.program import add_places, canary_of, clock, number_list, print_tables, save, word_list

KIB, MIB = 1 << 10, 1 << 20
SIZES = [4, 64, KIB, 4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
QUICK_SIZES = [4, 4 * KIB, 64 * KIB, MIB, 16 * MIB]
QUICK_PEERS = ["xoe-zero-copy", "xoe-staged", "openmpi", "openmpi+ucx", "gloo"]
CROWDED_SIZES = [4, MIB, 64 * MIB]  # for more ranks than cores


def parse_size(text):
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(i?B)?", text.strip(), re.IGNORECASE)
    size = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()] if match else 0
    if size <= 0 or size % 4 != 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: a multiple of 4 bytes such as 64K or 16M")
    return size


def size_list(text):
    return [parse_size(item) for item in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser(description="Allreduce and launch times of Xoe and other engines, side by side.")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and peers, one round: under two minutes")
    parser.add_argument("--sizes", type=size_list, help="e.g. 4,64K,16M")
    parser.add_argument("--ranks", type=number_list, default=[2, 4], help="default 2,4")
    parser.add_argument("--peers", type=word_list, help="only these, e.g. xoe-zero-copy,openmpi (default: all found)")
    parser.add_argument("--rounds", type=int, help="over all peers, for each size (default 3; --quick 1)")
    parser.add_argument("--seconds", type=float, help="for each figure (default 0.2; --quick 0.05)")
    parser.add_argument("--limit", type=float, help="minutes after which nothing is repeated (default 8; --quick 1)")
    parser.add_argument("--only", choices=["allreduce", "collectives", "half", "launch"], help="one part")
    add_places(parser, "where JSON and plot go")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.seconds = arguments.seconds or (0.05 if arguments.quick else 0.2)
    arguments.limit = arguments.limit or (1 if arguments.quick else 8)
    if arguments.quick and not arguments.peers:
        arguments.peers = QUICK_PEERS
    if min(arguments.ranks) < 2 or arguments.rounds < 1:
        parser.error("at least 2 ranks and 1 round")
    return arguments


def points_for(ranks, arguments):
    """Float32 figures of a number of ranks."""
    crowded = ranks > (os.cpu_count() or 1)
    sizes = arguments.sizes or (CROWDED_SIZES if crowded else QUICK_SIZES if arguments.quick else SIZES)
    if arguments.quick and crowded and not arguments.sizes:
        sizes = [4, MIB]
    modes = ["rewritten"] if crowded else ["hot", "rewritten"]
    return [Point(ranks, size, "float32", mode) for size in sizes for mode in modes]


def other_points(arguments):
    """The other collectives, 2 ranks; of allgather all that is gathered, of alltoall what a rank sends and keeps."""
    sizes = arguments.sizes or ([MIB] if arguments.quick else [MIB, 16 * MIB, 64 * MIB])
    return [Point(2, size, "float32", "rewritten", part) for part in peers.OTHER_COLLECTIVES for size in sizes]


def half_points(arguments):
    """16-bit types at 1 to 64 MiB, and float32 at the same numbers of elements."""
    sizes = [MIB, 16 * MIB] if arguments.quick else [MIB, 4 * MIB, 16 * MIB, 64 * MIB]
    return [
        Point(2, size * width, dtype, "rewritten", "half")
        for size in sizes
        for dtype, width in (("bfloat16", 1), ("float16", 1), ("float32", 2))
    ]


def measure_collectives(arguments, engines, canary, say):
    deadline = time.monotonic() + 60 * arguments.limit
    runner = Runner(canary, arguments.rounds, arguments.seconds, 20, deadline, say)
    given_up = {}
    for ranks in arguments.ranks:
        with contextlib.closing(Sessions(engines, ranks, canary.sync_bytes, say)) as sessions:
            if arguments.only in (None, "allreduce"):
                runner.measure(sessions, points_for(ranks, arguments))
        given_up.update({f"{name}, {ranks} ranks": why for name, why in sessions.given_up.items()})
    if arguments.only in (None, "collectives"):
        with contextlib.closing(Sessions(engines, 2, canary.sync_bytes, say)) as sessions:
            runner.measure(sessions, other_points(arguments))
    if arguments.only in (None, "half"):
        able = [engine for engine in engines if "float16" in engine.dtypes]
        with contextlib.closing(Sessions(able, 2, canary.sync_bytes, say)) as sessions:
            runner.measure(sessions, half_points(arguments))
    return runner.figures, given_up


def print_collective(title, *of):
    print_tables((title, report.ratio_table(*of)), ("medians of all, us", report.median_table(*of)))


def print_report(figures, launches, names, ranks_list):
    for ranks in ranks_list:
        for mode in ("rewritten", "hot"):
            title = f"allreduce, {ranks} ranks, float32 sum, buffers {mode}: us, median [p25-p75] min"
            print_collective(title, figures, names, ranks, mode)
    for part in peers.OTHER_COLLECTIVES:
        title = f"{part}, 2 ranks, float32, buffers rewritten: us, median [p25-p75] min"
        print_collective(title, figures, names, 2, "rewritten", part)
    print_tables(
        ("16-bit types, 2 ranks, rewritten, by element", report.half_table(figures, names)),
        ("launch of 2 processes", report.launch_table(launches)),
        ("targets, on medians of rewritten buffers, against the best of Open MPI, Open MPI with UCX and Gloo",
         report.targets(figures, names, launches)),
    )


def main():
    arguments = parse_arguments()
    say = clock()
    canary = canary_of(arguments)
    engines = peers.find_peers(arguments.bin, arguments.out, arguments.peers, say)
    for name in set(arguments.peers or []) - {engine.name for engine in engines}:
        say(f"{name}: not here")
    if not engines:
        sys.exit("error: none of these peers is here")
    say("peers: " + ", ".join(f"{engine.name} ({engine.version})" for engine in engines))
    figures, given_up, launches = [], {}, []
    if arguments.only != "launch":
        figures, given_up = measure_collectives(arguments, engines, canary, say)
    if arguments.only in (None, "launch"):
        launches = launching.measure(arguments.bin, arguments.out, 3 if arguments.quick else 15, say)
    names = [engine.name for engine in engines]
    print_report(figures, launches, names, arguments.ranks)
    versions = {engine.name: engine.version for engine in engines}
    stem = save(arguments.out, "", say, versions=versions, given_up=given_up, figures=figures, launches=launches)
    if report.plot(figures, names, stem):
        say(f"saved {stem}.svg and .png")


if __name__ == "__main__":
    main()
