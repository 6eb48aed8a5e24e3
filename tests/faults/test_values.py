"""A value that cannot be carried is the fault of its own turn, in either process."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hmz_mp import Pool
from hmz_mp.errors import RemoteTraceback, TurnFailed, Unpicklable, WorkerDied
from tests.faults.shipped import double, pid

pytestmark = pytest.mark.anyio


def _load_raising() -> None:
    raise ValueError("not today")


def _load_exiting() -> None:
    sys.exit(7)


def _load_killing() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _load_ending() -> None:
    os._exit(5)


def _load_interrupting() -> None:
    raise KeyboardInterrupt


class _Untold(BaseException):
    def __str__(self) -> str:
        raise ValueError("no words")


def _load_untold() -> None:
    raise _Untold


class Loads:
    """Does something where it is loaded."""

    def __init__(self, what: Callable[[], None]) -> None:
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return self.what, ()


class FailsToPickle:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        if self.error is None:
            os._exit(6)
        raise self.error


LOADS = [_load_raising, _load_exiting, _load_interrupting, _load_untold]
KILLS = [_load_killing, _load_ending]


def _names(value: Any) -> str:
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize("what", [*LOADS, *KILLS], ids=_names)
async def test_a_result_that_does_harm_when_it_is_loaded(what: Callable[[], None]) -> None:
    async with Pool(1) as pool:
        worker = await pool.run(pid)
        behind = [pool.submit(double, n) for n in range(4)]
        guilty = pool.submit(Loads, what)
        behind += [pool.submit(double, n) for n in range(4, 8)]
        with pytest.raises((Unpicklable, WorkerDied)) as caught:
            await guilty
        if what in LOADS:
            assert "result" in str(caught.value)
            assert await pool.run(pid) == worker
        assert await asyncio.gather(*behind) == [2 * n for n in range(8)]


@pytest.mark.parametrize("what", [*LOADS, *KILLS], ids=_names)
async def test_an_argument_that_does_harm_when_it_is_loaded(what: Callable[[], None]) -> None:
    async with Pool(1) as pool:
        worker = await pool.run(pid)
        guilty = pool.submit(str, Loads(what))
        behind = [pool.submit(double, n) for n in range(8)]
        with pytest.raises((Unpicklable, WorkerDied)) as caught:
            await guilty
        assert await asyncio.gather(*behind) == [2 * n for n in range(8)]
        if what in LOADS:
            assert "arguments of str" in str(caught.value)
            assert await pool.run(pid) == worker


async def test_a_result_nested_among_good_values_that_kills_when_it_is_loaded() -> None:
    def nest() -> Any:
        return [1, {"a": (2, Loads(_load_killing))}]

    async with Pool(1) as pool:
        for _ in range(3):  # a class that was loaded once is not trusted for its neighbours
            assert await pool.run(lambda: [complex(1, 2), {"a": range(3)}])
            with pytest.raises(WorkerDied):
                await pool.run(nest)


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), SystemExit(3), KeyboardInterrupt(), _Untold(), None],
    ids=lambda error: type(error).__name__,
)
async def test_a_result_whose_pickling_does_harm(error: BaseException | None) -> None:
    async with Pool(1) as pool:
        guilty = pool.submit(lambda: FailsToPickle(error))
        behind = [pool.submit(double, n) for n in range(8)]
        with pytest.raises((Unpicklable, WorkerDied)):
            await guilty
        assert await asyncio.gather(*behind) == [2 * n for n in range(8)]


@pytest.mark.parametrize(
    "error", [ValueError("x"), RecursionError(), _Untold()], ids=lambda one: type(one).__name__
)
async def test_an_argument_whose_pickling_raises(error: BaseException) -> None:
    async with Pool(1) as pool:
        with pytest.raises(Unpicklable, match="argument 1 of str"):
            await pool.run(str, FailsToPickle(error))
        assert await pool.run(double, 2) == 4


CANNOT_GO: dict[str, Callable[[], Any]] = {
    "lock": threading.Lock,
    "generator": lambda: (one for one in "abc"),
    "socket": lambda: socket.socket(),
    "frame": lambda: sys._getframe(),
}


@pytest.mark.parametrize("what", CANNOT_GO)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_what_cannot_be_pickled_is_named_on_both_ways(what: str) -> None:
    make = CANNOT_GO[what]
    async with Pool(1) as pool:
        with pytest.raises(Unpicklable, match="the result, of type"):
            await pool.run(lambda: make())
        with pytest.raises(Unpicklable, match=r"argument 1 of .*<lambda>"):
            await pool.run(lambda _: None, make())
        assert await pool.run(double, 2) == 4


# Values as they are.


def echo(value: Any) -> Any:
    return value


def _recursive() -> list[Any]:
    value: list[Any] = [1]
    value.append({"self": value})
    return value


async def test_odd_values_there_and_back() -> None:
    values: list[Any] = [
        "\udcff lone", "\x00", 2**100, -(2**64), (1, [2, (3,)]), {1, (2, 3)}, frozenset({4}),
        {(1, 2): {3: 4}}, range(5), b"\xff", bytearray(b"x"), 1e-320, math.inf, Ellipsis,
        NotImplemented, complex(1, -1), int, len, {"keys": [1, "1", b"1"]}, None, -0.0,
    ]  # fmt: skip
    async with Pool(1) as pool:
        for value in values:
            answer = await pool.run(echo, value)
            assert answer == value
            assert type(answer) is type(value)
        assert math.isnan(await pool.run(echo, math.nan))
        assert math.copysign(1, await pool.run(echo, -0.0)) == -1
        recursive = await pool.run(echo, _recursive())
        assert recursive[1]["self"] is recursive
        lambdas = await pool.run(lambda: [lambda x: x + 1])
        assert lambdas[0](1) == 2


def deep(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def depth_of(value: list[Any]) -> int:
    depth = 0
    while value:
        (value,) = value
        depth += 1
    return depth


async def test_values_a_hundred_thousand_deep() -> None:
    """They either go, or fail their turn with a reason; nothing overflows a stack."""
    async with Pool(1) as pool:
        for turn in (pool.submit(depth_of, deep(100_000)), pool.submit(deep, 100_000)):
            (ended,) = await asyncio.gather(turn, return_exceptions=True)
            if isinstance(ended, Unpicklable):
                assert "recursion" in str(ended)
            else:
                assert not isinstance(ended, BaseException), ended
                assert ended == 100_000 or depth_of(ended) == 100_000
            assert await pool.run(double, 2) == 4


async def test_chains_of_exceptions_a_thousand_deep() -> None:
    def chain(length: int) -> None:
        error: BaseException = ValueError("the first")
        for at in range(length):
            following = ValueError(at)
            following.__cause__ = error
            error = following
        raise error

    def nest(length: int) -> None:
        error: Exception = ValueError("the inner")
        for at in range(length):
            error = ExceptionGroup(str(at), [error])
        raise error

    async with Pool(1) as pool:
        with pytest.raises(ValueError, match="999"):
            await pool.run(chain, 1000)
        with pytest.raises((ExceptionGroup, TurnFailed)):
            await pool.run(nest, 100_000)
        assert await pool.run(double, 2) == 4


# Exceptions.


class TwoArguments(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class KeywordOnly(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class NoArguments(Exception):
    def __init__(self) -> None:
        super().__init__("made up")


class HoldsSocket(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.response = socket.socket()

    def __str__(self) -> str:
        return f"HTTP error: {self.args[0]}"


class Base(BaseException):
    pass


class ExitsWhenLoaded(Exception):
    def __init__(self, *args: Any) -> None:
        if args == ("again",):
            sys.exit(3)
        super().__init__("again")


class KillsWhenLoaded(Exception):
    def __reduce__(self) -> Any:
        return _load_killing, ()


def raise_(make: Callable[..., BaseException], *args: Any, **kwargs: Any) -> None:
    raise make(*args, **kwargs)


async def test_exceptions_whose_init_takes_other_arguments() -> None:
    async with Pool(1) as pool:
        with pytest.raises(TwoArguments) as two:
            await pool.run(raise_, TwoArguments, 4, "four")
        assert (two.value.code, two.value.args) == (4, ("four",))
        with pytest.raises(KeywordOnly) as keyword:
            await pool.run(raise_, KeywordOnly, code=5)
        assert keyword.value.code == 5
        with pytest.raises(NoArguments, match="made up"):
            await pool.run(raise_, NoArguments)
        with pytest.raises(Base):
            await pool.run(raise_, Base, 1)
        with pytest.raises(UnicodeDecodeError):
            await pool.run(b"\xff".decode)
        with pytest.raises(MemoryError):
            await pool.run(bytes, 1 << 60)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_exceptions_that_cannot_be_carried_arrive_as_text() -> None:
    async with Pool(1) as pool:
        worker = await pool.run(pid)
        with pytest.raises(TurnFailed) as caught:
            await pool.run(raise_, HoldsSocket, "gone")
        assert caught.value.type_name.endswith("HoldsSocket")
        assert caught.value.text == "HTTP error: gone"
        assert "raise make" in caught.value.traceback
        with pytest.raises((TurnFailed, ExitsWhenLoaded)):
            await pool.run(raise_, ExitsWhenLoaded)
        with pytest.raises(_Untold):
            await pool.run(raise_, _Untold)
        assert await pool.run(pid) == worker
        with pytest.raises(WorkerDied):
            await pool.run(raise_, KillsWhenLoaded)
        assert await pool.run(double, 2) == 4


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        StopIteration(4),
        StopAsyncIteration(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_would_end_the_caller_fails_the_turn_only(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    async with Pool(1) as pool:
        for turn in (pool.submit(raise_, lambda: error), pool.submit(fail)):
            ended = await asyncio.wait_for(asyncio.gather(turn, return_exceptions=True), 15)
            # An async function that raises StopIteration is made a RuntimeError by Python.
            assert isinstance(ended[0], (TurnFailed, RuntimeError))
        assert await pool.run(double, 2) == 4


async def test_groups_causes_notes_and_cycles() -> None:
    def group() -> None:
        error = ValueError("inner")
        error.add_note("a note")
        raise ExceptionGroup("outer", [error, TwoArguments(1, "one")])

    def cycle() -> None:
        first, second = ValueError("first"), ValueError("second")
        first.__cause__, second.__cause__ = second, first
        first.self = first  # type: ignore[attr-defined]  # an exception that holds itself
        raise first

    def caused() -> None:
        try:
            raise KeyError("below")
        except KeyError as error:
            raise ValueError("above") from error

    async with Pool(1) as pool:
        with pytest.raises(ExceptionGroup) as grouped:
            await pool.run(group)
        assert grouped.value.exceptions[0].__notes__ == ["a note"]
        assert isinstance(grouped.value.exceptions[1], TwoArguments)
        with pytest.raises(ValueError, match="first"):
            await pool.run(cycle)
        with pytest.raises(ValueError, match="above") as chained:
            await pool.run(caused)
        assert isinstance(chained.value.__cause__, RemoteTraceback)
        assert "KeyError: 'below'" in str(chained.value.__cause__)


@pytest.mark.parametrize(
    "make",
    [lambda: raise_(ValueError, "x"), lambda: os._exit(3), lambda: raise_(HoldsSocket, "x")],
    ids=["its own", "WorkerDied", "TurnFailed"],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_every_waiter_gets_an_exception_of_its_own(make: Callable[[], None]) -> None:
    async def wait_for(turn: Any) -> BaseException | None:
        try:
            await turn
        except Exception as error:
            return error
        return None

    async with Pool(1) as pool:
        turn = pool.submit(make)
        early = await asyncio.gather(*[wait_for(turn) for _ in range(3)])
        late = [await wait_for(turn) for _ in range(3)]
        found = [*early, *late]
        assert len({id(error) for error in found}) == 6
        assert len({type(error) for error in found}) == 1
        assert len({str(error) for error in found}) == 1
        depths = set()
        for error in found:
            assert error is not None
            assert type(error.__cause__) in (RemoteTraceback, type(None))
            depths.add(len(list(_frames(error))))
        assert max(depths) <= min(depths) + 1  # none grew by the raises of others


def _frames(error: BaseException) -> Any:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


async def test_unhashable_and_unequal_arguments_are_only_bytes_to_us() -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]  # the point

        def __eq__(self, other: object) -> bool:
            raise TypeError("never compare me")

    odd = Odd()
    async with Pool(1) as pool:
        assert type(await pool.run(echo, odd)).__name__ == "Odd"
        assert await pool.run(lambda value=odd: type(value).__name__) == "Odd"


async def test_a_lambda_whose_default_changes_is_shipped_anew() -> None:
    seen: list[int] = []
    async with Pool(1) as pool:
        for n in range(3):
            seen.append(n)
            assert await pool.run(lambda: list(seen)) == list(range(n + 1))
