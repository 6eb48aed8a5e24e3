from __future__ import annotations

import copy
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from hmz_mp import Pool, tool
from hmz_mp.core.ambient import run_variable
from hmz_mp.core.breaker import Busy
from hmz_mp.dispatch import Dispatcher, batch_tool
from hmz_mp.errors import PoolClosed
from tests.agents.conftest import FakeRun
from tests.dispatch import functions
from tests.tools.width import Width, wide

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def pool(anyio_backend: str) -> AsyncIterator[Pool]:
    async with Pool(2) as pool:
        yield pool


def use(name: str, number: int = 0, /, **arguments: Any) -> dict[str, Any]:
    """One call of Anthropic's, whose results say whether they are errors."""
    return {"type": "tool_use", "id": f"id{number}", "name": name, "input": arguments}


def error_of(result: dict[str, Any]) -> str:
    assert result["is_error"]
    (text,) = json.loads(result["content"]).values()
    assert isinstance(text, str)
    return text


async def one(dispatcher: Dispatcher, call: dict[str, Any]) -> dict[str, Any]:
    (result,) = await dispatcher.run([call])
    return result


async def test_results_are_in_the_order_of_the_calls_whatever_ends_first(pool: Pool) -> None:
    dispatcher = Dispatcher([functions.late, functions.weather])
    calls = [
        use("late", 1, text="slow", seconds=0.3),
        use("weather", 2, city="Bonn"),
        use("late", 3, text="quick", seconds=0),
    ]
    results = await dispatcher.run(calls)
    assert [one["tool_use_id"] for one in results] == ["id1", "id2", "id3"]
    assert [one["content"] for one in results] == [
        "slow",
        '{"city": "Bonn", "degrees": 21}',
        "quick",
    ]


async def test_each_service_gets_its_own_shape(pool: Pool) -> None:
    arguments = '{"city": "Nowhere"}'
    calls = [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": arguments}},
        {"type": "function_call", "call_id": "b", "name": "weather", "arguments": arguments},
        use("weather", 1, city="Nowhere"),
    ]
    error = '{"error": "LookupError: no Nowhere"}'
    assert await Dispatcher([functions.weather]).run(calls) == [
        {"role": "tool", "tool_call_id": "a", "content": error},
        {"type": "function_call_output", "call_id": "b", "output": error},
        {"type": "tool_result", "tool_use_id": "id1", "content": error, "is_error": True},
    ]


async def test_failures_of_every_kind_are_results(pool: Pool) -> None:
    dispatcher = Dispatcher([functions.weather, functions.slow, functions.dies])
    results = await dispatcher.run(
        [
            use("weather", city="Nowhere"),
            use("slow"),
            use("dies"),
            use("nothing"),
            {"type": "tool_use"},
            use("weather", town="Bonn"),
            use("weather", city="Bonn"),
        ]
    )
    errors = [error_of(result) for result in results[:-1]]
    assert errors[0] == "LookupError: no Nowhere"
    assert errors[1] == "the turn was not done 0.2 s after beginning to run; it was stopped"
    assert "exited with status 3" in errors[2]
    assert errors[3] == "there is no tool 'nothing'; there are: weather, slow, dies"
    assert errors[4].startswith("there is no tool ''")
    assert errors[5].endswith("It takes city, days (optional).")
    assert "is_error" not in results[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"city": "Bonn"', "not JSON"),
        ("[]", "no JSON object"),
        ('{"city": 3}', "Expected `str`"),
        (None, "missing required field `city`"),
        (json.dumps(json.dumps({"city": "Bonn", "days": "2"})), "22"),  # JSON in JSON
    ],
)
async def test_arguments_as_models_write_them(pool: Pool, arguments: Any, words: str) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    (result,) = await Dispatcher([functions.weather]).run([call])
    assert words in result["content"]


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("set", "[1]"),
        ("none", "null"),
        ("nan", "NaN"),
        ("bytes", '"/w=="'),
        ("surrogate", '{"name": "\\udcff"}'),
        ("text", "plain \\ud83d text"),
    ],
)
async def test_answers_that_json_can_hold_somehow(pool: Pool, what: str, content: str) -> None:
    result = await one(Dispatcher([functions.odd]), use("odd", what=what))
    assert result["content"] == content


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("complex", "odd has run, and returned a complex that JSON cannot hold"),
        ("keys", "odd has run, and returned a dict that JSON cannot hold"),
        ("lambda", "odd has run, and returned a method_descriptor that JSON cannot hold"),
        ("nothing", "KeyError: 'nothing'"),
    ],
)
async def test_answers_that_it_cannot(pool: Pool, what: str, words: str) -> None:
    assert words in error_of(await one(Dispatcher([functions.odd]), use("odd", what=what)))


