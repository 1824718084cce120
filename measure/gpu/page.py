"""The pages of the check: of one run, docs/gpu.md, and README's sentence. All are made of a record (record.py)."""

import re

import parts

INTRODUCTION = """# GPUs: the check of a machine

On a machine that has a GPU, but perhaps no network, one command here and one there test and measure Xoe in eight minutes:

<!-- test: skip takes minutes; gpu_bundle_test and gpu_check_test run both -->
```sh
scripts/gpu_bundle.sh                                                # here: makes build/xoe-gpu.tar.gz, at most 60 MiB
tar xf xoe-gpu.tar.gz && xoe-gpu/scripts/gpu_check.sh RESULTS        # there: 480 s; --budget 120 for the first three parts
scripts/gpu_check.sh --into docs/gpu RESULTS                         # here: puts the figures into this page and into README.md
```

The machine needs an x86-64 Linux with glibc 2.28 or newer and a `python3`, from 3.12 on, with PyTorch for CUDA. The bundle has a wheel of
the Python package, which is there in seconds; Keras, where the machine has none; and, for the tests in C++ and for `xoe train`,
which in a wheel needs one version of PyTorch, the sources with the headers and libraries of the Debian packages that their build uses. The build needs glibc 2.36, g++ 12, CMake,
Ninja and nanobind; it goes on beside the other parts, on half of the processors, and stands still while something is measured.
`scripts/gpu_bundle.sh --wheel-only` makes a bundle without sources, for the parts that need none.

The parts are taken in this order. `--budget` is for everything, the wheel and the build included: a part gets what is left, at most its
limit, and is skipped, by name, where that is less than it needs. `RESULTS` gets `results.json`, this page with figures (`gpu.md`) and all
output (`log.txt`, `build.log`), written after each part, so a check that is cut off leaves what it had. `--parts pinned,sanitizer` runs only
these and keeps the others' results; `--rehearse` runs all programs on the CPU with small sizes.

| part | at least | at most | what it shows |
|---|---|---|---|
{table}

`measure/gpu/page.py` makes this page; the parts are in `measure/gpu/parts.py`.

## What the first runs found

On 27 November 2026 Xoe ran on a GPU for the first time, an H200 with PyTorch 2.11 and JAX 0.11. All sums on the GPU were right, a killed rank was
named within 0.1 s, and the tests in C++ and Python and the ranges in Nsight Compute passed. Three things did not:

- JAX's `psum` of two ranks on processors summed nothing, since that machine's Python is not position-independent. The GPU had no part in it, and it
  is mended (the changelog has it); the row below is of the commit before.
- `compute-sanitizer` found no wrong access to memory in the test of GPU tensors, but counted eight errors of CUDA's interface: libraries that ask
  for kernels which this GPU has under another name (209, then cleared). Such answers are not counted any more; it has not run again.
- A step of DistributedDataParallel on Xoe was 3 ms longer than on NCCL (29.7 and 26.6 ms), on a machine whose processor and not GPU set the
  pace. By samples of the program's threads, 1.3 ms of it pass in backward's thread while it starts five sums, and 0.7 ms in the thread that
  tells DDP of their ends. That is open.

## Results
"""
NOTHING = "\nNone: Xoe has not yet run on a GPU.\n"
NOT_YET = (
    "**Xoe has not yet run on a GPU.** [NCCL](docs/reference/nccl.md) reduces GPU tensors, but so far with mock libraries in tests;"
    " [one command](docs/gpu.md) tests and measures a machine that has a GPU."
)


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


def share_text(value):
    return None if value is None else f"{100 * value:.1f} %"


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


def figures_of(known):
    """Of a step, as the record knows it."""
    return known["good"]["figures"] if "good" in known else {}


def origin_text(origin):
    return f"{origin['date'][:10]}, commit {origin['commit'][:12]}, {origin['machine']}"


def result_text(known):
    newest = known["newest"]
    if newest["status"] == "passed":
        return "passed"
    text = f"{newest['status']}: {newest['reason']}"
    return f"passed; since then {text} ({newest['date'][:10]}, {newest['commit'][:12]})" if "good" in known else text


def compared(part, steps):
    """By step: the figure of the step that the part compares with over its own, where one run found both."""
    if not part.compare:
        return {}
    figure, base, _ = part.compare
    whole = look_up(figures_of(steps.get(base, {})), figure)
    if not whole:
        return {}
    same_run = {
        name: known for name, known in steps.items() if known.get("good", {}).get("date") == steps[base]["good"]["date"]
    }
    own = {name: look_up(figures_of(known), figure) for name, known in same_run.items()}
    return {name: whole / value for name, value in own.items() if value}


