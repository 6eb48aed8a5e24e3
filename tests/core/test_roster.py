from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.core.jobs import HOST_TURNS, Job, Kind, Lane, Timing, Worker, WorkerState
from hmz_mp.core.roster import (
    AHEAD_CALL_SECONDS,
    AHEAD_SECONDS,
    AHEAD_TURNS,
    OVERHEAD_SECONDS,
    Roster,
)


def roster(limit: int = 2, turns_per_worker: int = 0, idle_timeout: float = 10.0) -> Roster:
    return Roster(limit, turns_per_worker=turns_per_worker, idle_timeout=idle_timeout)


def ready(of: Roster, kind: Kind = "call", now: float = 0.0) -> Worker:
    worker = of.start(kind)
    of.started(worker)
    of.rest(worker, now)
    return worker


def job(
    ticket: int = 1, seconds: float | None = None, kind: Kind = "call", timeout: float | None = None
) -> Job:
    timing = Timing()
    timing.seconds = seconds
    made = Job(ticket, Lane(1, kind), timing)
    made.ticket = ticket
    made.expected = seconds or 0.0
    made.timeout = timeout
    return made


def occupy(table: Roster, worker: Worker, job: Job) -> None:
    worker.inflight[job.ticket] = job
    table.occupy(worker, 1, (job.timing.seconds or 0.0) + OVERHEAD_SECONDS)


def test_workers_are_counted_by_kind() -> None:
    table = roster(2)
    first = table.start("call")
    assert (table.missing("call"), table.missing("host")) == (1, 2)
    assert table.starting == {"call": 1, "host": 0}
    table.started(first)
    assert table.starting == {"call": 0, "host": 0}
    table.remove(first)
    assert (table.missing("call"), first.state, table.workers) == (2, WorkerState.GONE, {})


def test_a_worker_that_never_started_is_not_counted_any_more() -> None:
    table = roster(1)
    table.remove(table.start("call"))
    assert table.starting["call"] == 0
    assert table.missing("call") == 1


def test_a_retiring_worker_makes_room_at_once() -> None:
    table = roster(1)
    worker = ready(table)
    table.retire(worker)
    assert table.missing("call") == 1
    assert table.find(job()) is None
    table.remove(worker)
    assert table.missing("call") == 1


def test_the_one_used_last_is_found_first() -> None:
    table = roster(2)
    first, second = ready(table), ready(table)
    assert table.find(job()) is second
    occupy(table, second, job())
    assert table.find(job()) is first


def test_no_work_ahead_while_a_worker_may_be_started() -> None:
    table = roster(2)
    worker = ready(table)
    occupy(table, worker, job(1, 1e-6))
    assert table.find(job(2, 1e-6)) is None


def test_tiny_work_is_shipped_ahead_when_all_are_busy() -> None:
    table = roster(1)
    worker = ready(table)
    for ticket in range(1, AHEAD_TURNS + 1):
        found = table.find(job(ticket, 1e-7))
        assert found is worker
        occupy(table, worker, job(ticket, 1e-7))
    assert table.find(job(999, 1e-7)) is None


@pytest.mark.parametrize("seconds", [AHEAD_SECONDS, AHEAD_CALL_SECONDS])
def test_one_is_shipped_behind_one_that_takes_some_milliseconds(seconds: float) -> None:
    table = roster(1)
    worker = ready(table)
    occupy(table, worker, job(1, seconds))
    assert table.find(job(2, seconds)) is worker
    occupy(table, worker, job(2, seconds))
    assert table.find(job(3, seconds)) is None


@pytest.mark.parametrize(
    ("seconds", "timeout"), [(None, None), (1.01 * AHEAD_CALL_SECONDS, None), (1e-6, 0.5)]
)
def test_what_is_not_shipped_ahead(seconds: float | None, timeout: float | None) -> None:
    table = roster(1)
    occupy(table, ready(table), job(1, 1e-6))
    assert table.find(job(2, seconds, timeout=timeout)) is None


def test_nothing_is_shipped_behind_a_worker_that_gave_work_back() -> None:
    table = roster(1)
    worker = ready(table)
    occupy(table, worker, job(1, 1e-6))
    worker.stalled = True
    assert table.find(job(2, 1e-6)) is None


def test_a_worker_is_spent_after_its_turns() -> None:
    table = roster(1, turns_per_worker=2)
    worker = ready(table)
    for ticket in (1, 2):
        assert table.find(job(ticket, 1e-6)) is worker
        occupy(table, worker, job(ticket, 1e-6))
    assert table.find(job(3, 1e-6)) is None
    worker.inflight.clear()
    assert table.rest(worker, 0.0)


