"""`fan_out`: the same work for many items at once, and what becomes of each.

Owns when an item is asked about, and again. What work is, is in ``work``; what comes of it is a
`Report`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import anyio

from hmz_mp.agents.counting import counting
from hmz_mp.agents.trying import Tries
from hmz_mp.core.limits import check_width
from hmz_mp.errors import ItemFailed, PoolClosed, Stopped
from hmz_mp.fanin.brief import headline, one_line
from hmz_mp.fanin.finding import CAP, Finding, finding_of
from hmz_mp.fanin.identity import identified
from hmz_mp.fanin.report import Outcome, Report
from hmz_mp.fanin.retrying import checked
from hmz_mp.fanin.work import called_for, evidence_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable

    from hmz_mp.agents.counting import Used
    from hmz_mp.fanin.identity import Key
    from hmz_mp.fanin.retrying import OnFailure, Retry
    from hmz_mp.fanin.work import Work

__all__ = ["fan_out"]


async def fan_out(
    items: Iterable[Any] | AsyncIterable[Any],
    work: Work,
    *,
    on_failure: OnFailure,
    at_once: int = 0,
    key: Key = None,
    cap: int = CAP,
) -> Report:
    """Do the same work for each item, many at once; return what was found of all of them.

    ``items`` are strings, paths, dicts, Structs or objects with an ``item_id`` (or ``id``,
    ``path``, ``name``); ``key`` names another field, or is a function that returns the id.
    ``work`` is a ``@tool``, which runs in workers; an agent, or ``ask(agent, template)``; or a
    function of the item, which runs in this process. It returns a `Finding`, a dict with its
    fields, or any value, whose text is then what was found. ``at_once`` is how many are in work
    (0: as many as there are, beside what the pool, the tool or the agent allows). Texts are cut
    at ``cap`` characters.

    ``on_failure`` says what happens when items fail: with ``"fail"`` the first failure, in the
    order of the items, is raised once all have landed; with ``"partial"`` they are in the report;
    with a `Retry` they are tried again first. An item has failed when its work raised, when its
    finding says so, or when it is not about that item. `Stopped` is not tried again.

    Raises `ValueError` for two items of one id and for one that has none.
    """
    retry = checked(on_failure)
    check_width("at_once", at_once)
    if cap < 1:
        raise ValueError(f"cap is a number of characters, not {cap}")
    fan = _Fan(await identified(items, key), work, at_once, retry, cap)
    report = await fan.run()
    if retry.then == "fail" and not report.complete:
        raise _first_failure(report)
    return report


def _first_failure(report: Report) -> BaseException:
    first = report.failed[0]
    error = first.cause or ItemFailed(first.item_id, first.finding)
    error.add_note(f"item {first.item_id!r}; {headline(report)}")
    return error


class _Fan:
    """One fan-out. Its whole state: the items, their outcomes so far, and the places there are."""

    def __init__(
        self, items: dict[str, Any], work: Work, at_once: int, retry: Retry, cap: int
    ) -> None:
        self._items = items
        self._work = work
        self._call = called_for(work, at_once)
        self._places = anyio.Semaphore(at_once) if at_once else None
        self._retry = retry
        self._cap = cap
        self._outcomes: dict[str, Outcome] = {}

    async def run(self) -> Report:
        async with anyio.create_task_group() as group:
            for item_id in self._items:
                if self._places is not None:
                    await self._places.acquire()
                group.start_soon(self._see_to, item_id)
        return Report([self._outcomes.get(one) or _vanished(one) for one in self._items])

    async def _see_to(self, item_id: str) -> None:
        """Ask about an item until it is answered or has failed for good. It has a place."""
        tries, seconds = 0, 0.0
        with counting() as used, Tries() as trying:
            while True:
                tries += 1
                trying.begin(last=tries > self._retry.times)
                try:
                    outcome = await self._once(item_id, tries, seconds, used)
                finally:
                    if self._places is not None:
                        self._places.release()
                self._outcomes[item_id] = outcome
                if tries > self._retry.times or not _is_to_be_tried(outcome):
                    return
                seconds = outcome.seconds
                await anyio.sleep(self._retry.pause(tries))
                if self._places is not None:
                    await self._places.acquire()

    async def _once(self, item_id: str, tries: int, seconds: float, used: Used) -> Outcome:
        began = time.monotonic()
        value: Any = None
        cause: BaseException | None = None
        try:
            value = await self._call(self._items[item_id], item_id)
            evidence = evidence_of(self._work, item_id)
            finding = finding_of(item_id, value, cap=self._cap, evidence=evidence)
        except Exception as error:
            cause = error
            finding = _failed(item_id, error, self._cap)
        return Outcome(finding, value, cause, seconds + time.monotonic() - began, tries, used)


def _is_to_be_tried(outcome: Outcome) -> bool:
    stopped = isinstance(outcome.cause, (Stopped, PoolClosed))
    return outcome.finding.status == "failed" and not stopped


def _failed(item_id: str, error: BaseException, cap: int) -> Finding:
    text = one_line(str(error))
    name = type(error).__name__
    words = f"{name}: {text}" if text else name
    return finding_of(item_id, Finding(item_id, "failed", words, "", "high"), cap=cap)


def _vanished(item_id: str) -> Outcome:
    error = Stopped("its work was cancelled")
    return Outcome(_failed(item_id, error, CAP), None, error)