def steps_table(part, steps):
    """Each step, how it ended, and the part's figures of it, as far as any step has them."""
    shown = [path for path in part.columns if any(look_up(figures_of(known), path) is not None for known in steps.values())]
    shares = compared(part, steps)
    headings = ["", "", *(part.columns[path] for path in shown), *([part.compare[2]] if shares else [])]
    rows = []
    for name, known in steps.items():
        row = [name, result_text(known), *(look_up(figures_of(known), path) for path in shown)]
        rows.append(row + ([share_text(shares.get(name))] if shares else []))
    return table(headings, rows)


def sizes_table(steps):
    """Calls by size: time and GB/s of each step that measured them."""
    measured = {name: {row["bytes"]: row for row in figures_of(known).get("sizes", ())} for name, known in steps.items()}
    measured = {name: rows for name, rows in measured.items() if rows}
    if not measured:
        return ""
    sizes = sorted({size for rows in measured.values() for size in rows})
    body = [[size_text(size), *(calls_text(rows.get(size)) for rows in measured.values())] for size in sizes]
    return f"\n{table(['allreduce', *measured], body)}\n\nMedian time of a call, and bytes over time (algbw).\n"


def calls_text(row):
    return None if row is None else f"{cell(row['us'])} us, {cell(row['algbw_gb_s'])} GB/s"


def origins_text(steps):
    """Where and when the figures were found: once, if all of them were found there."""
    origins = {name: origin_text(known["good"]) for name, known in steps.items() if "good" in known}
    if not origins:
        return ""
    if len(set(origins.values())) == 1:
        return f"\n{next(iter(origins.values()))}.\n"
    return "\n" + "".join(f"- {name}: {origin}\n" for name, origin in origins.items())


def part_text(part, steps):
    known_first = [*(step for step in order_of(part) if step in steps), *(step for step in steps if step not in order_of(part))]
    steps = {name: steps[name] for name in known_first}
    text = f"\n### {part.title}\n\n{part.about}\n\n{steps_table(part, steps)}\n{sizes_table(steps)}"
    tests = [row for known in steps.values() for row in known["newest"]["tests"]]
    if tests:
        text += "\n" + table(["test", ""], [[row["test"], row["result"]] for row in tests]) + "\n"
    return text + origins_text(steps)


def order_of(part):
    return list(dict.fromkeys(step.name for step in part.steps(parts.Machine())))


def sections(record):
    return "".join(part_text(part, record["parts"][part.name]) for part in parts.PARTS if record["parts"].get(part.name))


def introduction():
    rows = [[f"`{part.name}`", f"{part.least} s", f"{part.limit} s", part.about] for part in parts.PARTS]
    return INTRODUCTION.format(table=table(["part", "at least", "at most", "what it shows"], rows).split("\n", 2)[2])


def page_of_record(record):
    return introduction() + (sections(record) if record["parts"] else NOTHING)


def page_of_run(results, record):
    """Of one run, and its record: how each part ended, and the figures."""
    seconds = f"; {results['seconds']:.0f} s" if "seconds" in results else ""
    text = f"\nCommit {results['commit'][:12]}, {results['machine']}, budget {results['budget']:.0f} s{seconds}.\n\n"
    if results["rehearsal"]:
        text += "**A rehearsal on the CPU, with small sizes: these are no figures of a GPU.**\n\n"
    done = [(part.title, results["parts"][part.name]) for part in parts.PARTS if part.name in results["parts"]]
    if "build" in results:
        done.append(("Build", results["build"]))
    text += table(
        ["part", "", "seconds", "why"], [[title, one["status"], one["seconds"], one["reason"]] for title, one in done]
    )
    return f"{introduction()}{text}\n{sections(record)}"


def sentence(record):
    """What README.md says."""
    machines = sorted(
        {
            re.split("[,;]", known["good"]["machine"])[0]
            for steps in record["parts"].values()
            for known in steps.values()
            if "good" in known
        }
    )
    if not machines:
        return NOT_YET
    found = []
    training = next(part for part in parts.PARTS if part.name == "training")
    share = compared(training, record["parts"].get("training", {})).get('DDP with "xoe"')
    if share is not None:
        found.append(f"DistributedDataParallel on Xoe trains ResNet-50 at {share_text(share)} of its speed on NCCL, one rank")
    two = {row["bytes"]: row for row in figures_of(record["parts"].get("two_ranks", {}).get("Xoe", {})).get("sizes", ())}
    if 64 << 20 in two:
        found.append(f"two ranks that share a GPU sum 64 MiB at {cell(two[64 << 20]['algbw_gb_s'])} GB/s")
    said = f": {'; '.join(found)}" if found else ""
    return f"**On a GPU** ({', '.join(machines)}){said}. [One command](docs/gpu.md) tests and measures a machine; that page has what passed, what did not, and when."
