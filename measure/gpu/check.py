#!/usr/bin/env python3
"""Tests and measures Xoe on this machine, which has a GPU, within a budget of seconds: the parts of parts.py in their order, those first
that the page needs most. The wheel of the bundle is installed first; what needs a build waits for one that goes on beside the other parts
and stands still while something is measured. A part gets what is left of the budget; where that is too little it is skipped, by name.

RESULTS (build/gpu/results unless given) gets results.json, gpu.md (the page), log.txt and build.log (all output), written after each part.

  scripts/gpu_check.sh                                  in 480 s
  scripts/gpu_check.sh --budget 120 RESULTS             the first three parts, with fewer figures
  scripts/gpu_check.sh --parts train,sanitizer RESULTS  only these; RESULTS keeps the others
  scripts/gpu_check.sh --rehearse                       on the CPU: shows that all runs, measures nothing
  scripts/gpu_check.sh --into docs/gpu RESULTS...       runs nothing: puts the results of earlier runs into the project's pages
"""

import argparse
import dataclasses
import datetime
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import background
import page
import parts
import record
import steps

COUNTING = 60  # seconds at most, for counting GPUs
RESERVE = steps.GRACE + 3  # seconds at the end: to end what runs, and to write
ORDER = ("failed", "timed out", "in part", "passed", "skipped")


def say(text):
    print(f"xoe: {text}", flush=True)


def status_of(done, part_steps):
    """Of a part, given its steps' results by name."""
    extra = {step.name for step in part_steps if step.again} - {step.name for step in part_steps if not step.again}
    states = {one["status"] for name, one in done.items() if name not in extra}
    if "passed" in states and "skipped" in states:
        states.add("in part")
    return min(states, key=ORDER.index, default="skipped")


def skipped(reason):
    """The result of a part."""
    return {"status": "skipped", "reason": reason, "seconds": 0, "steps": {}}


def ended(status, done, seconds):
    """The result of a part, given its steps' by name."""
    reason = "; ".join(f"{name}: {one['reason']}" for name, one in done.items() if one["reason"])
    return {"status": status, "reason": reason, "seconds": round(seconds, 1), "steps": done}


def add_round(earlier, later):
    """The result of a step of several rounds, after one more. A round that was left out changes nothing."""
    if later["status"] == "skipped" or earlier["status"] != "passed":
        return earlier
    rounds = [*earlier.get("all_rounds", [earlier["figures"]]), later["figures"]]
    return {
        **later,
        "seconds": round(earlier["seconds"] + later["seconds"], 1),
        "all_rounds": rounds,
        "figures": steps.median_of(rounds),
    }


class Check:
    """One run over the parts."""

    def __init__(self, machine, deadline, log, build, patience):
        self.machine = machine
        self.deadline = deadline
        self.log = log
        self.build = build
        self.patience = patience

    def left(self):
        return self.deadline - time.monotonic()

    def why_not(self, part, last=False):
        """Why a part cannot be begun, if so; waits for the build if that will probably be in time, and in any case if nothing else is left."""
        if self.left() < part.least:
            return f"too little time: {max(0, self.left()):.0f} s left, {part.least} needed"
        if not part.needs_build and self.machine.from_wheel:
            return ""
        if not self.build.steps:
            return "it needs sources, which this bundle lacks"
        if not self.build.over():
            needed = self.build.seconds_left()
            estimate = "" if needed is None else f", some {needed:.0f} s more"
            if not last and (needed is None or needed > self.left() - part.least):
                return f"{self.build.progress()}{estimate}"
            say(f"{part.name} waits: {self.build.progress()}{estimate}")
            if not self.build.wait(self.left() - part.least):
                return self.build.progress()
        return "" if self.build.good() else "the build failed"

    def run(self, part):
        """What became of a part."""
        if reason := self.why_not(part):
            say(f"{part.name} is skipped: {reason}")
            return skipped(reason)
        started = time.monotonic()
        limit = min(part.limit * self.patience, self.left())
        say(f"{part.name} begins: {part.title}, at most {limit:.0f} s")
        part_steps = part.steps(self.machine)
        done = {}
        for step in part_steps:
            found = self.run_step(step, started + limit - time.monotonic())
            done[step.name] = add_round(done[step.name], found) if step.again and step.name in done else found
        for one in done.values():
            one.pop("all_rounds", None)
        result = ended(status_of(done, part_steps), done, time.monotonic() - started)
        reason = f": {result['reason']}" if result["reason"] else ""
        say(f"{part.name} ends: {result['status']} after {result['seconds']:.0f} s{reason}")
        return result

    def run_step(self, step, seconds):
        step = dataclasses.replace(step, limit=step.limit * self.patience)
        if step.timed:
            self.build.pause()
        try:
            return steps.run(step, self.machine.variables(), seconds, self.log, parts.ROOT)
        finally:
            self.build.go_on()


