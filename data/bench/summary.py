"""Tables, targets and the plot. A figure is the JSON of one program, with `entrant`, `set` and `round` added."""

import statistics

from compare.report import table
from entrants import ALL, BEST, DALI, EXACT, FAST, LIMIT, OURS, TORCHVISION

RECORDS_XOE, RECORDS_TFDATA = "Xoe", "tf.data"

# (set, whose, times less CPU time per image than, at least)
COST_TARGETS = [
    ("A", EXACT, BEST, 3.2),
    ("A", EXACT, DALI, 4.0),
    ("A", EXACT, TORCHVISION, 6.0),
    ("A", FAST, BEST, 4.0),
    ("B", EXACT, BEST, 2.6),
    ("C", EXACT, BEST, 2.0),
]
MEMORY_TARGET = 2.0  # times less than tf.data's best
RECORDS_TARGET = 2.5  # times the bytes per CPU-second
FIRST_BATCH_TARGET_S = 0.1


def counted(count, noun):
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def values(figures, entrant, data_set, threads, key):
    return [
        f[key]
        for f in figures
        if (f["entrant"], f["set"], f["threads"]) == (entrant, data_set, threads) and f.get(key) is not None
    ]


def median(figures, *where):
    found = values(figures, *where)
    return statistics.median(found) if found else None


def ratio(above, below):
    return f"{above / below:.2f}x" if above and below else "-"


def cost_text(costs):
    return f"{statistics.median(costs):.3f} [{min(costs):.3f}-{max(costs):.3f}]"


def table_of(figures, data_set, threads):
    """All entrants on one set with one number of threads; the ratios are to tf.data's best."""
    rows = []
    for name in ALL:
        at = (name, data_set, threads)
        costs = values(figures, *at, "cpu_ms_per_image")
        if not costs:
            continue
        cost, speed = statistics.median(costs), median(figures, *at, "images_per_s")
        memory, opened = median(figures, *at, "peak_bytes"), median(figures, *at, "opened_first_batch_s")
        started = median(figures, *at, "first_batch_s")
        rows.append(
            [
                name,
                cost_text(costs),
                ratio(median(figures, BEST, data_set, threads, "cpu_ms_per_image"), cost),
                f"{speed:.0f}",
                ratio(speed, median(figures, BEST, data_set, threads, "images_per_s")),
                f"{cost * speed / 1e3:.2f}",
                f"{memory / (1 << 20):.0f}" if memory else "-",
                f"{opened:.2f}" if opened is not None else "-",
                f"{started:.2f}" if started is not None else "-",
            ]
        )
    header = ["", "CPU-ms an image", "better", "images/s", "faster", "cores", "MiB", "first batch s", "from start s"]
    return table(header, rows) if rows else ""


def records_table(records):
    rows = [
        [name, f"{statistics.median(found) / 1e9:.2f}", ratio(statistics.median(found), tfdata_records(records))]
        for name, found in records.items()
        if found
    ]
    return table(["", "GB per CPU-second", "to tf.data"], rows) if rows else ""


def tfdata_records(records):
    found = records.get(RECORDS_TFDATA)
    return statistics.median(found) if found else None


def consumer_table(fed):
    """The rates of an emulated consumer: {entrant: the JSON of `xoe data bench --consumer`}."""
    rows = [
        [
            name,
            f"{one['images_per_s']:.0f}",
            f"{one['fed_images_per_s']:.0f}",
            f"{100 * one['idle_share']:.1f} %",
            f"{one['threads_needed']:.1f}",
            str(one["threads_missing"]),
        ]
        for name, one in fed.items()
    ]
    header = ["emulated consumer", "wants images/s", "gets", "idle", "threads needed", "missing"]
    return table(header, rows) if rows else ""


def _verdict(what, wanted, measured, reached):
    if measured is None:
        return [what, wanted, "-", "not measured"]
    return [what, wanted, measured, "reached" if reached else "NOT REACHED"]


