from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, cast

import pytest

from hmz_mp.core.ambient import Item, TurnRecord
from hmz_mp.core.turns import Progress, PutBack, Said
from hmz_mp.errors import BadInput, BudgetExceeded, Stopped
from hmz_mp.runs.costs import Budget, Costs, ModelUsage
from hmz_mp.runs.run import Run
from hmz_mp.runs.tally import Failure
from hmz_mp_worker.backends.protocol import Did, Usage
from tests.runs.fakes import NO_POOL, ListLedger, Watched, record_of

if TYPE_CHECKING:
    from hmz_mp.runs.replay import Replay


def test_what_a_flow_sees() -> None:
    watched = Watched(["a", "b"])
    assert (watched.run.id, watched.run.task) == ("r1", "task")
    assert watched.run.observer is watched.run
    assert watched.run.pool is NO_POOL
    assert watched.run.items() == [Item("a"), Item("b")]
    assert watched.ledger.noted == [("UPDATE runs SET items = ?", 2)]
    assert repr(watched.run) == "<Run r1: 0 open, 0 ok, 0 failed, 0 cancelled, 0 not_run>"


def test_items_are_selected_once_and_only_when_asked_for() -> None:
    calls: list[str] = []

    def select() -> list[Item]:
        calls.append("select")
        return [Item("a")]

    run = Run(pool=NO_POOL, ledger=ListLedger(), task="", select=select)
    assert not calls
    assert run.items() is run.items()
    assert len(calls) == 1
    run.submitted(record_of("a"))
    run.items()
    assert run.tally.total == 1


def test_no_items_is_bad_input_at_the_flow() -> None:
    def nothing() -> list[Item]:
        raise BadInput("no items")

    run = Run(pool=NO_POOL, ledger=ListLedger(), task="", select=nothing)
    with pytest.raises(BadInput):
        run.items()
    run.finish()
    assert run.tally.total == 0


def test_records_are_numbered_as_submitted_and_written_at_each_step() -> None:
    watched = Watched()
    a, b = watched.submit("a", "b")
    watched.begin(b)
    watched.end(b)
    watched.begin(a)
    watched.end(a, "failed")
    assert (a.number, b.number) == (0, 1)
    assert watched.ledger.rows == [
        (0, "a", "queued"),
        (1, "b", "queued"),
        (1, "b", "running"),
        (1, "b", "ok"),
        (0, "a", "running"),
        (0, "a", "failed"),
    ]


def test_endings_are_told_in_item_order() -> None:
    watched = Watched()
    a, b, c = watched.submit("a", "b", "c")
    watched.end(c)
    watched.end(b, "failed")
    assert watched.told == []
    watched.end(a)
    assert watched.told == [("a", "ok"), ("b", "failed"), ("c", "ok")]


def test_records_that_were_told_are_not_kept() -> None:
    watched = Watched()
    (record,) = watched.submit("a")
    watched.begin(record)
    watched.end(record, seconds=1.0)
    assert not [one for one in gc.get_referrers(record) if isinstance(one, dict | list)]


def test_counts() -> None:
    watched = Watched(["a", "b", "c", "d", "e"])
    watched.run.items()
    tally = watched.run.tally
    a, b, c = watched.submit("a", "b", "c")
    assert (tally.total, tally.submitted, tally.unsubmitted, tally.queued) == (5, 3, 2, 3)
    watched.begin(a, b)
    watched.begin(a)  # a second attempt
    assert (len(tally.running), tally.queued) == (2, 1)
    watched.end(a)
    watched.begin(c)
    watched.end(b, "failed", error="it broke")
    watched.end(c, "cancelled")
    assert tally.counts() == {"ok": 1, "failed": 1, "cancelled": 1, "not_run": 0}
    assert (tally.ended, tally.running) == (3, {})


