from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from hmz_mp import Pool
from hmz_mp.engines.local import LocalEngine
from hmz_mp.errors import InitializerFailed, WorkerDied, WorkerStartFailed
from tests.core import functions
from tests.helpers import await_until, is_alive, run_script, written

pytestmark = pytest.mark.anyio


def zygote_of(pool: Pool) -> int:
    engine = pool._entered().engine
    assert isinstance(engine, LocalEngine)
    zygote = engine._zygote
    assert zygote is not None
    return zygote.pid


def raises() -> None:
    print("what it printed")
    raise KeyError("initializer")


async def test_workers_are_children_of_the_zygote() -> None:
    async with Pool(2) as pool:
        parent = await pool.run(os.getppid)
        zygote = zygote_of(pool)
        assert parent == zygote
    assert not is_alive(zygote)


async def test_a_killed_zygote_is_replaced() -> None:
    async with Pool(1) as pool:
        first = await pool.run(os.getpid)
        zygote = zygote_of(pool)
        os.kill(zygote, signal.SIGKILL)
        await await_until(lambda: not is_alive(first))
        with anyio.fail_after(20):
            second = await pool.options(retries=3).run(os.getpid)
        assert second != first
        assert zygote_of(pool) != zygote


async def test_a_killed_zygote_blames_the_turns_that_ran_and_ships_the_others_again(
    tmp_path: Path,
) -> None:
    async with Pool(1) as pool:
        running = pool.submit(functions.note_and_hang, str(tmp_path / "pid"))
        queued = [pool.submit(functions.identity, at) for at in range(20)]
        await await_until(lambda: written(tmp_path / "pid"))
        os.kill(zygote_of(pool), signal.SIGKILL)
        with anyio.fail_after(20), pytest.raises(WorkerDied) as caught:
            await running
        assert caught.value.pid == int(written(tmp_path / "pid"))
        assert "note_and_hang" in str(caught.value)
        with anyio.fail_after(20):
            assert [await turn for turn in queued] == list(range(20))


