from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from hmz_mp import Pool
from hmz_mp.core.turns import AsyncioTurn, Progress, Said, Shipped, TrioTurn
from hmz_mp.errors import RemoteTraceback, WorkerDied
from tests.core import functions
from tests.helpers import await_until, is_alive, written

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
on_trio = pytest.mark.parametrize("anyio_backend", ["trio"])
pytestmark = pytest.mark.anyio


async def started(path: Path) -> int:
    """Wait until a call has noted its pid."""
    await await_until(lambda: written(path))
    return int(written(path).split()[0])


@on_asyncio
async def test_a_turn_is_a_future_to_asyncio(tmp_path: Path) -> None:
    async with Pool(2) as pool:
        turns = [pool.submit(functions.identity, at) for at in range(20)]
        assert isinstance(turns[0], asyncio.Future)
        assert await asyncio.gather(*turns) == list(range(20))
        late = pool.submit(functions.wait_for, str(tmp_path / "go"), "late")
        early = pool.submit(functions.identity, "early")
        done, pending = await asyncio.wait(
            [late, early],  # type: ignore[type-var]  # they are futures
            return_when=asyncio.FIRST_COMPLETED,
        )
        assert (done, pending) == ({early}, {late})
        (tmp_path / "go").touch()
        found = {await one for one in asyncio.as_completed([late, early])}
        assert found == {"late", "early"}
        assert await asyncio.wait_for(pool.submit(len, "abc"), 20) == 3
        assert await asyncio.shield(pool.submit(len, "ab")) == 2


@on_asyncio
async def test_gather_with_a_failure() -> None:
    async with Pool(1) as pool:
        good, bad = pool.submit(len, "abc"), pool.submit(len, 5)
        found = await asyncio.gather(good, bad, return_exceptions=True)
        assert found[0] == 3
        assert isinstance(found[1], TypeError)


