"""A width's promises: alone, and over random histories of a pool whose service is busy."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hmz_mp.core.backoff import SETBACKS
from hmz_mp.core.breaker import Busy
from hmz_mp.core.jobs import Ending, Timing
from hmz_mp.core.width import CEILING, SLOW, START, Width
from tests.core.test_breaker import STEPS, AskingJob, Service


def adapting(start: int = START, ceiling: int = CEILING) -> Width:
    width = Width()
    width.adapt(start, ceiling)
    return width


def serve(width: Width, turns: int, *, seconds: float = 1.0, ticket: int = 10**9) -> None:
    """Have so many turns served, with as many in flight as there may be."""
    for _ in range(turns):
        width.served(ticket, seconds, int(width.bound), 10**9)


def test_it_bounds_nothing_until_it_adapts_or_is_narrowed() -> None:
    width = Width()
    serve(width, 10)
    assert (width.room(1000), width.bound) == (None, 0.0)
    width.narrow(1, 20, 20)
    assert width.room(4) == 6
    width.adapt()
    assert (width.bound, width.ceiling) == (10.0, CEILING)
    assert repr(width) == "<Width 10 of 64>"


def test_it_doubles_for_each_round_and_then_grows_by_one() -> None:
    width = adapting(4, 40)
    rounds = []
    for _ in range(5):
        serve(width, int(width.bound))
        rounds.append(int(width.bound))
    assert rounds == [8, 16, 32, 40, 40]
    width.narrow(10**9 + 1, 10**9 + 1, 40)
    assert width.bound == 20.0
    serve(width, 20, ticket=10**9 + 2)
    assert 20.5 < width.bound <= 21.0
    width.adapt(1, 2)  # it does already
    assert width.ceiling == 40


def test_all_that_was_in_flight_together_halves_it_once() -> None:
    width = adapting(16)
    for ticket in range(1, 17):
        width.narrow(ticket, 16, 17 - ticket)
    assert width.bound == 8.0
    serve(width, 16, ticket=16)
    assert width.bound == 8.0  # they began before
    width.narrow(17, 24, 8)
    assert width.bound == 4.0


def test_what_was_not_used_is_no_width() -> None:
    width = adapting(8)
    for _ in range(100):
        width.served(1, 1.0, 3, 3)
    assert width.bound == 8.0
    width.narrow(2, 2, 3)
    assert width.bound == 1.0
    probed = adapting(8)
    probed.narrow(2, 2, 1, alone=True)  # the others wait, since it is tried with one
    assert probed.bound == 4.0


def test_a_slow_round_holds_it_until_slow_is_usual() -> None:
    width = adapting(8)
    serve(width, 8)
    assert width.bound == 16.0
    serve(width, 16, seconds=SLOW + 0.5)  # it is judged by its end
    assert width.bound == 30.0
    serve(width, 14, seconds=SLOW + 0.5)
    assert width.bound == 30.0
    for _ in range(20):
        serve(width, int(width.bound), seconds=SLOW + 0.5)
    assert 31.0 <= width.bound < 60.0  # by one for each round
    quick = adapting(8)
    serve(quick, 8, seconds=5.0)
    serve(quick, 64, seconds=1.0)
    assert quick.bound == CEILING


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["served", "slow", "refused", "probe"]),
        st.integers(0, 40),  # how many tickets before the last one it is
        st.integers(1, 80),  # in flight
    ),
    max_size=80,
)


@settings(max_examples=120, deadline=None)
@given(events=EVENTS, start=st.integers(1, 100), ceiling=st.integers(1, 70))
def test_it_is_never_over_its_ceiling_never_none_and_recovers(
    events: list[tuple[str, int, int]], start: int, ceiling: int
) -> None:
    width, narrowed = adapting(start, ceiling), 0
    for last, (what, before, used) in enumerate(events, 1):
        ticket, was = max(1, last - before), width.bound
        if what in ("served", "slow"):
            width.served(ticket, 9.0 if what == "slow" else 1.0, used, 80)
            assert was <= width.bound <= was + 1
        else:
            width.narrow(ticket, last, used, alone=what == "probe")
            if ticket <= narrowed:
                assert width.bound == was  # its round trip has been heard of
            else:
                assert width.bound <= max(1.0, was / 2)
                narrowed = last
        assert 1.0 <= width.bound <= ceiling
    serve(width, ceiling * (ceiling + 30))
    assert int(width.bound + 1e-6) == ceiling


@settings(max_examples=300, deadline=None)
@given(
    steps=STEPS,
    lanes=st.integers(1, 5),
    serial=st.integers(0, 5),
    start=st.integers(1, 4),
    randoms=st.lists(st.sampled_from([0.0, 0.3, 0.99]), min_size=1, max_size=5),
)
def test_no_more_begin_than_it_says_and_nobody_waits_for_ever(
    steps: list[tuple[str, float]], lanes: int, serial: int, start: int, randoms: list[float]
) -> None:
    service = Service(lanes, serial, randoms)
    width = service.breaker.width
    width.adapt(start, 6)
    for lane in range(12):
        service.submit(lane)
    for word, number in steps:
        before = len(service.running)
        if word == "later":
            service.later(number)
        elif word == "die":
            service.die()
        elif word in ("submit", "cancel"):
            getattr(service, word)(int(number))
        else:
            service.say(int(number), word == "fine", word)
        assert 1.0 <= width.bound <= 6.0
        # What ran when it was narrowed goes on; nothing but a probe begins beside it.
        bound = before + 1 if service.breaker.until is not None else before
        assert len(service.running) <= max(int(width.bound), bound)
    service.finish()
    assert sorted(job.id for job in service.ended) == [job.id for job in service.jobs]
    assert (service.gate.used, service.policy.queued, service.policy.running) == (0, 0, 0)
    assert all(job.setbacks <= SETBACKS + 1 for job in service.jobs)
    assert service.policy.backoff.gates == {} or service.breaker.until is not None


def test_a_limit_whose_last_turn_failed_otherwise_is_of_no_interest() -> None:
    service = Service(1, 0, [0.0])
    service.breaker.width.adapt()
    service.submit(0)
    service.say(0, False, "busy")
    service.later(0.0)
    service.say(0, False, "broken")
    assert len(service.ended) == 1
    assert service.policy.backoff.gates == {}


def test_a_pool_finds_its_width() -> None:
    service = Service(1, 0, [0.0])
    service.breaker.width.adapt(2, 16)
    for _ in range(100):
        service.submit(0)
    assert len(service.running) == 2
    for _ in range(20):
        service.say(0, True, "fine")
    assert len(service.running) == 16
    for _ in range(16):
        service.say(0, False, "busy 5")
    assert not service.running
    service.later(5.0)
    assert len(service.running) == 1
    service.say(0, True, "fine")
    assert len(service.running) == 8
    service.say(0, False, "broken")  # it failed for another reason, and widens nothing
    assert len(service.running) == 8
    service.finish()
    assert service.breaker.width.bound > 12.0
    assert service.policy.backoff.gates == {}


class BusyAtOnce(AskingJob, eq=False, gc=False):
    """A job that is refused, and not to be put back."""

    def busy(self, _ending: Ending) -> Busy | None:
        return Busy(again=False)


def test_a_refusal_that_puts_nothing_back_narrows_all_the_same() -> None:
    service = Service(1, 0, [0.0])
    assert not service.gate.adapts
    service.gate.adapt(8)
    assert (service.gate.adapts, service.gate.room(0.0)) == (True, 8)
    for number in range(1, 21):
        job = BusyAtOnce(number, service.lanes[0], Timing())
        service.jobs.append(job)
        service.policy.submit(job, 0.0)
    service.settle()
    assert len(service.running) == 8
    service.say(0, False, "")
    assert (len(service.ended), service.put_back, service.breaker.width.bound) == (1, [], 4.0)
    assert len(service.running) == 7
    service.say(0, False, "")
    assert service.breaker.width.bound == 4.0
