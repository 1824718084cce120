#!/usr/bin/env python3
"""Makes docs/gpu.md: what scripts/gpu_check.sh measures, and what came out.

bench/gpu/page.py [RESULTS.json] > docs/gpu.md        (without results: no figures)
"""

import json
import pathlib
import sys

import parts

INTRODUCTION = """# GPUs: the check of a machine

On a machine that has a GPU, but perhaps no network, one command here and one there build, test and measure Xoe:

<!-- test: skip takes minutes; gpu_bundle_test and gpu_check_test run both -->
```sh
scripts/gpu_bundle.sh                                                # here: makes build/xoe-gpu.tar.gz, at most 60 MiB
tar xf xoe-gpu.tar.gz && xoe-gpu/scripts/gpu_check.sh RESULTS        # there: at most {minutes} minutes
```

The machine needs an x86-64 Linux with glibc 2.36 or newer, g++ 12 or newer, and a `python3` with PyTorch for CUDA, CMake, Ninja and
nanobind. The bundle has the sources, the tests, the headers and libraries of the Debian packages that the build uses, and a wheel of the
Python package, for Python 3.12 and newer, that stands in if the build fails.

`RESULTS` gets `results.json`, this page with figures (`gpu.md`) and all output (`log.txt`). They are written after each part, so a check that
is cut off leaves what it had. A part that fails, or passes its limit, ends alone. `--parts nccl,train` runs only these and keeps the others'
results; `--rehearse` runs all programs on the CPU with small sizes.

| part | limit | what it shows |
|---|---|---|
{table}

This page is made by `bench/gpu/page.py`; the parts are in `bench/gpu/parts.py`.

## Results
"""
NOTHING = "\nNone: Xoe has not yet run on a GPU.\n"


def table(headings, rows):
    """Markdown."""
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    return "\n".join(lines + [f"| {' | '.join(map(cell, row))} |" for row in rows])


def cell(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def look_up(figures, path):
    """A figure by its path: "share.data"."""
    for name in path.split("."):
        figures = figures.get(name) if isinstance(figures, dict) else None
    return figures


def steps_table(part, steps):
    """Each step, how it ended, and the part's figures of it, as far as any step has them."""
    shown = [path for path in part.columns if any(look_up(step["figures"], path) is not None for step in steps.values())]
    rows = [
        [
            name,
            step["status"] + (f": {step['reason']}" if step["reason"] else ""),
            *(look_up(step["figures"], path) for path in shown),
        ]
        for name, step in steps.items()
    ]
    return table(["", "", *(part.columns[path] for path in shown)], rows)


def sizes_table(steps):
    """Calls by size: time and GB/s of each step that measured them."""
    measured = {name: {row["bytes"]: row for row in step["figures"].get("sizes", ())} for name, step in steps.items()}
    measured = {name: rows for name, rows in measured.items() if rows}
    sizes = sorted({size for rows in measured.values() for size in rows})
    body = [[size_text(size), *(calls_text(rows.get(size)) for rows in measured.values())] for size in sizes]
    return table(["allreduce", *measured], body) + "\n\nMedian time of a call, and bytes over time (algbw)."


def calls_text(row):
    return None if row is None else f"{cell(row['us'])} us, {cell(row['algbw_gb_s'])} GB/s"


def part_text(part, result):
    steps = result["steps"]
    text = f"\n### {part.title}\n\n{part.about}\n"
    if not steps:
        return f"{text}\n{result['status']}: {result['reason']}\n"
    text += f"\n{steps_table(part, steps)}\n"
    if any("sizes" in step["figures"] for step in steps.values()):
        text += f"\n{sizes_table(steps)}\n"
    tests = [row for step in steps.values() for row in step["figures"].get("tests", ())]
    if tests:
        text += "\n" + table(["test", ""], [[row["test"], row["result"]] for row in tests]) + "\n"
    return text


def page(results=None):
    limits = table(
        ["part", "limit", "what it shows"], [[f"`{part.name}`", f"{part.limit} s", part.about] for part in parts.PARTS]
    )
    text = INTRODUCTION.format(minutes=sum(part.limit for part in parts.PARTS) // 60, table=limits.split("\n", 2)[2])
    if results is None:
        return text + NOTHING
    text += f"\nCommit {results['commit'][:12]}, {results['date']}, {results['cores']} cores, {results['gpus'] or 'no'} GPU"
    text += "s" if results["gpus"] > 1 else ""
    text += (
        ". **A rehearsal on the CPU, with small sizes: these are no figures of a GPU.**\n\n"
        if results["rehearsal"]
        else ".\n\n"
    )
    done = [(part, results["parts"][part.name]) for part in parts.PARTS if part.name in results["parts"]]
    text += (
        table(
            ["part", "", "seconds", "why"], [[part.title, one["status"], one["seconds"], one["reason"]] for part, one in done]
        )
        + "\n"
    )
    return text + "".join(part_text(part, one) for part, one in done)


if __name__ == "__main__":
    given = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")) if len(sys.argv) > 1 else None
    sys.stdout.write(page(given))
