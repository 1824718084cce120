#!/usr/bin/env python3
"""Records a real run in which a rank is killed, and draws it as an SVG that plays by itself: docs/images/killed-rank.svg.

  docs/site/record.py --programs BIN --python PYTHON > docs/images/killed-rank.svg

Runs examples/tutorial/two.py on four ranks, kills rank 2 with SIGKILL after some lines of output, and notes when each line came.
"""

import argparse
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import xml.sax.saxutils

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTH, LEFT, TOP, LINE, COLUMNS = 820, 22, 62, 21, 92
STYLE = """
  text { font: 13.5px ui-monospace, 'DejaVu Sans Mono', monospace; fill: #d5dde3; white-space: pre }
  .prompt { fill: #6fd3bb } .typed { fill: #fff; font-weight: 600 } .said { fill: #ffb86b }
  .line { opacity: 0; animation: show 0.01s forwards }
  @keyframes show { to { opacity: 1 } }
  @media (prefers-reduced-motion: reduce) { .line { animation-delay: 0s !important } }
"""


def children(pid):
    """The processes below `pid`, at any depth."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    found, last = {pid}, 0
    while len(found) != last:
        last = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found


def process_of_rank(launcher, rank):
    for pid in children(launcher):
        try:
            if f"XOE_RANK={rank}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return pid
        except OSError:
            pass
    raise RuntimeError(f"rank {rank} is not there")


def record(programs, python, killed=2, after=3):
    """[(seconds, line)] of a run, in which rank `killed` is killed when `after` lines have come; and its process id and exit code."""
    command = [programs / "xoe", "run", "-np", "4", python, ROOT / "examples/tutorial/two.py"]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(programs.parent / "python")}
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    lines, start, victim = [], None, None
    for line in job.stdout:
        start = start or time.monotonic()
        lines.append((time.monotonic() - start, line.rstrip()))
        if victim is None and len(lines) == after:
            victim = process_of_rank(job.pid, killed)
            os.kill(victim, signal.SIGKILL)
            lines.append((time.monotonic() - start, f"$ kill -9 {victim}    # another terminal: rank {killed}"))
    return lines, victim, job.wait()


def wrapped(text):
    while len(text) > COLUMNS:
        cut = text.rfind(" ", 0, COLUMNS)
        yield text[:cut]
        text = "    " + text[cut + 1 :]
    yield text


def draw(lines):
    rows = [(0.0, "$ xoe run -np 4 python train.py")]
    shift = 0.8
    for seconds, text in lines:
        at = rows[-1][0]
        rows += [(max(at + 0.15, min(shift + seconds, at + 1.2)), part) for part in wrapped(text)]
    rows.append((rows[-1][0] + 0.6, "$"))
    height = TOP + LINE * len(rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="'
        'Four ranks train; rank 2 is killed; the launcher names it and ends the others">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#17212b"/>',
    ]
    out += [
        f'<circle cx="{24 + 20 * k}" cy="22" r="6" fill="{colour}"/>'
        for k, colour in enumerate(("#ff6159", "#ffbd2e", "#28c941"))
    ]
    for number, (at, text) in enumerate(rows):
        kind = "typed" if text.startswith("$") else "said" if text.startswith(("xoe run:", "    ")) else ""
        escaped = xml.sax.saxutils.escape(text)
        if kind == "typed":
            escaped = f'<tspan class="prompt">$</tspan>{escaped[1:]}'
        out.append(
            f'<text class="line {kind}" xml:space="preserve" x="{LEFT}" y="{TOP + LINE * number}" '
            f'style="animation-delay:{at:.2f}s">{escaped}</text>'
        )
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="the folder of the built program xoe")
    parser.add_argument("--python", required=True, help="a Python that has PyTorch")
    options = parser.parse_args()
    lines, _, code = record(options.programs.resolve(), options.python)
    if code != 137 or not any(re.search(r"rank 2 .*was killed by SIGKILL", line) for _, line in lines):
        sys.exit(f"error: rank 2 was not named; exit code {code}: {lines}")
    print(draw(lines), end="")


if __name__ == "__main__":
    main()
