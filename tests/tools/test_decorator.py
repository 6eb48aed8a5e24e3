from __future__ import annotations

import asyncio
import importlib.util
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import cloudpickle
import pytest

from hmz_mp import Pool, tool
from hmz_mp.errors import TurnTimeout
from hmz_mp.tools import AsyncTool, Tool

pytestmark = pytest.mark.anyio

_calls: list[int] = []


@tool
def double(number: int, *, plus: int = 0) -> tuple[int, int]:
    """Double a number.

    And say where.
    """
    return 2 * number + plus, os.getpid()


@tool()
async def adouble(number: int) -> tuple[int, int]:
    await asyncio.sleep(0)
    return 2 * number, os.getpid()


@tool(batch=True, description="Doubles many.")
def doubles(numbers: list[int]) -> list[int]:
    return [2 * number for number in numbers if number >= 0]


@tool(timeout=0.2)
def forever(number: int) -> None:
    while True:
        pass


@tool(retries=2)
def tries(file: str) -> int:
    with open(file, "a") as out:
        out.write("x")
    if Path(file).stat().st_size < 3:
        raise ValueError("not yet")
    return Path(file).stat().st_size


@tool(at_once=1)
def calls_in_this_process(number: int) -> int:
    _calls.append(number)
    return len(_calls)


@pytest.fixture(scope="module")
async def pool(anyio_backend: str) -> AsyncIterator[Pool]:
    async with Pool(workers=1) as pool:
        yield pool


def test_a_tool_is_its_function() -> None:
    assert double(2, plus=1) == (5, os.getpid())
    assert double.name == double.__name__ == "double"
    assert double.description == "Double a number.\n\nAnd say where."
    assert doubles.description == "Doubles many."
    assert repr(double) == "<tool tests.tools.test_decorator.double>"
    assert isinstance(adouble, AsyncTool)
    assert asyncio.run(adouble(2)) == (4, os.getpid())


async def test_a_turn_runs_in_a_worker(pool: Pool) -> None:
    answer, pid = await double.aturn(2, plus=1)
    assert answer == 5
    assert pid != os.getpid()
    answer, pid = await adouble.aturn(2)
    assert answer == 4
    assert pid != os.getpid()


async def test_a_batch_answers_in_order(pool: Pool) -> None:
    answers = await double.abatch(range(100), at_once=8)
    assert [answer for answer, _ in answers] == [2 * number for number in range(100)]
    assert [answer for answer, _ in await adouble.abatch(iter([1, 2]))] == [2, 4]
    assert await double.abatch([]) == []


async def test_a_failure_keeps_its_type(pool: Pool) -> None:
    with pytest.raises(TypeError, match="NoneType"):
        await double.aturn(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="NoneType"):
        await double.abatch([1, None])
    answers = await double.abatch([1, None], suppress=True)
    assert [answer and answer[0] for answer in answers] == [2, None]


async def test_a_tool_of_lists(pool: Pool) -> None:
    assert doubles([1]) == [2]
    assert await doubles.abatch(iter([1, 2])) == [2, 4]
    assert await doubles.abatch([]) == []
    with pytest.raises(ValueError, match="was given 2 items and answered 1 times"):
        await doubles.abatch([1, -1])
    with pytest.raises(TypeError):
        await doubles.abatch([None])
    assert await doubles.abatch([None, 1], suppress=True) == [None, None]


async def test_a_timeout(pool: Pool) -> None:
    with pytest.raises(TurnTimeout):
        await forever.aturn(1)


async def test_retries(pool: Pool, tmp_path: Path) -> None:
    assert await tries.aturn(str(tmp_path / "tries")) == 3


async def test_the_module_is_imported_in_the_worker_not_copied(pool: Pool) -> None:
    # By value, every turn would begin with the caller's empty list.
    before = await calls_in_this_process.aturn(0)
    assert await calls_in_this_process.aturn(1) == before + 1
    assert _calls == []


async def test_a_tool_that_no_name_finds(pool: Pool) -> None:
    offset = 3

    @tool
    def local(number: int) -> int:
        return number + offset

    assert await local.aturn(1) == 4
    assert await local.abatch([1, 2]) == [4, 5]


async def test_a_tool_of_a_file_that_workers_cannot_import(pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "flow.py"
    file.write_text(
        "from hmz_mp import tool\n"
        "def double(number): return 2 * number\n"
        "@tool\n"
        "def more(number): return double(number) + 1\n"
    )
    spec = importlib.util.spec_from_file_location("_flow_of_a_test", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_flow_of_a_test"] = module
    try:
        spec.loader.exec_module(module)
        assert await module.more.aturn(2) == 5
        assert await module.more.abatch([1, 2]) == [3, 5]
    finally:
        del sys.modules["_flow_of_a_test"]


def test_pickling() -> None:
    assert pickle.loads(pickle.dumps(double)) is double
    assert len(pickle.dumps(double)) < 100

    @tool(at_once=3, timeout=2.0, retries=1, description="Local.")
    def local(number: int) -> int:
        return number

    again = pickle.loads(cloudpickle.dumps(local))
    assert isinstance(again, Tool)
    assert (again.at_once, again.timeout, again.retries) == (3, 2.0, 1)
    assert (again.description, again(4)) == ("Local.", 4)


@pytest.mark.parametrize("settings", [{"at_once": -1}, {"retries": -1}, {"timeout": 0}])
def test_settings_out_of_range(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        tool(**settings)(len)  # type: ignore[call-overload]


def test_what_is_no_function() -> None:
    with pytest.raises(TypeError, match="goes on a function, not on int"):
        tool(3)  # type: ignore[call-overload]


def test_blocking_outside_a_pool() -> None:
    assert [answer for answer, _ in double.batch([1, 2])] == [2, 4]


async def test_awaited_outside_a_pool() -> None:
    assert (await double.aturn(2))[0] == 4
    assert [answer for answer, _ in await double.abatch([1, 2])] == [2, 4]


SCRIPT = """
    import asyncio, os
    from hmz_mp import Pool, tool
    print("main runs")

    @tool
    def double(number):
        return 2 * number, os.getpid() != MAIN

    @tool
    async def adouble(number):
        return 2 * number

    MAIN = os.getpid()
    print(double.batch([1, 2]))

    async def main():
        async with Pool(workers=1):
            print(await double.aturn(3), await adouble.aturn(3))

    asyncio.run(main())
"""


def test_tools_of_a_script(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)], capture_output=True, text=True, timeout=50
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "main runs",
        "[(2, True), (4, True)]",
        "(6, True) 6",
    ]


def test_importing_it_is_light() -> None:
    code = (
        "import sys; from hmz_mp import tool; t = tool(len)\n"
        "print([m for m in ('anyio', 'asyncio', 'click', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