def test_progress_is_kept_while_a_turn_runs() -> None:
    watched = Watched()
    a, b = watched.submit("a", "b")
    watched.begin(a)
    for record in (a, b):
        watched.run.said(record, Progress(0.1, "first"))
        watched.run.said(record, Progress(0.5, "half"))
        watched.run.said(record, Said("text", b"more"))
    assert watched.run.tally.progress == {a.number: Progress(0.5, "half")}
    watched.end(a)
    assert watched.run.tally.progress == {}


def test_a_flow_may_have_more_turns_than_items() -> None:
    watched = Watched(["a"])
    watched.run.items()
    watched.submit("a", "a", "other")
    assert watched.run.tally.total == 3


def test_the_slowest_and_the_first_failures() -> None:
    watched = Watched()
    records = watched.submit(*(f"i{number}" for number in range(30)))
    for record in reversed(records):
        watched.end(record, "failed", seconds=float(record.number % 10), error=f"e{record.number}")
    tally = watched.run.tally
    assert [(slow.seconds, slow.item_id) for slow in tally.slowest] == [
        (9.0, "i9"),
        (9.0, "i29"),
        (9.0, "i19"),
        (8.0, "i8"),
        (8.0, "i28"),
    ]
    assert [failure.item_id for failure in tally.failures] == [f"i{n}" for n in range(20)]
    assert tally.failures[3].reason == "e3"


def test_a_failure_without_words_has_a_reason() -> None:
    watched = Watched()
    a, b = watched.submit("a", "b")
    watched.end(a, "failed", error_type="LookupError")
    watched.end(b, "failed")
    assert [failure.reason for failure in watched.run.tally.failures] == [
        "LookupError",
        "it gave no reason",
    ]


def test_halted_nothing_new_begins() -> None:
    watched = Watched()
    _, running = watched.submit("queued", "running")
    watched.begin(running)
    watched.run.halt("enough", end_running=False)
    assert watched.ledger.final() == {"queued": "not_run", "running": "running"}
    late = record_of("late")
    with pytest.raises(Stopped, match="enough"):
        watched.run.submitted(late)
    assert (late.state, late.error, late.ended_at) == ("not_run", "enough", 7.0)
    watched.end(running)
    assert watched.told == [("queued", "not_run"), ("running", "ok"), ("late", "not_run")]
    assert watched.run.tally.counts() == {"ok": 1, "failed": 0, "cancelled": 0, "not_run": 2}


def test_halted_with_what_runs() -> None:
    watched = Watched()
    _, running, ended = watched.submit("queued", "running", "ended")
    watched.begin(running, ended)
    watched.end(ended)
    watched.run.halt("interrupted", end_running=True)
    assert watched.ledger.final() == {"queued": "not_run", "running": "cancelled", "ended": "ok"}


def test_the_first_reason_to_halt_stays() -> None:
    watched = Watched()
    watched.run.halt("first", end_running=False)
    (running,) = [record_of("a")]
    with pytest.raises(Stopped):
        watched.run.submitted(running)
    watched.run.halt("second", end_running=True)
    assert watched.run.halted == "first"


def test_after_the_most_failures_that_are_allowed() -> None:
    watched = Watched(["a", "b", "c", "d", "e"], max_failures=2)
    watched.run.items()
    a, b, c, _ = watched.submit("a", "b", "c", "d")
    watched.begin(a, b, c)
    watched.end(a, "failed")
    assert watched.run.halted is None
    watched.end(b, "failed")
    assert watched.run.halted == "2 failed, the most that was allowed"
    watched.end(c)
    watched.run.finish()
    assert watched.told == [
        ("a", "failed"),
        ("b", "failed"),
        ("c", "ok"),
        ("d", "not_run"),
        ("e", "not_run"),
    ]


def test_failures_do_not_halt_by_themselves() -> None:
    watched = Watched()
    for record in watched.submit("a", "b"):
        watched.end(record, "failed")
    assert watched.run.halted is None


