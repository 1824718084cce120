"""Runs figures: peers in turns within a size, canaries around each, repeats until one state of the machine has enough."""

import statistics
import time
from collections import defaultdict
from dataclasses import dataclass

from compare.session import Failed, Session


CALM = ("near", "far", "single")  # states that can be compared; the others are "busy" and "moved"


@dataclass(frozen=True)
class Point:
    """What is measured."""

    ranks: int
    count_bytes: int
    dtype: str
    mode: str  # hot or rewritten


class Sessions:
    """The running peers. One that failed twice in a row is given up, for larger sizes too."""

    def __init__(self, peers, ranks, sync_bytes, say):
        self.peers = peers
        self._ranks, self._sync_bytes, self._say = ranks, sync_bytes, say
        self._running = {}
        self._failures = defaultdict(int)
        self.given_up = {}

    def figure(self, peer, point, seconds, timeout):
        """A figure, or None."""
        if peer.name in self.given_up:
            return None
        try:
            if peer.name not in self._running:
                self._running[peer.name] = Session(peer, self._ranks, self._sync_bytes)
            figure = self._running[peer.name].figure(point.count_bytes, point.dtype, point.mode, seconds, timeout)
            self._failures[peer.name] = 0
            return figure
        except Failed as error:
            self._running.pop(peer.name, None)
            self._failures[peer.name] += 1
            if self._failures[peer.name] >= 2:
                self.given_up[peer.name] = f"{point.ranks} ranks, {point.count_bytes} B, {point.mode}: {error}"
                self._say(f"{peer.name}: given up at {self.given_up[peer.name]}")
            return None

    def close(self):
        for session in self._running.values():
            session.close()
        self._running.clear()


class Runner:
    """Measures points over several rounds."""

    EXTRA_ROUNDS = 3  # at most, when the machine changed its state in between
    RETRIES = 2  # of one figure whose canaries differ

    def __init__(self, canary, rounds, seconds, timeout, deadline, say):
        """After `deadline` (time.monotonic()) nothing is repeated: each point gets one round."""
        self._canary, self._rounds, self._seconds, self._timeout = canary, rounds, seconds, timeout
        self._deadline, self._say = deadline, say
        self.figures = []

    def measure(self, sessions, points):
        """All points, each by all peers that know its type. Appends to `figures`."""
        for point in points:
            peers = [peer for peer in sessions.peers if point.dtype in peer.dtypes]
            started = time.monotonic()
            for round_number in range(self._rounds + self.EXTRA_ROUNDS):
                alive = [peer for peer in peers if peer.name not in sessions.given_up]
                if round_number >= self._rounds and self._enough(point, alive):
                    break
                if round_number > 0 and self._late():
                    break
                turn = round_number % max(len(alive), 1)
                for peer in alive[turn:] + alive[:turn]:
                    self._one(sessions, peer, point)
            state, _ = best_state(self.figures, point, [p.name for p in peers])
            self._say(
                f"{point.ranks} ranks, {size_text(point.count_bytes)}, {point.dtype}, {point.mode}: "
                f"{time.monotonic() - started:.0f} s, state {state}"
            )

    def _one(self, sessions, peer, point):
        for _ in range(1 + self.RETRIES):
            before, state = self._canary.measure()
            figure = sessions.figure(peer, point, self._seconds, self._timeout)
            if figure is None:
                return
            after, state_after = self._canary.measure()
            figure.update(peer=peer.name, canary_before_ns=before, canary_after_ns=after)
            figure["state"] = state if state == state_after else "moved"
            self.figures.append(figure)
            if figure["state"] in CALM or self._late():
                return

    def _late(self):
        return time.monotonic() > self._deadline

    def _enough(self, point, peers):
        _, counts = best_state(self.figures, point, [peer.name for peer in peers])
        return all(counts.get(peer.name, 0) >= self._rounds for peer in peers)


def matches(figure, point):
    return (figure["ranks"], figure["bytes"], figure["dtype"], figure["mode"]) == (
        point.ranks,
        point.count_bytes,
        point.dtype,
        point.mode,
    )


def best_state(figures, point, names):
    """The state in which the peer with the fewest figures has the most; calm states before busy ones. And its counts."""
    counts = defaultdict(lambda: defaultdict(int))
    for figure in figures:
        if matches(figure, point):
            counts[figure["state"]][figure["peer"]] += 1

    def rank(state):
        measured = [counts[state].get(name, 0) for name in names if any(counts[s].get(name) for s in counts)]
        return (min(measured, default=0), state in CALM, sum(measured))

    state = max(counts, key=rank, default="none")
    return state, dict(counts[state])


def summarise(figures, point, names):
    """Per peer, over its figures of the best state: median of medians, of quartiles, and the smallest minimum; and the state."""
    state, _ = best_state(figures, point, names)
    result = {}
    for name in names:
        own = [f for f in figures if matches(f, point) and f["peer"] == name and f["state"] == state]
        if own:
            result[name] = {
                "median_us": statistics.median(f["median_us"] for f in own),
                "p25_us": statistics.median(f["p25_us"] for f in own),
                "p75_us": statistics.median(f["p75_us"] for f in own),
                "min_us": min(f["min_us"] for f in own),
                "rounds": len(own),
            }
    return {"state": state, "peers": result}


def size_text(count_bytes):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count_bytes >= unit:
            return f"{count_bytes / unit:g} {name}"
    return f"{count_bytes} B"
