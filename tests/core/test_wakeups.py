from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from hmz_mp.core.wakeups import Wakeups

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")


class Turn(asyncio.Future[Any]):
    """A future whose loop is a stand-in, as the pool's turns are."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop.loop  # type: ignore[attr-defined,no-any-return]  # the stand-in's


def turn(wakeups: Wakeups) -> Turn:
    return Turn(loop=wakeups)  # type: ignore[arg-type]  # all of a loop that a future asks for


def run(main: Any, *, debug: bool = False) -> Any:
    return asyncio.run(main(), debug=debug)


@pytest.mark.parametrize("debug", [False, True])
def test_callbacks_run_in_order_after_the_step_that_ended_their_turn(debug: bool) -> None:
    async def main() -> list[str]:
        wakeups = Wakeups(asyncio.get_running_loop())
        one, two = turn(wakeups), turn(wakeups)
        seen: list[str] = []
        one.add_done_callback(lambda _: seen.append("one"))
        one.add_done_callback(lambda _: seen.append("one again"))
        two.add_done_callback(lambda _: seen.append("two"))
        one.set_result(1)
        two.set_result(2)
        seen.append("the step")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return seen

    assert run(main, debug=debug) == ["the step", "one", "one again", "two"]


@pytest.mark.parametrize("debug", [False, True])
def test_turns_are_awaited_gathered_and_waited_for(debug: bool) -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        turns = [turn(Wakeups(loop)) for _ in range(4)]
        for at, one in enumerate(turns):
            loop.call_soon(one.set_result, at)
        gathered = await asyncio.gather(*turns[:2])
        done, _ = await asyncio.wait(turns[2:])
        alone = await asyncio.wait_for(turns[3], 5)
        return [*gathered, sorted(one.result() for one in done), alone]

    assert run(main, debug=debug) == [0, 1, [2, 3], 3]


def test_each_callback_has_its_context() -> None:
    async def main() -> list[str]:
        one = turn(Wakeups(asyncio.get_running_loop()))
        seen: list[str] = []
        variable.set("inside")
        one.add_done_callback(lambda _: seen.append(variable.get()))
        variable.set("later")
        one.add_done_callback(lambda _: seen.append(variable.get()))
        one.set_result(None)
        await one
        return seen

    assert run(main) == ["inside", "later"]


def test_what_a_callback_ends_is_told_in_the_next_step() -> None:
    async def main() -> list[str]:
        wakeups = Wakeups(asyncio.get_running_loop())
        first, second = turn(wakeups), turn(wakeups)
        seen: list[str] = []
        first.add_done_callback(second.set_result)
        first.add_done_callback(lambda _: seen.append("first"))
        second.add_done_callback(lambda _: seen.append("second"))
        first.set_result(None)
        await second
        return seen

    assert run(main) == ["first", "second"]


def test_a_callback_that_raises_is_reported_and_harms_no_other() -> None:
    async def main() -> tuple[list[Any], list[str]]:
        loop = asyncio.get_running_loop()
        reported: list[Any] = []
        loop.set_exception_handler(lambda _, told: reported.append(told["exception"]))
        one = turn(Wakeups(loop))
        seen: list[str] = []
        one.add_done_callback(lambda _: 1 / 0)
        one.add_done_callback(lambda _: seen.append("after"))
        one.set_result(None)
        await one
        return reported, seen

    (error,), seen = run(main)
    assert isinstance(error, ZeroDivisionError)
    assert seen == ["after"]


def test_an_exit_goes_through_and_the_others_still_run() -> None:
    loop = asyncio.new_event_loop()
    try:
        one = turn(Wakeups(loop))
        seen: list[str] = []

        def leave(_: object) -> None:
            raise SystemExit(3)

        one.add_done_callback(leave)
        one.add_done_callback(lambda _: seen.append("after"))
        one.set_result(None)
        with pytest.raises(SystemExit):
            loop.run_forever()
        loop.run_until_complete(asyncio.sleep(0))
        assert seen == ["after"]
    finally:
        loop.close()


def test_a_failure_that_nobody_asked_for_is_reported_by_the_loop() -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        reported: list[Any] = []
        loop.set_exception_handler(lambda _, told: reported.append(told["message"]))
        one = turn(Wakeups(loop))
        one.set_exception(ValueError("nobody asks"))
        del one
        return reported

    assert run(main) == ["Turn exception was never retrieved"]