def _at_least(what, factor, above, below):
    known = bool(above and below)
    return _verdict(what, f"{factor:g}x", f"{above / below:.2f}x" if known else None, known and above / below >= factor)


def _one_against_two(figures, most):
    """One thread of Xoe beside `most` threads of the fastest peer."""
    rivals = [(median(figures, name, "A", most, "images_per_s"), name) for name in ALL if name not in (*OURS, LIMIT)]
    rivals = [rival for rival in rivals if rival[0]]
    speed, name = max(rivals, default=(None, "any peer"))
    own = median(figures, EXACT, "A", 1, "images_per_s")
    return _at_least(f"A, images/s: {EXACT} with 1 thread, the fastest peer ({name}) with {most}", 1.0, own, speed)


def targets(figures, records, most):
    """A line for each target of the project; `most` is the largest number of threads measured."""
    rows = []
    for data_set, whose, than, factor in COST_TARGETS:
        own = median(figures, whose, data_set, most, "cpu_ms_per_image")
        other = median(figures, than, data_set, most, "cpu_ms_per_image")
        rows.append(_at_least(f"{data_set}, CPU time an image: {whose} against {than}", factor, other, own))
    rows.append(_one_against_two(figures, most))
    memory = [median(figures, name, "A", most, "peak_bytes") for name in (BEST, EXACT)]
    rows.append(_at_least(f"A, memory: {EXACT} against {BEST}", MEMORY_TARGET, *memory))
    first = median(figures, EXACT, "A", most, "first_batch_s")
    text = f"{first:.3f} s" if first is not None else None
    reached = first is not None and first <= FIRST_BATCH_TARGET_S
    rows.append(_verdict(f"A, first batch after the start: {EXACT}", f"{FIRST_BATCH_TARGET_S:g} s", text, reached))
    own = statistics.median(records[RECORDS_XOE]) if records.get(RECORDS_XOE) else None
    rows.append(_at_least("A, reading records, bytes per CPU-second", RECORDS_TARGET, own, tfdata_records(records)))
    return table(["target", "wanted", "measured", ""], rows)


def plot(figures, data_sets, threads_list, stem):
    """CPU time an image and images/s, a row of panels for each set, in stem.svg and .png. False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    most = max(threads_list)
    chart, panels = pyplot.subplots(
        len(data_sets), 2, figsize=(13, 1 + 3.4 * len(data_sets)), constrained_layout=True, squeeze=False
    )
    for data_set, (left, right) in zip(data_sets, panels, strict=True):
        names = [name for name in reversed(ALL) if values(figures, name, data_set, most, "cpu_ms_per_image")]
        colors = ["tab:blue" if name in OURS else "tab:gray" if name == LIMIT else "tab:orange" for name in names]
        costs = [median(figures, name, data_set, most, "cpu_ms_per_image") for name in names]
        left.bar_label(left.barh(names, costs, color=colors), fmt="%.2f", padding=3, fontsize=8)
        left.set(title=f"set {data_set}: CPU-ms an image, {counted(most, 'thread')}")
        height = 0.8 / len(threads_list)
        for i, threads in enumerate(sorted(threads_list)):
            speeds = [median(figures, name, data_set, threads, "images_per_s") or 0 for name in names]
            places = [row + (i - (len(threads_list) - 1) / 2) * height for row in range(len(names))]
            bars = right.barh(places, speeds, height, color=colors, alpha=0.5 + 0.5 * (i + 1) / len(threads_list))
            right.bar_label(bars, fmt=f"%.0f ({threads})", padding=3, fontsize=7)
        right.set(title=f"set {data_set}: images/s (threads)", yticks=range(len(names)), yticklabels=names)
        for axes in (left, right):
            axes.grid(True, axis="x", alpha=0.3)
            axes.margins(x=0.15)
    chart.savefig(f"{stem}.svg")
    chart.savefig(f"{stem}.png", dpi=130)
    pyplot.close(chart)
    return True
