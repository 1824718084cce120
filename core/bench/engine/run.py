#!/usr/bin/env python3
"""Compares Xoe's engine of named tensors with other designs: `make bench`, `scripts/bench.sh engine`, or --help.

measure/compare/README.md and core/bench/engine/steps.h describe the figures and the method.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "measure"))

from compare import peers, steps_report
from compare.allreduce import Sessions
from compare.program import Comparison, canary_of, number_list, parse, parser_of, print_tables, word_list
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
TRACE = "engine-timeline.json"


def parse_arguments():
    text = "Steps of many named tensors: Xoe's engine and others, side by side."
    parser = parser_of(text, rounds=5, limit=10, peers=f"of {','.join(steps_report.ALL)}")
    parser.add_argument("--networks", type=word_list, default=list(NETWORKS), help=f"of {','.join(NETWORKS)}")
    parser.add_argument("--ranks", type=number_list, default=[2, 4], help="default 2,4")
    parser.add_argument("--parts", type=word_list, default=PARTS, help=f"of {','.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure (default 0.5)")
    parser.add_argument("--idle-seconds", type=float, default=2.0, help="default 2")
    parser.add_argument("--timeline-seconds", type=float, default=6, help="for each figure (default 6)")
    known = {"networks": NETWORKS, "parts": PARTS, "peers": steps_report.ALL}
    return parse(parser, known, rounds=1, seconds=0.2, timeline_seconds=3, networks=QUICK_NETWORKS)


def find_peers(arguments, say):
    revision = peers.revision()
    trace = arguments.out / TRACE

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


def measure(comparison, found, canary):
    arguments, names = comparison.arguments, [peer.name for peer in found]
    runner = StepRunner(canary, comparison)
    for ranks in arguments.ranks:
        with Sessions(found, ranks, canary.sync_bytes, comparison) as sessions:
            for network in arguments.networks if "steps" in arguments.parts else ():
                runner.measure(sessions, Work(ranks, "steps", network, NETWORKS[network]), names, arguments.seconds)
            if "timeline" in arguments.parts:
                runner.measure(sessions, Work(ranks, "record", "160x16K"), [steps_report.XOE], arguments.timeline_seconds)
            if "idle" in arguments.parts:
                runner.measure(sessions, Work(ranks, "idle", "160x16K"), names, arguments.idle_seconds)
    (arguments.out / TRACE).unlink(missing_ok=True)


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
    comparison = Comparison(arguments)
    canary = canary_of(arguments)
    found = find_peers(arguments, comparison.say)
    if not found:
        sys.exit("error: none of these peers is here")
    comparison.versions = {peer.name: peer.version for peer in found}
    comparison.say(f"peers: {comparison.versions}")
    measure(comparison, found, canary)
    print_report(comparison.figures, arguments.ranks)
    comparison.save("engine", "The engine beside other designs", steps_report.rows(comparison.figures))


if __name__ == "__main__":
    main()