def test_finishing_accounts_for_items_that_were_never_submitted() -> None:
    watched = Watched(["a", "b", "c"])
    watched.run.items()
    (b,) = watched.submit("b")
    watched.end(b)
    watched.run.finish()
    watched.run.finish()
    assert watched.told == [("b", "ok"), ("a", "not_run"), ("c", "not_run")]
    assert watched.ledger.rows[-1] == (2, "c", "not_run")
    assert watched.run.tally.counts() == {"ok": 1, "failed": 0, "cancelled": 0, "not_run": 2}
    assert watched.run.tally.total == watched.run.tally.ended == 3


def test_finishing_accounts_for_turns_that_nobody_ended() -> None:
    watched = Watched()
    queued, running = watched.submit("queued", "running")
    watched.begin(running)
    watched.run.finish()
    assert watched.told == [("queued", "not_run"), ("running", "cancelled")]
    assert queued.error == running.error == "stopped as the run ended"
    watched.end(running)  # its agent, late
    assert watched.run.tally.ended == 2


def test_once_the_budget_is_spent_nothing_new_begins_and_what_runs_goes_on() -> None:
    watched = Watched(budget=Budget(max_cost=1.0))
    a, b, queued = watched.submit("a", "b", "queued")
    stopped: list[Stopped] = []

    def cancel(error: Stopped) -> None:
        stopped.append(error)
        watched.end(queued, "not_run")

    queued.cancel = cancel
    watched.begin(a, b)
    watched.spend(a, Usage("opus", 10, 1, 0, 0.75))
    assert (watched.run.halted, watched.run.overrun) == (None, None)
    watched.spend(a, Usage("opus", 10, 1, 0, 0.25))
    reason = "$1.00 is spent, the most that was allowed"
    assert (watched.run.halted, watched.run.overrun) == (reason, 2)
    assert [type(one) for one in stopped] == [BudgetExceeded]
    late = record_of("late")
    with pytest.raises(BudgetExceeded, match=r"\$1\.00 is spent"):
        watched.run.submitted(late)
    assert watched.run.excess() is None
    watched.spend(b, Usage("haiku", 10, 1, 0, 0.5))
    watched.end(a)
    watched.end(b)
    assert watched.ledger.final() == {"a": "ok", "b": "ok", "queued": "not_run", "late": "not_run"}
    assert watched.run.excess() == (
        "$0.50 more than was allowed, by the 2 turns that ran when that was reached"
    )
    assert watched.run.tally.costs.cost_usd == 1.5


def test_a_run_that_was_halted_before_keeps_its_reason() -> None:
    watched = Watched(budget=Budget(max_tokens=10))
    (record,) = watched.submit("a")
    watched.begin(record)
    watched.run.halt("interrupted", end_running=False)
    watched.spend(record, Usage("opus", 11))
    assert (watched.run.halted, watched.run.overrun) == ("interrupted", 1)
    with pytest.raises(Stopped, match="interrupted") as caught:
        watched.submit("b")
    assert type(caught.value) is Stopped
    assert watched.run.excess() == (
        "1 token more than was allowed, by the turn that ran when that was reached"
    )


def test_what_turns_use_is_counted_without_a_budget() -> None:
    watched = Watched()
    a, b = watched.submit("a", "b")
    watched.begin(a, b)
    for record in (a, b, a):
        watched.spend(record, Usage("opus", 10**9, 7, 0, 1000.0))
    assert watched.run.tally.costs.models == [ModelUsage("opus", 3 * 10**9, 21, 0, 3000.0)]
    assert (watched.run.halted, watched.run.excess()) == (None, None)


def test_a_turn_that_is_put_back_neither_runs_nor_failed() -> None:
    watched = Watched()
    a, b = watched.submit("a", "b")
    watched.begin(a, b)
    a.state = "waiting"
    watched.run.said(a, PutBack(3.0))
    tally = watched.run.tally
    assert (set(tally.running), tally.waiting, tally.queued, tally.failed) == ({1}, {0}, 0, 0)
    assert watched.ledger.rows[-1] == (0, "a", "waiting")
    watched.begin(a)
    assert (set(tally.running), tally.waiting) == ({0, 1}, set())
    a.state = "waiting"
    watched.run.said(a, PutBack(3.0))
    watched.run.halt("enough", end_running=False)  # it is not run, as those that are queued
    assert watched.ledger.final() == {"a": "not_run", "b": "running"}
    assert (tally.waiting, tally.queued) == (set(), 0)


