"""Runs figures of core/bench/engine/steps.h: peers in turns, canaries around each."""

import functools
import statistics
import time
from dataclasses import dataclass

from compare.allreduce import CALM, Rounds, best_state_of

TIMES = ("median_us", "p25_us", "p75_us", "mean_us", "cpu_us")


@dataclass(frozen=True)
class Work:
    """What is measured: a command of core/bench/engine/steps.h, without its seconds."""

    ranks: int
    what: str  # steps, idle or record
    network: str
    order: str = ""

    def command(self, seconds):
        return " ".join(word for word in (self.what, self.network, self.order, str(seconds)) if word)


class StepRunner(Rounds):
    """Measures works."""

    EXTRA_ROUNDS = 2
    RETRIES = 1
    TIMEOUT = 90

    def measure(self, sessions, work, names, seconds):
        """One work by the peers of these names, in turns."""
        peers = [peer for peer in sessions.peers if peer.name in names]
        started = time.monotonic()
        what = f"{work.ranks} ranks, {work.what} {work.network}"

        def one(peer):
            ask = functools.partial(sessions.ask, peer, work.command(seconds), self.TIMEOUT, what)
            self._take_figure(ask, peer=peer.name)

        self._take_turns(lambda: peers, lambda _: self._enough(work, names), one)
        self._comparison.say(f"{what}: {time.monotonic() - started:.0f} s")

    def _enough(self, work, names):
        if work.what == "idle":
            return True  # placement does not matter
        own = of_work(self.figures, work.ranks, work.what, work.network)
        state, counts = best_state_of(own)
        measured = {figure["peer"] for figure in own}
        return state in CALM and all(counts[name] >= self._rounds for name in names if name in measured)


def of_work(figures, ranks, what, network):
    return [f for f in figures if (f["ranks"], f["what"], f["network"]) == (ranks, what, network)]


def compared_steps(figures, ranks, network):
    """The state in which steps are compared, and each peer's figures there."""
    own = of_work(figures, ranks, "steps", network)
    state, counts = best_state_of(own)
    return state, {name: [f for f in own if f["peer"] == name and state in (f["state"], "mixed")] for name in counts}


def summarise_steps(figures, ranks, network):
    """The state, and per peer over its figures there the medians of TIMES."""
    state, peers = compared_steps(figures, ranks, network)
    medians = {
        name: {key: statistics.median(f[key] for f in there) for key in TIMES if all(key in f for f in there)}
        for name, there in peers.items()
    }
    return {"state": state, "peers": medians}


def summarise_idle(figures, ranks):
    """Per peer the medians of what it uses while idle: (processor ms a second, context switches a second)."""
    result = {}
    for figure in figures:
        if (figure["ranks"], figure["what"]) == (ranks, "idle"):
            result.setdefault(figure["peer"], []).append(figure)
    return {
        name: tuple(statistics.median(f[key] for f in own) for key in ("cpu_ms_per_s", "switches_per_s"))
        for name, own in result.items()
    }


def summarise_record(figures, ranks):
    """What the timeline costs: key of TIMES to (off, on), medians over the figures; empty: not measured."""
    own = [f for f in figures if (f["ranks"], f["what"]) == (ranks, "record")]
    if not own:
        return {}
    return {
        key: tuple(statistics.median(f[prefix + key] for f in own) for prefix in ("", "recorded_"))
        for key in ("median_us", "mean_us", "cpu_us")
    }
