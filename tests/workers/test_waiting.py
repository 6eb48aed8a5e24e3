from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from hmz_mp_worker import waiting
from hmz_mp_worker.waiting import Waiter

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Note each look for what comes soon, and find nothing there."""
    seen: list[float] = []

    def look(_: Waiter, until: float) -> bool:
        seen.append(until)
        return False

    monkeypatch.setattr(Waiter, "_look", look)
    return seen


def test_what_is_there_already(pair: Pair) -> None:
    ours, theirs = pair
    theirs.send(b"call")
    waiter = Waiter(ours)
    waiter.wait()
    waiter.wait()  # it is still there
    assert ours.recv(9) == b"call"


def test_the_end_of_the_connection(pair: Pair) -> None:
    ours, theirs = pair
    theirs.close()
    Waiter(ours).wait()
    assert ours.recv(9) == b""


@pytest.mark.parametrize("act", [lambda one: one.send(b"call"), socket.socket.close])
def test_what_comes_while_it_sleeps(pair: Pair, act: Callable[[socket.socket], object]) -> None:
    ours, theirs = pair
    waits = threading.Thread(target=Waiter(ours).wait)
    waits.start()
    act(theirs)
    waits.join(10)
    assert not waits.is_alive()


def test_it_stays_awake_only_after_a_short_wait(
    pair: Pair, looks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair
    now = 0.0
    monkeypatch.setattr(waiting, "monotonic", lambda: now)
    waiter = Waiter(ours)
    theirs.send(b"call")
    waiter.wait()
    assert looks == []
    waiter.wait()  # the last one was short
    assert looks == [waiting.AWAKE_SECONDS]
    times = iter([1.0, 2.0])
    monkeypatch.setattr(waiting, "monotonic", lambda: next(times))
    waiter.wait()  # this one is long
    assert len(looks) == 2
    monkeypatch.setattr(waiting, "monotonic", lambda: now)
    waiter.wait()
    assert len(looks) == 2


def test_a_look_ends_in_time(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 0.1, 0.3])
    monkeypatch.setattr(waiting, "monotonic", lambda: next(times))
    assert not Waiter(pair[0])._look(0.2)
    assert next(times, None) is None