async def test_tools_that_mutate_their_arguments(pool: Pool) -> None:
    call = use("mutates", items=[1], options={"a": {"b": 1}})
    before = copy.deepcopy(call)
    results = await Dispatcher([functions.mutates]).run([call, call])
    assert [one["content"] for one in results] == ['[1, "more"]', '[1, "more"]']
    assert call == before


async def test_the_same_call_twice_has_two_results(pool: Pool) -> None:
    call = use("weather", 7, city="Bonn")
    results = await Dispatcher([functions.weather]).run([call, call])
    assert results[0] == results[1]
    assert len(results) == 2


async def test_no_calls(pool: Pool) -> None:
    dispatcher = Dispatcher([])
    assert await dispatcher.run(None) == await dispatcher.run([]) == []
    assert repr(dispatcher) == "<Dispatcher of no tools, 8 at once>"
    assert "there are: none" in error_of(await one(dispatcher, use("x")))


async def test_four_hundred_calls_in_one_turn(pool: Pool) -> None:
    async with Width.measured(hold=0.01) as width:
        calls = [use("wide", number, port=width.url) for number in range(400)]
        results = await Dispatcher([wide], at_once=10).run(calls)
    assert [one["tool_use_id"] for one in results] == [f"id{number}" for number in range(400)]
    assert {one["content"] for one in results} == {"served"}
    assert (width.most, width.asked) == (10, 400)


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_four_hundred_calls_take_what_the_cap_implies() -> None:
    async with Pool(2) as pool, Width.measured(hold=0.4) as width:
        dispatcher = Dispatcher([wide], at_once=0, limits={"wide": pool.limit("ten", at_once=10)})
        await dispatcher.run([use("wide", port=width.url)])
        width.stayed = 0.0
        began = time.monotonic()
        await dispatcher.run([use("wide", port=width.url)] * 400)
        took = time.monotonic() - began
    assert width.most == 10
    assert took <= 1.1 * width.stayed / 10


@pytest.mark.parametrize(
    ("at_once", "limits", "most"),
    [(5, {}, 5), (0, {"wide": 4}, 4), (3, {"wide": 9}, 3), (9, {("wide", "weather"): 2}, 2)],
)
async def test_caps(pool: Pool, at_once: int, limits: Any, most: int) -> None:
    async with Width.measured() as width:
        dispatcher = Dispatcher([wide, functions.weather], at_once=at_once, limits=limits)
        await dispatcher.run([use("wide", port=width.url)] * 12)
        assert width.most == most
        # The caps hold over several turns of models at once.
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(dispatcher.run, [use("wide", port=width.url)] * 4)
        assert width.most == most


async def test_a_limit_of_the_pool_is_shared_with_all_who_name_it(pool: Pool) -> None:
    limit = pool.limit("service", at_once=3)
    async with Width.measured() as width:
        dispatchers = [
            Dispatcher([wide], at_once=0, limits={"wide": bound}) for bound in (limit, "service")
        ]
        async with anyio.create_task_group() as group:
            for dispatcher in dispatchers:
                group.start_soon(dispatcher.run, [use("wide", port=width.url)] * 6)
            for _ in range(4):
                group.start_soon(pool.options(limit="service").run, wide.function, width.url)
    assert (width.most, width.asked) == (3, 16)


