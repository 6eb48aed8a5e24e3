"""What is promised of engines that have processes, observed from both sides of them.

What is promised of every engine is in `test_promises`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from hmz_mp.errors import WorkerStartFailed
from tests.contract import calls
from tests.contract.conftest import MakePool
from tests.core import functions
from tests.helpers import await_until, is_alive, written

pytestmark = pytest.mark.anyio

MIB = 1 << 20


async def _ended(pids: list[int]) -> None:
    await await_until(lambda: not any(map(is_alive, pids)))


def _pids(path: Path) -> list[int]:
    return [int(word) for word in written(path).split() if word.isdigit()]


@pytest.mark.parametrize("size", [100, 100_000, 3 * MIB, 9 * MIB])
async def test_large_values_arrive_as_what_they_were(make_pool: MakePool, size: int) -> None:
    async with make_pool(1) as pool:
        for value in (os.urandom(size), bytearray(os.urandom(size))):
            back = await pool.run(functions.identity, [value, 1, value[:10]])
            assert back == [value, 1, value[:10]]
            assert type(back[0]) is type(value)
        turns = [pool.submit(functions.identity, bytes([at]) * size) for at in range(5)]
        assert [await turn for turn in turns] == [bytes([at]) * size for at in range(5)]


async def test_what_a_call_started_ends_with_it(make_pool: MakePool, tmp_path: Path) -> None:
    async with make_pool(1) as pool:
        path = tmp_path / "child"
        turn = pool.submit(calls.start_a_child_and_hang, str(path))
        await await_until(lambda: written(path) and written(tmp_path / "child.worker"))
        pids = _pids(path) + _pids(tmp_path / "child.worker")
        assert turn.cancel()
        await _ended(pids)


async def test_a_preload_that_cannot_be_imported(make_pool: MakePool) -> None:
    async with make_pool(1, preload=["no_such_module_here"]) as pool:
        with anyio.fail_after(20), pytest.raises(WorkerStartFailed, match="no_such_module_here"):
            await pool.run(len, "ab")


async def test_env_and_cwd_are_the_workers(make_pool: MakePool, tmp_path: Path) -> None:
    async with make_pool(1, env={"ONLY_THERE": "yes"}, cwd=tmp_path) as pool:
        assert await pool.run(os.getenv, "ONLY_THERE") == "yes"
        assert await pool.run(os.getcwd) == str(tmp_path)


async def test_paths_are_followed(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_there_contract.py").write_text("def double(x):\n    return 2 * x\n")
    async with make_pool(1) as pool:
        await pool.run(len, "")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.chdir(tmp_path)
        assert await pool.run(os.getcwd) == str(tmp_path)
        assert await pool.run(_import_and_double, 4) == 8


def _import_and_double(x: int) -> Any:
    import importlib

    return importlib.import_module("only_there_contract").double(x)
