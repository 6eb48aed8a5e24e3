"""A run whose turns are asked for in tries of something."""

from __future__ import annotations

from typing import Any

import pytest

from hmz_mp.agents.trying import Tries
from hmz_mp.core.ambient import TurnRecord
from hmz_mp.errors import Stopped
from hmz_mp_worker.backends.protocol import Usage
from tests.runs.fakes import ListLedger, Watched, record_of


class Slow(ListLedger):
    """A ledger that has written nothing yet."""

    def put(self, record: TurnRecord, *, alone: bool = False) -> int:
        super().put(record, alone=alone)
        return len(self.rows)


def tried(watched: Watched, state: Any = "failed", **fields: Any) -> TurnRecord:
    """Have one turn about "a" begin and end."""
    (record,) = watched.submit("a")
    record.attempts += 1
    watched.begin(record)
    watched.end(record, state, **fields)
    return record


def test_one_row_counts_for_all_tries() -> None:
    watched = Watched(["a", "b"])
    watched.run.items()
    tally = watched.run.tally
    with Tries() as tries:
        tries.begin(last=False)
        tried(watched, error="first", detail="where")
        (other,) = watched.submit("b")
        assert (tally.held, tally.queued, tally.ended, tally.failed) == ({0}, 1, 0, 0)
        assert watched.told == []
        tries.begin(last=False)
        record = tried(watched, error="second")
        assert (tally.total, tally.failures) == (2, [])
        tries.begin(last=True)
        assert record.number == 0
        last = tried(watched, "ok")
        assert watched.told == [("a", "ok")]
    watched.end(other)
    assert watched.told == [("a", "ok"), ("b", "ok")]
    assert (last.number, last.attempts) == (0, 3)
    assert tally.counts() == {"ok": 2, "failed": 0, "cancelled": 0, "not_run": 0}
    assert (tally.held, tally.queued, tally.total) == (set(), 0, 2)
    states = [state for number, _, state in watched.ledger.rows if number == 0]
    assert states == ["queued", "running", "failed", "running", "failed", "running", "ok"]
    assert watched.ledger.said == [(0, "tried", "first\nwhere"), (0, "tried", "second")]


def test_what_was_used_is_that_of_all_tries_and_counted_once() -> None:
    watched = Watched()
    with Tries() as tries:
        for last in (False, True):
            tries.begin(last=last)
            (record,) = watched.submit("a")
            record.input_tokens += 7
            record.usage += "+"
            watched.spend(record, Usage("m", 7))
            watched.end(record, "failed")
    assert (record.input_tokens, record.usage) == (14, "++")
    assert watched.run.tally.costs.tokens == 14
    assert watched.run.tally.failed == 1


def test_failures_that_are_allowed_are_those_of_the_last_try() -> None:
    watched = Watched(max_failures=1)
    with Tries() as tries:
        tries.begin(last=False)
        tried(watched)
        assert watched.run.halted is None
        tries.begin(last=True)
        tried(watched)
        assert watched.run.halted == "1 failed, the most that was allowed"
    assert watched.told == [("a", "failed")]


def test_an_answer_that_is_not_taken_gives_way() -> None:
    watched = Watched()
    with Tries() as tries:
        tries.begin(last=False)
        tried(watched, "ok")
        tries.begin(last=True)
        tried(watched, "ok")
    assert watched.told == [("a", "ok")]
    assert watched.ledger.said == [(0, "tried", "its answer was not taken")]


def test_a_second_try_that_is_refused_leaves_the_first() -> None:
    watched = Watched()
    with Tries() as tries:
        tries.begin(last=False)
        tried(watched, error="first")
        watched.run.halt("enough", end_running=False)
        tries.begin(last=True)
        with pytest.raises(Stopped, match="enough"):
            watched.submit("a")
    assert watched.told == [("a", "failed")]
    assert watched.run.tally.counts() == {"ok": 0, "failed": 1, "cancelled": 0, "not_run": 0}
    assert watched.ledger.final() == {"a": "failed"}
    assert watched.ledger.said == []


