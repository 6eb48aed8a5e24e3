from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hmz_mp_worker import link as link_module
from hmz_mp_worker import wire
from hmz_mp_worker.arena import SLOTS, Arena
from hmz_mp_worker.link import Link
from hmz_mp_worker.page import Page, anonymous_file, read_page
from tests.workers.raw import Wire


@dataclass
class Ends:
    link: Link
    page: Page
    page_fd: int
    peer: Wire

    def nothing_sent(self) -> bool:
        self.peer.sock.setblocking(False)
        try:
            self.peer.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self.peer.sock.settimeout(10)
        return False


@pytest.fixture
def ends() -> Iterator[Ends]:
    left, right = socket.socketpair()
    fd = anonymous_file("page")
    with left, right:
        page = Page(fd)
        arena = Arena(fd).open()
        yield Ends(Link(left, page, arena.outbox), page, fd, Wire(right, wire.decode_from_worker))
        page.close()
        arena.close()
    os.close(fd)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers wait for the next flush, however long that takes."""
    monkeypatch.setattr(link_module, "_FLUSH_AFTER", 1e9)


def answer(ticket: int, data: bytes = b"data") -> wire.Answer:
    return wire.Answer(ticket, True, data, 1.0, 2.0)


@pytest.mark.usefixtures("patient")
def test_answers_wait_and_go_together(ends: Ends) -> None:
    for ticket in (1, 2, 3):
        ends.link.begin(ticket)
        ends.link.answer(answer(ticket))
    assert ends.nothing_sent()
    assert read_page(ends.page_fd).answer_count == 3
    ends.link.flush()
    assert ends.peer.receive() == wire.Answers([answer(1), answer(2), answer(3)])
    assert read_page(ends.page_fd).answer_count == 0


def test_an_answer_after_a_pause_goes_at_once(ends: Ends) -> None:
    ends.link.answer(answer(1))
    assert ends.peer.receive() == wire.Answers([answer(1)])


@pytest.mark.usefixtures("patient")
def test_a_flush_of_nothing_sends_nothing(ends: Ends) -> None:
    ends.link.flush()
    assert ends.nothing_sent()


@pytest.mark.usefixtures("patient")
def test_what_is_said_comes_after_the_answers_before_it(ends: Ends) -> None:
    ends.link.answer(answer(1))
    ends.link.begin(2)
    ends.link.say(2, "kind", b"data")
    assert ends.peer.receive() == wire.Answers([answer(1)])
    assert ends.peer.receive() == wire.Said(2, "kind", b"data")
    assert read_page(ends.page_fd).running == 2


@pytest.mark.usefixtures("patient")
def test_large_values_go_with_their_answer_after_those_before_it(ends: Ends) -> None:
    ends.link.answer(answer(1))
    for ticket in range(2, SLOTS + 3):
        ends.link.answer(wire.Answer(ticket, True, b"", 1.0, 2.0, buffers=1), [b"x" * 100_000])
    assert ends.peer.receive() == wire.Answers([answer(1)])
    for slot in range(SLOTS):
        message, buffers = ends.peer.receive_with_buffers()
        (large,) = message.answers
        assert (large.ticket, large.shared, buffers) == (slot + 2, [slot, 100_000], [])
    message, buffers = ends.peer.receive_with_buffers()  # no slot was released
    assert (message.answers[0].ticket, len(buffers[0])) == (SLOTS + 2, 100_000)


@pytest.mark.usefixtures("patient")
def test_a_full_page_is_sent(ends: Ends) -> None:
    for ticket in (1, 2, 3):
        ends.link.answer(answer(ticket, b"y" * 30_000))
    first, second = ends.peer.receive(), ends.peer.receive()
    assert [one.ticket for one in (*first.answers, *second.answers)] == [1, 2, 3]


@pytest.mark.usefixtures("patient")
def test_a_call_that_begins_during_a_flush_stays_on_the_page(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watching thread flushes while the main thread begins the next call."""
    clear = Page.clear

    def clear_late(page: Page) -> None:
        ends.link.begin(8)
        clear(page)

    monkeypatch.setattr(Page, "clear", clear_late)
    ends.link.answer(answer(7))
    ends.link.flush()
    assert read_page(ends.page_fd).running == 8


def test_many_threads_keep_frames_whole(ends: Ends) -> None:
    def speak(number: int) -> None:
        for at in range(50):
            ends.link.say(number, "kind", bytes([at]) * 3000)

    threads = [threading.Thread(target=speak, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    heard: dict[int, list[int]] = {}
    for _ in range(200):
        said = ends.peer.receive()
        assert said.data == said.data[:1] * 3000
        heard.setdefault(said.ticket, []).append(said.data[0])
    for thread in threads:
        thread.join()
    assert heard == {number: list(range(50)) for number in range(4)}


def test_a_peer_that_is_gone(ends: Ends) -> None:
    ends.peer.sock.close()
    with pytest.raises(OSError, match="pipe"):
        ends.link.say(1, "kind", b"")