def begin_to_count_gpus():
    """GPUs that PyTorch can use, and the name of the first. It also brings PyTorch's files into memory, while the wheel is installed."""
    asked = "import torch; n = torch.cuda.device_count(); print(n, torch.cuda.get_device_name(0) if n else 'no GPU')"
    count = [sys.executable, "-c", asked]
    return subprocess.Popen(count, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def counted_gpus(process):
    """How many, and the first one's name. None: PyTorch gave no answer."""
    try:
        count, name = process.communicate(timeout=COUNTING)[0].split(maxsplit=1)
        return int(count), name.strip()
    except (ValueError, subprocess.TimeoutExpired):
        process.kill()
        process.wait()
        return None, ""


def lay_out(machine):
    """The wheel's files as a build folder has them."""
    if not machine.from_wheel:
        return
    parts.LAYOUT.mkdir(parents=True, exist_ok=True)
    for name, target in (("bin", parts.PACKAGES / "xoe" / "bin"), ("python", parts.PACKAGES)):
        link = parts.LAYOUT / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)


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


def parse(arguments):
    known = [part.name for part in parts.PARTS]
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="*", type=pathlib.Path, metavar="RESULTS")
    parser.add_argument("--budget", type=float, default=480, metavar="S", help="seconds for everything (default: 480)")
    parser.add_argument("--parts", default=",".join(known), metavar="NAME,...", help=f"of {', '.join(known)}")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU and with small sizes")
    parser.add_argument("--patience", type=float, default=1, metavar="FACTOR", help="of each part's limit, for a slow machine")
    parser.add_argument("--into", type=pathlib.Path, metavar="FOLDER", help="only merge RESULTS into FOLDER (docs/gpu)")
    options = parser.parse_args(arguments)
    options.parts = options.parts.split(",")
    for name in options.parts:
        if name not in known:
            parser.error(f"no part {name}; there are {', '.join(known)}")
    if options.budget < 20:
        parser.error("--budget: at least 20 s")
    if options.into is None and len(options.results) > 1:
        parser.error("one folder takes the results; several are for --into")
    options.results = options.results or [parts.FOLDER / "results"]
    return options


class Written:
    """The results of this run in its folder, which keeps those of parts that do not run now."""

    def __init__(self, folder, about):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        file = folder / "results.json"
        earlier = json.loads(file.read_text(encoding="utf-8")).get("parts", {}) if file.exists() else {}
        self.results = {**about, "parts": earlier}

    def add(self, name, result):
        """Also says when, at which commit and where it was found, since RESULTS may hold parts of several runs."""
        known = result if name == "facts" else self.results["parts"].get("facts", {})
        facts = known.get("steps", {}).get("machine", {}).get("figures", {})
        self.results["machine"] = machine_text({"gpu": self.results["gpu"], **facts}, self.results["cores"])
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.results["parts"][name] = {**result, "date": date}
        for key in ("commit", "machine", "rehearsal"):
            self.results["parts"][name][key] = self.results[key]
        self.write()

    def write(self):
        write(self.folder / "results.json", json.dumps(self.results, indent=1) + "\n")
        write(self.folder / "gpu.md", page.page_of_run(self.results, record.add(record.empty(), self.results)))


