#!/usr/bin/env python3
"""Compares Xoe with the other engines of this machine: `make bench`, or measure/compare/run.py --help.

measure/compare/README.md, core/bench/collectives/harness.h and measure/compare/placement.py describe the figures and the method.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compare import launching, peers, report
from compare.allreduce import Point, Runner, Sessions
from compare.program import Comparison, canary_of, number_list, parse, parser_of, print_tables, size_list

KIB, MIB = 1 << 10, 1 << 20
SIZES = [4, 64, KIB, 4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
QUICK_SIZES = [4, 4 * KIB, 64 * KIB, MIB, 16 * MIB]
QUICK_PEERS = ["xoe-zero-copy", "xoe-staged", "openmpi", "openmpi+ucx", "gloo"]
CROWDED_SIZES = [4, MIB, 64 * MIB]  # for more ranks than cores


def parse_arguments():
    text = "Allreduce and launch times of Xoe and other engines, side by side."
    parser = parser_of(text, rounds=3, limit=8, peers="e.g. xoe-zero-copy,openmpi (default: all found)")
    parser.add_argument("--sizes", type=size_list, help="e.g. 4,64K,16M")
    parser.add_argument("--ranks", type=number_list, default=[2, 4], help="default 2,4")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each figure (default 0.2)")
    parser.add_argument("--only", choices=["allreduce", "collectives", "half", "launch"], help="one part")
    arguments = parse(parser, {}, rounds=1, limit=1, seconds=0.05, peers=QUICK_PEERS)
    if min(arguments.ranks) < 2:
        parser.error("at least 2 ranks")
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


def measure_collectives(comparison, engines, canary):
    runner, only = Runner(canary, comparison), comparison.arguments.only

    def measure(able, ranks, points):
        with Sessions(able, ranks, canary.sync_bytes, comparison) as sessions:
            runner.measure(sessions, points)

    for ranks in comparison.arguments.ranks if only in (None, "allreduce") else ():
        measure(engines, ranks, points_for(ranks, comparison.arguments))
    if only in (None, "collectives"):
        measure(engines, 2, other_points(comparison.arguments))
    if only in (None, "half"):
        measure([engine for engine in engines if "float16" in engine.dtypes], 2, half_points(comparison.arguments))


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
    comparison = Comparison(arguments)
    canary = canary_of(arguments)
    engines = peers.find_peers(arguments.bin, arguments.out, arguments.peers, comparison.say)
    for name in set(arguments.peers or []) - {engine.name for engine in engines}:
        comparison.say(f"{name}: not here")
    if not engines:
        sys.exit("error: none of these peers is here")
    comparison.versions = {engine.name: engine.version for engine in engines}
    comparison.say(f"peers: {comparison.versions}")
    if arguments.only != "launch":
        measure_collectives(comparison, engines, canary)
    launches = launching.measure(comparison, 3 if arguments.quick else 15) if arguments.only in (None, "launch") else []
    names = list(comparison.versions)
    print_report(comparison.figures, launches, names, arguments.ranks)
    rows = report.rows(comparison.figures, names, launches)
    comparison.save("allreduce", "Xoe beside other engines", rows, launches=launches)


if __name__ == "__main__":
    main()