def test_a_host_takes_many_and_the_least_busy_is_found() -> None:
    table = roster(2)
    first = ready(table, "host")
    for ticket in range(HOST_TURNS):
        assert table.find(job(ticket, kind="host")) is first
        occupy(table, first, job(ticket, kind="host"))
    assert table.find(job(999, kind="host")) is None
    second = ready(table, "host")
    assert table.find(job(999, kind="host")) is second


def test_the_last_host_takes_more_than_its_share() -> None:
    table = roster(1)
    host = ready(table, "host")
    for ticket in range(HOST_TURNS + 1):
        occupy(table, host, job(ticket, kind="host"))
    assert table.find(job(999, kind="host")) is host


def test_a_condemned_worker_is_found_no_more_until_it_is_spared() -> None:
    table = roster(1)
    worker = ready(table)
    occupy(table, worker, job(1, 1e-6))
    table.condemn(worker)
    assert table.find(job(2, 1e-6)) is None
    table.spare(worker)
    assert (worker.state, table.find(job(2, 1e-6))) == (WorkerState.READY, worker)


def test_idle_workers_get_tired() -> None:
    table = roster(3, idle_timeout=10.0)
    early, late = ready(table, now=1.0), ready(table, now=5.0)
    assert table.next_tired() == 11.0
    assert table.tired(10.9) == []
    assert table.tired(11.0) == [early]
    assert table.tired(20.0) == [early, late]
    occupy(table, early, job())
    assert table.next_tired() == 15.0


def hold_session(table: Roster, worker: Worker, now: float) -> None:
    """Have a turn of a session run there, and end."""
    occupy(table, worker, job())
    worker.sessions += 1
    worker.inflight.clear()
    table.rest(worker, now)


def test_a_worker_that_holds_a_session_does_not_get_tired() -> None:
    table = roster()
    hold_session(table, ready(table), 1.0)
    assert table.tired(1000.0) == []
    assert table.next_tired() is None


def test_a_worker_gets_tired_once_its_last_session_is_over() -> None:
    table = roster(idle_timeout=10.0)
    worker = ready(table)
    hold_session(table, worker, 1.0)
    hold_session(table, worker, 2.0)
    table.release(worker)
    assert table.next_tired() is None
    table.release(worker)
    assert table.next_tired() == 12.0
    assert table.tired(12.0) == [worker]


def test_workers_whose_sessions_are_over_get_tired_no_earlier_than_others() -> None:
    table = roster(4, idle_timeout=10.0)
    first, last = ready(table, now=0.0), ready(table, now=0.0)
    hold_session(table, first, 1.0)
    between = ready(table, now=3.0)
    hold_session(table, last, 5.0)
    table.release(last)
    table.release(first)
    assert table.tired(10.9) == []
    assert table.tired(11.0) == [first]
    assert table.tired(13.0) == [first, between]
    assert table.tired(15.0) == [first, between, last]


@pytest.mark.parametrize("busy", [True, False])
def test_a_worker_that_is_busy_or_gone_is_released_quietly(busy: bool) -> None:
    table = roster()
    worker = ready(table)
    hold_session(table, worker, 1.0)
    if busy:
        occupy(table, worker, job())
    else:
        table.remove(worker)
    table.release(worker)
    assert worker.sessions == 0
    assert table.next_tired() is None


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["begin", "end", "kill", "spare"]))))
def test_the_least_busy_host_is_found_whatever_happened(events: list[tuple[int, str]]) -> None:
    table = roster(5)
    hosts = [ready(table, "host") for _ in range(5)]
    for ticket, (at, event) in enumerate(events * 20):
        host = hosts[at]
        if event == "begin" and host.state is WorkerState.READY:
            occupy(table, host, job(ticket, kind="host"))
        elif event == "end" and host.inflight:
            host.inflight.popitem()
            if host.inflight:
                table.open(host)
            else:
                table.rest(host, 0.0)
        elif event == "kill":
            table.condemn(host)
        elif event == "spare" and host.state is WorkerState.DYING:
            table.spare(host)
            if not host.inflight:
                table.rest(host, 0.0)
        least = [len(one.inflight) for one in hosts if one.state is WorkerState.READY]
        found = table.find(job(kind="host"))
        assert (None if found is None else len(found.inflight)) == min(least, default=None)


def test_a_worker_that_is_not_ready_does_not_rest() -> None:
    table = roster()
    worker = table.start("call")
    assert not table.rest(worker, 0.0)
    assert table.find(job()) is None
