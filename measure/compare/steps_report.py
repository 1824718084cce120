"""Tables, targets and measurements of core/bench/engine/run.py."""

from compare.allreduce import CALM
from compare.report import table, time_text
from compare.steps import compared_steps, summarise_idle, summarise_record, summarise_steps

XOE, SHARED, CYCLE, SINGLE, BUCKETED = "xoe", "xoe-shared", "cycle-1ms", "gloo", "gloo-bucketed"
RIVALS = (CYCLE, SINGLE, BUCKETED)
ALL = (XOE, SHARED, *RIVALS)

NAMED_US = 10.0  # a named blocking allreduce of 4 B between two ranks
FACTORS = ((CYCLE, 10.0), (SINGLE, 5.0))  # of 160 tensors of 16 KiB
TIMELINE_COST = 0.01


def networks_of(figures, ranks):
    return list(dict.fromkeys(f["network"] for f in figures if (f["ranks"], f["what"]) == (ranks, "steps")))


def step_table(figures, ranks):
    """Medians of all, and how much faster Xoe's engine is, with private tensors."""
    rows = []
    for network in networks_of(figures, ranks):
        summary = summarise_steps(figures, ranks, network)
        peers = summary["peers"]
        row = [network]
        for name in ALL:
            if name not in peers:
                row.append("-")
            elif name == XOE:
                low, high = (time_text(peers[name][key]) for key in ("p25_us", "p75_us"))
                row.append(f"{time_text(peers[name]['median_us'])} [{low}-{high}]")
            else:
                row.append(time_text(peers[name]["median_us"]))
        row += [ratio_text(peers, name) for name in RIVALS]
        rows.append([*row, summary["state"]])
    header = ["step", *ALL, *[f"vs {name}" for name in RIVALS], "state"]
    return table(header, rows) if rows else ""


def ratio(peers, name):
    if XOE not in peers or name not in peers:
        return None
    return peers[name]["median_us"] / peers[XOE]["median_us"]


def ratio_text(peers, name):
    value = ratio(peers, name)
    return "-" if value is None else f"{value:.2f}x"


def cpu_table(figures, ranks):
    """Processor time of a rank for a step."""
    rows = []
    for network in networks_of(figures, ranks):
        peers = summarise_steps(figures, ranks, network)["peers"]
        if any("cpu_us" in values for values in peers.values()):
            cells = [peers.get(name, {}).get("cpu_us") for name in ALL]
            rows.append([network, *["-" if cell is None else time_text(cell) for cell in cells]])
    return table(["step", *ALL], rows) if rows else ""


def idle_table(figures, ranks_list):
    rows = []
    for ranks in ranks_list:
        found = summarise_idle(figures, ranks)
        for name in filter(found.get, ALL):
            cpu, switches = found[name]
            rows.append([f"{ranks} ranks", name, f"{cpu:.3f}", f"{switches:.1f}"])
    return table(["", "engine", "processor ms/s", "context switches/s"], rows) if rows else ""


def timeline_table(figures, ranks_list):
    rows = []
    for ranks in ranks_list:
        for key, (off, on) in summarise_record(figures, ranks).items():
            rows.append([f"{ranks} ranks, {key[:-3]}", time_text(off), time_text(on), f"{on / off - 1:+.1%}"])
    return table(["timeline", "off, us", "on, us", "cost"], rows) if rows else ""


def targets(figures, ranks_list):
    """A line for each target."""
    rows = []

    def add(what, wanted, got, reached, state="near"):
        verdict = "reached" if reached else "NOT REACHED"
        rows.append([what, wanted, got, verdict if state in CALM else f"{verdict} (unsettled: {state})"])

    for ranks in ranks_list:
        named = summarise_steps(figures, ranks, "named-4B")
        if ranks == 2 and XOE in named["peers"]:
            value = named["peers"][XOE]["median_us"]
            add("2 ranks, named 4 B", f"< {NAMED_US:g} us", f"{value:.2f} us", value < NAMED_US, named["state"])
        many = summarise_steps(figures, ranks, "160x16K")
        for rival, factor in FACTORS:
            value = ratio(many["peers"], rival)
            if value is not None:
                what = f"{ranks} ranks, 160 x 16 KiB against {rival}"
                add(what, f"{factor:g}x", f"{value:.2f}x", value >= factor, many["state"])
        for name, (_, switches) in summarise_idle(figures, ranks).items():
            if name == XOE:
                add(f"{ranks} ranks, idle", "0 switches/s", f"{switches:.1f}", switches == 0)
        for key, (off, on) in summarise_record(figures, ranks).items():
            cost = on / off - 1
            add(f"{ranks} ranks, timeline, {key[:-3]}", f"< {TIMELINE_COST:.0%}", f"{cost:+.1%}", cost < TIMELINE_COST)
    return table(["target", "wanted", "measured", ""], rows) if rows else ""


def rows(figures):
    """For the file of measurements."""
    for ranks, network in dict.fromkeys((f["ranks"], f["network"]) for f in figures if f["what"] == "steps"):
        _, peers = compared_steps(figures, ranks, network)
        for name in filter(peers.get, ALL):
            for figure in peers[name]:
                yield name, f"us, a step of {network}, {ranks} ranks", True, figure["median_us"]
                yield name, f"CPU-us of a rank, a step of {network}, {ranks} ranks", True, figure.get("cpu_us")
    for figure in sorted(figures, key=lambda figure: ALL.index(figure["peer"])):
        if figure["what"] == "idle":
            yield figure["peer"], f"CPU-ms a second, idle, {figure['ranks']} ranks", True, figure["cpu_ms_per_s"]
        if figure["what"] == "record":
            quantity = f"us, a step beside one with a timeline, {figure['ranks']} ranks"
            yield XOE, quantity, True, figure["median_us"]
            yield f"{XOE} with a timeline", quantity, True, figure["recorded_median_us"]