async def test_a_tools_own_width_holds_whoever_calls_it(pool: Pool) -> None:
    narrow = tool(at_once=2)(wide.function)
    async with Width.measured() as width, anyio.create_task_group() as group:
        for dispatcher in (Dispatcher([narrow]), Dispatcher([narrow], at_once=0)):
            group.start_soon(dispatcher.run, [use("wide", port=width.url)] * 5)
        group.start_soon(narrow.abatch, [width.url] * 5)
    assert (width.most, width.asked) == (2, 15)


async def test_a_narrow_tool_holds_up_no_other(pool: Pool) -> None:
    narrow = tool(at_once=1)(wide.function)
    async with Width.measured(hold=60) as width:
        dispatcher = Dispatcher([narrow, functions.late], at_once=3)
        with anyio.move_on_after(10) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(dispatcher.run, [use("wide", port=width.url)] * 8)
                await width.reached(1)
                result = await one(dispatcher, use("late", text="went on", seconds=0))
                group.cancel_scope.cancel()
        assert not scope.cancelled_caught
        assert result["content"] == "went on"


async def test_limits_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="there is no tool 'wether'; there are: weather"):
        Dispatcher([functions.weather], limits={"wether": 2})
    with pytest.raises(ValueError, match="the limit of weather is 0 for no bound"):
        Dispatcher([functions.weather], limits={"weather": -1})
    for given in ({"at_once": -1}, {"timeout": 0}, {"deadline": -1}, {"longest": 0}):
        with pytest.raises(ValueError, match=next(iter(given))):
            Dispatcher([], **given)  # type: ignore[arg-type]  # by name


async def test_a_timeout_for_tools_that_have_none(pool: Pool) -> None:
    dispatcher = Dispatcher([functions.late], timeout=0.2)
    assert "0.2 s" in error_of(await one(dispatcher, use("late", text="", seconds=60)))


async def test_a_deadline_counts_what_a_call_waits(pool: Pool) -> None:
    dispatcher = Dispatcher([functions.late], at_once=1, deadline=0.5)
    results = await dispatcher.run([use("late", text="", seconds=60)] * 2)
    for result in results:
        assert "0.5 s after being submitted" in error_of(result)


async def test_a_list_tool(pool: Pool) -> None:
    dispatcher = Dispatcher([batch_tool(functions.weather)])
    items = [{"city": "Bonn"}, {"city": "Nowhere"}, {"town": "x"}]
    result = await one(dispatcher, use("weather_batch", items=items))
    first, second, third = json.loads(result["content"])
    assert first == {
        "item": {"city": "Bonn"},
        "status": "ok",
        "answer": {"city": "Bonn", "degrees": 21},
    }
    assert (second["item"], second["error"]) == ({"city": "Nowhere"}, "LookupError: no Nowhere")
    assert third["error"].startswith("BadArguments: the arguments of weather do not fit")


async def test_a_list_tool_keeps_to_the_dispatchers_width(pool: Pool) -> None:
    async with Width.measured() as width:
        dispatcher = Dispatcher([batch_tool(wide, at_once=20), wide], at_once=4)
        calls = [use("wide_batch", items=[width.url] * 8), use("wide", port=width.url)] * 2
        await dispatcher.run(calls)
    assert (width.most, width.asked) == (4, 18)


async def test_free_text_for_a_tool_of_one_parameter(pool: Pool) -> None:
    @tool
    def shout(text: str) -> str:
        return text.upper()

    call = {"type": "custom_tool_call", "call_id": "a", "name": "shout", "input": '{"a'}
    assert await Dispatcher([shout]).run([call]) == [
        {"type": "custom_tool_call_output", "call_id": "a", "output": '{"A'}
    ]


async def test_long_results_are_cut_and_kept_whole(pool: Pool, tmp_path: Path) -> None:
    @tool
    def much(letter: str) -> str:
        return letter * 3000

    dispatcher = Dispatcher([much], longest=500, directory=tmp_path / "kept")
    results = await dispatcher.run([use("much", letter="a"), use("much", letter="ü")])
    for letter, result in zip("aü", results, strict=True):
        text, _, path = result["content"].rpartition(", the whole is in ")
        assert text.endswith("[cut: 3,000 characters in all")
        assert Path(path.rstrip("]")).read_text(encoding="utf-8") == letter * 3000
        assert len(result["content"]) == 500
    exact = Dispatcher([much], longest=3000, directory=tmp_path / "none")
    assert (await one(exact, use("much", letter="b")))["content"] == "b" * 3000
    assert not (tmp_path / "none").exists()


