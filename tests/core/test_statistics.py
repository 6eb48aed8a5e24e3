from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hmz_mp import Pool
from hmz_mp.core.statistics import resident_memory
from tests.core import functions
from tests.helpers import await_until


def test_the_memory_of_a_process() -> None:
    mine = resident_memory(os.getpid())
    assert 1 << 20 < mine < 1 << 33
    code = "data = bytearray(30 << 20); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert resident_memory(child.pid) > 30 << 20
        assert resident_memory(os.getpid(), tree=True) >= mine + (30 << 20)
        child.communicate()
    assert resident_memory(child.pid) == 0


def test_the_memory_of_nothing() -> None:
    assert resident_memory(None) == 0


@pytest.mark.anyio
async def test_counts(tmp_path: Path) -> None:
    async with Pool(1, at_once=2) as pool:
        empty = pool.statistics()
        assert (empty.queued, empty.running, empty.workers, empty.limits) == (0, 0, [], {})
        go = str(tmp_path / "go")
        turns = [pool.submit(functions.wait_for_async, go) for _ in range(5)]
        await await_until(lambda: turns[1].running())
        busy = pool.statistics()
        assert (busy.queued, busy.running) == (3, 2)
        assert turns[4].cancel()
        Path(go).touch()
        for turn in turns[:4]:
            await turn
        with pytest.raises(ValueError, match="v"):
            await pool.options(retries=2).run(functions.fail_async, ValueError("v"))
        ended = pool.statistics()
        assert (ended.queued, ended.running, ended.widest) == (0, 0, 2)
        assert (ended.done, ended.failed, ended.retried, ended.cancelled) == (4, 1, 2, 1)
        (worker,) = ended.workers
        assert (worker.kind, worker.state) == ("host", "ready")
        assert worker.turns == 4 + 3
        assert worker.rss > 1 << 20
