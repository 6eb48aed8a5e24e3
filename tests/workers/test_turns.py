from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hmz_mp_worker import wire
from hmz_mp_worker.stdio import OUTPUT_CEILING
from tests.helpers import wait_until, written
from tests.workers.raw import RawWorker, RawZygote, error_of, value_of

# The turns share this module in the worker, where it is imported.
meeting: asyncio.Event | None = None
arrived = 0


async def meet(count: int) -> int:
    """Return once ``count`` turns are here at the same time."""
    global meeting, arrived
    if meeting is None:
        meeting = asyncio.Event()
    arrived += 1
    print("turn", arrived)
    if arrived == count:
        meeting.set()
    await asyncio.wait_for(meeting.wait(), 20)
    return os.getpid()


async def echo(value: Any) -> Any:
    return value


async def forever() -> None:
    await asyncio.Event().wait()


async def tidy_up() -> None:
    from hmz_mp_worker.reporting import say

    say("began", b"")
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        say("tidied", b"")
        print("tidied")


async def refuses_once() -> str:
    from hmz_mp_worker.reporting import say

    say("began", b"")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "finished all the same"
    return ""


async def goes_on(how: str) -> None:
    """Take no notice of being cancelled."""
    from hmz_mp_worker.reporting import say

    print("began")
    say("began", b"")
    while True:
        try:
            await asyncio.sleep(0 if how == "busily" else 60)
        except asyncio.CancelledError:
            continue
        except GeneratorExit:
            if how != "to the last":
                raise


async def heed_within(seconds: float) -> None:
    from hmz_mp_worker import turns

    turns._HEED = seconds


