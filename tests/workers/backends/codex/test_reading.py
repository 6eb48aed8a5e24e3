from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hmz_mp_worker.backends.codex.reading import TurnReader, failure_of
from hmz_mp_worker.backends.protocol import Did, Event, Failed, Result, Spent, Text, Usage

NOTHING = {"inputTokens": 0, "outputTokens": 0, "cachedInputTokens": 0}


def reader(**settings: Any) -> TurnReader:
    turn = TurnReader("gpt-5", settings.pop("total", NOTHING), **settings)
    take(turn, "turn/started", turn={"id": "t"})
    return turn


def take(turn: TurnReader, method: str, /, **params: Any) -> list[Event]:
    return turn.take({"method": method, "params": params})


def item(turn: TurnReader, what: str, /, **fields: Any) -> list[Event]:
    return take(turn, f"item/{what}", turnId="t", item={"id": "i", **fields})


def end(turn: TurnReader, status: str = "completed", /, **fields: Any) -> Event:
    return take(turn, "turn/completed", turn={"id": "t", "status": status, **fields})[-1]


def failed(turn: TurnReader, *args: Any, **fields: Any) -> Failed:
    ended = end(turn, *args, **fields)
    assert isinstance(ended, Failed)
    return ended


def used(turn: TurnReader, total: int, last: int, of: str = "t") -> list[Event]:
    def counts(number: int) -> dict[str, int]:
        return {"inputTokens": number, "outputTokens": number // 10, "cachedInputTokens": 1}

    usage = {"total": counts(total), "last": counts(last)}
    return take(turn, "thread/tokenUsage/updated", turnId=of, tokenUsage=usage)


def test_a_turn() -> None:
    turn = reader()
    assert item(turn, "started", type="userMessage") == []
    assert item(turn, "started", type="commandExecution", command="ls\n -l") == [
        Did("command ls -l")
    ]
    assert turn.running == {"i"}
    assert item(turn, "completed", type="commandExecution", status="failed") == []
    assert not turn.running
    assert take(turn, "item/agentMessage/delta", turnId="t", delta="Do") == [Text("Do")]
    assert item(turn, "completed", type="agentMessage", text="Look:") == []
    assert item(turn, "completed", type="agentMessage", text="Done.") == []
    assert end(turn) == Result("Done.")
    assert turn.over


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "fileChange", "changes": [{"path": "a"}, {"path": "b"}, 3]}, "edit a, b"),
        ({"type": "fileChange"}, "edit"),
        ({"type": "mcpToolCall", "server": "s", "tool": "t"}, "s t"),
        ({"type": "webSearch", "query": "q"}, "search q"),
        ({"type": "commandExecution", "command": "x" * 500}, ("command " + "x" * 500)[:120]),
    ],
)
def test_what_it_does(fields: dict[str, Any], words: str) -> None:
    assert item(reader(), "started", **fields) == [Did(words)]


def test_what_is_of_another_turn_is_passed_over() -> None:
    turn = reader()
    assert take(turn, "item/agentMessage/delta", turnId="other", delta="x") == []
    assert take(turn, "turn/completed", turn={"id": "other", "status": "completed"}) == []
    take(turn, "error", turnId="other", error={"message": "x"}, willRetry=False)
    assert turn.failure is None


# Denials ---------------------------------------------------------------------------------------


def test_what_is_declined_is_a_failure() -> None:
    turn = reader()
    item(turn, "completed", type="fileChange", status="declined", changes=[{"path": "/etc/x"}])
    item(turn, "completed", type="agentMessage", text="All done.")
    ended = failed(turn)
    assert ended.kind == "denied"
    assert "edit /etc/x" in ended.reason
    assert ended.answer == "All done."


def test_asking_for_more_permissions_is_one_too() -> None:
    turn = reader()
    take(turn, "item/permissions/requestApproval", turnId="t")
    assert failed(turn).kind == "denied"


# Errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "kind"),
    [
        ("contextWindowExceeded", "too_long"),
        ("usageLimitExceeded", "limited"),
        ("serverOverloaded", "overloaded"),
        ("internalServerError", "overloaded"),
        ("unauthorized", "unauthorised"),
        ("badRequest", "refused"),
        ("cyberPolicy", "refused"),
        ("tooManyDenials", "denied"),
        ("something new", "refused"),
        (None, "refused"),
        ({"httpConnectionFailed": {"httpStatusCode": 429}}, "limited"),
        ({"responseStreamDisconnected": {"httpStatusCode": 401}}, "unauthorised"),
        ({"responseStreamDisconnected": {"httpStatusCode": None}}, "overloaded"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 503}}, "overloaded"),
        ({"odd": 3}, "overloaded"),
    ],
)
def test_what_an_error_is(info: Any, kind: str) -> None:
    error = {"message": "said", "codexErrorInfo": info}
    assert failure_of(error).kind == kind
    ended = failed(reader(), "failed", error=error)
    assert (ended.kind, ended.reason) == (kind, "said")


