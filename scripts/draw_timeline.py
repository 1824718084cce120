#!/usr/bin/env python3
"""Draws a stretch of a Chrome-trace timeline as an SVG: a row for each lane of each rank, a bar for each event. Spans,
which may overlap, stand in as many thin rows as they need.

Usage: draw_timeline.py TIMELINE.json OUT.svg [--from SECONDS] [--milliseconds N] [--title TEXT]
"""
import argparse
import collections
import html
import json
import re

WIDTH, LEFT, TOP, LANE, THIN, GAP, HEAD = 1000, 150, 34, 22, 9, 8, 18
COLOURS = {"compute": "#4c78a8", "communication": "#f58518", "input": "#54a24b", "wait": "#e45756"}
NAMED = {"forward": "#7aa6da", "backward": "#4c78a8", "optimizer": "#7c5cc4", "input": "#54a24b", "pack": "#eeca3b",
         "allreduce": "#f58518", "unpack": "#9d755d", "negotiate": "#e45756", "queue": "#b279a2"}
PALETTE = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#b279a2", "#9d755d", "#72b7b2", "#eeca3b"]

Bar = collections.namedtuple("Bar", "start stop name colour legend")


def word_of(event):
    return (event["name"].split() or [""])[0]


def colour_of(event):
    word = word_of(event)
    known = COLOURS.get(event.get("cat", "")) or NAMED.get(word)
    return known or PALETTE[sum(map(ord, word)) % len(PALETTE)]