async def test_a_whole_that_cannot_be_kept(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool
    def much() -> str:
        return "x" * 3000

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    dispatcher = Dispatcher([much], longest=300, directory=tmp_path / "none" / "\0")
    monkeypatch.setattr("hmz_mp.dispatch.keeping.Path.mkdir", _refuses)
    result = await one(dispatcher, use("much"))
    assert "the whole could not be written: No such file or directory]" in result["content"]


def _refuses(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_tools_that_no_model_can_be_told_of() -> None:
    def odd(x: complex) -> None: ...

    with pytest.raises(TypeError, match="odd cannot be described"):
        Dispatcher([odd])


async def test_in_a_run_the_whole_is_beside_its_ledger(pool: Pool, tmp_path: Path) -> None:
    @tool
    def much() -> str:
        return "x" * 3000

    token = run_variable.set(FakeRun(pool, directory=tmp_path))
    try:
        result = await one(Dispatcher([much], longest=300), use("much"))
    finally:
        run_variable.reset(token)
    (kept,) = (tmp_path / "results").iterdir()
    assert str(kept) in result["content"]


async def test_a_busy_service_is_waited_for(pool: Pool, tmp_path: Path) -> None:
    limit = pool.limit("busy-service", at_once=4)
    dispatcher = Dispatcher([functions.busy], limits={"busy": limit}, breaker=True)
    began = time.monotonic()
    result = await one(dispatcher, use("busy", file=str(tmp_path / "tries"), times=1))
    assert result["content"] == "served"
    assert time.monotonic() - began >= 0.2  # as the service asked
    assert len((tmp_path / "tries").read_text().splitlines()) == 2


async def test_without_a_breaker_it_is_an_error(pool: Pool, tmp_path: Path) -> None:
    for dispatcher in (
        Dispatcher([functions.busy], limits={"busy": 4}),
        Dispatcher([functions.busy], breaker=True),  # and no limit
        Dispatcher([functions.busy], limits={"busy": 4}, breaker=lambda error: None),
    ):
        result = await one(dispatcher, use("busy", file=str(tmp_path / "tries"), times=9))
        assert "TooBusy" in error_of(result)


async def test_a_breaker_of_ones_own_slows_all_who_share_the_limit(
    pool: Pool, tmp_path: Path
) -> None:
    def refused(error: BaseException) -> Busy | None:
        return Busy(0.3) if isinstance(error, functions.TooBusy) else None

    limits: dict[Any, Any] = {("busy", "weather"): 1}
    dispatcher = Dispatcher([functions.busy, functions.weather], limits=limits, breaker=refused)
    began = time.monotonic()
    results = await dispatcher.run(
        [use("busy", file=str(tmp_path / "tries"), times=1), use("weather", city="Bonn")]
    )
    assert time.monotonic() - began >= 0.3
    assert [one.get("is_error") for one in results] == [None, None]


async def test_cancelling_ends_all_calls(pool: Pool) -> None:
    async with Width.measured(hold=60) as width:
        async with anyio.create_task_group() as group:
            group.start_soon(Dispatcher([wide]).run, [use("wide", port=width.url)] * 5)
            await width.reached(5)
            group.cancel_scope.cancel()
        await width.reached(0)


async def test_a_pool_that_was_left() -> None:
    async with Pool(1):
        dispatcher = Dispatcher([functions.weather])
        assert "degrees" in (await one(dispatcher, use("weather", city="Bonn")))["content"]
    async with Pool(1) as second:
        assert "degrees" in (await one(dispatcher, use("weather", city="Bonn")))["content"]
        token = run_variable.set(FakeRun(second))
    try:
        with pytest.raises(PoolClosed):
            await dispatcher.run([use("weather", city="Bonn")])
    finally:
        run_variable.reset(token)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_outside_any_pool_it_has_one_of_its_own() -> None:
    result = await one(Dispatcher([functions.weather]), use("weather", city="Bonn"))
    assert "degrees" in result["content"]
