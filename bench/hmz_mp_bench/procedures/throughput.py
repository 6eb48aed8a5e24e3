"""Calls by the thousand: gathered, through a window, one after the other, mapped; and payloads."""

from __future__ import annotations

import ast
import os
import sysconfig
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from hmz_mp_bench import calls
from hmz_mp_bench.contenders.base import Contender
from hmz_mp_bench.procedures import Figures, resident, verify

__all__ = ["gathered", "large", "mapped", "mebibyte", "one_by_one", "parsed", "windowed"]

WINDOW = 1000  # calls in flight
MIB = 1 << 20


async def _warm_up(contender: Contender, count: int) -> None:
    answers = await contender.gathered(calls.no_op, range(count))
    verify(answers == list(range(count)), "the warm-up")


async def gathered(contender: Contender, count: int) -> Figures:
    """Begin all calls, await all."""
    await _warm_up(contender, max(20, count // 20))
    began = time.perf_counter()
    answers = await contender.gathered(calls.no_op, range(count))
    seconds = time.perf_counter() - began
    verify(answers == list(range(count)), "answers are not the items, in order")
    return {"call": seconds / count, "all": seconds, "calls": count}


async def windowed(contender: Contender, count: int) -> Figures:
    """Keep a window of calls in flight; note how much the process grows meanwhile."""
    await _warm_up(contender, WINDOW)
    submit, no_op = contender.submit, calls.no_op
    pending: deque[Any] = deque()
    memory = _Memory(count)
    answered = 0
    began = time.perf_counter()
    for number in range(count):
        if len(pending) == WINDOW:
            if await pending.popleft() != answered:
                break
            answered += 1
            if not answered % memory.step:
                memory.look()
        pending.append(submit(no_op, number))
    for answer in pending:
        if await answer == answered:
            answered += 1
    seconds = time.perf_counter() - began
    verify(answered == count, "an answer is not its item")
    return {"call": seconds / count, "all": seconds, "calls": count, "growth": memory.growth}


async def one_by_one(contender: Contender, count: int) -> Figures:
    """Await each call before the next begins."""
    await _warm_up(contender, max(20, count // 20))
    began = time.perf_counter()
    answers = [await contender.submit(calls.no_op, number) for number in range(count)]
    seconds = time.perf_counter() - began
    verify(answers == list(range(count)), "answers are not the items, in order")
    return {"call": seconds / count, "all": seconds, "calls": count}


async def mapped(contender: Contender, count: int) -> Figures:
    """Iterate over the answers of a map; note how much the process grows meanwhile."""
    await _warm_up(contender, 100)
    memory = _Memory(count)
    began = time.perf_counter()
    answered = await _consume(contender.mapped(calls.no_op, range(count)), memory)
    seconds = time.perf_counter() - began
    verify(answered == count, f"the answer after {answered} is not the next item")
    return {"call": seconds / count, "all": seconds, "calls": count, "growth": memory.growth}


async def _consume(answers: Iterator[Any] | AsyncIterator[Any], memory: _Memory) -> int:
    answered, step = 0, memory.step
    if isinstance(answers, AsyncIterator):
        async for answer in answers:
            if answer != answered:
                break
            answered += 1
            if not answered % step:
                memory.look()
        return answered
    for answer in answers:
        if answer != answered:
            break
        answered += 1
        if not answered % step:
            memory.look()
    return answered


class _Memory:
    """How much this process grew since a tenth of the calls were answered."""

    def __init__(self, count: int) -> None:
        self.step = max(1, count // 10)
        self._first = self._most = 0

    def look(self) -> None:
        held = resident()
        self._first = self._first or held
        self._most = max(self._most, held)

    @property
    def growth(self) -> float:
        return self._most - self._first


async def mebibyte(contender: Contender, count: int) -> Figures:
    """Send 1 MiB of random bytes there and back, again and again, other bytes each time."""
    return await _there_and_back(contender, [os.urandom(MIB) for _ in range(8)], count)


async def large(contender: Contender, count: int) -> Figures:
    """Send 256 MiB there and back."""
    return await _there_and_back(contender, [os.urandom(256 * MIB)], count)


async def _there_and_back(contender: Contender, payloads: list[bytes], count: int) -> Figures:
    took = []
    for number in range(count + len(payloads)):
        payload = payloads[number % len(payloads)]
        began = time.perf_counter()
        answer = await contender.submit(calls.no_op, payload)
        took.append(time.perf_counter() - began)
        verify(answer == payload, "other bytes came back")
        del answer
    measured = took[len(payloads) :]
    return {"call": sum(measured) / count, "all": sum(measured), "calls": count}


async def parsed(contender: Contender, count: int) -> Figures:
    """Parse files of the standard library."""
    files = library_files(count)
    await contender.gathered(calls.parse, files[:20])
    began = time.perf_counter()
    answers = await contender.gathered(calls.parse, files)
    seconds = time.perf_counter() - began
    right = [(at, calls.parse(files[at])) for at in range(0, len(files), 10)]
    verify(all(answers[at] == nodes for at, nodes in right), "a file has another number of nodes")
    verify(len(answers) == len(files), "there are fewer answers than files")
    return {"all": seconds, "call": seconds / len(files), "calls": len(files)}


def library_files(count: int) -> list[str]:
    """Return the first files of the standard library, by name, of those that parse."""
    root = Path(sysconfig.get_path("stdlib"))
    left_out = {"lib2to3", "site-packages", "test"}  # some of these do not parse, on purpose
    found = sorted(root.glob("*.py"))
    found += [one for one in sorted(root.glob("[a-z]*/[a-z]*.py")) if not left_out & {*one.parts}]
    parsing = (str(path) for path in found if path.stat().st_size and _parses(path))
    return list(islice(parsing, count))


def _parses(path: Path) -> bool:
    try:
        compile(path.read_bytes(), str(path), "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
