"""The turns that a simulation submits, and what becomes of each when it begins to run.

Imported by the simulation; it knows jobs, lanes and gates, and nothing of the policy. All times
are seconds of virtual time.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Job, Kind, Lane, Timing

SESSION_TURNS = 10
CANCELLED = 0.01  # of all turns, at a random time within some seconds of their submission
FAILS, DIES, HANGS, DRAGS = 0.01, 0.001, 0.005, 0.002  # of the turns that begin


class Sort(NamedTuple):
    """One sort of turn: how many of all, how long each takes, and its settings."""

    name: str
    share: float
    mean: float
    kind: Kind = "call"
    limit: float = 0.0  # `at_once` of its limit, for each worker (0: it has none)
    per_minute: float = 0.0  # of its limit, for each worker
    timeout: float | None = None
    deadline: float | None = None
    retries: int = 0
    priority: int = 0
    session: bool = False


SORTS = (
    Sort("short", 0.35, 0.0002),
    Sort("medium", 0.10, 0.005, retries=1),
    Sort("long", 0.20, 1.0, timeout=20.0, retries=1),
    Sort("hurried", 0.05, 0.2, timeout=0.8, priority=1),
    Sort("due", 0.05, 1.0, deadline=10.0),
    Sort("limited", 0.05, 1.0, limit=0.1, timeout=20.0, retries=2),
    Sort("rated", 0.02, 0.5, per_minute=1.0),
    Sort("agent", 0.08, 5.0, kind="host", limit=2.0, timeout=60.0, retries=1),
    Sort("session", 0.08, 0.3, limit=0.5, timeout=20.0, session=True),
    Sort("conversation", 0.02, 3.0, kind="host", timeout=60.0, session=True),
)


class Fate(NamedTuple):
    """What becomes of a call that begins: it ends after ``seconds``, well or not, or hangs."""

    seconds: float
    ok: bool = True
    dies: bool = False
    hangs: bool = False


class Load:
    """The turns of one simulation, one after the other, in a random order of their sorts."""

    # The whole state: the random numbers, the number of the last job and of the last lane; for
    # each sort its lane, or the session that has turns left, with how many.
    def __init__(self, workers: int, turns: int, at_once: int, random: Random) -> None:
        self.turns = turns
        self.made = 0
        self.sessions: list[Lane] = []
        self._random = random
        self._lanes = 0
        pool = (Gate("pool", at_once),)
        self._gates = {sort.name: (*pool, *_limit_of(sort, workers)) for sort in SORTS}
        self._timings = {sort.name: Timing() for sort in SORTS}
        self._means = {id(self._timings[sort.name]): sort.mean for sort in SORTS}
        self._current: dict[str, Lane] = {}
        self._left: dict[str, int] = {sort.name: 0 for sort in SORTS}
        self._weights = [sort.share for sort in SORTS]

    @property
    def gates(self) -> set[Gate]:
        """All gates of all turns."""
        return {gate for gates in self._gates.values() for gate in gates}

    def make(self, count: int) -> list[Job]:
        """Return the next jobs, no more than there are left."""
        count = min(count, self.turns - self.made)
        return [self._job(sort) for sort in self._random.choices(SORTS, self._weights, k=count)]

    def _job(self, sort: Sort) -> Job:
        self.made += 1
        return Job(
            self.made,
            self._lane(sort),
            self._timings[sort.name],
            retries=sort.retries,
            timeout=sort.timeout,
            deadline=sort.deadline,
        )

    def _lane(self, sort: Sort) -> Lane:
        if self._left[sort.name] == 0:
            self._left[sort.name] = SESSION_TURNS if sort.session else self.turns
            self._lanes += 1
            lane = Lane(
                self._lanes,
                sort.kind,
                self._gates[sort.name],
                priority=sort.priority,
                serial=sort.session,
            )
            self._current[sort.name] = lane
            if sort.session:
                self.sessions.append(lane)
        self._left[sort.name] -= 1
        return self._current[sort.name]

    def cancelled_after(self) -> float | None:
        """Return when a turn is cancelled after its submission, or ``None``: never."""
        random = self._random.random
        return 10.0 * random() if random() < CANCELLED else None

    def fate(self, job: Job) -> Fate:
        """Return what becomes of a call that begins now."""
        chance = self._random.random()
        seconds = self._random.expovariate(1.0) * self._means[id(job.timing)]
        if chance < FAILS:
            return Fate(seconds, ok=False)
        if (chance := chance - FAILS) < DIES:
            return Fate(seconds, dies=True)
        if (chance := chance - DIES) < HANGS and job.timeout is not None:
            return Fate(seconds, hangs=True)
        if chance > 1.0 - FAILS - DIES - DRAGS:
            return Fate(seconds + 1.0)
        return Fate(seconds)


def _limit_of(sort: Sort, workers: int) -> list[Gate]:
    if not sort.limit and not sort.per_minute:
        return []
    at_once = max(1, round(sort.limit * workers)) if sort.limit else 0
    return [Gate(sort.name, at_once, round(sort.per_minute * workers))]
