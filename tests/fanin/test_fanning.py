from __future__ import annotations

import functools
import os
from collections import Counter
from typing import Any

import anyio
import pytest

from hmz_mp import Pool
from hmz_mp.errors import ItemFailed, Stopped
from hmz_mp.fanin import BadFinding, Finding, Report, Retry, batch_tool, fan_out
from tests.fanin import functions

pytestmark = pytest.mark.anyio


class Fails:
    """Work that fails for some items, for so many tries each, and counts."""

    def __init__(self, **times: int) -> None:
        self.left = times
        self.tries: Counter[str] = Counter()

    async def __call__(self, item: str) -> str:
        self.tries[item] += 1
        await anyio.lowlevel.checkpoint()
        if self.left.get(item, 0) >= self.tries[item]:
            raise ValueError(f"no {item}")
        return f"saw {item}"


class Width:
    """How many are in it at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __call__(self, item: object) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        self.now -= 1


async def test_findings_come_in_the_order_of_items() -> None:
    async def work(number: int) -> int:
        for _ in range(20 - number):
            await anyio.lowlevel.checkpoint()
        return number * number

    report = await fan_out(range(20), work, on_failure="fail")
    assert [one.item_id for one in report] == [str(number) for number in range(20)]
    assert [one.finding for one in report] == [str(number**2) for number in range(20)]
    assert report.complete


async def test_what_happens_to_failures_has_to_be_said() -> None:
    with pytest.raises(TypeError, match="on_failure"):
        await fan_out(["a"], Fails())  # type: ignore[call-arg]  # that is the point
    with pytest.raises(ValueError, match="on_failure"):
        await fan_out(["a"], Fails(), on_failure="ignore")  # type: ignore[arg-type]  # the same


async def test_fail_raises_the_first_in_item_order_once_all_have_landed() -> None:
    work = Fails(b=1, d=1)
    with pytest.raises(ValueError, match="no b") as caught:
        await fan_out(["b", "a", "c", "d"], work, on_failure="fail")
    assert sum(work.tries.values()) == 4
    assert caught.value.__notes__ == ["item 'b'; 2 of 4 items answered, 2 failed: b, d"]


async def test_partial_reports_them() -> None:
    report = await fan_out(list("abc"), Fails(b=1), on_failure="partial")
    assert [one.status for one in report] == ["ok", "failed", "ok"]
    (failure,) = report.failed
    assert (failure.item_id, failure.finding) == ("b", "ValueError: no b")
    assert isinstance(failure.cause, ValueError)
    assert not report.complete


async def test_retry_asks_again_about_those_only() -> None:
    work = Fails(a=2, c=9)
    report = await fan_out(list("abcd"), work, on_failure=Retry(2, 0.001))
    assert work.tries == {"a": 3, "b": 1, "c": 3, "d": 1}
    assert [one.item_id for one in report.failed] == ["c"]
    assert report.outcome("a").tries == 3
    with pytest.raises(ValueError, match="no c"):
        await fan_out(["c"], Fails(c=9), on_failure=Retry(1, 0, then="fail"))


async def test_who_waits_to_be_tried_again_takes_no_place() -> None:
    ended = anyio.Event()

    async def work(item: str) -> None:
        if item == "again" and not ended.is_set():
            raise ValueError("not yet")
        if item == "last":
            ended.set()

    items = ["again", "other", "last"]
    report = await fan_out(items, work, on_failure=Retry(1, 0.05), at_once=1)
    assert report.complete


async def test_a_finding_that_says_failed_has_failed() -> None:
    async def work(item: str) -> Finding:
        return Finding(item, "failed", "no route", "", "high")

    report = await fan_out(["a"], work, on_failure="partial")
    assert report.failed[0].finding == "no route"
    assert report.failed[0].cause is None
    with pytest.raises(ItemFailed, match="a: no route") as caught:
        await fan_out(["a"], work, on_failure="fail")
    assert caught.value.item_id == "a"


async def test_a_finding_about_another_item_has_failed() -> None:
    async def work(item: str) -> Finding:
        return Finding("b", "ok", "fine", "", "high")

    report = await fan_out(["a", "b"], work, on_failure="partial")
    assert [(one.item_id, one.status) for one in report] == [("a", "failed"), ("b", "ok")]
    assert isinstance(report.failed[0].cause, BadFinding)


async def test_nothing_to_do() -> None:
    report = await fan_out([], Fails(), on_failure="fail")
    assert isinstance(report, Report)
    assert report.complete
    assert report.findings == ()
    assert "0 of 0 items answered, 0 failed" in report.brief()


async def test_two_of_one_id_before_any_work() -> None:
    work = Fails()
    with pytest.raises(ValueError, match="'a'"):
        await fan_out(["a", "b", "a"], work, on_failure="partial")
    assert not work.tries


@pytest.mark.parametrize("at_once", [0, 1, 3])
async def test_how_many_at_once(at_once: int) -> None:
    width = Width()
    await fan_out(range(12), width, on_failure="fail", at_once=at_once)
    assert width.most == (at_once or 12)


@pytest.mark.parametrize(("name", "value"), [("at_once", -1), ("cap", 0)])
async def test_bounds_that_make_no_sense(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=name):
        await fan_out(["a"], Fails(), on_failure="fail", **{name: value})  # type: ignore[arg-type]  # by name


async def test_functions_run_here_the_plain_ones_in_threads() -> None:
    seen: list[int] = []

    def work(item: int) -> int:
        seen.append(item)
        anyio.from_thread.run(anyio.lowlevel.checkpoint)
        return os.getpid()

    report = await fan_out(range(3), work, on_failure="fail")
    assert sorted(seen) == [0, 1, 2]
    assert {report.value(str(number)) for number in range(3)} == {os.getpid()}


async def test_a_function_may_return_what_is_to_be_awaited() -> None:
    report = await fan_out(["a"], lambda item: Fails()(item), on_failure="fail")
    assert report["a"].finding == "saw a"


async def test_tools_run_in_workers() -> None:
    items = ["four", "seven", "bad", "three"]
    async with Pool(2):
        report = await fan_out(items, functions.length, on_failure="partial")
        assert [one.finding for one in report][:2] == ["4 letters", "5 letters"]
        assert report.value("four")["worker"] != os.getpid()
        assert report.numbers("length") == {"four": 4, "seven": 5, "three": 5}
        assert report.failed[0].finding == "ValueError: no length of bad"
        listed = await fan_out(items, functions.lengths, on_failure="fail")
        assert listed["seven"].finding == "5"
        by_list = await fan_out(items, batch_tool(functions.length), on_failure="partial")
        assert [one.item_id for one in by_list.failed] == ["bad"]
        bound = functools.partial(functions.plus, more=2)
        assert (await fan_out([1], bound, on_failure="fail"))["1"].finding == "3"


async def test_what_is_no_work() -> None:
    with pytest.raises(TypeError, match="work is a function"):
        await fan_out(["a"], 3, on_failure="fail")  # type: ignore[arg-type]  # that is the point


async def test_what_was_stopped_is_not_tried_again() -> None:
    tries: list[str] = []

    async def work(item: str) -> None:
        tries.append(item)
        raise Stopped("budget spent")

    report = await fan_out(["a"], work, on_failure=Retry(3, 0))
    assert tries == ["a"]
    assert report.failed[0].finding == "Stopped: budget spent"


async def test_cancelling_ends_all_of_it() -> None:
    ended: list[str] = []

    async def work(item: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(item)

    with anyio.move_on_after(0.05) as scope:
        await fan_out(list("abc"), work, on_failure="partial", at_once=2)
    assert scope.cancelled_caught
    assert sorted(ended) == ["a", "b"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_item_whose_work_was_cancelled_is_not_lost() -> None:
    import asyncio

    async def work(item: str) -> None:
        if item == "b":
            raise asyncio.CancelledError

    report = await fan_out(list("abc"), work, on_failure="partial")
    assert [one.status for one in report] == ["ok", "failed", "ok"]
    assert report.failed[0].finding == "Stopped: its work was cancelled"


async def test_findings_are_cut() -> None:
    async def work(item: Any) -> str:
        return "x" * 5000

    report = await fan_out(["a"], work, on_failure="fail", cap=80)
    assert len(report["a"].finding) == 80
    assert report.value("a") == "x" * 5000