def test_a_service_that_lets_nobody_in_halts_the_run() -> None:
    watched = Watched()
    a, b, queued = watched.submit("a", "b", "queued")
    watched.begin(a, b)
    a.failure = b.failure = "unauthorised"
    watched.end(a, "failed", error="unauthorised: bad key")
    assert watched.run.halted == "unauthorised: bad key"
    assert queued.state == "not_run"
    watched.end(b, "failed", error="unauthorised: bad key")
    assert watched.run.tally.failed == 2
    assert watched.run.tally.failures == [Failure("a", "unauthorised: bad key")]  # said once


def test_answers_that_are_to_be_reviewed_are_counted_and_told() -> None:
    watched = Watched()
    records = watched.submit("a", "b")
    for record in records:
        record.failure, record.error = "needs_review", f"look at {record.item_id}"
        watched.end(record)
    tally = watched.run.tally
    assert (tally.ok, tally.to_review, tally.failures) == (2, 2, [])
    assert tally.reviews == [Failure("a", "look at a"), Failure("b", "look at b")]


# What is written down, and what was before


class SlowLedger(ListLedger):
    """Says of each put which it was; what is written is for the test to say."""

    def put(self, record: TurnRecord, *, alone: bool = False) -> int:
        super().put(record)
        self.alone = alone
        return len(self.rows)


def run_on(ledger: ListLedger, told: list[TurnRecord], **settings: Any) -> Run:
    return Run(
        pool=NO_POOL,
        ledger=ledger,
        task="",
        select=lambda: [Item("a"), Item("b")],
        on_record=told.append,
        now=lambda: 7.0,
        **settings,
    )


def test_nobody_has_an_answer_before_it_is_written_down() -> None:
    ledger, told, had = SlowLedger(), list[TurnRecord](), list[str]()
    run = run_on(ledger, told)
    a, b = record_of("a"), record_of("b")
    for record in (a, b):
        run.submitted(record)
        run.began(record)
    a.state = b.state = "ok"
    run.ended(b, lambda: had.append("b"))
    assert not ledger.alone
    run.ended(a, lambda: had.append("a"))
    assert ledger.alone
    assert (told, had, run.tally.ok) == ([], [], 2)
    run.written(4)
    assert (told, had) == ([], [])
    run.written(5)
    assert (told, had) == ([], ["b"])  # it may be had, and is told of in its place
    run.written(9)
    assert (told, had) == ([a, b], ["b", "a"])


def test_what_turns_say_and_who_they_are_is_written_down() -> None:
    watched = Watched()
    (record,) = watched.submit("a")
    record.attempts = 1
    watched.begin(record)
    watched.run.said(record, Did("Edit a"))
    watched.run.said(record, PutBack(2.0))
    record.attempts, record.worker = 2, 42
    watched.begin(record)
    session = record_of("b", kept_as="talk", cwd="/x")
    watched.run.submitted(session)
    watched.run.submitted(record_of("c", kept_as="talk"))
    assert watched.ledger.said == [
        (0, "tool", "Edit a"),
        (0, "waiting", "2.000"),
        (0, "attempt", "42"),
    ]
    assert [values for _, *values in watched.ledger.noted] == [
        ["agent", "tool/x:y"],
        ["s", "agent", "talk", "/x", 7.0],
    ]


class Before:
    """What earlier executions have left: an answer about "a", and a row about "b"."""

    next_number = 7

    def __init__(self) -> None:
        self.changed: set[int] = set()
        self.costs = Costs()
        self.costs.add([ModelUsage("m", 5, 5, 0, 1.0)])
        self.answer = record_of("a", number=3, state="ok", answer="before", seconds=2.0)

    def recall(self, record: TurnRecord) -> TurnRecord | None:
        if record.item_id == "a":
            return self.answer
        if record.item_id == "b":
            record.number = 4
        return None

    def has_row(self, item_id: str) -> bool:
        return item_id == "b"

    def replaced(self) -> list[int]:
        return [2]


