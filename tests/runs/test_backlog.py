from __future__ import annotations

import threading
import time

import pytest

from hmz_mp.core.ambient import TurnState
from hmz_mp.runs import backlog as module
from hmz_mp.runs.backlog import Backlog, Batch
from hmz_mp.runs.events import TurnSaid
from tests.waiting import until

from .support import turn

LONG_AGO = -1e9


class Writer:
    """A writer that waits for a batch, one at a time."""

    def __init__(self, backlog: Backlog, last: float) -> None:
        self.due: list[bool] = []
        self._thread = threading.Thread(target=lambda: self.due.append(backlog.await_batch(last)))
        self._thread.start()

    def end(self) -> bool:
        self._thread.join(30)
        assert not self._thread.is_alive()
        (due,) = self.due
        return due


@pytest.fixture
def backlog(monkeypatch: pytest.MonkeyPatch) -> Backlog:
    """A backlog of which nothing is due by the time that passes."""
    monkeypatch.setattr(module, "BATCH_SECONDS", 3600)
    monkeypatch.setattr(module, "ENDING_SECONDS", 3600)
    return Backlog()


def test_everything_is_counted_and_taken_together() -> None:
    backlog = Backlog()
    said = TurnSaid(0, 1.0, "log", "x")
    record = turn(0)
    assert backlog.put(record, alone=False) == 1
    backlog.say(said)
    backlog.note("INSERT", (1,))
    assert backlog.put(record, alone=False) == 4
    backlog.finish((1.0, "ok", 0, "{}"))
    assert backlog.await_batch(LONG_AGO)
    batch = backlog.take()
    end = (1.0, "ok", 0, "{}")
    assert batch == Batch([record], [said], [("INSERT", (1,))], end, 5)
    assert repr(backlog) == "<Backlog 0 of 5 written>"
    backlog.written(batch)
    assert backlog.flush()
    assert repr(backlog) == "<Backlog 5 of 5 written>"


def test_who_waits_waits_until_all_is_written(backlog: Backlog) -> None:
    backlog.say(TurnSaid(0, 1.0, "log", "x"))
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(backlog.flush()))
    writer = Writer(backlog, time.monotonic())
    waiting.start()
    assert writer.end()  # somebody waits, so it is due
    batch = backlog.take()
    assert answers == []
    backlog.written(batch)
    waiting.join(30)
    assert answers == [True]


@pytest.mark.parametrize("state", ["ok", "failed", "cancelled", "not_run"])
def test_the_end_of_a_turn_is_soon_due(
    monkeypatch: pytest.MonkeyPatch, backlog: Backlog, state: TurnState
) -> None:
    monkeypatch.setattr(module, "ENDING_SECONDS", 0)
    writer = Writer(backlog, time.monotonic())
    backlog.put(turn(0, state="running"), alone=False)
    backlog.put(turn(1, state=state), alone=False)
    assert writer.end()
    assert len(backlog.take().records) == 2


@pytest.mark.parametrize("why", ["alone", "many"])
def test_what_is_not_to_wait_does_not(
    monkeypatch: pytest.MonkeyPatch, backlog: Backlog, why: str
) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", 3)
    writer = Writer(backlog, time.monotonic())
    backlog.put(turn(0), alone=False)
    backlog.put(turn(1, state="ok"), alone=False)
    assert writer.due == []
    backlog.put(turn(1 if why == "alone" else 2), alone=why == "alone")
    assert writer.end()


@pytest.mark.parametrize("what", ["turn", "words", "row"])
def test_an_idle_writer_is_woken_by_anything(backlog: Backlog, what: str) -> None:
    writer = Writer(backlog, LONG_AGO * 2)
    if what == "turn":
        backlog.put(turn(0), alone=False)
    elif what == "words":
        backlog.say(TurnSaid(0, 1.0, "log", "x"))
    else:
        backlog.note("INSERT", ())
    assert writer.end()


@pytest.mark.parametrize("how", ["close", "lose"])
def test_in_the_end_nothing_more_is_taken(backlog: Backlog, how: str) -> None:
    writer = Writer(backlog, LONG_AGO)
    getattr(backlog, how)()
    assert not writer.end()
    assert not backlog.is_open
    assert backlog.put(turn(0), alone=True) == 0
    backlog.say(TurnSaid(0, 1.0, "log", "x"))
    backlog.note("INSERT", ())
    backlog.finish((1.0, "ok", 0, "{}"))
    assert backlog.flush() == (how == "close")


def test_what_is_lost_keeps_nobody_waiting(backlog: Backlog) -> None:
    backlog.put(turn(0), alone=False)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(backlog.flush()))
    waiting.start()
    until(lambda: backlog.await_batch(time.monotonic()))
    backlog.lose()
    waiting.join(30)
    assert answers == [False]
    assert backlog.take().records == []
