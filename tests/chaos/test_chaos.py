"""Turns of every kind over a pool whose workers are killed, stopped and continued at random.

Seeded and bounded. ``HMZ_MP_CHAOS_SECONDS`` says how long (4 by default), ``HMZ_MP_CHAOS_SEED``
with which seed; a failure names both. `make soak` runs it for an hour.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from hmz_mp import Pool
from hmz_mp.core.session import Session
from hmz_mp.core.turns import Turn
from hmz_mp.engines.local import LocalEngine
from hmz_mp.errors import TurnFailed, TurnTimeout, Unpicklable, WorkerDied, WorkerStartFailed
from hmz_mp_worker import kernel
from tests.chaos import calls

pytestmark = pytest.mark.anyio

SECONDS = float(os.environ.get("HMZ_MP_CHAOS_SECONDS", "4"))
SEED = int(os.environ.get("HMZ_MP_CHAOS_SEED", "0"))
AT_ONCE = 3
WORKERS = 3

# Each kind of call: how often, and what it may end in beside what any call may end in when its
# worker is killed from outside.
KINDS: dict[str, tuple[int, type[BaseException] | None]] = {
    "fast": (40, None),
    "slow": (8, None),
    "overlap": (20, None),
    "fail": (8, ValueError),
    "fail_oddly": (4, calls.Odd),
    "exit_": (2, TurnFailed),
    "print_much": (4, None),
    "huge": (2, None),
    "kill_itself": (2, WorkerDied),
    "end_itself": (2, WorkerDied),
    "fork_and_return": (2, None),
    "leave_child": (1, None),
    "leave_daemon": (1, None),
    "leave_thread": (1, None),
    "close_descriptors": (2, None),
    "change_directory": (2, None),
    "unpicklable": (2, Unpicklable),
    "hang": (1, TurnTimeout),
    "hang_stubbornly": (1, TurnTimeout),
    "wait": (10, None),
    "wait_and_fail": (3, calls.Odd),
    "wait_stubbornly": (1, TurnTimeout),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Chaos:
    """One run of it: what was submitted, how it ended, what went wrong."""

    def __init__(self, pool: Pool, seed: int, folder: str) -> None:
        self.pool = pool
        self.random = random.Random(seed)
        self.folder = folder
        self.narrow = pool.options(at_once=AT_ONCE)
        self.number = 0
        self.endings: Counter[str] = Counter()
        self.ended: Counter[int] = Counter()
        self.pending: set[Turn] = set()
        self.sessions: list[tuple[Session, list[int]]] = []
        self.wrong: list[str] = []
        self.stopped: set[int] = set()

    # Submitting.

    def submit(self) -> None:
        """Submit a call of a kind taken at random."""
        self.number += 1
        number = self.number
        kind = self.random.choices(list(KINDS), [often for often, _ in KINDS.values()])[0]
        fn = getattr(calls, kind)
        args: tuple[Any, ...] = (number,)
        caller: Any = self.pool
        if kind == "overlap":
            args, caller = (self.folder, number), self.narrow
        elif kind == "huge":
            args = (number, self.random.randbytes(self.random.choice([70_000, 3_000_000])))
        elif kind in ("hang", "hang_stubbornly", "wait_stubbornly"):
            caller = self.pool.options(timeout=self.random.choice([0.05, 0.3]))
        elif self.random.random() < 0.05:
            caller = self.pool.options(timeout=30, retries=1)
        turn = caller.submit(fn, *args)
        self.follow(turn, number, kind, args)
        if self.random.random() < 0.05:
            asyncio.get_running_loop().call_later(self.random.random() * 0.05, turn.cancel)

    def submit_to_session(self) -> None:
        """Submit to a session, a new one at times."""
        if not self.sessions or (len(self.sessions) < 5 and self.random.random() < 0.1):
            self.sessions.append((self.pool.session(), []))
        if self.random.random() < 0.02:
            self.sessions.pop(self.random.randrange(len(self.sessions)))
            return
        session, seen = self.random.choice(self.sessions)
        self.number += 1
        number = self.number
        turn = session.submit(calls.next_of_session, number)
        self.follow(turn, number, "session", (number,))

        def check(turn: Any) -> None:
            if not turn.cancelled() and turn.exception() is None:
                _, numbers, _ = turn.result()
                if numbers != sorted(numbers) or numbers[-1] != number:
                    self.wrong.append(f"session out of order: {numbers}")
                if seen and number < seen[-1]:
                    self.wrong.append(f"answered out of order: {number} after {seen[-1]}")
                seen.append(number)

        turn.add_done_callback(check)

    def follow(self, turn: Turn, number: int, kind: str, args: tuple[Any, ...]) -> None:
        """Check that a turn ends once, and rightly."""
        self.pending.add(turn)

        def end(turn: Any) -> None:
            self.pending.discard(turn)
            self.ended[number] += 1
            self.endings[self.judge(turn, number, kind, args)] += 1

        turn.add_done_callback(end)

    def judge(self, turn: Any, number: int, kind: str, args: tuple[Any, ...]) -> str:
        if turn.cancelled():
            return "cancelled"
        error = turn.exception()
        expected = KINDS.get(kind, (0, None))[1]
        if error is not None:
            if isinstance(error, WorkerDied) and not isinstance(error, WorkerStartFailed):
                return "died"  # also of what was killed from outside
            if expected is None or not isinstance(error, expected):
                self.wrong.append(f"{kind} {number} ended in {error!r}")
            return type(error).__name__
        if expected is not None or not self.is_right(kind, number, args, turn.result()):
            self.wrong.append(f"{kind} {number} answered {turn.result()!r:.80}")
        return "answered"

    def is_right(self, kind: str, number: int, args: tuple[Any, ...], answer: Any) -> bool:
        if kind == "overlap":
            return bool(answer <= AT_ONCE)
        if kind == "huge":
            return bool(answer == args)
        return kind == "session" or bool(answer == number)

    # Hurting.

    def hurt(self) -> None:
        """Kill or stop a worker taken at random, or kill the process that forks them all."""
        if self.random.random() < 0.03:
            self.kill_zygote()
            return
        workers = [
            one.pid
            for one in self.pool.statistics().workers
            if one.pid is not None and one.state != "starting"
        ]
        if not workers:
            return
        pid = self.random.choice(workers)
        number = self.random.choice(
            [signal.SIGKILL, signal.SIGSTOP, signal.SIGSTOP, signal.SIGTERM]
        )
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if number == signal.SIGSTOP:
            self.stopped.add(pid)

    def kill_zygote(self) -> None:
        coordinator = self.pool._coordinator
        assert coordinator is not None
        engine = coordinator.engine
        assert isinstance(engine, LocalEngine)
        # Not one after the other that never comes to have a worker: that is a failure of its own.
        if engine._zygote is not None and engine._zygote.booted and not engine._losses:
            os.kill(engine._zygote.pid, signal.SIGKILL)

    def heal(self) -> None:
        """Continue what was stopped."""
        for pid in self.stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue
        self.stopped.clear()

    async def run(self, seconds: float) -> None:
        """Go on for so long; then wait for all that was submitted."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.wrong:
            for _ in range(self.random.randrange(30)):
                self.submit()
            for _ in range(self.random.randrange(4)):
                self.submit_to_session()
            if self.random.random() < 0.3:
                self.hurt()
            await asyncio.sleep(self.random.random() * 0.02)
            if self.random.random() < 0.3:
                self.heal()
            while len(self.pending) > 300:
                self.heal()
                await asyncio.sleep(0.01)
        self.heal()
        while self.pending and not self.wrong:
            self.heal()
            await asyncio.sleep(0.01)


