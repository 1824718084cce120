"""Tables, targets and measurements."""

from compare.allreduce import CALM, Point, compared, point_of, size_text, summarise

RIVALS = ("openmpi", "openmpi+ucx", "gloo")  # whose best the targets name
XOE = ("xoe-zero-copy", "xoe-staged")

# (ranks, bytes from, bytes to, Xoe with, times faster than the best rival), on rewritten float32 buffers.
KIB, MIB = 1 << 10, 1 << 20
TARGETS = [
    (2, 4, 4 * KIB, "best", 1.0),
    (2, 64 * KIB, 64 * KIB, "xoe-zero-copy", 3.0),
    (2, MIB, 256 * MIB, "xoe-zero-copy", 5.0),
    (2, MIB, MIB, "xoe-staged", 2.0),
    (2, 16 * MIB, 256 * MIB, "xoe-staged", 2.5),
    (4, 4, 4, "best", 1.0),
    (4, MIB, MIB, "best", 3.0),
    (4, 64 * MIB, 64 * MIB, "best", 5.0),
]


def time_text(microseconds):
    if microseconds < 10:
        return f"{microseconds:.2f}"
    if microseconds < 1000:
        return f"{microseconds:.1f}"
    return f"{microseconds:.0f}"


def table(header, rows):
    """Right-aligned columns, the first to the left."""
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [str(row[0]).ljust(widths[0])] + [str(c).rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def best(peers, names):
    """(name, value) of the fastest of `names` that was measured, or None."""
    return min(((n, peers[n]["median_us"]) for n in names if n in peers), key=lambda item: item[1], default=None)


def ratio_text(peers, name, rival):
    if name not in peers or rival is None:
        return "-"
    return f"{rival[1] / peers[name]['median_us']:.2f}x"


def spread_text(peers, name):
    if name not in peers:
        return "-"
    texts = [time_text(peers[name][key]) for key in ("median_us", "p25_us", "p75_us", "min_us")]
    return "{} [{}-{}] {}".format(*texts)


def measured_sizes(figures, ranks, mode, part="allreduce"):
    return sorted({f["bytes"] for f in figures if (f["ranks"], f["mode"], f["part"]) == (ranks, mode, part)})


def ratio_table(figures, names, ranks, mode, part="allreduce"):
    """Xoe beside the best rival, and beside the best of all others."""
    rows = []
    for size in measured_sizes(figures, ranks, mode, part):
        summary = summarise(figures, Point(ranks, size, "float32", mode, part), names)
        peers = summary["peers"]
        rival, anyone = best(peers, RIVALS), best(peers, [name for name in names if name not in XOE])
        row = [size_text(size), *[spread_text(peers, name) for name in XOE]]
        row += [rival[0], spread_text(peers, rival[0])] if rival else ["-", "-"]
        row += [ratio_text(peers, name, rival) for name in XOE]
        row += [anyone[0], *[ratio_text(peers, name, anyone) for name in XOE]] if anyone else ["-", "-", "-"]
        rows.append([*row, summary["state"]])
    ratios = ["zero-copy", "staged"]
    header = ["size", *XOE, "rival", "its time", *[f"{r} ratio" for r in ratios], "best of all", *ratios, "state"]
    return table(header, rows) if rows else ""


def median_table(figures, names, ranks, mode, part="allreduce"):
    """The medians of every peer."""
    rows = []
    for size in measured_sizes(figures, ranks, mode, part):
        peers = summarise(figures, Point(ranks, size, "float32", mode, part), names)["peers"]
        rows.append([size_text(size), *[time_text(peers[n]["median_us"]) if n in peers else "-" for n in names]])
    return table(["size", *names], rows) if rows else ""


def half_table(figures, names):
    """Picoseconds an element in 16 bits beside float32, 2 ranks, rewritten."""
    points = sorted({(f["bytes"] // 2, f["peer"]) for f in figures if f["part"] == "half" and f["dtype"] == "float16"})
    rows = []
    for count, name in points:
        cost = {}
        for dtype, width in (("float32", 4), ("bfloat16", 2), ("float16", 2)):
            found = summarise(figures, Point(2, count * width, dtype, "rewritten", "half"), names)["peers"].get(name)
            cost[dtype] = found["median_us"] * 1e6 / count if found else None
        if cost["float32"]:
            cells = [f"{cost[d]:.1f}" if cost[d] else "-" for d in cost]
            ratios = [f"{cost['float32'] / cost[d]:.2f}x" if cost[d] else "-" for d in ("bfloat16", "float16")]
            rows.append([f"{count / MIB:g} Mi", name, *cells, *ratios])
    header = ["elements", "engine", "float32 ps", "bfloat16 ps", "float16 ps", "bfloat16 gain", "float16 gain"]
    return table(header, rows) if rows else ""


def launch_table(launches):
    header = ["command", "launcher", "median ms", "p25-p75", "min"]
    rows = [
        [
            "-np 2 true" if entry["what"] == "true" else "init + allreduce of a float + finish",
            entry["launcher"],
            f"{entry['median_ms']:.1f}",
            f"{entry['p25_ms']:.1f}-{entry['p75_ms']:.1f}",
            f"{entry['min_ms']:.1f}",
        ]
        for entry in sorted(launches, key=lambda e: (e["what"] != "true", e["median_ms"]))
    ]
    return table(header, rows) if rows else ""


def targets(figures, names, launches):
    """A line for each target of the project: the worst ratio of its range."""
    rows = []
    for ranks, low, high, who, factor in TARGETS:
        ratios, missing = [], set()
        for size in measured_sizes(figures, ranks, "rewritten"):
            if not low <= size <= high:
                continue
            summary = summarise(figures, Point(ranks, size, "float32", "rewritten"), names)
            peers = summary["peers"]
            rival, own = best(peers, RIVALS), best(peers, XOE if who == "best" else (who,))
            missing |= {name for name in RIVALS if name in names and name not in peers}
            if rival and own:
                ratios.append((rival[1] / own[1], size, summary["state"]))
        if ratios:
            worst, size, state = min(ratios)
            span = size_text(low) if low == high else f"{size_text(low)} to {size_text(high)}"
            verdict = "reached" if worst >= factor else "NOT REACHED"
            if state not in CALM:
                verdict += f" (unsettled: {state})"
            if missing:
                verdict += f" (without {', '.join(sorted(missing))})"
            rows.append([f"{ranks} ranks, {span}", who, f"{factor:g}x", f"{worst:.2f}x at {size_text(size)}", verdict])
    rows += launch_targets(launches)
    return table(["target", "engine", "wanted", "worst", ""], rows) if rows else ""


def launch_targets(launches):
    cost = {(entry["what"], entry["launcher"]): entry["median_ms"] for entry in launches}
    rows = []
    for what, factor, rivals in (("true", 1.0, ("openmpi", "mpich")), ("allreduce", 2.0, ("mpich",))):
        own = cost.get((what, "xoe run"))
        for rival in rivals:
            if own and (what, rival) in cost:
                ratio = cost[what, rival] / own
                verdict = "reached" if ratio >= factor else "NOT REACHED"
                rows.append([f"launch: {what}", f"against {rival}", f"{factor:g}x", f"{ratio:.2f}x", verdict])
    return rows


def rows(figures, names, launches):
    """For the file of measurements: medians, those of one state of the machine for each point; and launches."""
    for point in dict.fromkeys(map(point_of, figures)):
        part = "allreduce (16 and 32 bits)" if point.part == "half" else point.part
        what = f"{part} of {size_text(point.count_bytes)}, {point.dtype}, {point.ranks} ranks, {point.mode}"
        for name, own in compared(figures, point, names)[1].items():
            yield from ((name, f"us, {what}", True, figure["median_us"]) for figure in own)
    for launch in launches:
        what = "true" if launch["what"] == "true" else "init, allreduce of a float, finish"
        yield from ((launch["launcher"], f"ms to launch 2 processes: {what}", True, ms) for ms in launch["runs_ms"])
