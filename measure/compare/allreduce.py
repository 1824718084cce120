"""Runs figures: peers in turns within a size, canaries around each, repeats until a state of the machine has enough."""

import functools
import statistics
import time
from collections import Counter, defaultdict
from dataclasses import dataclass

from compare.program import in_turn
from compare.session import Failed, Session

CALM = ("near", "far", "single")  # states that can be compared; the others are "busy", "moved" and "mixed"


@dataclass(frozen=True)
class Point:
    """What is measured."""

    ranks: int
    count_bytes: int
    dtype: str
    mode: str  # hot or rewritten
    part: str = "allreduce"  # or another collective; half: the comparison of types

    @property
    def collective(self):
        return "allreduce" if self.part == "half" else self.part


class Sessions:
    """The running peers. One that fails twice in a row, or does not answer, is given up, for later sizes too."""

    def __init__(self, peers, ranks, sync_bytes, comparison):
        self.peers = peers
        self._ranks, self._sync_bytes, self._comparison = ranks, sync_bytes, comparison
        self._running = {}
        self._failures = defaultdict(int)
        self._given_up = set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for session in self._running.values():
            session.close()

    def alive(self, peers):
        return [peer for peer in peers if peer.name not in self._given_up]

    def figure(self, peer, point, seconds, timeout):
        """A collective's figure, or None."""
        command = f"{point.collective} {point.count_bytes} {point.dtype} {point.mode} {seconds}"
        what = f"{point.collective}, {point.ranks} ranks, {point.count_bytes} B, {point.mode}"
        return self.ask(peer, command, timeout, what)

    def ask(self, peer, command, timeout, what):
        """The answer to a command, or None. `what` is for people."""
        if peer.name in self._given_up:
            return None
        try:
            if peer.name not in self._running:
                self._running[peer.name] = Session(peer, self._ranks, self._sync_bytes)
            figure = self._running[peer.name].ask(command, timeout)
            self._failures[peer.name] = 0
            return figure
        except Failed as error:
            self._running.pop(peer.name, None)
            self._failures[peer.name] += 2 if error.no_answer else 1
            if self._failures[peer.name] >= 2:
                self._given_up.add(peer.name)
                self._comparison.give_up(f"{peer.name}, {what}", error)
            return None


class Rounds:
    """Peers in turns over several rounds, canaries around each figure. All figures gather in the comparison's."""

    EXTRA_ROUNDS = 3  # at most, when the machine changed its state in between
    RETRIES = 2  # of one figure whose canaries differ

    def __init__(self, canary, comparison):
        self._canary, self._comparison, self._rounds = canary, comparison, comparison.arguments.rounds
        self.figures = comparison.figures

    def _take_turns(self, peers_left, enough, one):
        """Calls `one` with each of the peers in each round, also in extra rounds until there is `enough` of the peers."""
        for number in range(self._rounds + self.EXTRA_ROUNDS):
            peers = peers_left()
            if number >= self._rounds and enough(peers):
                break
            if number > 0 and self._comparison.late():
                break
            for peer in in_turn(peers, number):
                one(peer)

    def _take_figure(self, ask, **more):
        """Adds what `ask` gives, if it gives anything."""
        for _ in range(1 + self.RETRIES):
            before, state = self._canary.measure()
            figure = ask()
            if figure is None:
                return
            after, state_after = self._canary.measure()
            figure.update(**more, canary_before_ns=before, canary_after_ns=after)
            figure["state"] = state if state == state_after else "moved"
            self.figures.append(figure)
            if figure["state"] in CALM or self._comparison.late():
                return


class Runner(Rounds):
    """Measures points."""

    TIMEOUT = 20

    def measure(self, sessions, points):
        """All points, each by all peers that know its type. Appends to `figures`."""
        for point in points:
            peers = [peer for peer in sessions.peers if point.dtype in peer.dtypes and point.collective in peer.collectives]
            started = time.monotonic()
            self._take_turns(
                lambda: sessions.alive(peers),
                lambda alive: self._enough(point, alive),
                lambda peer: self._one(sessions, peer, point),
            )
            state, _ = best_state(self.figures, point, [p.name for p in peers])
            self._comparison.say(
                f"{point.collective}, {point.ranks} ranks, {size_text(point.count_bytes)}, {point.dtype}, {point.mode}: "
                f"{time.monotonic() - started:.0f} s, state {state}"
            )

    def _one(self, sessions, peer, point):
        ask = functools.partial(sessions.figure, peer, point, self._comparison.arguments.seconds, self.TIMEOUT)
        self._take_figure(ask, peer=peer.name, part=point.part)

    def _enough(self, point, peers):
        state, counts = best_state(self.figures, point, [peer.name for peer in peers])
        return state in CALM and all(counts[peer.name] >= self._rounds for peer in peers)


def point_of(figure):
    return Point(figure["ranks"], figure["bytes"], figure["dtype"], figure["mode"], figure["part"])


def best_state(figures, point, names):
    """The state to compare a point in, and how many figures each peer has there."""
    return best_state_of([f for f in figures if point_of(f) == point and f["peer"] in names])


def best_state_of(figures):
    """The same of all these figures.

    The one in which the peer with the fewest figures has the most; calm states before others. Where none has all peers
    that were measured, "mixed": all figures, which is a hint and no comparison.
    """
    counts = defaultdict(Counter)
    for figure in figures:
        counts[figure["state"]][figure["peer"]] += 1
    everything = sum(counts.values(), Counter())
    if not everything:
        return "none", everything

    def rank(state):
        return min(counts[state][name] for name in everything), state in CALM, counts[state].total()

    state = max(counts, key=rank)
    if rank(state)[0] == 0:
        return "mixed", everything
    return state, counts[state]


def compared(figures, point, names):
    """The state in which a point is compared, and each peer's figures there."""
    state, counts = best_state(figures, point, names)
    there = [figure for figure in figures if point_of(figure) == point and state in (figure["state"], "mixed")]
    return state, {name: [figure for figure in there if figure["peer"] == name] for name in names if counts[name]}


def summarise(figures, point, names):
    """The state, and per peer over its figures there: median of medians and of quartiles, and the smallest minimum."""
    state, peers = compared(figures, point, names)
    result = {
        name: {
            **{key: statistics.median(f[key] for f in own) for key in ("median_us", "p25_us", "p75_us")},
            "min_us": min(f["min_us"] for f in own),
            "rounds": len(own),
        }
        for name, own in peers.items()
    }
    return {"state": state, "peers": result}


def size_text(count_bytes):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count_bytes >= unit:
            return f"{count_bytes / unit:g} {name}"
    return f"{count_bytes} B"
