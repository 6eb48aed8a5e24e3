from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from hmz_mp import Pool, current_pool, portal
from hmz_mp.agents import Failed
from tests.agents.conftest import running, tool
from tests.helpers import await_until, is_alive, wait_until


async def ambient() -> Pool | None:
    return current_pool()


# With no loop ----------------------------------------------------------------------------------


def test_a_blocking_call_with_no_loop_uses_one_pool_of_its_own() -> None:
    agent = tool("shout")
    assert agent("look") == "LOOK"
    assert agent.pursue("look") == "LOOK"
    assert agent.batch(["a", "b"]) == ["A", "B"]
    session = tool("count").new()
    assert [session("a"), session("b")] == ["a", "a b"]
    assert portal.call(ambient) is portal.call(ambient)
    assert current_pool() is None


def test_a_blocking_call_raises_what_the_call_raises() -> None:
    with pytest.raises(Failed, match="bad is bad"):
        tool("fail_on_bad")("bad")
    assert tool("fail_on_bad").batch(["a", "bad"], suppress=True) == ["a", ""]


def test_it_starts_again_once_closed() -> None:
    first = portal.call(ambient)
    portal.close()
    portal.close()
    assert portal.call(ambient) is not first


def test_closing_ends_the_turns_and_their_workers(tmp_path: Path) -> None:
    future = portal.start(tool("hold").aturn, f"{tmp_path}|x")
    wait_until((tmp_path / "x.began").exists)
    portal.close()
    with pytest.raises(BaseException):  # noqa: B017, PT011  # cancelled, or its pool closed
        future.result(timeout=20)
    pid = int((tmp_path / "x.began").read_text())
    wait_until(lambda: not is_alive(pid))


SCRIPT = """
    import sys
    from hmz_mp.agents import agent_from_spec
    print("main runs")
    agent = agent_from_spec("tool/json:dumps")
    print(agent("look"), agent.batch(["a", "b"]))
"""


def script(source: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    file = cwd / "script.py"
    file.write_text(textwrap.dedent(source))
    return subprocess.run(
        [sys.executable, "-W", "error", str(file)], capture_output=True, text=True, timeout=50
    )


def test_a_script_with_no_guard_and_no_loop(tmp_path: Path) -> None:
    done = script(SCRIPT, tmp_path)
    assert done.stdout.splitlines() == ["main runs", '"look" [\'"a"\', \'"b"\']'], done.stderr
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_that_ends_by_an_exception(tmp_path: Path) -> None:
    done = script(SCRIPT + "    raise SystemExit(7)\n", tmp_path)
    assert (done.returncode, done.stderr) == (7, "")


def test_an_interrupt_ends_a_blocking_call(tmp_path: Path) -> None:
    source = f"""
        import os, signal, threading, time, pathlib
        from hmz_mp.agents import agent_from_spec
        began = pathlib.Path({str(tmp_path)!r}, "x.began")
        def interrupt():
            while not began.exists() or not began.read_text().endswith("\\n"):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        agent = agent_from_spec("tool/{Path(__file__).parent}/agents/functions.py:hold")
        try:
            agent("{tmp_path}|x")
        except KeyboardInterrupt:
            print("interrupted")
    """
    done = script(source, tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\n", "", 0)
    pid = int((tmp_path / "x.began").read_text())
    wait_until(lambda: not is_alive(pid))


# From a thread of a run ------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_plain_function_in_a_thread_uses_the_runs_pool() -> None:
    def flow() -> tuple[list[str], str, object]:
        agent = tool("shout")
        return agent.batch(["a", "b"]), agent.new()("c"), portal.call(ambient)

    async with Pool(workers=1) as pool:
        with running(pool) as run:
            assert await anyio.to_thread.run_sync(flow) == (["A", "B"], "C", pool)
        assert len(run.records()) == 3


@pytest.mark.anyio
async def test_a_blocking_call_on_the_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"await abatch\(\) instead"):
        tool("shout").batch(["a"])


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_thread_that_cannot_reach_the_loop_of_its_pool() -> None:
    async with Pool(workers=1):
        with pytest.raises(RuntimeError, match=r"start it with anyio\.to_thread\.run_sync"):
            await asyncio.to_thread(tool("shout").batch, ["a"])


# Awaited with no pool around -------------------------------------------------------------------


@pytest.mark.anyio
async def test_awaited_calls_outside_a_pool_use_the_same_one() -> None:
    assert await tool("shout").aturn("look") == "LOOK"
    assert await tool("shout").abatch(["a", "b"]) == ["A", "B"]
    assert [answer async for answer in tool("shout").amap(["a", "b"])] == ["A", "B"]
    assert [piece async for piece in tool("shout").new().stream("look")] == ["LOOK"]
    session = tool("count").new()
    assert [await session.aturn("a"), await session.aturn("b")] == ["a", "a b"]
    with pytest.raises(Failed, match="bad is bad"):
        await tool("fail_on_bad").aturn("bad")
    assert current_pool() is None


@pytest.mark.anyio
async def test_cancelling_an_awaited_call_outside_a_pool(tmp_path: Path) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(tool("ahold").aturn, f"{tmp_path}|x")
        await await_until((tmp_path / "x.began").exists)
        group.cancel_scope.cancel()
    await await_until((tmp_path / "x.cancelled").exists)


@pytest.mark.anyio
async def test_leaving_a_loop_outside_a_pool(tmp_path: Path) -> None:
    closed = []

    async def count() -> AsyncGenerator[int, None]:
        try:
            for number in range(10):
                yield number
        finally:
            closed.append(True)

    values = portal.each_on_a_pool(count)
    assert [await anext(values), await anext(values)] == [0, 1]
    await values.aclose()
    assert closed == [True]