@pytest.mark.parametrize("last", [False, True])
def test_a_second_try_that_never_began_leaves_the_first(last: bool) -> None:
    watched = Watched()
    done: list[str] = []
    with Tries() as tries:
        tries.begin(last=False)
        tried(watched, error="first")
        tries.begin(last=last)
        (again,) = watched.submit("a")
        assert watched.run.tally.queued == 1
        again.state = "not_run"
        watched.run.ended(again, lambda: done.append("then"))
    assert done == ["then"]
    assert watched.told == [("a", "failed")]
    assert [state for _, _, state in watched.ledger.rows] == ["queued", "running", "failed"]


def test_a_second_try_that_was_ended_counts_as_that() -> None:
    watched = Watched()
    with Tries() as tries:
        tries.begin(last=False)
        tried(watched, error="first")
        tries.begin(last=True)
        tried(watched, "cancelled")
    assert watched.told == [("a", "cancelled")]
    assert watched.ledger.said == [(0, "tried", "first")]


def test_what_a_later_try_did_without_is_out_of_the_turns() -> None:
    watched = Watched()
    with Tries() as tries:
        tries.begin(last=False)
        for place in (0, 1):
            record = record_of("a")
            record.place = place
            watched.run.submitted(record)
            watched.end(record, "failed")
        (other,) = watched.submit("b")
        tries.begin(last=True)
        tried(watched, "ok")
        watched.end(other)
    assert watched.told == [("a", "ok"), ("b", "ok")]
    assert (watched.run.tally.total, watched.run.tally.failed) == (2, 0)
    assert [values for statement, *values in watched.ledger.noted if "turns" in str(statement)] == [
        [1],
        [1],
    ]


def test_the_end_of_the_run_counts_what_is_left() -> None:
    watched = Watched(["a", "b"])
    watched.run.items()
    with Tries() as tries:
        tries.begin(last=False)
        tried(watched, error="first")
        (waiting,) = watched.submit("b")
        tries.begin(last=False)
        watched.submit("a")
        watched.run.finish()
        assert watched.told == [("a", "failed"), ("b", "not_run")]
        assert waiting.error == "stopped as the run ended"
    assert watched.told == [("a", "failed"), ("b", "not_run")]
    assert watched.run.tally.ended == 2


def test_nobody_has_it_before_it_is_written_and_it_is_told_after() -> None:
    watched = Watched()
    watched.run._ledger = watched.ledger = ledger = Slow()
    watched.run.rows._ledger = ledger
    done: list[str] = []
    with Tries() as tries:
        tries.begin(last=False)
        (record,) = watched.submit("a")
        record.state = "failed"
        watched.run.ended(record, lambda: done.append("then"))
        assert done == []
        watched.run.written(len(ledger.rows))
        assert (done, watched.told) == (["then"], [])
    assert watched.told == [("a", "failed")]
    with Tries() as tries:  # who asked has not waited for it
        tries.begin(last=False)
        (record,) = watched.submit("a")
        record.state = "ok"
        watched.run.ended(record, lambda: done.append("late"))
    assert len(watched.told) == 1
    watched.run.written(len(ledger.rows))
    assert done == ["then", "late"]
    assert watched.told == [("a", "failed"), ("a", "ok")]


def test_a_service_that_lets_nobody_in_halts_the_run_at_the_first_try() -> None:
    watched = Watched()
    with Tries() as tries:
        tries.begin(last=False)
        tried(watched, error="log in first", failure="unauthorised")
        assert watched.run.halted == "log in first"
    assert watched.told == [("a", "failed")]


def test_what_it_is() -> None:
    watched = Watched()
    with Tries() as tries:
        tries.begin(last=False)
        tried(watched)
        assert repr(watched.run._retried) == "<Retried 1 held, 0 to be tried again>"
        tries.begin(last=True)
        watched.submit("a")
        assert repr(watched.run._retried) == "<Retried 0 held, 1 to be tried again>"
        watched.run.finish()
