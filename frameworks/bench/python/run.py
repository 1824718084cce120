#!/usr/bin/env python3
"""Measures what training with PyTorch on two ranks costs: with Xoe, and with DDP on Gloo.

The limit is the speed of as many copies of plain PyTorch that train at the same time and share only the machine. Xoe tells glibc to keep what
a step frees, which saves page faults; rows with "kept" have those settings without Xoe. Each contestant has processes of its own. Rounds
are interleaved, each in another order; figures are medians over rounds, shares and differences within a round. Exposed communication is
the time by which a step is longer than one of the plain copies with the same settings. Copies that meet wait for each other once a step, at
a barrier, and send nothing: what they lose, ranks lose because none is ahead of the slower one.

    frameworks/bench/python/run.py --rounds 5 --models resnet50 --batch 4
"""

import pathlib
import statistics
import sys
from functools import partial

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "measure"))

from compare import peers, processes
from compare.program import Comparison, parse, parser_of, ratios_of, values_of, word_list
from compare.report import table

HERE = pathlib.Path(__file__).resolve().parent
ALONE, KEPT = "alone", "alone kept"
CONTESTANTS = {
    ALONE: "plain copies",
    KEPT: "plain copies, kept",
    "meet": "plain copies, kept, meeting each step",
    "optimizer": "Xoe DistributedOptimizer",
    "sharded": "Xoe DistributedOptimizer, sharded",
    "xoe": 'DDP with "xoe"',
    "hook": 'DDP with "xoe" and its hook',
    "gloo": "DDP with Gloo",
    "gloo kept": "DDP with Gloo, kept",
}
TORCH = "import torch; print(torch.__version__)"
BATCHES = {"resnet50": (4, 16), "gpt": (16,)}
KEYS = ("step_ms", "cpu_ms")
SECONDS = 600  # for one measurement


