"""The record of all runs of the check: for each step the newest good figures, with their date, commit and machine, and how its newest run
ended, with its tests. docs/gpu/results.json holds the record; docs/gpu.md and a sentence of README.md are made from it.
"""

import datetime
import json
import pathlib
import re
import sys
import textwrap

import page

FILE = "results.json"
MARKS = re.compile(r"(<!-- gpu: made by scripts/gpu_check.sh --into -->\n\n).*?(\n\n<!-- gpu: end -->)", re.DOTALL)


def empty():
    return {"parts": {}}


def load(folder):
    file = pathlib.Path(folder) / FILE
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else empty()


def add(record, results):
    """The record with one run's results; it makes no difference which of several runs comes first."""
    parts = {name: dict(steps) for name, steps in record["parts"].items()}
    for name, part in results["parts"].items():
        origin = {key: part[key] for key in ("date", "commit", "machine")}
        for step, found in part["steps"].items():
            known = dict(parts.setdefault(name, {}).get(step, {}))
            if found["status"] == "passed" and origin["date"] >= known.get("good", origin)["date"]:
                known["good"] = {"figures": found["figures"], **origin}
            if found["status"] != "skipped" and origin["date"] >= known.get("newest", origin)["date"]:
                known["newest"] = {
                    "status": found["status"],
                    "reason": found["reason"],
                    "tests": found["figures"].get("tests", []),
                    **origin,
                }
            if known:
                parts[name][step] = known
    return {"parts": {name: steps for name, steps in parts.items() if steps}}


def why_not(results):
    """The reason for which results are refused; empty if they are accepted."""
    tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    for name, part in results["parts"].items():
        if part["date"] > tomorrow.strftime("%Y-%m-%dT%H:%M:%SZ"):
            return f"the part {name} is dated {part['date']}, in the future: no later run could replace it; correct the date"
    if results["rehearsal"] or any(part.get("rehearsal") for part in results["parts"].values()):
        return "a rehearsal on the CPU has no figures of a GPU"
    return "" if results["gpus"] else "the machine had no GPU"


def merge_into(folder, runs, readme):
    """Adds the results in these folders; writes the record, the page beside the folder, and the sentence of the README. An error, or 0."""
    record = load(folder)
    for run in runs:
        try:
            results = json.loads((run / FILE).read_text(encoding="utf-8"))
            reason = why_not(results)
            record = record if reason else add(record, results)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"{FILE} cannot be read: {error!r}"
        if reason:
            return f"error: {run}: {reason}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    folder.with_suffix(".md").write_text(page.page_of_record(record), encoding="utf-8")
    write_sentence(readme, record)
    return 0


def sentence_of_readme(record):
    """Wrapped as `make format` wraps documents."""
    return textwrap.fill(page.sentence(record), 110, break_long_words=False, break_on_hyphens=False)


def write_sentence(readme, record):
    text = readme.read_text(encoding="utf-8")
    fresh, found = MARKS.subn(lambda marks: marks[1] + sentence_of_readme(record) + marks[2], text)
    if not found:
        sys.exit(f"error: {readme} lacks the marks around its sentence about GPUs")
    readme.write_text(fresh, encoding="utf-8")