async def test_a_killed_zygote_and_a_retried_turn(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        path = tmp_path / "pid"
        turn = pool.options(retries=1).submit(functions.note_and_hang, str(path))
        await await_until(lambda: written(path))
        os.kill(zygote_of(pool), signal.SIGKILL)
        await await_until(lambda: len(written(path).split()) == 2)
        first, second = map(int, written(path).split())
        assert not is_alive(first)
        assert is_alive(second)
        assert turn.cancel()


async def test_a_worker_that_dies_is_blamed_for_what_it_ran() -> None:
    async with Pool(1) as pool:
        turns = [pool.submit(functions.identity, at) for at in range(5)]
        fatal = pool.options(item_id="the one").submit(functions.die)
        turns += [pool.submit(functions.identity, at) for at in range(5, 10)]
        with pytest.raises(WorkerDied) as caught:
            await fatal
        assert [await turn for turn in turns] == list(range(10))
        error = caught.value
        assert (error.signal, error.exitcode) == (signal.SIGKILL, None)
        assert error.stderr_tail == "last words\n"
        assert "die for item 'the one'" in str(error)


async def test_a_worker_that_exits_is_blamed_with_its_status() -> None:
    async with Pool(1) as pool:
        with pytest.raises(WorkerDied) as caught:
            await pool.run(os._exit, 7)
        assert (caught.value.exitcode, caught.value.signal) == (7, None)


async def test_each_answer_counts_once_when_a_worker_dies(tmp_path: Path) -> None:
    """Those answered before the end are answered, those behind it run elsewhere, none twice."""
    async with Pool(2) as pool:
        path = str(tmp_path / "ran")
        await pool.run(functions.note, path, "warm")
        turns = []
        for at in range(200):
            turns.append(pool.submit(functions.note, path, str(at)))
            if at % 50 == 25:
                turns.append(pool.submit(functions.die))
        died = 0
        for turn in turns:
            try:
                await turn
            except WorkerDied:
                died += 1
        assert died == 4
        ran = written(tmp_path / "ran").split()[1:]
        assert sorted(ran, key=int) == [str(at) for at in range(200)]


async def test_an_initializer_runs_in_every_worker(tmp_path: Path) -> None:
    path = str(tmp_path / "set up")
    async with Pool(2, initializer=functions.note, initargs=(path, "up")) as pool:
        go = str(tmp_path / "go")
        turns = [pool.submit(functions.wait_for, go) for _ in range(2)]
        turns.append(pool.submit(functions.wait_for_async, go))
        await await_until(lambda: written(Path(path)) == "up\n" * 3)
        Path(go).touch()
        for turn in turns:
            await turn


async def test_an_initializer_that_raises_fails_every_turn() -> None:
    async with Pool(2, initializer=raises) as pool:
        turns = [pool.submit(len, "ab") for _ in range(5)]
        for turn in turns:
            with pytest.raises(InitializerFailed, match="KeyError: 'initializer'"):
                await turn
        with pytest.raises(InitializerFailed):
            await pool.run(len, "later")


async def test_an_initializer_that_ends_its_worker() -> None:
    async with Pool(1, initializer=os._exit, initargs=(3,)) as pool:
        with anyio.fail_after(20), pytest.raises(WorkerStartFailed, match="status 3"):
            await pool.run(len, "ab")


async def test_a_preload_that_cannot_be_imported() -> None:
    async with Pool(1, preload=["no_such_module_here"]) as pool:
        with anyio.fail_after(20), pytest.raises(WorkerStartFailed, match="no_such_module_here"):
            await pool.run(len, "ab")


async def test_preloaded_modules_are_loaded() -> None:
    async with Pool(1, preload=["colorsys"]) as pool:
        assert await pool.run(eval, "'colorsys' in __import__('sys').modules")


async def test_env_and_cwd_are_the_workers(tmp_path: Path) -> None:
    async with Pool(1, env={"ONLY_THERE": "yes"}, cwd=tmp_path) as pool:
        assert await pool.run(os.getenv, "ONLY_THERE") == "yes"
        assert await pool.run(os.getcwd) == str(tmp_path)
    assert "ONLY_THERE" not in os.environ


NOISY = "import os, sys; print('noise'); print('noise', file=sys.stderr); os.write(1, b'noise')"
ASKS = """
import anyio
from hmz_mp import Pool

async def main():
    async with Pool(1) as pool:
        turn = pool.submit(lambda: "an answer")
        await turn
        assert turn.account.output == "", turn.account.output
        print(await turn)

anyio.run(main)
"""


def test_a_noisy_start_of_python_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(NOISY)
    ran = run_script(tmp_path, ASKS, env={"PYTHONPATH": str(tmp_path / "site")})
    assert ran.stdout.splitlines()[-1].endswith("an answer")
    assert ran.returncode == 0


@pytest.mark.parametrize("flags", ["-O", "-X utf8", "-W ignore"])
def test_flags_of_python_hold_in_workers(tmp_path: Path, flags: str) -> None:
    from tests.helpers import run_python

    source = ASKS.replace('"an answer"', "(__debug__, __import__('sys').warnoptions)")
    (tmp_path / "script.py").write_text(source)
    ran = run_python([*flags.split(), "script.py"], cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ("False" in ran.stdout) == (flags == "-O")
    assert ("ignore" in ran.stdout) == (flags == "-W ignore")


async def test_the_working_directory_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Pool(1) as pool:
        assert await pool.run(os.getcwd) == str(Path.cwd())
        monkeypatch.chdir(tmp_path)
        assert await pool.run(os.getcwd) == str(tmp_path)
        monkeypatch.chdir("/")
        assert await pool.run(os.getcwd) == "/"


async def test_a_working_directory_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    async with Pool(1) as pool:
        assert await pool.run(len, "ab") == 2
        gone.rmdir()
        assert await pool.run(len, "abc") == 3
    async with Pool(1) as pool:
        assert await pool.run(len, "ab") == 2


async def test_sys_path_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_there_xyz.py").write_text("def double(x):\n    return 2 * x\n")
    async with Pool(1) as pool:
        await pool.run(len, "")
        monkeypatch.syspath_prepend(tmp_path)
        import only_there_xyz  # type: ignore[import-not-found]  # it was just written

        assert await pool.run(only_there_xyz.double, 4) == 8


async def test_leaving_by_an_exception_leaves_nothing(tmp_path: Path) -> None:
    def leaves_children(path: str) -> None:
        import subprocess

        child = subprocess.Popen(["sleep", "60"], start_new_session=True)
        functions.note(path, str(child.pid))
        functions.note_and_hang(path)

    pids: list[int] = []
    path = tmp_path / "pids"

    async def leave() -> None:
        async with Pool(2) as pool:
            pool.submit(leaves_children, str(path))
            await await_until(lambda: len(written(path).split()) == 2)
            pids.extend(int(pid) for pid in written(path).split())
            raise LookupError

    with pytest.raises(LookupError):
        await leave()
    assert [pid for pid in pids if is_alive(pid)] == []


async def test_leaving_a_cancelled_scope_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with anyio.CancelScope() as scope:
        async with Pool(1) as pool:
            turn = pool.submit(functions.note_and_hang, str(path))
            await await_until(lambda: written(path))
            scope.cancel()
            await turn
    assert not is_alive(int(written(path)))


async def test_large_values_both_ways() -> None:
    async with Pool(1) as pool:
        values: Any = [bytes([at]) * 5_000_000 for at in range(4)]
        turns = [pool.submit(functions.identity, value) for value in values]
        assert [await turn for turn in turns] == values


async def test_idle_workers_end() -> None:
    async with Pool(1, idle_timeout=0.05) as pool:
        pid = await pool.run(os.getpid)
        await await_until(lambda: pool.statistics().workers == [])
        assert not is_alive(pid)
        assert await pool.run(os.getpid) != pid


async def test_workers_are_replaced_after_their_turns() -> None:
    async with Pool(1, turns_per_worker=3) as pool:
        pids = [await pool.run(os.getpid) for _ in range(9)]
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 3]