def with_before(before: Before, **settings: Any) -> tuple[Run, ListLedger, list[TurnRecord]]:
    ledger, told = ListLedger(), list[TurnRecord]()
    return run_on(ledger, told, replay=cast("Replay", before), **settings), ledger, told


def test_what_was_answered_is_not_run_and_not_written_again() -> None:
    before = Before()
    run, ledger, told = with_before(before)
    run.items()
    b, c = record_of("b"), record_of("c")
    assert run.submitted(b) is None
    assert run.submitted(record_of("a")) is before.answer
    assert run.submitted(c) is None
    assert (b.number, c.number) == (4, 7)
    b.state = c.state = "ok"
    run.ended(c, lambda: None)
    run.ended(b, lambda: None)
    assert [record.item_id for record in told] == ["b", "a", "c"]
    assert ledger.final() == {"b": "ok", "c": "ok"}
    assert (run.tally.recalled, run.tally.ok, run.tally.total) == (1, 3, 3)
    assert run.tally.costs.tokens == 10
    run.rows.drop_replaced()
    assert [values for statement, *values in ledger.noted if "turns" in str(statement)] == [
        [2],
        [2],
    ]


def test_an_answer_of_before_gives_way_to_an_ending_only() -> None:
    before = Before()
    before.changed.add(4)
    run, ledger, _ = with_before(before)
    b = record_of("b")
    run.submitted(b)
    run.began(b)
    assert ledger.rows == []
    run.finish()  # it was stopped
    assert ledger.rows == []
    run, ledger, _ = with_before(before)
    b = record_of("b")
    run.submitted(b)
    b.state = "failed"
    run.ended(b, lambda: None)
    assert ledger.final() == {"b": "failed"}
    assert ("DELETE FROM patches WHERE number = ?", 4) in ledger.noted


def test_items_that_nobody_asked_about_keep_the_row_they_have() -> None:
    run, ledger, told = with_before(Before())
    run.items()
    run.finish()
    assert {record.item_id: record.state for record in told} == {"a": "not_run", "b": "not_run"}
    assert ledger.final() == {"a": "not_run"}


def test_a_budget_that_is_spent_already_lets_nothing_begin() -> None:
    run, *_ = with_before(Before(), budget=Budget(max_tokens=10))
    assert run.submitted(record_of("a")) is not None
    with pytest.raises(BudgetExceeded):
        run.submitted(record_of("c"))
    run, _, _ = with_before(Before(), budget=Budget(max_tokens=4))
    assert run.excess() == "6 tokens more than was allowed, before this execution began"


def test_the_state_of_a_flow_is_written_when_it_has_changed() -> None:
    state: dict[str, Any] = {}
    run, ledger, _ = with_before(Before(), state=state)
    run.rows.keep_state()
    assert ledger.noted == []
    for _ in range(2):
        state["done"] = [1]
        run.rows.keep_state()
    assert ledger.noted == [("UPDATE runs SET state = ?", '{"done": [1]}')]
    state["odd"] = object()
    with pytest.raises(TypeError):
        run.rows.keep_state()


def test_a_line_is_said_to_a_turn_that_is_open() -> None:
    watched = Watched()
    a, b, c = watched.submit("a", "b", "c")
    heard: list[str] = []

    def hear(text: str) -> bool:
        heard.append(text)
        return True

    a.tell = hear
    b.tell = lambda text: False
    assert watched.run.interject(a.number, "hi")
    assert not watched.run.interject(b.number, "hi")
    assert not watched.run.interject(c.number, "hi")
    assert not watched.run.interject(99, "hi")
    watched.end(a)
    assert not watched.run.interject(a.number, "too late")
    assert heard == ["hi"]
    assert a.tell is None
