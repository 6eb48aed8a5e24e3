from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.core.gates import MINUTE, Gate
from hmz_mp.core.jobs import Job, Lane, Timing


def test_a_gate_without_bounds_lets_any_number_through() -> None:
    gate = Gate("any")
    for _ in range(1000):
        assert gate.is_free(0.0)
        gate.take(0.0)
    assert gate.room(0.0) is None
    assert repr(gate) == "<Gate any 1000/any>"


def test_a_width() -> None:
    gate = Gate("two", 2)
    assert gate.room(0.0) == 2
    gate.take(0.0)
    gate.take(0.0)
    assert (gate.room(0.0), gate.is_free(0.0)) == (0, False)
    gate.used -= 1
    assert (gate.room(0.0), gate.is_free(0.0)) == (1, True)
    assert repr(gate) == "<Gate two 1/2>"


def test_the_widest_is_remembered() -> None:
    gate = Gate("g", 5)
    for used in (3, 1, 2):
        gate.used = used - 1
        gate.take(0.0)
    assert gate.widest == 3


def test_a_rate() -> None:
    gate = Gate("rate", 0, 2)
    gate.take(0.0)
    gate.take(10.0)
    gate.used = 0  # they have ended, and the minute still counts them
    assert not gate.is_free(MINUTE - 0.001)
    assert gate.room(MINUTE) == 1
    assert gate.room(MINUTE + 10) == 2


def test_width_and_rate_together() -> None:
    gate = Gate("both", 3, 2)
    assert gate.room(0.0) == 2
    gate.take(0.0)
    assert gate.room(0.0) == 1
    gate.used = 3
    assert gate.room(0.0) == 0


def test_a_gate_that_was_narrowed_has_no_negative_room() -> None:
    gate = Gate("g", 1)
    gate.used = 4
    assert gate.room(0.0) == 0


def test_waiting_counts_jobs_and_one_for_a_session() -> None:
    gate = Gate("g", 1)
    for serial in (False, True):
        lane = Lane(1, "call", (gate,), serial=serial)
        lane.jobs.extend(Job(number, lane, Timing()) for number in range(3))
        gate.waiting["call"].append(lane)
    host = Lane(2, "host", (gate,))
    host.jobs.append(Job(9, host, Timing()))
    gate.waiting["host"].append(host)
    assert gate.count_waiting() == 5


def test_when_time_alone_makes_room() -> None:
    gate = Gate("both", 1, 2)
    assert gate.next_room(0.0) is None
    gate.take(3.0)
    assert gate.next_room(4.0) is None  # it is full, which time does not change
    gate.used = 0
    gate.take(5.0)
    gate.used = 0
    assert gate.next_room(6.0) == 3.0 + MINUTE
    assert gate.next_room(3.0 + MINUTE) is None


@given(st.integers(0, 5), st.lists(st.floats(0, 200), max_size=60).map(sorted))
def test_never_more_in_a_minute_than_the_rate(rate: int, times: list[float]) -> None:
    gate = Gate("rate", 0, rate)
    taken: list[float] = []
    for now in times:
        if gate.is_free(now):
            gate.take(now)
            gate.used -= 1
            taken.append(now)
        if rate:
            assert len([one for one in taken if one + MINUTE > now]) <= rate
    if not rate:
        assert taken == times