def test_details_are_what_was_said() -> None:
    assert (
        failure_of({"message": "Reconnecting... 1/5", "additionalDetails": "401"}).reason == "401"
    )
    assert failure_of(None).reason == "it gave no reason"


def test_a_try_after_a_refusal_is_not_waited_for() -> None:
    turn = reader()
    info = {"responseStreamDisconnected": {"httpStatusCode": 429}}
    error = {"message": "Reconnecting", "codexErrorInfo": info, "additionalDetails": "status 429"}
    take(turn, "error", turnId="t", error=error, willRetry=True)
    assert turn.failure is not None
    assert failed(turn, "interrupted") == turn.failure


def test_a_connection_that_was_lost_has_one_more_try() -> None:
    turn = reader()
    info = {"responseStreamDisconnected": {"httpStatusCode": None}}
    error = {"codexErrorInfo": info, "additionalDetails": "stream disconnected before completion"}
    take(turn, "error", turnId="t", error=error, willRetry=True)
    assert turn.failure is None
    take(turn, "error", turnId="t", error=error, willRetry=True)
    assert turn.failure is not None
    assert failed(turn, "interrupted").kind == "overloaded"


def test_a_turn_that_somebody_else_ended() -> None:
    ended = failed(reader(), "interrupted")
    assert (ended.kind, ended.reason) == ("refused", "the turn was interrupted")


# Usage -----------------------------------------------------------------------------------------


def test_usage_is_the_difference_to_what_was() -> None:
    turn = reader()
    assert used(turn, 100, 100) == [Spent((Usage("gpt-5", 100, 10, 1),))]
    assert used(turn, 100, 100) == []  # said twice
    later = reader(total=turn.total)
    assert used(later, 300, 200) == [Spent((Usage("gpt-5", 200, 20, 0),))]


def test_the_totals_of_a_thread_that_is_resumed_are_not_the_turns() -> None:
    turn = TurnReader("gpt-5", None)
    assert used(turn, 500, 100, of="before") == []
    take(turn, "turn/started", turn={"id": "t"})
    assert used(turn, 600, 100) == [Spent((Usage("gpt-5", 100, 10, 0),))]


def test_where_nothing_was_said_of_before_the_last_request_counts() -> None:
    turn = reader(total=None)
    assert used(turn, 600, 100) == [Spent((Usage("gpt-5", 100, 10, 1),))]


# Objectives ------------------------------------------------------------------------------------


def test_an_objective_takes_as_many_turns_as_it_needs() -> None:
    turn = TurnReader("gpt-5", NOTHING, pursue=True)
    take(turn, "turn/started", turn={"id": "one"})
    assert take(turn, "turn/completed", turn={"id": "one", "status": "completed"}) == []
    take(turn, "turn/started", turn={"id": "two"})
    take(turn, "thread/goal/updated", goal={"status": "complete"})
    take(turn, "item/completed", turnId="two", item={"type": "agentMessage", "text": "There."})
    assert take(turn, "turn/completed", turn={"id": "two", "status": "completed"}) == [
        Result("There.")
    ]


@pytest.mark.parametrize(
    ("status", "kind"),
    [("blocked", "refused"), ("paused", "refused"), ("budgetLimited", "limited"), ("x", "refused")],
)
def test_an_objective_that_is_not_reached(status: str, kind: str) -> None:
    turn = reader(pursue=True)
    take(turn, "thread/goal/updated", goal={"status": status})
    assert failed(turn).kind == kind


# Anything --------------------------------------------------------------------------------------

words = st.sampled_from(["", "a", "t", "failed", "agentMessage", "\N{SNOWMAN}"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
METHODS = [
    *("turn/started", "turn/completed", "item/started", "item/completed", "error"),
    *("item/agentMessage/delta", "thread/tokenUsage/updated", "thread/goal/updated", "other"),
]
FIELDS = ["turn", "turnId", "item", "error", "willRetry", "tokenUsage", "goal", "delta", "id"]


@given(
    st.sampled_from(METHODS),
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=5),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_value_of_a_field_is_too_strange(
    method: str, params: dict[str, Any], pursue: bool
) -> None:
    turn = reader(pursue=pursue)
    turn.take({"method": method, "params": params})
    turn.take({"method": method, "params": 3})
