from __future__ import annotations

import contextvars

import pytest

from hmz_mp_worker import reporting, state
from hmz_mp_worker.state import RunningTurn, current_turn, session_state


class Heard:
    def __init__(self) -> None:
        self.said: list[tuple[int, str, bytes]] = []

    def say(self, ticket: int, kind: str, data: bytes) -> None:
        self.said.append((ticket, kind, data))


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_outside_a_turn() -> None:
    assert current_turn() is None
    with pytest.raises(RuntimeError, match="runs in a worker"):
        session_state()


def test_outside_a_session(monkeypatch: pytest.MonkeyPatch, heard: Heard) -> None:
    monkeypatch.setattr(state.process, "turn", RunningTurn(1, 0, {}, heard))
    with pytest.raises(RuntimeError, match=r"pool\.session\(\)"):
        session_state()


def test_the_state_is_the_sessions(monkeypatch: pytest.MonkeyPatch, heard: Heard) -> None:
    sessions: dict[int, dict[str, object]] = {}
    for ticket, session in ((1, 5), (2, 6), (3, 5)):
        monkeypatch.setattr(state.process, "turn", RunningTurn(ticket, session, sessions, heard))
        session_state().setdefault("tickets", []).append(ticket)
    assert sessions == {5: {"tickets": [1, 3]}, 6: {"tickets": [2]}}


def test_a_tasks_turn_comes_before_the_processs(
    monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    monkeypatch.setattr(state.process, "turn", RunningTurn(1, 0, {}, heard))
    mine = RunningTurn(2, 0, {}, heard)

    def in_a_task() -> None:
        state.task_turn.set(mine)
        assert current_turn() is mine

    contextvars.copy_context().run(in_a_task)
    turn = current_turn()
    assert turn is not None
    assert turn.ticket == 1


def test_what_is_said_names_the_turn(monkeypatch: pytest.MonkeyPatch, heard: Heard) -> None:
    monkeypatch.setattr(state.process, "turn", RunningTurn(9, 0, {}, heard))
    reporting.say("kind", b"data")
    assert heard.said == [(9, "kind", b"data")]
