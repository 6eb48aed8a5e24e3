"""Shared memory between a coordinator and a worker: one value at a time, in each direction."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp_worker.arena import ROOM, Arena, Region
from hmz_mp_worker.framing import Buffer
from hmz_mp_worker.page import Page, anonymous_file


@pytest.fixture
def fd() -> Iterator[int]:
    file = anonymous_file("test")
    Page(file)
    yield file
    os.close(file)


def ends(fd: int) -> tuple[Region, Region]:
    return Arena(fd).open().inbox, Arena(fd).inbox


def test_parts_arrive_as_they_were(fd: int) -> None:
    ours, theirs = ends(fd)
    parts: list[Buffer] = [b"abc", b"", bytearray(b"x" * 1000), memoryview(b"12345678")]
    lengths = ours.put(parts)
    assert lengths == [3, 0, 1000, 8]
    assert [bytes(part) for part in theirs.get(lengths, borrowed=True)] == [
        bytes(part) for part in parts
    ]


def test_a_region_holds_one_value_until_it_is_released(fd: int) -> None:
    ours, theirs = ends(fd)
    lengths = ours.put([b"first"])
    assert lengths is not None
    assert ours.put([b"second"]) is None
    assert bytes(theirs.get(lengths, borrowed=True)[0]) == b"first"
    assert ours.put([b"second"]) is None
    theirs.release()
    assert ours.put([b"second"]) == [6]


def test_copies_outlive_the_release_and_borrowed_parts_do_not(fd: int) -> None:
    ours, theirs = ends(fd)
    lengths = ours.put([b"stream", b"kept"])
    assert lengths is not None
    _, kept = theirs.get(lengths, borrowed=False)
    theirs.release()
    assert ours.put([b"STREAM", b"over"]) is not None
    assert bytes(kept) == b"kept"
    assert not kept.readonly


def test_a_value_that_was_not_looked_at_frees_its_region(fd: int) -> None:
    ours, theirs = ends(fd)
    assert ours.put([b"given back"]) is not None
    theirs.skip()
    lengths = ours.put([b"next"])
    assert lengths is not None
    assert bytes(theirs.get(lengths, borrowed=True)[0]) == b"next"


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
    assert bytes(there.inbox.get(a, borrowed=True)[0]) == b"a" * 1000
    assert bytes(there.outbox.get(b, borrowed=True)[0]) == b"b" * 1000


def test_it_lives_on_when_its_descriptor_is_closed() -> None:
    file = anonymous_file("test")
    ours, theirs = Arena(file).open().inbox, Arena(file).open().inbox
    os.close(file)
    lengths = ours.put([b"still here"])
    assert lengths is not None
    assert bytes(theirs.get(lengths, borrowed=True)[0]) == b"still here"


@given(st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=5), max_size=8))
def test_any_sequence_of_values(values: list[list[bytes]]) -> None:
    file = anonymous_file("test")
    ours, theirs = ends(file)
    for parts in values:
        lengths = ours.put(parts)
        assert lengths is not None
        assert [bytes(part) for part in theirs.get(lengths, borrowed=False)] == parts
        theirs.release()
    os.close(file)


def test_closing_lets_the_memory_go(fd: int) -> None:
    arena = Arena(fd).open()
    arena.inbox.put([b"x"])
    arena.close()
    arena.close()
