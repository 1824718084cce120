#!/usr/bin/env python3
"""Prints the tables of docs/reference/articles.md from the data files of measure/cli/articles.

  docs/site/articles.py          the tables
  docs/site/articles.py --write  puts them into the page
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "articles.md"
FILES = [ROOT / "measure/cli/articles" / f"{name}.json" for name in ("virtual-machines", "kubernetes")]
BEGIN, END = "<!-- made by docs/site/articles.py -->\n", "<!-- end -->\n"


def number(value):
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def efficiencies(measurements):
    """By name: of a GPU, over the same of the series' smallest size; nothing where a series has one size."""
    found = {}
    for series in {one["series"] for one in measurements}:
        points = sorted((one for one in measurements if one["series"] == series), key=lambda one: one["ranks"])
        first = points[0]["runs"][0] / points[0]["ranks"]
        if len(points) > 1:
            found |= {one["name"]: one["runs"][0] / one["ranks"] / first for one in points}
    return found


def table(file):
    measurements = file["measurements"]
    quantity = measurements[0].get("quantity", "images/s")
    efficiency = efficiencies(measurements)
    lines = [f"| | GPUs | nodes | {quantity} | efficiency |", "|---|---|---|---|---|"]
    for one in measurements:
        value = ("about " if one.get("approximate") else "") + number(one["runs"][0])
        share = f"{efficiency[one['name']]:.1%}".replace("%", " %") if one["name"] in efficiency else ""
        lines.append(f"| {one['name']} | {one['ranks']} | {one['workload']['hosts']} | {value} | {share} |")
    return "\n".join(lines)


def tables():
    text = ""
    for path in FILES:
        file = json.loads(path.read_text())
        workload = file["measurements"][0]["workload"]
        about = [workload["model"], workload["device"]]
        if "batch" in workload:
            about.append(f"batch {workload['batch']} a GPU, {workload['data']} data")
        text += f"## {file['title']}\n\n[Source]({file['source']}), {file['date']}. {', '.join(about)}. Data: "
        text += f"[{path.name}](../../{path.relative_to(ROOT).as_posix()}).\n\n{table(file)}\n\n"
    return text


def main():
    if "--write" not in sys.argv[1:]:
        print(tables(), end="")
        return
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + tables() + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