async def test_chaos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # of workers and what they start
    shared = set(Path("/dev/shm").glob("hmz*"))
    memory = []
    rounds = max(2, min(20, int(SECONDS // 6)))
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, caplog.at_level(logging.ERROR):
        for round_ in range(rounds):
            seed = SEED * 1000 + round_
            async with asyncio.timeout(SECONDS / rounds + 40):
                async with Pool(WORKERS, initializer=calls.heed_soon) as pool:
                    chaos = Chaos(pool, seed, folder)
                    await chaos.run(SECONDS / rounds)
                    statistics = pool.statistics()
            assert not chaos.wrong, f"HMZ_MP_CHAOS_SEED={SEED}, round {round_}: {chaos.wrong[:5]}"
            assert len(chaos.ended) == chaos.number
            assert set(chaos.ended.values()) == {1}
            assert statistics.queued == statistics.running == 0
            total += chaos.endings
            for mark in os.listdir(folder):
                os.unlink(Path(folder) / mark)
            del chaos
            gc.collect()
            memory.append(psutil.Process().memory_info().rss)
            assert kernel.descendants(os.getpid()) == []
    assert total["answered"] > 100, total
    assert memory[-1] < memory[0] + (64 << 20), memory
    assert not set(Path("/dev/shm").glob("hmz*")) - shared
    assert not list(tmp_path.iterdir())
    assert not [record for record in caplog.records if record.name in ("asyncio", "hmz_mp")]
