"""A whole pool over the fake engine, through random histories.

Every turn ends once, and as what happened to it says; no more are shipped at once than may be;
sessions are in order; nothing is shipped to a worker that is dead, or names what it does not have.

``HMZ_MP_HISTORIES=20000 HMZ_MP_HISTORIES_SEED=7 pytest -m slow tests/contract/test_histories.py``
looks for more of them, and finds the same again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from tests.contract.histories import History

MANY = int(os.environ.get("HMZ_MP_HISTORIES", "1000"))
PART = 250
SEED = int(os.environ.get("HMZ_MP_HISTORIES_SEED", "0"))

CALLERS = ["", "", "narrow", "wide", "first", "rated", "careful"]
SESSIONS = ["session 1", "session 2", "host session 1", "host session 2"]
Step = Callable[[History], None]


def sampled(*values: Any) -> st.SearchStrategy[Any]:
    """Draw one of some values; one that is named twice twice as often."""
    return st.sampled_from(values)


# What a step of a history is. Steps name workers, calls and sessions by numbers that wrap around.


def submit(history: History, where: str, host: bool, count: int, **call: Any) -> None:
    if where in SESSIONS:
        host = where.startswith("host")
    if where == "careful" and call["how"] == "answers":
        call["how"] = ["answers", "refused twice", "answers", "refused"][call["function"] % 4]
    if call["how"] == "hangs once":
        call["retries"], call["timeout"] = call["retries"] or 1, call["timeout"] or 0.5
    for _ in range(count):
        history.submit(where, "host" if host else "call", **call)


def cancel(history: History, at: int, count: int) -> None:
    calls = [call for call in history.calls if not call.turn.done()] or history.calls
    for call in calls[at % len(calls) :][:count] if calls else []:
        history.cancel(call)


def let_session_go(history: History, at: int) -> None:
    names = sorted(history.sessions)
    if names:
        del history.sessions[names[at % len(names)]]


def wait(history: History, seconds: float) -> None:
    history.loop.advance(seconds)


def trouble(history: History, what: str, at: int) -> None:
    """End a worker, lose it, or have it give back what it can."""
    workers = sorted(history.engine.workers)
    if workers:
        getattr(history.engine, what)(workers[at % len(workers)])


def race(
    history: History,
    where: str,
    count: int,
    function: int,
    heavy: float | None,
    seconds: float,
    what: str,
    at: int,
) -> None:
    """Have something happen in the middle of calls that are shipped ahead, short ones or not."""
    history.clear_up()
    history.loop.advance(7.0)
    calls = []
    for number in range(count):
        flaky = number % 3 == 1
        call = history.submit(
            [where, where, where, "session 1", "session 2"][number % 5],
            "call",
            function,
            heavy if number == at else None,
            ("refused twice" if where else "raises once") if flaky else "answers",
            retries=1 if flaky else None,
        )
        calls.append(call)
    history.loop.advance(0.0)
    history.loop.advance(seconds)
    if what == "cancel":
        for call in [call for call in calls if not call.turn.done()][: 1 + at]:
            history.cancel(call)
    elif what == "others":  # so many that functions are forgotten
        for other in range(10):
            history.submit("", "call", other, None, "answers")
    else:
        trouble(history, what, at)


def warm_up(history: History) -> None:
    """Let it be known how long calls take, and have a worker."""
    for _ in range(2):
        for function in range(8):
            history.submit("", "call", function, None, "answers")
        history.loop.advance(1.0)


def change_capacity(history: History, workers: int) -> None:
    history.engine.set_capacity(workers)


def fail_to_start(history: History, faults: list[Any]) -> None:
    history.engine.start_faults.extend(faults)


def famine(history: History, host: bool) -> None:
    history.famine("host" if host else "call")


def end(history: History, refused: bool) -> None:
    if refused:
        history.engine.start_faults.append("refused")
    else:
        history.engine.fail("the engine is gone")


def delay(history: History, what: str, seconds: float) -> None:
    setattr(history.engine, f"{what}_seconds", seconds)


def change_memory(history: History, short: bool) -> None:
    history.short_of_memory = short


def step(
    function: Callable[..., None], /, **values: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """Draw a step: a function and what it is called with beside the history."""
    return st.fixed_dictionaries(values).map(lambda drawn: partial(function, **drawn))


NUMBERS = st.integers(0, 50)
SUBMIT = step(
    submit,
    where=sampled(*CALLERS, *CALLERS, *SESSIONS),
    host=sampled(False, False, True),
    count=sampled(1, 1, 3, 10, 30),
    function=sampled(0, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9),
    # As long as calls of the function usually take, or as is not expected of it.
    seconds=sampled(None, None, None, None, 1e-6, 0.004, 0.05, 2.0),
    how=sampled(
        *["answers"] * 12, "raises", "raises once", "dies", "hangs", "hangs once", "hears nothing"
    ),
    retries=sampled(None, None, None, 1, 2),
    timeout=sampled(*[None] * 9, 0.002, 0.5, 5.0),
    deadline=sampled(*[None] * 12, 0.003, 3.0),
)
WAIT = step(wait, seconds=sampled(0.0, 1e-6, 1e-5, 5e-5, 3e-4, 1e-3, 3e-3, 0.01, 0.02, 0.6, 6.0))
CANCEL = step(cancel, at=NUMBERS, count=sampled(1, 1, 2, 20))
TROUBLE = step(trouble, what=sampled("die", "lose", "give_back", "give_back"), at=NUMBERS)
RACE = step(
    race,
    where=sampled("", "", "", "", "careful"),
    count=sampled(5, 30, 30),
    function=sampled(2, 3, 4, 4, 5, 5, 6),
    heavy=sampled(None, None, None, 0.002, 0.05),
    seconds=sampled(0.0, 3e-5, 1e-4, 2e-4, 4e-4, 2e-3, 0.012, 0.8),
    what=sampled("cancel", "cancel", "cancel", "die", "lose", "give_back", "others"),
    at=sampled(0, 1, 1, 2, 5, 20),
)
DELAYED = sampled("there", "back", "kill", "reap")
DELAYS = sampled(0.0, 0.0, 2e-5, 4e-4, 5e-3)
DELAY = step(delay, what=DELAYED, seconds=DELAYS)
RARE = st.one_of(
    step(change_capacity, workers=sampled(0, 0, 1, 2, 3, 4)),
    step(fail_to_start, faults=st.lists(sampled("", "", "no start", "exit", "hang"), max_size=3)),
    step(famine, host=st.booleans()),
    step(change_memory, short=st.booleans()),
    step(let_session_go, at=NUMBERS),
    step(wait, seconds=sampled(25.0, 65.0)),
)
LAST = step(end, refused=st.booleans())
STEPS = st.one_of(*[SUBMIT] * 4, *[WAIT] * 5, CANCEL, TROUBLE, RACE, RACE, DELAY, RARE, RARE)
HISTORIES = given(
    workers=st.integers(1, 3),
    at_once=sampled(0, 0, 2, 4),
    turns_per_worker=sampled(0, 0, 0, 5),
    warm=sampled(False, True, True),
    delays=st.lists(DELAY, max_size=4),
    steps=st.lists(STEPS, min_size=20, max_size=60),
    end=st.lists(st.one_of(LAST, STEPS, STEPS, STEPS), max_size=5),
    left_at_once=sampled(False, False, False, True),
)


def live_through(
    *,
    workers: int,
    at_once: int,
    turns_per_worker: int,
    warm: bool,
    delays: list[Step],
    steps: list[Step],
    end: list[Step],
    left_at_once: bool,
) -> None:
    """Have all steps happen, and look after each whether all is right."""
    history = History(workers, at_once=at_once, turns_per_worker=turns_per_worker)
    try:
        if warm:
            warm_up(history)
        for happen in [*delays, *steps, *end]:
            happen(history)
            history.look()
            if history.coordinator.broken is not None:  # from here on all ends the same way
                break
        if left_at_once:
            history.leave(RuntimeError("left by an exception"))
        else:
            history.finish()
            history.look()
            history.leave()
        history.look()
    finally:
        history.close()


# Shrinking takes minutes.
SETTINGS = settings(deadline=None, phases=[Phase.explicit, Phase.generate], database=None)


@settings(SETTINGS, max_examples=150, derandomize=True)
@HISTORIES
def test_histories(**history: Any) -> None:
    live_through(**history)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(-(-MANY // PART)))  # of less than a test's time each
def test_many_histories(part: int) -> None:
    @seed(f"{SEED} {part}")
    @settings(SETTINGS, max_examples=PART)
    @HISTORIES
    def live(**history: Any) -> None:
        live_through(**history)

    live()