def machine_text(facts, cores):
    gpu = facts["gpu"] + (f", driver {facts['driver']}" if facts.get("driver") else "")
    return f"{gpu}; {cores} cores of {facts.get('cpu', 'an unknown processor')}"


def build_result(build):
    if not build.steps:
        return skipped("this bundle has no sources")
    done = build.results()
    status = min((one["status"] for one in done.values()), key=ORDER.index)
    return ended(status, done, sum(one["seconds"] for one in done.values()))


def run_parts(check, wanted, written):
    """All parts in order; those that the build kept waiting once more at the end, if time is left."""
    late = []
    for part in wanted:
        result = check.run(part)
        written.add(part.name, result)
        if part.needs_build and not result["steps"] and not check.build.over():
            late.append(part)
    for part in late:
        if not (reason := check.why_not(part, last=True)):
            written.add(part.name, check.run(part))
        else:
            written.add(part.name, skipped(reason))


def check_machine(options, folder):
    started = time.monotonic()
    machine = parts.Machine(rehearsal=options.rehearse, quick=options.budget < parts.QUICK)
    deadline = started + options.budget - RESERVE
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "log.txt", "ab") as log:
        counting = begin_to_count_gpus()
        install = parts.install()
        if install is not None:
            installed = steps.run(install, {}, deadline - time.monotonic(), log)
            say(
                f"the wheel is installed after {installed['seconds']:.0f} s"
                if installed["status"] == "passed"
                else installed["reason"]
            )
        lay_out(machine)
        gpus, gpu = counted_gpus(counting)
        if gpus is None and not machine.rehearsal:
            return f"error: {sys.executable} cannot import PyTorch, or took longer than {COUNTING} s to count GPUs; try: python3 -c 'import torch'"
        if not gpus and not machine.rehearsal:
            return "error: PyTorch finds no GPU here (see nvidia-smi); --rehearse runs all on the CPU"
        about = {"commit": commit(), "budget": options.budget, "cores": len(os.sched_getaffinity(0)), "gpus": gpus,
                 "gpu": gpu, "rehearsal": machine.rehearsal, "machine": ""}  # fmt: skip
        written = Written(folder, about)
        build = background.Build(parts.build(machine), parts.build_variables(machine), folder / "build.log", parts.ROOT)
        wanted = [part for part in parts.PARTS if part.name in options.parts]
        if not build.steps and not machine.from_wheel:
            return "error: there is neither a wheel nor sources here; make the bundle again"
        if build.steps and (any(part.needs_build for part in wanted) or not machine.from_wheel):
            build.begin()
        try:
            if not machine.from_wheel:
                build.wait(deadline - time.monotonic())
            run_parts(Check(machine, deadline, log, build, options.patience), wanted, written)
        finally:
            build.end()
            written.results["build"] = build_result(build)
            written.results["seconds"] = round(time.monotonic() - started, 1)
            written.write()
    say(
        f"{written.results['seconds']:.0f} of {options.budget:.0f} s; results in {folder}: results.json, gpu.md, log.txt, build.log"
    )
    bad = [part.name for part in wanted if written.results["parts"][part.name]["status"] in ("failed", "timed out")]
    return f"error: {', '.join(bad)}: see log.txt" if bad else 0


def main():
    options = parse(sys.argv[1:])
    if options.into is not None:
        return record.merge_into(options.into, options.results, parts.ROOT / "README.md")
    if importlib.util.find_spec("torch") is None:
        return f"error: {sys.executable} has no PyTorch; put the Python that has it first in PATH"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    return check_machine(options, options.results[0].absolute())


if __name__ == "__main__":
    sys.exit(main())