class Trace:
    """Bars by (pid, lane name) and spans by (pid, category), in microseconds."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        self.names = {(e["pid"], e.get("tid"), e["name"]): e["args"].get("name", "") for e in events if e["ph"] == "M"}
        self.ranks = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
        self.bars, self.spans = collections.defaultdict(list), collections.defaultdict(list)
        self.order = {}
        opened = {}
        for event in events:
            if event["ph"] == "X":
                lane = (event["pid"], self.lane_of(event))
                self.order[lane] = min(self.order.get(lane, event["tid"]), event["tid"])
                stop = event["ts"] + event["dur"]
                self.bars[lane].append(Bar(event["ts"], stop, event["name"], colour_of(event), word_of(event)))
            elif event["ph"] == "b":
                opened[event["pid"], event["cat"], event["id"]] = event
            elif event["ph"] == "e":
                begin = opened.pop((event["pid"], event["cat"], event["id"]), None)
                if begin:
                    colour = NAMED.get(event["cat"], PALETTE[3])
                    bar = Bar(begin["ts"], event["ts"], event["name"], colour, event["cat"])
                    self.spans[event["pid"], event["cat"]].append(bar)

    def lane_of(self, event):
        name = self.names.get((event["pid"], event["tid"], "thread_name"), str(event["tid"]))
        # The engine's stages follow one another: one row shows them.
        return "engine" if name.startswith("engine: ") else name

    def pids(self):
        return sorted({pid for pid, _ in [*self.bars, *self.spans]})

    def stretch(self):
        bars = [bar for group in (self.bars, self.spans) for found in group.values() for bar in found]
        return min(bar.start for bar in bars), max(bar.stop for bar in bars)


def stacked(bars):
    """The same bars in rows without overlaps."""
    rows = []
    for bar in sorted(bars):
        for row in rows:
            if row[-1].stop <= bar.start:
                row.append(bar)
                break
        else:
            rows.append([bar])
    return rows


class Picture:
    def __init__(self, start, end, title):
        self.start, self.end, self.y = start, end, TOP
        self.scale = (WIDTH - LEFT - 10) / (end - start)
        self.used = {}
        self.parts = [f'<text x="8" y="20" font-size="13" fill="#333333">{html.escape(title)}</text>']

    def inside(self, bars):
        return [bar for bar in bars if bar.start < self.end and bar.stop > self.start]

    def heading(self, text):
        self.parts.append(f'<text x="8" y="{self.y + 13}" fill="#111111" font-weight="bold">{html.escape(text)}</text>')
        self.y += HEAD

    def row(self, bars, height, label=None):
        if label:
            middle = self.y + min(height, LANE) / 2 + 4
            self.parts.append(f'<text x="16" y="{middle:.0f}" fill="#333333">{html.escape(label)}</text>')
        self.parts.append(f'<rect x="{LEFT}" y="{self.y + 1}" width="{WIDTH - LEFT - 10}" height="{height - 2}" '
                          'fill="#f4f4f4"/>')
        for bar in bars:
            begin, stop = max(bar.start, self.start), min(bar.stop, self.end)
            x, width = LEFT + (begin - self.start) * self.scale, max((stop - begin) * self.scale, 0.6)
            self.used.setdefault(bar.legend, bar.colour)
            tip = html.escape(f"{bar.name}: {(bar.stop - bar.start) / 1000:.2f} ms")
            self.parts.append(f'<rect x="{x:.1f}" y="{self.y + 1.5}" width="{width:.1f}" height="{height - 3}" '
                              f'fill="{bar.colour}"><title>{tip}</title></rect>')
            if height >= LANE and width > 7 * len(bar.name):
                self.parts.append(f'<text x="{x + 3:.1f}" y="{self.y + 15}" fill="#ffffff">'
                                  f'{html.escape(bar.name)}</text>')
        self.y += height

    def legend(self):
        x = LEFT + 250
        for name, colour in self.used.items():
            if x + 7 * len(name) > WIDTH - 20:
                return
            self.parts.append(f'<rect x="{x}" y="11" width="10" height="10" fill="{colour}"/>'
                              f'<text x="{x + 14}" y="20" fill="#333333">{html.escape(name)}</text>')
            x += 26 + 6 * len(name)

    def text(self):
        self.legend()
        for tick in range(6):
            x = LEFT + (self.end - self.start) * tick / 5 * self.scale
            at = f"{(self.end - self.start) * tick / 5000:.0f} ms"
            anchor = "end" if tick == 5 else "middle"
            self.parts.append(f'<text x="{x:.1f}" y="{self.y + 16}" fill="#666666" text-anchor="{anchor}">{at}</text>')
        height = self.y + 26
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
                          'font-family="sans-serif" font-size="11">',
                          f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', *self.parts, "</svg>\n"])


def heading_of(process):
    """"rank 3 (host b, pid 4410)" as "rank 3 on host b"."""
    host = re.fullmatch(r"(.*) \((host .*), pid \d+\)", process)
    return f"{host[1]} on {host[2]}" if host else process.split(" (")[0]


def draw(trace, start, end, title):
    picture = Picture(start, end, title)
    for pid in trace.pids():
        picture.heading(heading_of(trace.ranks.get(pid, f"rank {pid}")))
        for _, lane in sorted((key for key in trace.bars if key[0] == pid), key=trace.order.get):
            picture.row(picture.inside(trace.bars[pid, lane]), LANE, lane)
        for category in sorted(category for owner, category in trace.spans if owner == pid):
            for index, row in enumerate(stacked(picture.inside(trace.spans[pid, category]))):
                picture.row(row, THIN, category if index == 0 else None)
            picture.y += 3
        picture.y += GAP
    return picture.text()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timeline")
    parser.add_argument("picture")
    parser.add_argument("--from", dest="begin", type=float,
                        help="seconds after the first event (default 5, or 0 for traces below 10 s)")
    parser.add_argument("--milliseconds", type=float, default=1000, help="how much of it (default 1000)")
    parser.add_argument("--title")
    options = parser.parse_args()
    trace = Trace(options.timeline)
    if not trace.pids():
        parser.error(f"{options.timeline} has no events")
    first, last = trace.stretch()
    begin = options.begin if options.begin is not None else 5 if last - first > 10e6 else 0
    start = first + begin * 1e6
    end = min(start + options.milliseconds * 1e3, max(last, start))
    if end <= start:
        parser.error(f"no events {begin} s after the first")
    title = options.title or f"{(end - start) / 1000:.0f} ms of training"
    with open(options.picture, "w", encoding="utf-8") as file:
        file.write(draw(trace, start, end, title))


if __name__ == "__main__":
    main()
