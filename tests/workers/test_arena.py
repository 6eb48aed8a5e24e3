"""Shared memory between a coordinator and a worker: one value at a time, in each direction."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmz_mp_worker.arena import ROOM, SLOTS, Arena, Region
from hmz_mp_worker.framing import WRITABLE, Buffer
from hmz_mp_worker.page import Page, anonymous_file


@pytest.fixture
def fd() -> Iterator[int]:
    file = anonymous_file("test")
    Page(file)
    yield file
    os.close(file)


def ends(fd: int) -> tuple[Region, Region]:
    return Arena(fd).open().inbox, Arena(fd).inbox


def lengths_of(where: list[int]) -> list[int]:
    return [one & ~WRITABLE for one in where[1:]]


def taken(region: Region, data: bytes) -> list[int]:
    where = region.put([data])
    assert where is not None
    return where


def test_parts_arrive_as_they_were(fd: int) -> None:
    ours, theirs = ends(fd)
    parts: list[Buffer] = [b"abc", b"", bytearray(b"x" * 1000), memoryview(b"12345678")]
    where = ours.put(parts)
    assert where is not None
    assert lengths_of(where) == [3, 0, 1000, 8]
    found = theirs.get(where)
    assert [bytes(part) for part in found] == [bytes(part) for part in parts]
    assert [type(one) for one in found] == [memoryview, bytes, bytearray, bytes]


def test_parts_of_wide_items(fd: int) -> None:
    ours, theirs = ends(fd)
    where = ours.put([b"", memoryview(bytearray(24)).cast("Q")])
    assert where is not None
    assert theirs.get(where)[1] == bytes(24)


def test_a_slot_holds_one_value_until_it_is_released(fd: int) -> None:
    ours, theirs = ends(fd)
    held = [taken(ours, bytes([at])) for at in range(SLOTS)]
    assert ours.put([b"one more"]) is None
    assert [bytes(theirs.get(where)[0]) for where in held] == [bytes([at]) for at in range(SLOTS)]
    assert ours.put([b"one more"]) is None
    theirs.release(held[3])
    assert bytes(theirs.get(taken(ours, b"one more"))[0]) == b"one more"
    assert ours.put([b"another"]) is None


def test_copies_outlive_the_release(fd: int) -> None:
    ours, theirs = ends(fd)
    where = ours.put([b"stream", b"kept", bytearray(b"too")])
    assert where is not None
    _, kept, too = theirs.get(where)
    theirs.release(where)
    again = ours.put([b"STREAM", b"over", b"OVER"])
    assert again is not None
    assert again[0] == where[0], "the memory that was touched is used again"
    assert (bytes(kept), bytes(too)) == (b"kept", b"too")


def test_what_is_too_large_goes_another_way(fd: int) -> None:
    ours, _ = ends(fd)
    assert ours.put([bytes(ROOM)]) is None
    assert ours.put([bytes(ROOM - 64)]) is not None


def test_the_two_directions_do_not_meet(fd: int) -> None:
    here, there = Arena(fd).open(), Arena(fd)
    into, out = here.inbox, here.outbox
    a, b = into.put([b"a" * 1000]), out.put([b"b" * 1000])
    assert a is not None
    assert b is not None
    assert bytes(there.inbox.get(a)[0]) == b"a" * 1000
    assert bytes(there.outbox.get(b)[0]) == b"b" * 1000


def test_it_lives_on_when_its_descriptor_is_closed() -> None:
    file = anonymous_file("test")
    ours, theirs = Arena(file).open().inbox, Arena(file).open().inbox
    os.close(file)
    assert bytes(theirs.get(taken(ours, b"still here"))[0]) == b"still here"


values = st.lists(st.binary(max_size=300), min_size=1, max_size=5)


@settings(max_examples=60)
@given(st.lists(st.one_of(values, st.integers(0, SLOTS - 1)), max_size=40))
def test_any_sequence_of_values_and_releases(steps: list[list[bytes] | int]) -> None:
    """Values are put, and looked at and released in any order; none is lost or overwritten."""
    file = anonymous_file("test")
    ours, theirs = ends(file)
    held: list[tuple[list[int], list[bytes]]] = []
    for step in steps:
        if isinstance(step, int):
            if step < len(held):
                where, parts = held.pop(step)
                assert [bytes(part) for part in theirs.get(where)] == parts
                theirs.release(where)
        elif (put := ours.put(step)) is not None:
            held.append((put, step))
        else:
            assert len(held) == SLOTS
    assert len({where[0] for where, _ in held}) == len(held)
    for where, parts in held:
        assert [bytes(part) for part in theirs.get(where)] == parts
    os.close(file)


def refuse(*_: object) -> mmap.mmap:
    raise OSError("no room")


def test_a_sender_without_room_for_it(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = Arena(fd).open()
    monkeypatch.setattr(mmap, "mmap", refuse)
    assert Arena(fd).inbox.put([b"x"]) is None
    assert theirs.memory() is not None


def test_a_receiver_without_room_for_it_reads(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Arena(fd).open().outbox
    where = ours.put([b"pickle", b"abc", bytearray(b"defg")])
    assert where is not None
    monkeypatch.setattr(mmap, "mmap", refuse)
    theirs = Arena(fd).outbox
    assert theirs.get(where) == [b"pickle", b"abc", bytearray(b"defg")]
    theirs.release(where)
    again = ours.put([b"x"])
    assert again is not None
    assert again[0] == where[0]


@pytest.mark.parametrize("what", ["truncate", "map"])
def test_a_worker_without_room_for_it_tells_the_other(
    fd: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        if what == "map":
            patch.setattr(mmap, "mmap", refuse)
        else:
            patch.setattr(os, "ftruncate", refuse)
        theirs = Arena(fd).open()
    assert Arena(fd).inbox.put([b"x"]) is None
    assert theirs.outbox.put([b"x"]) is None
    theirs.close()


def test_closing_lets_the_memory_go(fd: int) -> None:
    arena = Arena(fd).open()
    arena.inbox.put([b"x"])
    arena.close()
    arena.close()
