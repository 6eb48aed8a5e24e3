from __future__ import annotations

import os
import pickle
from collections.abc import AsyncIterator
from typing import Any

import anyio
import msgspec
import pytest

from hmz_mp import Pool, tool
from hmz_mp.tools import Answered, BatchTool, batch_tool
from tests.tools.width import Width, wide

pytestmark = pytest.mark.anyio


@tool(timeout=30)
def half(number: int) -> float:
    """Halve a number."""
    if number == 13:
        raise ValueError("unlucky")
    if number == 99:
        os._exit(3)
    return number / 2


@tool
def power(base: int, exponent: int = 2) -> int:
    return int(base**exponent)


halves = batch_tool(half, at_once=3)
powers = batch_tool(power, name="powers", description="Powers.")


@pytest.fixture(scope="module", params=["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
async def pool(anyio_backend: str) -> AsyncIterator[Pool]:
    async with Pool(2) as pool:
        yield pool


def seen(answers: list[Answered]) -> list[tuple[Any, Any]]:
    return [(one.item, one.answer if one.status == "ok" else one.error) for one in answers]


async def test_answers_have_their_places_and_the_failed_are_marked(pool: Pool) -> None:
    answers = await halves.aturn([8, 13, 99, 2, 2])
    assert [one.status for one in answers] == ["ok", "failed", "failed", "ok", "ok"]
    assert seen(answers)[:2] == [(8, 4.0), (13, "ValueError: unlucky")]
    assert answers[2].error is not None
    assert answers[2].error.startswith("WorkerDied: worker ")
    assert seen(answers)[3:] == [(2, 1.0), (2, 1.0)]
    assert await halves.abatch(iter([4])) == [Answered(4, "ok", 2.0)]
    assert await halves.aturn([]) == []


async def test_items_of_several_parameters(pool: Pool) -> None:
    answers = await powers.aturn([{"base": 2, "exponent": 3}, (5, 2), {"base": 4}, {"bse": 1}])
    assert [one.answer for one in answers] == [8, 25, 16, None]
    assert answers[3].error is not None
    assert "bse" in answers[3].error


async def test_a_list_of_a_models_is_read_item_by_item(pool: Pool) -> None:
    args, kwargs = halves.signature.read('{"items": [8, "four", "6"]}')
    answers = await halves.answer_in(halves.caller_in(pool), args, kwargs)
    assert [one.answer for one in answers] == [4.0, None, 3.0]
    assert answers[1].item == "four"
    assert "the arguments of half do not fit" in str(answers[1].error)
    args, kwargs = powers.signature.read({"items": [{"base": 3}, {"exponent": 3}]})
    answers = await powers.answer_in(powers.caller_in(pool), args, kwargs)
    assert [(one.item, one.answer) for one in answers] == [
        ({"base": 3}, 9),
        ({"exponent": 3}, None),
    ]


async def test_it_is_never_wider_than_it_says(pool: Pool) -> None:
    async with Width.measured() as width:
        answers = await batch_tool(wide, at_once=3).aturn([width.url] * 12)
    assert width.most == 3
    assert all(one.status == "ok" for one in answers)


async def test_cancelling_ends_its_turns(pool: Pool) -> None:
    async with Width.measured(hold=60) as width:
        with anyio.move_on_after(5) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(batch_tool(wide).aturn, [width.url] * 4)
                await width.reached(4)
                group.cancel_scope.cancel()
        assert not scope.cancelled_caught
        await width.reached(0)


def test_what_a_model_is_told() -> None:
    assert halves.name == "half_batch"
    assert halves.parameters == {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"type": "integer"}}},
        "required": ["items"],
        "additionalProperties": False,
    }
    assert halves.explanation.startswith("Halve a number.\n\nFor many items at once.\n\nIt takes a")
    item = powers.parameters["properties"]["items"]["items"]
    assert item["required"] == ["base"]
    assert powers.description == "Powers."


def test_a_plain_call_goes_one_after_the_other() -> None:
    assert seen(halves([4, 13])) == [(4, 2.0), (13, "ValueError: unlucky")]


def test_pickling() -> None:
    assert pickle.loads(pickle.dumps(powers)) is powers
    made = batch_tool(half, at_once=2, name="other")
    again = pickle.loads(pickle.dumps(made))
    assert isinstance(again, BatchTool)
    assert (again.name, again.one) == ("other", half)


def test_a_plain_function_becomes_a_tool_and_a_list_tool_does_not() -> None:
    def plain(n: int) -> int:
        return n

    assert batch_tool(plain).one.function is plain
    with pytest.raises(TypeError, match="takes a list already"):
        batch_tool(halves)
    with pytest.raises(ValueError, match="at_once"):
        batch_tool(half, at_once=-1)


def test_what_stands_in_json() -> None:
    answers = [Answered(1, "ok", 0.5), Answered(2, "failed", error="x")]
    assert msgspec.to_builtins(answers) == [
        {"item": 1, "status": "ok", "answer": 0.5},
        {"item": 2, "status": "failed", "error": "x"},
    ]
