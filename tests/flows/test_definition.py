from __future__ import annotations

import functools
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from hmz_mp.errors import BadInput
from hmz_mp.flows.checking import check_flow
from hmz_mp.flows.marking import flow

pytestmark = pytest.mark.anyio

around: ContextVar[str] = ContextVar("around", default="nothing")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def plan(function: Any) -> Any:
    return check_flow(flow(function), Path("plan.py"))


async def test_an_async_flow_runs_on_this_loop() -> None:
    async def run(agents: tuple[str], task: str) -> tuple[Any, ...]:
        await anyio.lowlevel.checkpoint()
        return agents, task, threading.get_ident(), around.get()

    around.set("the run")
    answer = await plan(run).run(["agent"], "task")
    assert answer == (("agent",), "task", threading.get_ident(), "the run")


async def test_a_plain_flow_runs_in_a_thread_with_this_context() -> None:
    def run(agents: tuple[str], task: str) -> tuple[Any, ...]:
        anyio.from_thread.run(anyio.sleep, 0)
        return agents, task, threading.get_ident(), around.get()

    around.set("the run")
    *answer, thread, context = await plan(run).run(["agent"], "task")
    assert (*answer, context) == (("agent",), "task", "the run")
    assert thread != threading.get_ident()


async def test_a_wrapped_coroutine_is_awaited() -> None:
    async def run(agents: tuple[str], task: str) -> str:
        return task

    @functools.wraps(run)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return run(*args, **kwargs)

    assert await plan(wrapper).run(["agent"], "task") == "task"


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_what_a_flow_raises_comes_out(kind: str) -> None:
    async def later(agents: tuple[str], task: str) -> None:
        raise LookupError(task)

    def here(agents: tuple[str], task: str) -> None:
        raise LookupError(task)

    with pytest.raises(LookupError, match="task"):
        await plan(later if kind == "async" else here).run(["agent"], "task")


async def test_cancelling_an_async_flow_cancels_it() -> None:
    ended = anyio.Event()

    async def run(agents: tuple[str], task: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.move_on_after(0.01):
        await plan(run).run(["agent"], "task")
    assert ended.is_set()


async def test_cancelling_does_not_wait_for_a_plain_flow() -> None:
    go_on = threading.Event()
    ended = threading.Event()

    def run(agents: tuple[str], task: str) -> None:
        go_on.wait()
        ended.set()

    with anyio.move_on_after(0.01) as scope:
        await plan(run).run(["agent"], "task")
    assert scope.cancelled_caught
    assert not ended.is_set()
    go_on.set()
    assert await anyio.to_thread.run_sync(ended.wait, 10)


async def test_a_wrong_number_of_agents_is_said_before_anything_runs() -> None:
    def run(agents: tuple[str, str], task: str) -> None:
        raise AssertionError("must not run")

    with pytest.raises(BadInput, match="drives 2 agents, 1 given"):
        await plan(run).run(["agent"], "task")