@on_asyncio
async def test_wait_for_that_runs_out_stops_the_call(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        turn = pool.submit(functions.note_and_hang, str(tmp_path / "pid"))
        pid = await started(tmp_path / "pid")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(turn, 0.01)
        assert turn.cancelled()
        await await_until(lambda: not is_alive(pid))


async def test_the_life_of_a_turn(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        turn = pool.options(item_id="item 1").submit(
            functions.wait_for, str(tmp_path / "go"), "answer"
        )
        assert repr(turn) == "<Turn 1 queued item_id='item 1'>"
        assert (turn.id, turn.item_id, turn.account) == (1, "item 1", None)
        await await_until(turn.running)
        assert repr(turn) == "<Turn 1 running item_id='item 1'>"
        with pytest.raises(asyncio.InvalidStateError):
            turn.result()
        with pytest.raises(asyncio.InvalidStateError):
            turn.exception()
        assert not turn.done()
        (tmp_path / "go").touch()
        assert await turn == await turn == turn.result() == "answer"
        assert turn.exception() is None
        assert (turn.done(), turn.cancelled(), turn.running()) == (True, False, False)
        assert repr(turn) == "<Turn 1 done item_id='item 1'>"
        assert not turn.cancel()


async def test_the_account_of_a_turn() -> None:
    async with Pool(1) as pool:
        turn = pool.submit(functions.speak, "five")
        pid = await turn
        assert turn.account is not None
        assert (turn.account.worker, turn.account.attempts) == (pid, 1)
        assert turn.account.output == "five\n"
        assert 0 <= turn.account.seconds < 20
        failed = pool.submit(functions.fail, ValueError("v"))
        with pytest.raises(ValueError, match="v"):
            await failed
        assert failed.account is not None
        assert failed.account.worker == pid
        died = pool.submit(functions.die)
        with pytest.raises(WorkerDied):
            await died
        assert died.account is not None
        assert (died.account.worker, died.account.output) == (pid, "last words\n")


async def test_a_failed_turn() -> None:
    async with Pool(1) as pool:
        turn = pool.submit(functions.fail, KeyError("k"))
        for _ in range(3):
            with pytest.raises(KeyError) as caught:
                await turn
        entries = len(caught.traceback)
        with pytest.raises(KeyError) as caught:
            await turn
        assert len(caught.traceback) == entries, "each raise made the traceback longer"
        assert isinstance(caught.value.__cause__, RemoteTraceback)
        assert "in fail" in str(caught.value.__cause__)
        assert isinstance(turn.exception(), KeyError)
        assert repr(turn) == "<Turn 1 failed>"


@pytest.mark.parametrize("hanging", [functions.note_and_hang, functions.note_and_hang_async])
async def test_cancel_of_a_running_call(tmp_path: Path, hanging: Any) -> None:
    async with Pool(1) as pool:
        turn = pool.submit(hanging, str(tmp_path / "pid"))
        pid = await started(tmp_path / "pid")
        assert turn.cancel()
        assert (turn.cancelled(), turn.done()) == (True, True)
        assert repr(turn) == "<Turn 1 cancelled>"
        assert not turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            turn.result()
        if hanging is functions.note_and_hang:
            await await_until(lambda: not is_alive(pid))
        else:
            await await_until(lambda: written(tmp_path / "pid").endswith("cancelled\n"))
            assert is_alive(pid)
        assert await pool.run(len, "goes on") == 7
        assert pool.statistics().cancelled == 1


async def test_cancel_between_a_failure_and_its_telling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the policy has decided holds: the turn fails, and nobody else waits for ever."""
    async with Pool(2) as pool:
        turn: Any = pool.submit(functions.note_and_hang, str(tmp_path / "pid"))
        other = pool.submit(functions.wait_for, str(tmp_path / "go"))
        pid = await started(tmp_path / "pid")
        policy = pool._entered().policy
        died, said = policy.died, []

        def die_and_cancel(*args: Any) -> None:
            died(*args)
            said.append(turn.cancel())

        monkeypatch.setattr(policy, "died", die_and_cancel)
        os.kill(pid, signal.SIGKILL)
        with anyio.fail_after(15):
            await await_until(turn.done)
            (tmp_path / "go").touch()
            await other
        assert said == [False]
        assert isinstance(turn.exception(), WorkerDied)


async def test_cancel_of_what_is_queued(tmp_path: Path) -> None:
    async with Pool(1, at_once=1) as pool:
        first = pool.submit(functions.wait_for, str(tmp_path / "go"))
        queued = pool.submit(functions.note, str(tmp_path / "ran"))
        await await_until(first.running)
        assert queued.cancel()
        (tmp_path / "go").touch()
        await first
        assert await pool.run(len, "ab") == 2
        assert not (tmp_path / "ran").exists()
        assert queued.account is None


async def test_awaiting_in_a_cancelled_scope_cancels_the_turn(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        turn = pool.submit(functions.note_and_hang, str(tmp_path / "pid"))
        pid = await started(tmp_path / "pid")
        with anyio.move_on_after(0.01) as scope:
            await turn
        assert scope.cancelled_caught
        assert turn.cancelled()
        await await_until(lambda: not is_alive(pid))


async def test_callbacks() -> None:
    async with Pool(1) as pool:
        called: list[Any] = []
        turn = pool.submit(len, "abc")
        turn.add_done_callback(called.append)
        await turn
        await await_until(lambda: called)
        turn.add_done_callback(called.append)
        await await_until(lambda: len(called) == 2)
        assert called == [turn, turn]
        cancelled = pool.submit(len, "abc")
        cancelled.add_done_callback(called.append)
        cancelled.cancel()
        await await_until(lambda: called[2:] == [cancelled])


@on_trio
async def test_a_callback_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with Pool(1) as pool:
        called: list[Any] = []
        turn = pool.submit(len, "abc")
        turn.add_done_callback(lambda _: 1 / 0)
        turn.add_done_callback(called.append)
        assert await turn == 3
        assert called == [turn]
        assert await pool.run(len, "ab") == 2
    assert "ZeroDivisionError" in caplog.text


async def test_events_of_a_turn() -> None:
    async with Pool(1) as pool:
        heard: list[Any] = []
        caller = pool.options(on_event=lambda turn, event: heard.append((turn, event)))
        turn = caller.submit(functions.speak, "five")
        pid = await turn
        assert [one for one, _ in heard] == [turn] * 4
        shipped, logged, progress, said = [event for _, event in heard]
        assert shipped == Shipped(pid)
        assert (logged.level, logged.logger, logged.text) == (
            logging.WARNING,
            "worker.side",
            "logged five",
        )
        assert progress == Progress(0.5, "five")
        assert said == Said("kind", b"five")


async def test_a_listener_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def bad(turn: Any, event: Any) -> None:
        raise ZeroDivisionError

    async with Pool(1) as pool:
        turns = [pool.options(on_event=bad).submit(functions.speak, "x") for _ in range(5)]
        with anyio.fail_after(20):
            for turn in turns:
                await turn
    assert "ZeroDivisionError" in caplog.text


@on_asyncio
async def test_which_class_under_asyncio() -> None:
    async with Pool(1) as pool:
        assert isinstance(pool.submit(len, ""), AsyncioTurn)


@on_trio
async def test_which_class_under_trio() -> None:
    async with Pool(1) as pool:
        assert isinstance(pool.submit(len, ""), TrioTurn)


@on_asyncio
async def test_ended_turns_are_not_kept() -> None:
    async with Pool(1) as pool:
        for at in range(50):
            await pool.submit(functions.identity, at)
        gc.collect()
        kept = [one for one in gc.get_objects() if isinstance(one, AsyncioTurn)]
        assert len(kept) <= 2


async def hears_one() -> bytes:
    import asyncio

    from hmz_mp_worker.reporting import listen, say

    told: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    listen(told.set_result)
    say("listening", b"")
    return await told


@pytest.mark.anyio
async def test_telling_a_running_turn_something() -> None:
    listening = anyio.Event()

    def hear(_: object, event: object) -> None:
        if isinstance(event, Said):
            listening.set()

    async with Pool(1) as pool:
        queued = pool.submit(hears_one)
        assert not queued.tell(b"too early")
        queued.cancel()
        turn = pool.options(on_event=hear).submit(hears_one)
        await listening.wait()
        assert turn.tell(b"something")
        assert await turn == b"something"
        assert not turn.tell(b"too late")
        call = pool.submit(len, "abc")
        assert await call == 3
        assert not call.tell(b"a plain call")