async def fail(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


async def prints(name: str, others: int) -> None:
    import sys

    for _ in range(3):
        print(name, end=" ")
        await asyncio.sleep(0)
    await asyncio.to_thread(print, f"{name} in a thread")
    sys.stderr.write(f"{name} on stderr\n")
    await meet(others)


async def print_much() -> None:
    print("first")
    print("x" * OUTPUT_CEILING)
    print("last")


async def remember(value: int) -> list[int]:
    from hmz_mp_worker.state import session_state

    values: list[int] = session_state().setdefault("values", [])
    await asyncio.sleep(0)
    values.append(value)
    return values


async def whose(tickets: int) -> int:
    from hmz_mp_worker.state import current_turn

    await meet(tickets)
    turn = current_turn()
    assert turn is not None
    return turn.ticket


def test_many_turns_at_once_in_one_process(host: RawWorker) -> None:
    host.calls([(meet, (200,), {})] * 200)
    answers = [host.answer() for _ in range(200)]
    assert {value_of(one) for one in answers} == {host.pid}
    assert sorted(one.output for one in answers) == sorted(
        b"turn %d\n" % number for number in range(1, 201)
    )


def test_answers_come_as_they_land(host: RawWorker) -> None:
    waits = host.call(forever)
    assert host.value(echo, "quick") == "quick"
    host.send(wire.Cancel(waits))
    assert host.answer().ticket == waits


def test_a_cancelled_turn_tidies_up(host: RawWorker) -> None:
    ticket = host.call(tidy_up)
    assert host.receive().kind == "began"
    host.send(wire.Cancel(ticket))
    assert host.receive().kind == "tidied"
    answer = host.answer()
    assert wire.decode_failure(answer.data).type_name == "asyncio.exceptions.CancelledError"
    assert answer.output == b"tidied\n"


def test_a_turn_that_answers_when_it_is_cancelled(host: RawWorker) -> None:
    ticket = host.call(refuses_once)
    assert host.receive().kind == "began"
    host.send(wire.Cancel(ticket))
    assert value_of(host.answer()) == "finished all the same"


def test_a_turn_cancelled_before_its_first_step(host: RawWorker) -> None:
    ticket = host.call(forever)
    host.send(wire.Cancel(ticket))
    assert wire.decode_failure(host.answer().data).type_name.endswith("CancelledError")


@pytest.mark.parametrize("how", ["busily", "asleep", "to the last"])
def test_a_turn_that_goes_on_though_it_is_cancelled_is_dropped(host: RawWorker, how: str) -> None:
    host.value(heed_within, 0.05)
    before = host.value(echo, 1)
    ticket = host.call(goes_on, how)
    assert host.receive().kind == "began"
    host.send(wire.Cancel(ticket))
    answer = host.answer()
    assert answer.ticket == ticket
    assert answer.output.startswith(b"began\n")
    assert wire.decode_failure(answer.data).type_name.endswith("CancelledError")
    assert host.value(echo, 1) == before


def test_a_cancel_that_comes_late_or_names_nothing(host: RawWorker) -> None:
    host.call(echo, 1)
    assert value_of(host.answer()) == 1
    host.send(wire.Cancel(1))
    host.send(wire.Cancel(99))
    assert host.value(echo, 2) == 2


@pytest.mark.parametrize(
    "error", [ValueError("v"), SystemExit(3), KeyboardInterrupt(), StopIteration(1)]
)
def test_whatever_is_raised_is_the_turns_ending(host: RawWorker, error: BaseException) -> None:
    host.call(fail, error)
    failure = wire.decode_failure(host.answer().data)
    assert not failure.unpicklable
    assert host.value(echo, "goes on") == "goes on"


def test_the_traceback_begins_in_the_users_code(host: RawWorker) -> None:
    host.call(fail, KeyError("k"))
    answer = host.answer()
    assert isinstance(error_of(answer), KeyError)
    assert "hmz_mp_worker" not in wire.decode_failure(answer.data).traceback


def test_what_is_printed_is_told_apart_by_turn(host: RawWorker) -> None:
    names = ["a", "b", "c"]
    host.calls([(prints, (name, 3), {}) for name in names])
    outputs = [host.answer().output.decode() for _ in names]
    said = {output.split()[0]: output for output in outputs}
    for name in names:
        text = f"{name} {name} {name} {name} in a thread\n{name} on stderr\nturn "
        assert said[name].startswith(text)


def test_only_the_end_of_much_output_is_kept(host: RawWorker) -> None:
    host.call(print_much)
    output = host.answer().output
    assert output.endswith(b"xx\nlast\n")
    assert len(output) <= OUTPUT_CEILING


def test_sessions(host: RawWorker) -> None:
    for session, value in ((1, 10), (2, 20), (1, 11)):
        host.call(remember, value, session=session)
        host.answer()
    host.call(remember, 12, session=1)
    assert value_of(host.answer()) == [10, 11, 12]
    host.send(wire.Forget([], [1]))
    host.call(remember, 13, session=1)
    assert value_of(host.answer()) == [13]


def test_each_task_knows_its_own_turn(host: RawWorker) -> None:
    tickets = host.calls([(whose, (3,), {})] * 3)
    answers = {one.ticket: value_of(one) for one in (host.answer() for _ in range(3))}
    assert answers == {ticket: ticket for ticket in tickets}


def test_retiring_waits_for_what_runs(zygote: RawZygote) -> None:
    host = zygote.ready(host=True)
    host.calls([(meet, (2,), {})] * 2)
    host.send(wire.Retire())
    assert {value_of(host.answer()) for _ in range(2)} == {host.pid}
    assert host.at_end()


def test_the_end_of_the_connection_cancels_what_runs(zygote: RawZygote) -> None:
    host = zygote.ready(host=True)
    host.call(forever)
    host.value(echo, "on")
    host.sock.close()
    message = zygote.receive()
    assert isinstance(message, wire.Exited)
    assert os.waitstatus_to_exitcode(message.status) == 0


def test_a_host_that_is_killed_is_reported(zygote: RawZygote) -> None:
    host = zygote.ready(host=True)
    host.call(forever)
    zygote.send(wire.Kill(host.number, 0, 5.0))
    message = zygote.receive()
    assert isinstance(message, wire.Exited)
    assert os.waitstatus_to_exitcode(message.status) == -signal.SIGTERM


# What turns are told, and what they hold --------------------------------------------------------


async def hears(count: int) -> list[bytes]:
    """Return what this turn is told, once it was told so often."""
    from hmz_mp_worker.reporting import listen, say

    told: list[bytes] = []
    enough = asyncio.Event()

    def take(data: bytes) -> None:
        told.append(data)
        if len(told) == count:
            enough.set()

    say("began", b"")
    await asyncio.sleep(0)
    listen(take)
    await enough.wait()
    return told


async def keep(path: str) -> None:
    """Leave something in the session that notes its closing in a file."""
    from pathlib import Path

    from hmz_mp_worker.state import Resource, session_state

    class Kept(Resource):
        async def close(self) -> None:
            await asyncio.sleep(0)
            Path(path).write_text("closed\n")

    session_state()["kept"] = Kept()
    session_state()["other"] = "not closed"


async def hold_something(path: str) -> None:
    from pathlib import Path

    from hmz_mp_worker import state

    class Held(state.Resource):
        async def close(self) -> None:
            state.release(self)
            Path(path).write_text("closed\n")

    state.hold(Held())


def test_a_turn_is_told_what_is_meant_for_it(host: RawWorker) -> None:
    one, two = host.call(hears, 2), host.call(hears, 1)
    assert host.receive() == wire.Said(one, "began", b"")
    assert host.receive() == wire.Said(two, "began", b"")
    host.send(wire.Tell(one, b"a"))
    host.send(wire.Tell(two, b"b"))
    host.send(wire.Tell(99, b"nobody"))
    assert value_of(host.answer()) == [b"b"]
    host.send(wire.Tell(two, b"too late"))
    host.send(wire.Tell(one, b"c"))
    assert value_of(host.answer()) == [b"a", b"c"]


def test_what_a_session_leaves_is_closed_when_it_is_over(host: RawWorker, tmp_path: Path) -> None:
    file = tmp_path / "closed"
    host.value(keep, str(file), session=5)
    assert not file.exists()
    host.send(wire.Forget([], [5, 6]))
    wait_until(lambda: written(file))


def test_what_a_worker_holds_is_closed_before_it_exits(zygote: RawZygote, tmp_path: Path) -> None:
    host = zygote.ready(host=True)
    host.value(hold_something, str(tmp_path / "closed"))
    host.send(wire.Retire())
    assert zygote.receive() == wire.Exited(host.number, 0)
    assert written(tmp_path / "closed") == "closed\n"
