from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

from hmz_mp.engines.dask import engine, kept, relay
from hmz_mp.engines.dask.kept import Account, Kept, Worth
from hmz_mp_worker.framing import Buffer

MIB = 1 << 20


class Site:
    """The engine's view of a site, and what that site makes of what it is sent, in order."""

    def __init__(self) -> None:
        self.kept = Kept()
        self.frames: list[tuple[int, bytes, list[Buffer]]] = []
        self.said: list[Any] = []
        self.sent = 0
        self._known = engine._Site("there", 1, self, 0.0, Account(Worth()))  # type: ignore[arg-type]  # in place of a stream

    def send(self, message: Any, buffers: Sequence[Buffer] = ()) -> None:
        """Take a message, as it arrives: with buffers that are bytes or a bytearray."""
        (message,) = relay.decode_to_site(relay.encode([message]))
        self.said.append(message)
        came = [bytes(one) if memoryview(one).readonly else bytearray(one) for one in buffers]
        self.sent += sum(map(len, came))
        if isinstance(message, relay.Discard):
            self.kept.forget(message.digests)
            return
        assert message.buffers == len(came)
        if isinstance(message, relay.Pieces):
            came = self.kept.put_together(message.pieces, came)  # type: ignore[assignment]  # views too
        self.frames.append((message.worker, message.body, list(came)))

    def ship(self, *buffers: Buffer, worker: int = 1, body: bytes = b"body") -> list[Buffer]:
        """Send a frame; return its buffers as they arrive."""
        self._known.send_frame(worker, body, buffers)
        return self.frames[-1][2]

    def held(self) -> int:
        """Return how many bytes are kept there."""
        return sum(map(len, self.kept._pieces.values()))


def test_an_equal_piece_is_sent_once() -> None:
    site, value = Site(), os.urandom(MIB)
    for worker in range(5):
        assert site.ship(value[:MIB], memoryview(value), worker=worker) == [value, value]
    assert site.sent == MIB
    assert [worker for worker, _, _ in site.frames] == [0, 1, 2, 3, 4]


def test_small_pieces_travel_as_ever() -> None:
    site = Site()
    for _ in range(2):
        assert site.ship(b"x" * (MIB - 1), bytearray(b"y")) == [b"x" * (MIB - 1), b"y"]
        assert site.ship() == []
    assert {type(one) for one in site.said} == {relay.Frame}
    assert site.held() == 0


def test_each_call_gets_a_piece_as_writable_as_it_was() -> None:
    site, value = Site(), os.urandom(MIB)
    kinds = [bytes, bytearray, bytes, bytearray]
    for kind in kinds:
        (arrived,) = site.ship(kind(value))
        assert arrived == value
        assert memoryview(arrived).readonly == (kind is bytes)
    assert site.sent == MIB


def test_a_body_may_be_a_piece() -> None:
    site, function = Site(), os.urandom(2 * MIB)
    for worker in range(3):
        assert site.ship(function, worker=worker, body=b"") == [function]
    assert site.sent == 2 * MIB
    small = b"x" * 10
    assert site.ship(small, body=b"") == [small]


def test_a_piece_that_somebody_may_write_to_is_copied_before_it_is_digested() -> None:
    site, memory = Site(), bytearray(os.urandom(MIB))
    view = memoryview(memory).toreadonly()
    before = bytes(memory)
    sent: list[Buffer] = []
    account = Account(Worth())
    (first,), given = account.take([view])
    sent += given
    memory[0] ^= 255
    assert sent == [before]
    (second,), given = account.take([view])
    assert second.comes
    assert second.digest != first.digest
    assert given == [memory]
    (third,), given = account.take([memoryview(bytearray(before))])
    assert (third.digest, third.comes, third.writable, given) == (first.digest, False, True, [])
    assert site.ship(memoryview(memory)) == [memory]
    assert isinstance(site.frames[-1][2][0], bytearray)


def test_what_was_not_used_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "ROOM", 3 * MIB)
    site = Site()
    a, b, c, d = (os.urandom(MIB) for _ in range(4))
    for value in (a, b, c, a, d):
        assert site.ship(value) == [value]
    assert site.held() == 3 * MIB
    sent = site.sent
    for value in (a, c, d):
        assert site.ship(value) == [value]
    assert site.sent == sent
    assert site.ship(b) == [b]
    assert site.sent == sent + MIB


def test_a_frame_may_name_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "ROOM", 2 * MIB)
    site, values = Site(), [os.urandom(MIB) for _ in range(5)]
    for _ in range(2):
        arrived = site.ship(*values, *values)
        assert arrived == values * 2
        assert site.held() == 2 * MIB
    assert [type(one) for one in site.said] == [relay.Pieces, relay.Discard] * 2


def test_what_is_larger_than_the_bound_is_sent_with_each_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept, "ROOM", 2 * MIB)
    site, value = Site(), bytes(2 * MIB + 1)
    for _ in range(2):
        assert site.ship(value) == [value]
    assert site.sent == 2 * len(value)
    assert site.held() == 0


def test_any_history_arrives_as_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LARGE", 16)
    monkeypatch.setattr(kept, "ROOM", 256)
    monkeypatch.setattr(kept, "_CREDIT", 100)
    chance = random.Random(8)
    site = Site()
    values = [chance.randbytes(chance.choice([0, 3, 16, 40, 100, 256, 300])) for _ in range(20)]
    waiting: list[tuple[list[Buffer], list[Buffer]]] = []
    for _ in range(2000):
        wanted = [
            chance.choice([bytes, bytearray])(one)
            for one in chance.choices(values, k=chance.randrange(5))
        ]
        arrived = site.ship(*wanted)
        waiting.append((wanted, arrived))
        for asked, got in waiting:  # also those that wait to be sent on
            assert got == asked
            assert [memoryview(one).readonly for one in got] == [
                isinstance(one, bytes) for one in asked
            ]
        waiting = waiting[-3:]
        assert site.held() == site._known.account._held <= 256
        assert set(site.kept._pieces) == set(site._known.account._sizes)


def test_a_forgotten_piece_lives_on_in_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "ROOM", MIB)
    site, first = Site(), os.urandom(MIB)
    (waiting,) = site.ship(first)
    site.ship(os.urandom(MIB))
    assert len(site.kept._pieces) == 1
    assert waiting == first


def test_pieces_that_never_come_twice_are_soon_not_digested() -> None:
    site = Site()
    digested = 0
    for at in range(100):
        value = at.to_bytes(2, "big") * (MIB // 2)
        assert site.ship(value) == [value]
        assert isinstance(site.said[-1], relay.Pieces)
        digested += bool(site.said[-1].pieces[0].digest)
    assert digested == kept._CREDIT // MIB
    for _ in range(3):  # the second one is known by its sample, and kept
        site.ship(value)
    assert site.sent == 101 * MIB


def test_saving_pays_for_digesting() -> None:
    worth = Worth()
    assert worth.pays(bytes(MIB))
    worth.note(kept._CREDIT, saved=False)
    assert not worth.pays(b"x" * MIB)
    assert worth.pays(b"x" * MIB)  # it was there before
    worth.note(MIB, saved=True)
    assert worth.pays(b"y" * MIB)


def test_samples_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_SAMPLES", 10)
    worth = Worth()
    for at in range(100):
        worth.pays(bytes([at]) * 64)
    assert len(worth._samples) == 10
