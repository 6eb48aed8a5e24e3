"""Descriptors and output: whatever a call does to them harms nobody, and what it prints is kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hmz_mp import Pool
from hmz_mp.core import watch
from hmz_mp_worker.stdio import OUTPUT_CEILING
from tests.faults.shipped import double, pid
from tests.helpers import is_alive, wait_until

pytestmark = pytest.mark.anyio


def say(text: str) -> None:
    """Print by every way there is."""
    print(f"{text} by print")
    print(f"{text} by print to stderr", file=sys.stderr)
    os.write(1, f"{text} by write\n".encode())
    subprocess.run(["echo", f"{text} by a child"], check=True)


def wanted(text: str) -> set[str]:
    return {f"{text} by {how}" for how in ("print", "print to stderr", "write", "a child")}


def close_standard() -> None:
    for fd in (0, 1, 2):
        os.close(fd)


def close_and_reuse() -> int:
    """Close 0 to 2, and keep other files open under their numbers."""
    close_standard()
    return sum(os.open(os.devnull, os.O_RDWR) for _ in range(3))


def redirect_to_null() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def redirect_to_pipe() -> None:
    read, write = os.pipe()
    os.dup2(read, 0)
    os.dup2(write, 1)
    os.dup2(write, 2)
    for fd in (read, write):
        os.close(fd)


def redirect_to_empty_file() -> None:
    import tempfile

    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)


def close_streams() -> None:
    sys.stdin.close()
    sys.stdout.close()
    sys.stderr.close()


def read_by_descriptor() -> None:
    with open(0) as file:  # closes descriptor 0 too
        assert file.read() == ""


def delete_streams() -> None:
    del sys.stdout, sys.stderr
    sys.stdin = None


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1) as pool:
        yield pool


HARMS: list[Callable[[], Any]] = [
    close_standard,
    close_and_reuse,
    redirect_to_null,
    redirect_to_pipe,
    redirect_to_empty_file,
    close_streams,
    read_by_descriptor,
    delete_streams,
]


@pytest.mark.parametrize("harm", HARMS, ids=lambda one: one.__name__)
async def test_the_next_call_prints_and_reads_as_before(
    pool: Pool, harm: Callable[[], Any]
) -> None:
    worker = await pool.run(pid)
    guilty, behind = pool.submit(harm), pool.submit(say, "hello")
    program = pool.submit(lambda: subprocess.run(["cat"], check=True, timeout=10).returncode)
    reading = pool.submit(lambda: (sys.stdin.read(), os.read(0, 5), sys.stdin.closed))
    await guilty
    await behind
    assert behind.account is not None
    assert set(behind.account.output.splitlines()) == wanted("hello")
    assert await reading == ("", b"", False)
    assert await program == 0
    assert await pool.run(pid) == worker


async def test_what_the_guilty_call_printed_before_is_kept(pool: Pool) -> None:
    def print_and_close() -> None:
        say("before")
        close_standard()

    turn = pool.submit(print_and_close)
    await turn
    assert turn.account is not None
    assert set(turn.account.output.splitlines()) == wanted("before")


@pytest.mark.parametrize("then_raise", [False, True])
async def test_a_call_that_closes_every_descriptor_it_can_find(then_raise: bool) -> None:
    def close_all() -> int:
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                os.close(int(name))
        if then_raise:
            raise ValueError("all closed")
        return 7

    async with Pool(1) as pool:
        for _ in range(3):
            before = [pool.submit(double, n) for n in range(20)]
            guilty = pool.submit(close_all)
            behind = [pool.submit(double, n) for n in range(20)]
            assert await asyncio.gather(*before, *behind) == [2 * n for n in range(20)] * 2
            (ended,) = await asyncio.gather(guilty, return_exceptions=True)
            # It answered, on the page that outlives it, or it is the one that is blamed.
            assert ended == 7 or isinstance(ended, Exception)
            if isinstance(ended, ValueError):
                assert str(ended) == "all closed"


async def test_an_async_call_that_closes_every_descriptor() -> None:
    async def close_all() -> None:
        os.closerange(0, 4096)

    async def answer() -> int:
        return 7

    async with Pool(1) as pool:
        (ended,) = await asyncio.gather(pool.submit(close_all), return_exceptions=True)
        assert ended is None or isinstance(ended, Exception)
        assert await pool.run(answer) == 7


async def test_a_call_that_writes_into_every_descriptor_it_can_find() -> None:
    """What arrives at the coordinator is no message of ours: that worker ends, the pool goes on."""

    def write_everywhere() -> None:
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                try:
                    os.write(int(name), b"\xff" * 64)
                except OSError:
                    continue

    async with Pool(1) as pool:
        guilty = pool.submit(write_everywhere)
        behind = [pool.submit(double, n) for n in range(20)]
        assert await asyncio.gather(*behind) == [2 * n for n in range(20)]
        (ended,) = await asyncio.gather(guilty, return_exceptions=True)
        assert ended is None or isinstance(ended, Exception)


async def test_a_program_that_reads_its_stdin_sees_the_end(pool: Pool) -> None:
    assert await pool.run(lambda: subprocess.run(["cat"], check=True, timeout=10).returncode) == 0
    with pytest.raises(EOFError):
        await pool.run(lambda: input())


async def test_output_of_one_turn_is_bounded(pool: Pool) -> None:
    def print_much() -> None:
        for _ in range(40):
            print("x" * (1 << 17))
        print("the end")

    turn = pool.submit(print_much)
    await turn
    assert turn.account is not None
    output = turn.account.output
    assert len(output) < OUTPUT_CEILING + 100
    assert output.startswith("[")
    assert "bytes before this were cut]" in output
    assert output.endswith("the end\n")
    turn = pool.submit(say, "after")
    await turn
    assert turn.account is not None
    assert set(turn.account.output.splitlines()) == wanted("after")


async def test_output_of_a_turn_that_prints_for_ever_does_not_fill_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "_BUSY", 0.02)

    def print_much() -> int:
        """Print more and more; return the most that ever lay in memory."""
        most = 0
        for _ in range(20):
            os.write(1, b"y" * (10 << 20))
            most = max(most, os.fstat(1).st_blocks * 512)
            wait_until(lambda: os.fstat(1).st_blocks * 512 < 9 << 20)  # its beginning is dropped
        return most

    async with Pool(1) as pool:
        assert await pool.run(print_much) < 25 << 20


async def test_children_that_inherit_and_go_on_printing_harm_no_turn() -> None:
    def leave_printer() -> int:
        return subprocess.Popen(
            [sys.executable, "-S", "-u", "-c", "while True: print('noise' * 100)"]
        ).pid

    async with Pool(1) as pool:
        child = await pool.run(leave_printer)
        for n in range(200):
            assert await pool.run(double, n) == 2 * n
        assert is_alive(child)
    assert not is_alive(child)


async def test_descriptors_of_ours_are_not_inherited_by_programs(pool: Pool) -> None:
    def look() -> list[str]:
        listing = subprocess.run(
            ["ls", "-l", "/proc/self/fd"], check=True, capture_output=True, text=True
        )
        return [line.rpartition("-> ")[2] for line in listing.stdout.splitlines() if "->" in line]

    assert not [line for line in await pool.run(look) if "socket" in line]
