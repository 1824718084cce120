#!/usr/bin/env python3
"""Builds, tests and measures Xoe on this machine: the parts of parts.py, one after the other, each with a limit. What fails or takes too
long ends alone. Started by scripts/gpu_check.sh.

RESULTS (build/gpu/results unless given) gets results.json, gpu.md (the page) and log.txt (all output), written after each part.
"""

import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import page
import parts

SKIPPED = 77
GRACE = 5  # seconds between the polite and the other signal
COUNTING = 40  # seconds at most, for counting GPUs
ORDER = ("failed", "timed out", "passed", "skipped")  # a part is what comes first among its steps


def say(text):
    print(f"xoe: {text}", flush=True)


def figures_of(step, output):
    """The JSON objects that it printed, later ones over earlier ones, and what the step reads from its output."""
    figures = {}
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                figures.update(json.loads(line))
            except ValueError:
                continue  # cut off, or of another program
    return figures | step.figures_of(output)


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("{")]
    return lines[-1][:400] if lines else "it printed nothing"


def end(process):
    """Ends a process and all of its session."""
    for end_by in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, end_by)
            process.wait(GRACE)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def run(step, variables, seconds, log):
    """What became of a step within so many seconds; `log` gets its output."""
    if step.needs and not pathlib.Path(step.needs).exists():
        return {"status": "skipped", "reason": f"no {pathlib.Path(step.needs).name}", "seconds": 0, "figures": {}}
    if seconds <= 0:
        return {"status": "timed out", "reason": "no time was left", "seconds": 0, "figures": {}}
    log.write(f"\n==== {step.name}: {' '.join(map(str, step.command))}\n".encode())
    log.flush()
    begin, started = log.tell(), time.monotonic()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XOE_", "HOROVOD_"))}
    environment |= variables | step.variables
    status = None
    try:
        process = subprocess.Popen(
            list(map(str, step.command)), cwd=parts.ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return {"status": "failed", "reason": str(error), "seconds": 0, "figures": {}}
    try:
        code = process.wait(seconds)
        status = "passed" if code == 0 else "skipped" if code == SKIPPED else "failed"
    except subprocess.TimeoutExpired:
        status = "timed out"
    finally:
        if process.poll() is None:  # also when this check is ended
            end(process)
    output = pathlib.Path(log.name).read_bytes()[begin:].decode(errors="replace")
    log.seek(0, os.SEEK_END)
    reason = {"passed": "", "timed out": f"ended after {seconds:.0f} s"}.get(status) or last_line(output)
    return {
        "status": status,
        "reason": "" if status == "passed" else reason,
        "seconds": round(time.monotonic() - started, 1),
        "figures": figures_of(step, output),
    }


def run_part(part, machine, gpus, log, patience=1):
    """What became of a part. patience: a factor of its limit."""
    limit = part.limit * patience
    say(f"{part.name} begins: {part.title}, at most {limit:.0f} s")
    result = {"status": "skipped", "reason": "no GPU", "seconds": 0, "steps": {}}
    started = time.monotonic()
    if gpus or machine.rehearsal or not part.needs_gpu:
        variables = machine.variables()
        for step in part.steps(machine):
            result["steps"][step.name] = run(step, variables, started + limit - time.monotonic(), log)
        states = [step["status"] for step in result["steps"].values()]
        result["status"] = min(states, key=ORDER.index)
        result["reason"] = "; ".join(f"{name}: {step['reason']}" for name, step in result["steps"].items() if step["reason"])
        result["seconds"] = round(time.monotonic() - started, 1)
    reason = f": {result['reason']}" if result["reason"] else ""
    say(f"{part.name} ends: {result['status']} after {result['seconds']:.0f} s{reason}")
    return result


def count_gpus():
    """GPUs that PyTorch can use."""
    count = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    try:
        return int(subprocess.run(count, capture_output=True, text=True, timeout=COUNTING, check=True).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def write(path, text):
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def commit():
    try:
        return (parts.FOLDER / "commit").read_text(encoding="utf-8").strip()
    except OSError:
        asked = subprocess.run(["git", "-C", parts.ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        return asked.stdout.strip()


def main():
    known = [part.name for part in parts.PARTS]
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="?", type=pathlib.Path, default=parts.FOLDER / "results", metavar="RESULTS")
    parser.add_argument(
        "--parts",
        default=",".join(known),
        metavar="NAME,...",
        help=f"only these; others keep their results: {', '.join(known)}",
    )
    parser.add_argument(
        "--rehearse", action="store_true", help="on the CPU and with small sizes: shows that all runs, measures nothing"
    )
    parser.add_argument("--patience", type=float, default=1, metavar="FACTOR", help="of all limits, for a slow machine")
    options = parser.parse_args()
    wanted = options.parts.split(",")
    for name in set(wanted) - set(known):
        parser.error(f"no part {name}; there are {', '.join(known)}")

    if importlib.util.find_spec("torch") is None:
        return f"error: {sys.executable} has no PyTorch; put the Python that has it first in PATH"

    options.results.mkdir(parents=True, exist_ok=True)
    file = options.results / "results.json"
    earlier = json.loads(file.read_text(encoding="utf-8"))["parts"] if file.exists() else {}
    gpus = count_gpus()
    machine = parts.Machine(rehearsal=options.rehearse)
    results = {
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "gpus": gpus,
        "rehearsal": options.rehearse,
        "parts": {name: earlier[name] for name in known if name in earlier},
    }
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with open(options.results / "log.txt", "ab") as log:
        for part in parts.PARTS:
            if part.name in wanted:
                results["parts"][part.name] = run_part(part, machine, gpus, log, options.patience)
                write(file, json.dumps(results, indent=1) + "\n")
                write(options.results / "gpu.md", page.page(results))
    say(f"results in {options.results}: results.json, gpu.md, log.txt")
    bad = [name for name in wanted if results["parts"][name]["status"] in ("failed", "timed out")]
    return f"error: {', '.join(bad)}: see log.txt" if bad else 0


if __name__ == "__main__":
    sys.exit(main())
