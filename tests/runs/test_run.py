from __future__ import annotations

import gc

import pytest

from hmz_mp.core.ambient import Item
from hmz_mp.core.turns import Progress, PutBack, Said
from hmz_mp.errors import BadInput, BudgetExceeded, Stopped
from hmz_mp.runs.costs import Budget, ModelUsage
from hmz_mp.runs.run import Run
from hmz_mp.runs.tally import Failure
from hmz_mp_worker.backends.protocol import Usage
from tests.runs.fakes import NO_POOL, ListLedger, Watched, record_of


def test_what_a_flow_sees() -> None:
    watched = Watched(["a", "b"])
    assert (watched.run.id, watched.run.task) == ("r1", "task")
    assert watched.run.observer is watched.run
    assert watched.run.pool is NO_POOL
    assert watched.run.items() == [Item("a"), Item("b")]
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
