"""What is to be reached, and whether it was. Pure: a function of the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hmz_mp_bench import words
from hmz_mp_bench.registry import CONTENDERS, OURS
from hmz_mp_bench.results import Results
from hmz_mp_bench.workloads import CLUSTERS, LIBRARY, PEERS

__all__ = ["TARGETS", "Target", "Verdict", "verdicts"]

FLAT = 8 * 1024 * 1024  # bytes of growth that count as none
HMZ_SECONDS = 4.1  # hmz's threads, 10,000 sessions of one turn each


class Verdict(NamedTuple):
    """What was measured, in words, and whether it reaches the target."""

    measured: str
    reached: bool


Check = Callable[[Results], Verdict | None]


class Target(NamedTuple):
    """What one workload is to reach; ``check`` answers ``None`` if that was not measured."""

    workload: str
    text: str
    check: Check


def verdicts(results: Results) -> list[tuple[Target, Verdict | None]]:
    """Return the targets of the workloads that were measured, with what came of them."""
    return [(one, one.check(results)) for one in TARGETS if one.workload in results.cells]


def _quicker(workload: str, than: str, least: float) -> Check:
    """At least so many times as quick as another."""

    def check(results: Results) -> Verdict | None:
        ratio = results.ratio(workload, than, OURS)
        return None if ratio is None else Verdict(words.times(ratio), ratio >= least)

    return check


def _quicker_than_all(workload: str, least: float) -> Check:
    def check(results: Results) -> Verdict | None:
        peers = (*LIBRARY, *PEERS, *CLUSTERS)
        ratios = {name: results.ratio(workload, name, OURS) for name in peers}
        measured = {name: ratio for name, ratio in ratios.items() if ratio is not None}
        if not measured:
            return None
        name = min(measured, key=measured.__getitem__)
        shown = f"{words.times(measured[name])} {CONTENDERS[name].title}"
        return Verdict(shown, measured[name] >= least)

    return check


def _share(workload: str, of: str, most: float) -> Check:
    """At most so many times another's figure."""

    def check(results: Results) -> Verdict | None:
        ratio = results.ratio(workload, OURS, of)
        return None if ratio is None else Verdict(words.times(ratio), ratio <= most)

    return check


def _at_most(workload: str, most: float, figure: str = "") -> Check:
    def check(results: Results) -> Verdict | None:
        value = results.median(workload, OURS, figure)
        if value is None:
            return None
        described = results.workloads[workload]
        shown = words.figure(value, figure or described.figure, described.unit)
        return Verdict(shown, value <= most)

    return check


def _per_second(workload: str, least: float) -> Check:
    def check(results: Results) -> Verdict | None:
        value = results.median(workload, OURS)
        return None if not value else Verdict(f"{words.rate(value)}/s", 1 / value >= least)

    return check


def _as_many(workload: str, count: int, most: float) -> Check:
    """At most so many seconds for ``count``, by what each took."""

    def check(results: Results) -> Verdict | None:
        seconds = results.median(workload, OURS, "all")
        calls = results.median(workload, OURS, "calls")
        if seconds is None or not calls:
            return None
        all_of_them = seconds * count / calls
        return Verdict(words.figure(all_of_them, "all", "seconds"), all_of_them <= most)

    return check


def _window(results: Results) -> Verdict | None:
    through, gathered = results.median("window", OURS), results.median("gathered", OURS)
    if through is None or not gathered:
        return None
    return Verdict(words.times(through / gathered), through / gathered <= 1.3)


def _parse(results: Results) -> Verdict | None:
    ours, serial = results.median("parse", OURS), results.median("parse", "serial")
    if ours is None or not serial:
        return None
    cores = min(results.workers, results.about.get("cpus", results.workers))
    ratio = ours / (serial / cores)
    return Verdict(words.times(ratio), ratio <= 1.05)


def _exec(results: Results) -> Verdict | None:
    whole, bare = results.median("exec", "hmz-mp-exec"), results.median("exec", "bare-map")
    if whole is None or bare is None:
        return None
    over = whole - bare
    return Verdict(words.figure(over, "call", "seconds"), over <= 60e-6)


TARGETS = (
    Target("gathered", "at least 25 × ProcessPoolExecutor",
           _quicker("gathered", "process-pool", 25)),
    Target("gathered", "at least 15 × every peer", _quicker_than_all("gathered", 15)),
    Target("window", "a call within 1.3 × of the gathered one", _window),
    Target("window", "memory flat", _at_most("window", FLAT, "growth")),
    Target("one-by-one", "at most 0.35 × ProcessPoolExecutor",
           _share("one-by-one", "process-pool", 0.35)),
    Target("mebibyte", "at least 12 × ProcessPoolExecutor",
           _quicker("mebibyte", "process-pool", 12)),
    Target("large", "at least 4 × ProcessPoolExecutor", _quicker("large", "process-pool", 4)),
    Target("map", "at least 1,000,000/s", _per_second("map", 1e6)),
    Target("map", "memory flat", _at_most("map", FLAT, "growth")),
    Target("start", "at most 1.0 × ProcessPoolExecutor with forkserver",
           _share("start", "process-pool-forkserver", 1.0)),
    Target("start", "at most 0.5 × loky", _share("start", "loky", 0.5)),
    Target("memory", "at most 3 MB", _at_most("memory", 3e6)),
    Target("killed", "at most 10 ms", _at_most("killed", 0.010)),
    Target("parse", "within 1.05 of serial / cores", _parse),
    Target("ticker", "at most 10 ms", _at_most("ticker", 0.010)),
    Target("mixed", "within 1.1 of the bound", _at_most("mixed", 1.1)),
    Target("sessions", "10,000 in at most a tenth of hmz's 4.1 s",
           _as_many("sessions", 10_000, HMZ_SECONDS / 10)),
    Target("opened", "1,000,000 in under 1 s", _as_many("opened", 1_000_000, 1.0)),
    Target("opened", "at most 200 bytes each", _at_most("opened", 200, "each")),
    Target("exec", "at most 60 µs an item over the bare map", _exec),
)  # fmt: skip
