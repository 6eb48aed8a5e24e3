"""What `fan_out` makes of turns of a run, whose endings a test decides."""

from __future__ import annotations

import anyio
import pytest

from hmz_mp.fanin import Retry, fan_out
from tests.runs.fakes import Watched

pytestmark = pytest.mark.anyio


class Turns:
    """Work that is one turn of a run for each item, and fails for so many tries."""

    def __init__(self, **failures: int) -> None:
        self.watched = Watched()
        self.left = failures
        self.failed = anyio.Event()

    async def __call__(self, item: str) -> str:
        (record,) = self.watched.submit(item)
        record.attempts += 1
        self.watched.begin(record)
        await anyio.lowlevel.checkpoint()
        if self.left.get(item, 0):
            self.left[item] -= 1
            self.watched.end(record, "failed", error=f"no {item}")
            self.failed.set()
            raise ValueError(f"no {item}")
        self.watched.end(record)
        return f"saw {item}"


async def test_each_item_is_told_of_once_in_the_order_of_first_tries() -> None:
    work = Turns(a=2, c=9)
    report = await fan_out(list("abcd"), work, on_failure=Retry(2, 0))
    assert [one.item_id for one in report.failed] == ["c"]
    first_asked = list(dict.fromkeys(item_id for _, item_id, _ in work.watched.ledger.rows))
    assert [item_id for item_id, _ in work.watched.told] == first_asked
    assert dict(work.watched.told) == {"a": "ok", "b": "ok", "c": "failed", "d": "ok"}
    counts = {"ok": 3, "failed": 1, "cancelled": 0, "not_run": 0}
    assert work.watched.run.tally.counts() == counts
    assert work.watched.run.tally.total == 4


async def test_without_tries_a_failure_counts_at_once() -> None:
    work = Turns(a=1)
    await fan_out(["a", "b"], work, on_failure="partial")
    assert sorted(work.watched.told) == [("a", "failed"), ("b", "ok")]
    assert work.watched.ledger.said == []


async def test_cancelled_between_two_tries_it_has_failed() -> None:
    work = Turns(a=1)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await work.failed.wait()
                assert work.watched.told == []
                scope.cancel()

            group.start_soon(cancel)
            await fan_out(["a"], work, on_failure=Retry(3, 600))
    assert scope.cancelled_caught
    assert work.watched.told == [("a", "failed")]
    assert work.watched.run.tally.failures[0].reason == "no a"


async def test_a_fan_out_in_the_work_of_another() -> None:
    inner = Turns(a=3)

    async def work(item: str) -> int:
        report = await fan_out([item], inner, on_failure=Retry(1, 0))
        if not report.complete:
            raise ValueError("not complete")
        return len(report)

    report = await fan_out(["a"], work, on_failure=Retry(1, 0))
    assert report.complete
    assert inner.watched.told == [("a", "ok")]
    assert inner.watched.run.tally.total == 1
    said = [text for _, kind, text in inner.watched.ledger.said if kind == "tried"]
    assert said == ["no a"] * 3
