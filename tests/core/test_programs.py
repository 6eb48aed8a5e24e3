from __future__ import annotations

import os
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Job, Lane, Timing
from hmz_mp.core.machine import MachineMemory
from hmz_mp.core.programs import USUAL, ProgramRoom, own_memory, programs_of
from hmz_mp_worker import kernel

MIB = 1 << 20
KEPT = 512 * MIB  # of ten GiB


def memory(available: int) -> MachineMemory:
    return MachineMemory(10 << 30, available + KEPT)


def taken(gate: Gate, turns: int) -> None:
    for _ in range(turns):
        gate.take(0.0)


def test_before_any_was_measured_they_are_taken_to_be_usual() -> None:
    room = ProgramRoom(Gate("programs"))
    assert room.room({}, memory(3 * USUAL)) == 3
    assert room.room({}, memory(0)) == 1  # one always runs
    assert room.room({}, memory(-KEPT)) == 1


def test_those_that_run_are_measured() -> None:
    gate = Gate("programs")
    room = ProgramRoom(gate)
    taken(gate, 2)
    assert room.room({1: 10 * MIB, 2: 30 * MIB}, memory(4 * USUAL)) == 2 + 2  # they still grow
    assert room.room({1: 90 * MIB, 2: 110 * MIB}, memory(400 * MIB)) == 2 + 4
    assert room.each == 100 * MIB
    assert room.room({}, memory(400 * MIB)) == 2 + 4  # what is known is kept


def test_what_has_just_begun_is_counted_before_it_is_there() -> None:
    gate = Gate("programs")
    room = ProgramRoom(gate)
    taken(gate, 1)
    room.room({1: 100 * MIB}, memory(USUAL))
    assert room.room({1: 100 * MIB}, memory(1000 * MIB)) == 1 + 10
    taken(gate, 6)
    assert room.room({1: 100 * MIB, 2: 40 * MIB}, memory(1000 * MIB)) == 7 + 4  # 5 and 60 %
    assert room.room({1: 100 * MIB, 2: 100 * MIB}, memory(1000 * MIB)) == 7 + 10  # they need none


@settings(deadline=None)
@given(
    looks=st.lists(
        st.tuples(
            st.dictionaries(st.integers(1, 20), st.integers(0, 1 << 34), max_size=20),
            st.integers(0, 1 << 36),
            st.integers(0, 5),
        ),
        max_size=20,
    )
)
def test_one_always_runs_and_none_that_would_not_fit(
    looks: list[tuple[dict[int, int], int, int]],
) -> None:
    gate = Gate("programs")
    room = ProgramRoom(gate)
    for trees, available, more in looks:
        taken(gate, more)
        found = room.room(trees, MachineMemory(1 << 36, available))
        assert found >= 1
        more_fit = max(0, found - max(1, gate.used))
        assert more_fit * (room.each or USUAL) <= max(0, available)


def test_it_is_said_once_when_turns_wait() -> None:
    gate = Gate("programs", 1)
    room = ProgramRoom(gate)
    room.room({1: 0}, memory(0))
    lane = Lane(1, "host", (gate,))
    lane.jobs.append(Job(1, lane, Timing()))
    assert room.words(memory(0)) is None  # nobody waits
    gate.waiting["host"].append(lane)
    assert room.words(memory(0)) is None  # not for memory
    gate.take(0.0)
    assert room.words(memory(0)) is None  # nor is it known how much they take
    room.room({1: 100 * MIB}, memory(0))
    assert room.words(memory(0)) == (
        "the memory bears no more agent programs: 1 run, of 100 MiB each, and 512 MiB of 10240 MiB "
        "are available; turns that wait: 1"
    )
    assert room.words(memory(0)) is None


def test_the_programs_of_a_worker() -> None:
    code = "import sys; held = b'x' * (64 << 20); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = programs_of(os.getpid())
        assert found[child.pid] > 64 * MIB
        if sys.platform == "linux":
            assert own_memory(child.pid) > 64 * MIB
            assert child.pid in kernel.children(os.getpid())
        child.communicate()
    assert child.pid not in programs_of(os.getpid())
    assert programs_of(None) == {}
    assert own_memory(child.pid) == 0
