#!/usr/bin/env python3
"""Draws a few steps of a timeline (xoe train --timeline) as an SVG, for documents.

    python bench/training/timeline_svg.py runs/demo/timeline.json docs/images/timeline.svg --step 20 --steps 2
"""

import argparse
import html
import json
import pathlib

WIDTH, LEFT, ROW, TOP = 960, 168, 18, 56
COLORS = {
    "forward": "#7aa6da",
    "backward": "#0b6bcb",
    "optimizer": "#7c5cc4",
    "input wait": "#c9a227",
    "wait for peers": "#c2570c",
    "allreduce": "#2f9e63",
}


def kind_of(name):
    return "allreduce" if name.startswith("allreduce") else name


def read(path):
    lanes, bars = {}, []
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "thread_name":
            lanes[event["pid"], event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X" and kind_of(event["name"]) in COLORS:
            bars.append(event)
    return lanes, bars


def window(bars, step, steps):
    starts = sorted(bar["ts"] for bar in bars if bar["pid"] == 0 and bar["name"] == "forward")
    if len(starts) <= step + steps:
        raise SystemExit(f"error: the timeline has {len(starts)} forward passes of rank 0; ask for an earlier --step")
    margin = (starts[step + steps] - starts[step]) * 0.01
    return starts[step] - margin, starts[step + steps] + margin


def draw(lanes, bars, begin, end):
    bars = [bar for bar in bars if bar["ts"] < end and bar["ts"] + bar["dur"] > begin]
    rows = sorted({(bar["pid"], bar["tid"]) for bar in bars})
    place = {}
    y = TOP
    parts = []
    previous = None
    for row in rows:
        if row[0] != previous:
            y += 26
            parts.append(f'<text x="20" y="{y - 6}" fill="#24292f" font-size="14">rank {row[0]}</text>')
            previous = row[0]
        place[row] = y
        label = html.escape(lanes.get(row, ""))
        parts.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end" fill="#6e7781" font-size="11">{label}</text>')
        y += ROW
    height = y + 44
    scale = (WIDTH - LEFT - 24) / (end - begin)
    for bar in bars:
        left = max(bar["ts"], begin)
        right = min(bar["ts"] + bar["dur"], end)
        x, width = LEFT + (left - begin) * scale, max((right - left) * scale, 0.6)
        top, color = place[bar["pid"], bar["tid"]] + 2, COLORS[kind_of(bar["name"])]
        parts.append(f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 4}" rx="1.5" fill="{color}"/>')
        if width > 56:
            name = kind_of(bar["name"])
            parts.append(f'<text x="{x + 5:.1f}" y="{top + 11}" fill="#ffffff" font-size="10">{name}</text>')
    milliseconds = (end - begin) / 1000
    for tick in range(0, int(milliseconds) + 1, max(1, round(milliseconds / 8 / 10) * 10)):
        x = LEFT + tick * 1000 * scale
        parts.append(f'<line x1="{x:.1f}" y1="{TOP + 4}" x2="{x:.1f}" y2="{y + 6}" stroke="#e3e7eb"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + 22}" text-anchor="middle" fill="#6e7781" font-size="11">{tick} ms</text>')
    x = 20
    for name, color in COLORS.items():
        parts.append(f'<rect x="{x}" y="22" width="12" height="12" rx="2" fill="{color}"/>')
        parts.append(f'<text x="{x + 18}" y="32" fill="#24292f" font-size="12">{name}</text>')
        x += 42 + 7 * len(name)
    # The grid lies below the bars.
    parts.sort(key=lambda part: not part.startswith("<line"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif">\n'
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff" stroke="#e3e7eb"/>\n'
        + "\n".join(parts) + "\n</svg>\n"
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timeline", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    parser.add_argument("--step", type=int, default=20, help="the first one shown")
    parser.add_argument("--steps", type=int, default=2, help="how many")
    options = parser.parse_args()
    lanes, bars = read(options.timeline)
    options.picture.write_text(draw(lanes, bars, *window(bars, options.step, options.steps)))


if __name__ == "__main__":
    main()
