"""Tables, targets and measurements. A figure is the JSON of one program, with `entrant`, `set` and `round` added."""

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


def rows(figures, records):
    """For the file of measurements."""
    for figure in sorted(figures, key=lambda figure: ALL.index(figure["entrant"])):
        name, where = figure["entrant"], f"set {figure['set']}, {counted(figure['threads'], 'thread')}"
        yield name, f"CPU-ms an image, {where}", True, figure["cpu_ms_per_image"]
        yield name, f"images/s, {where}", False, figure["images_per_s"]
        yield name, f"MiB of memory, {where}", True, (figure.get("peak_bytes") or 0) / (1 << 20)
        yield name, f"s from the start to the first batch, {where}", True, figure.get("first_batch_s")
    for name, found in records.items():
        yield from ((name, "bytes of records a CPU-second", False, one) for one in found)
