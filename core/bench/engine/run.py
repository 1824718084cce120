#!/usr/bin/env python3
"""Compares Xoe's engine of named tensors with other designs: `make bench`, `scripts/bench.sh engine`, or --help.

measure/compare/README.md and core/bench/engine/steps.h describe the figures and the method.
"""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "measure"))

from compare import peers, steps_report
from compare.allreduce import Sessions
from compare.program import ROOT, add_places, canary_of, clock, need_known, number_list, print_tables, save, word_list
from compare.steps import StepRunner, Work

NETWORKS = {  # name: order in which tensors become ready
    "named-4B": "backward",
    "named-4K": "backward",
    "160x16K": "random",
    "resnet50": "backward",
    "resnet50x3": "backward",
}
QUICK_NETWORKS = ["named-4B", "160x16K", "resnet50"]
PARTS = ["steps", "idle", "timeline"]


def parse_arguments():
    parser = argparse.ArgumentParser(description="Steps of many named tensors: Xoe's engine and others, side by side.")
    parser.add_argument("--quick", action="store_true", help="fewer networks, one round: about two minutes")
    parser.add_argument("--networks", type=word_list, help=f"of {','.join(NETWORKS)}")
    parser.add_argument("--ranks", type=number_list, default=[2, 4])
    parser.add_argument("--peers", type=word_list, help=f"of {','.join(steps_report.ALL)}")
    parser.add_argument("--parts", type=word_list, default=PARTS, help=f"of {','.join(PARTS)}")
    parser.add_argument("--rounds", type=int, help="over all peers, for each network (default 5; --quick 1)")
    parser.add_argument("--seconds", type=float, help="for each figure (default 0.5; --quick 0.2)")
    parser.add_argument("--idle-seconds", type=float, default=2.0)
    parser.add_argument("--timeline-seconds", type=float, help="for each figure (default 6; --quick 3)")
    parser.add_argument("--limit", type=float, default=10, help="minutes after which nothing is repeated")
    add_places(parser, "where JSON goes")
    arguments = parser.parse_args()
    arguments.networks = arguments.networks or (QUICK_NETWORKS if arguments.quick else list(NETWORKS))
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 5)
    arguments.seconds = arguments.seconds or (0.2 if arguments.quick else 0.5)
    arguments.timeline_seconds = arguments.timeline_seconds or (3 if arguments.quick else 6)
    need_known(parser, (arguments.networks, NETWORKS), (arguments.parts, PARTS), (arguments.peers, steps_report.ALL))
    return arguments


def find_peers(arguments, say):
    revision = peers.version_of(["git", "-C", str(ROOT), "describe", "--always", "--dirty"])
    trace = arguments.out / "engine-timeline.json"

    def ours(name, design):
        def start(ranks):
            return [(peers.xoe_launch(arguments.bin, ranks, "xoe_bench_engine", design, str(trace)), {})]

        return peers.Peer(name, start, revision)

    found = [
        ours(steps_report.XOE, "private"),
        ours(steps_report.SHARED, "shared"),
        ours(steps_report.CYCLE, "cycle"),
    ]
    wanted = arguments.peers or [steps_report.SINGLE, steps_report.BUCKETED]
    designs = {steps_report.SINGLE: "single", steps_report.BUCKETED: "bucketed"}
    designs = {name: design for name, design in designs.items() if name in wanted}
    gloo = peers.gloo_version() if designs else ""
    script = Path(__file__).with_name("gloo_steps.py")
    for name, design in designs.items():
        if gloo:
            found.append(peers.Peer(name, peers.gloo_start(arguments.bin, script, design), f"torch {gloo}"))
        else:
            say(f"{name}: left out, torch.distributed cannot be imported (requirements/bench.txt)")
    return [peer for peer in found if not arguments.peers or peer.name in arguments.peers]


def measure(arguments, found, canary, say):
    deadline = time.monotonic() + 60 * arguments.limit
    runner = StepRunner(canary, arguments.rounds, deadline, say)
    given_up = {}
    names = [peer.name for peer in found]
    for ranks in arguments.ranks:
        sessions = Sessions(found, ranks, canary.sync_bytes, say)
        try:
            if "steps" in arguments.parts:
                for network in arguments.networks:
                    runner.measure(sessions, Work(ranks, "steps", network, NETWORKS[network]), names, arguments.seconds)
            if "timeline" in arguments.parts:
                work = Work(ranks, "record", "160x16K")
                runner.measure(sessions, work, [steps_report.XOE], arguments.timeline_seconds)
            if "idle" in arguments.parts:
                runner.measure(sessions, Work(ranks, "idle", "160x16K"), names, arguments.idle_seconds)
        finally:
            sessions.close()
            (arguments.out / "engine-timeline.json").unlink(missing_ok=True)
        given_up.update({f"{name}, {ranks} ranks": why for name, why in sessions.given_up.items()})
    return runner.figures, given_up


def print_report(figures, ranks_list):
    for ranks in ranks_list:
        print_tables(
            (f"time of a step, {ranks} ranks: us, median [p25-p75]", steps_report.step_table(figures, ranks)),
            (f"processor time of a step, {ranks} ranks: us a rank", steps_report.cpu_table(figures, ranks)),
        )
    print_tables(
        ("idle, the busiest rank", steps_report.idle_table(figures, ranks_list)),
        ("the timeline, 160 x 16 KiB", steps_report.timeline_table(figures, ranks_list)),
        ("targets, on medians", steps_report.targets(figures, ranks_list)),
    )


def main():
    arguments = parse_arguments()
    say = clock()
    canary = canary_of(arguments)
    found = find_peers(arguments, say)
    if not found:
        sys.exit("error: none of these peers is here")
    load = os.getloadavg()[0]  # of the minute before: whether others use the machine
    say("peers: " + ", ".join(f"{peer.name} ({peer.version})" for peer in found) + f"; load {load:.1f}")
    figures, given_up = measure(arguments, found, canary, say)
    print_report(figures, arguments.ranks)
    save(
        arguments.out,
        "engine-",
        say,
        load_before=load,
        load_after=os.getloadavg()[0],
        versions={peer.name: peer.version for peer in found},
        given_up=given_up,
        figures=figures,
    )


if __name__ == "__main__":
    main()
