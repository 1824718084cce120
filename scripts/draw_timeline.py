#!/usr/bin/env python3
"""Draws a stretch of a Chrome-trace timeline as an SVG: one lane per rank and thread, one bar per event.

Usage: draw_timeline.py TIMELINE.json OUT.svg [--from SECONDS] [--milliseconds N]
"""
import argparse
import html
import json

WIDTH, LEFT, TOP, LANE = 1000, 150, 40, 22
COLOURS = {"compute": "#4c78a8", "communication": "#f58518", "input": "#54a24b", "wait": "#e45756"}
PALETTE = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#b279a2", "#9d755d", "#72b7b2", "#eeca3b"]


def colour_of(event):
    return COLOURS.get(event.get("cat", ""), PALETTE[sum(map(ord, event["name"].split()[0])) % len(PALETTE)])


def read(path):
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    names = {(e["pid"], e.get("tid"), e["name"]): e["args"].get("name", "") for e in events if e.get("ph") == "M"}
    return [e for e in events if e.get("ph") == "X"], names


def draw(bars, names, start, end):
    scale = (WIDTH - LEFT - 10) / (end - start)
    lanes = sorted({(e["pid"], e["tid"]) for e in bars})
    height = TOP + LANE * len(lanes) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
           f'<text x="{LEFT}" y="20" font-size="13" fill="#333333">{(end - start) / 1000:.0f} ms of training</text>']
    for index, lane in enumerate(lanes):
        y = TOP + index * LANE
        label = names.get((*lane, "thread_name"), str(lane[1]))
        rank = names.get((lane[0], None, "process_name")) or f"rank {lane[0]}"
        out.append(f'<text x="8" y="{y + 14}" fill="#333333">{html.escape(rank.split(" (")[0])}: {html.escape(label)}</text>')
        out.append(f'<rect x="{LEFT}" y="{y + 2}" width="{WIDTH - LEFT - 10}" height="{LANE - 4}" fill="#f4f4f4"/>')
    for event in bars:
        begin, stop = max(event["ts"], start), min(event["ts"] + event["dur"], end)
        y = TOP + lanes.index((event["pid"], event["tid"])) * LANE
        x, width = LEFT + (begin - start) * scale, max((stop - begin) * scale, 0.6)
        out.append(f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{LANE - 6}" fill="{colour_of(event)}">'
                   f'<title>{html.escape(event["name"])}: {event["dur"] / 1000:.2f} ms</title></rect>')
        if width > 7 * len(event["name"]):
            out.append(f'<text x="{x + 3:.1f}" y="{y + 14}" fill="#ffffff">{html.escape(event["name"])}</text>')
    for tick in range(6):
        at = start + (end - start) * tick / 5
        x = LEFT + (at - start) * scale
        out.append(f'<text x="{x:.1f}" y="{height - 8}" fill="#666666" text-anchor="middle">{(at - start) / 1000:.0f} ms</text>')
    return "\n".join(out + ["</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timeline")
    parser.add_argument("picture")
    parser.add_argument("--from", dest="begin", type=float, default=5, help="seconds after the first event (default 5)")
    parser.add_argument("--milliseconds", type=float, default=1000, help="how much of it (default 1000)")
    options = parser.parse_args()
    events, names = read(options.timeline)
    start = min(e["ts"] for e in events) + options.begin * 1e6
    end = start + options.milliseconds * 1e3
    bars = [e for e in events if e["ts"] < end and e["ts"] + e["dur"] > start]
    if not bars:
        parser.error(f"no events between {options.begin} s and {options.milliseconds} ms later")
    with open(options.picture, "w", encoding="utf-8") as file:
        file.write(draw(bars, names, start, end))


if __name__ == "__main__":
    main()