class Bench:
    def __init__(self, options):
        self.options = options
        self.python = options.python
        self.environment = processes.clean_environment(PYTHONPATH=str(options.bin.parent / "python"), OMP_NUM_THREADS="1")

    def finish(self, started):
        """The JSON lines of the processes."""
        outputs = processes.outputs_of(started, SECONDS, shown=(0, 3000))
        return [line for out in outputs for line in processes.json_lines(out)]

    def start(self, command, **variables):
        return processes.start(command, {**self.environment, **variables})

    def on_ranks(self, ranks, script, *arguments):
        launcher = [self.options.bin / "xoe", "run", "-np", ranks, "--no-tag-output"]
        return self.finish([self.start([*launcher, self.python, HERE / script, *arguments])])

    def train(self, model, batch, contestant):
        """The mean of the ranks' figures."""
        mode, *kept = contestant.split()
        sizes = {"--model": model, "--batch": batch, "--steps": self.options.steps, "--warmup": self.options.warmup}
        arguments = [mode, *(["--keep"] if kept else []), *(word for pair in sizes.items() for word in pair)]
        if mode in ("meet", "optimizer", "sharded"):
            found = self.on_ranks(self.options.ranks, "worker.py", *arguments)
        else:
            port, size = str(processes.free_ports(1)[0]), str(self.options.ranks)
            variables = {"LOCAL_WORLD_SIZE": size, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            command = [self.python, HERE / "worker.py", *arguments]
            ranks = range(self.options.ranks)
            found = self.finish([self.start(command, RANK=str(rank), LOCAL_RANK=str(rank), **variables) for rank in ranks])
        return {key: statistics.mean(rank[key] for rank in found) for key in KEYS}


def settings_of(contestant):
    """The plain copies whose memory is managed alike."""
    return ALONE if contestant in (ALONE, "gloo") else KEPT


def medians(rounds):
    """The figures of each contestant; shares and differences are those within a round."""
    steps, processor = ([{name: one[key] for name, one in measured.items()} for measured in rounds] for key in KEYS)
    found = {}
    for name in [name for name in CONTESTANTS if values_of(steps, name)]:
        row = {"step_ms": values_of(steps, name), "cpu_ms": values_of(processor, name)}
        for of, word in ((ALONE, "plain"), (KEPT, "kept")):
            row |= {f"step_of_{word}": ratios_of(steps, of, name), f"cpu_of_{word}": ratios_of(processor, of, name)}
        of = settings_of(name)
        row["exposed_ms"] = [one[name] - one[of] for one in steps if name in one and of in one]
        found[name] = {key: statistics.median(values) for key, values in row.items() if values}
    return found


def table_of(found):
    columns = {"step_ms": "step ms", "step_of_plain": "of plain", "step_of_kept": "of kept", "exposed_ms": "exposed ms"}
    columns |= {"cpu_ms": "CPU-ms", "cpu_of_plain": "of plain", "cpu_of_kept": "of kept"}

    def cell(row, key):
        return "-" if key not in row else f"{row[key]:.1%}" if "_of_" in key else f"{row[key]:.1f}"

    rows = [[CONTESTANTS[contestant], *(cell(row, key) for key in columns)] for contestant, row in found.items()]
    return table(["", *columns.values()], rows)


def compare(comparison, bench, model, batch):
    """The medians of one model."""
    contestants = {name: partial(bench.train, model, batch, name) for name in comparison.arguments.peers}
    rounds = comparison.measure(contestants, lambda found: f"{model}, batch {batch}: {found['step_ms']:.0f} ms")
    comparison.figures += [
        {"model": model, "batch": batch, "round": number, "contestant": name, **found}
        for number, measured in enumerate(rounds)
        for name, found in measured.items()
    ]
    found = medians(rounds)
    print(f"\n{model}, batch {batch}, medians of {len(rounds)} rounds\n{table_of(found)}")
    return found


def overhead(comparison, bench):
    """What Python adds to a small tensor, by ranks, in all rounds. A single rank waits for no other: it is Python's alone."""
    found = {}
    print("\na tensor of 256 bytes, submitted and waited for among 160, in us")
    for ranks in (1, comparison.arguments.ranks):
        attempts = [comparison.attempt("overhead", bench.on_ranks, ranks, "overhead.py") for _ in comparison.rounds()]
        rounds = found[ranks] = [lines[0] for lines in attempts if lines]
        if rounds:
            functions, module, more = (statistics.median(values_of(rounds, key)) for key in rounds[0])
            title = f"{ranks} rank{'s' if ranks > 1 else ''}"
            print(f"{title}: {functions:.2f} through xoe.torch, {module:.2f} through the module alone, {more:.2f} more")
    return found


def rows(figures, overheads):
    """For the file of measurements."""
    for figure in sorted(figures, key=lambda figure: list(CONTESTANTS).index(figure["contestant"])):
        name, where = CONTESTANTS[figure["contestant"]], f"a step of {figure['model']}, batch {figure['batch']}"
        yield name, f"ms, {where}", True, figure["step_ms"]
        yield name, f"CPU-ms of a rank, {where}", True, figure["cpu_ms"]
    for ranks, found in overheads.items():
        for one in found:
            quantity = f"us, a tensor of 256 bytes among 160, {ranks} ranks"
            yield "the module alone", quantity, True, one["module_us"]
            yield "xoe.torch", quantity, True, one["functions_us"]


def parse_arguments():
    parser = parser_of(__doc__, rounds=5, limit=120, peers=f"of {','.join(CONTESTANTS)}")
    parser.set_defaults(peers=list(CONTESTANTS))
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-pytorch" / "bin" / "python"))
    parser.add_argument("--models", type=word_list, default=list(BATCHES), help=f"of {','.join(BATCHES)}")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--batch", type=int, help="default: 4 and 16 for resnet50, 16 for gpt")
    return parse(parser, {"models": BATCHES, "peers": CONTESTANTS}, rounds=1, steps=5, warmup=3)


def main():
    arguments = parse_arguments()
    comparison, bench, found = Comparison(arguments), Bench(arguments), {}
    comparison.versions = {"xoe": peers.revision(), "torch": peers.version_of([arguments.python, "-c", TORCH])}
    for model in arguments.models:
        for batch in [arguments.batch] if arguments.batch else BATCHES[model]:
            found[f"{model}-{batch}"] = compare(comparison, bench, model, batch)
    overheads = overhead(comparison, bench)
    more = {"medians": found, "overhead": overheads}
    comparison.save("python", "Training with PyTorch on ranks of this machine", rows(comparison.figures, overheads), **more)


main()
