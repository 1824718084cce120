"""What a training of two ranks costs in places of several kinds, measured by turns: what measure/containers and measure/kubernetes share."""

import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "measure"))

from compare import processes


def add_options(parser, out):
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "bench" / out)
    parser.add_argument("--rounds", type=int, default=10, help="after one that is not counted")
    parser.add_argument("--sizes", type=lambda text: text.split(","), default=["4", "64K", "1M", "16M"])
    parser.add_argument("--iterations", type=int, default=50, help="timed allreduces of a size and round")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)


class Places:
    """A subclass has names, of which "bare" is one, and runs jobs of two ranks in the place of a name:
    together(name, *words) both in one place, where they share memory; apart(name, *words) each in one of its own, over TCP.
    `scratch`: a folder in which rank 0 writes, under that name here and in all places."""

    names = ()

    def __init__(self, options, scratch):
        self.options, self.scratch = options, pathlib.Path(scratch)
        self.bin = options.build / "bin"
        self.environment = processes.clean_environment(OMP_NUM_THREADS="1")

    def agent(self, name, script='shift\nexec "$@"'):
        """A program for `xoe run --launch-agent`: called with a host's name and a command."""
        path = self.scratch / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def run(self, *words):
        processes.run(words, self.environment, 600)

    def run_in_one_place(self, *words, within=()):
        """Two ranks in one place, which share memory. within: what a command is given to."""
        self.run(*within, self.bin / "xoe", "run", "--no-panel", "--oversubscribe", "-np", "2", *words)

    def run_over_network(self, agent, *words):
        """Two ranks that reach each other over the network alone."""
        self.run(self.bin / "xoe", "run", "--no-panel", "-H", "nodeA:1,nodeB:1", "--launch-agent", agent, "--backend", "gloo",
                 "--xoe-path", self.bin / "xoe", *words)

    def start(self, place):
        """Milliseconds."""
        started = time.monotonic()
        self.together(place, self.bin / "xoe-bench", "collectives", "-b", "4", "-e", "4", "-n", "1", "-w", "0", "--json")
        return (time.monotonic() - started) * 1e3

    def allreduce(self, place):
        """Microseconds by size."""
        found = {}
        for size in self.options.sizes:
            path = self.scratch / "collectives.json"
            self.apart(place, self.bin / "xoe-bench", "collectives", "-b", size, "-e", size, "-n", self.options.iterations,
                       "-w", "5", "--rewrite", "--output", path)
            found[size] = json.loads(path.read_text())["results"][0]["in_place"]["time"]
        return found

    def images(self, place, run):
        options = self.options
        path = self.scratch / "train.json"
        run(place, self.bin / "xoe-bench", "train", "--model", options.model, "--image-size", options.image_size, "--batch-size",
            options.batch, "--num-batches", options.steps, "--num-warmup-batches", "3", "--threads", "1", "--device", "cpu",
            "--traced-batches", "0", "--output", path)
        return json.loads(path.read_text())

    def measure(self):
        """{place: {quantity: (less is better, values)}}, and the environment of a training in each place."""
        found = {place: {} for place in self.names}
        environments = {}

        def add(place, quantity, value, less_is_better):
            found[place].setdefault(quantity, (less_is_better, []))[1].append(value)

        for number in range(self.options.rounds + 1):
            for place in self.names[number % len(self.names):] + self.names[:number % len(self.names)]:  # none is always first
                start = self.start(place)
                times = self.allreduce(place)
                apart = self.images(place, self.apart)
                together = self.images(place, self.together)
                if number == 0:
                    environments[place] = together["environment"]
                    continue  # the first round fills caches
                add(place, "ms to start and end a job of 2 ranks", start, True)
                for size, us in times.items():
                    add(place, f"us for an allreduce of {size} over TCP", us, True)
                add(place, "images/s over TCP", apart["train_samples_per_sec"], False)
                add(place, "images/s over shared memory", together["train_samples_per_sec"], False)
            print(f"round {number} of {self.options.rounds}", flush=True)
        return found, environments


def save(options, found, environments):
    """A file of measurements (docs/formats/measurements.md) for each place."""
    options.out.mkdir(parents=True, exist_ok=True)
    paths = []
    for place, quantities in found.items():
        workload = {"model": options.model, "image size": str(options.image_size), "batch": str(options.batch)}
        measurements = [{"name": place, "quantity": quantity, "less_is_better": less, "runs": runs, "ranks": 2,
                         "workload": workload} for quantity, (less, runs) in quantities.items()]
        path = options.out / f"{place.replace(' ', '-')}.json"
        path.write_text(json.dumps({"benchmark": "measurements", "title": place, "date": time.strftime("%Y-%m-%d"),
                                    "environment": environments[place], "measurements": measurements}, indent=1) + "\n")
        paths.append(path)
    return paths


def compare(options, paths, name):
    page = options.out / f"{name}.html"
    subprocess.run([options.build / "bin" / "xoe", "bench", "compare", *paths, "--html", page], check=True)
    print(f"saved {', '.join(map(str, paths))} and {page}")
