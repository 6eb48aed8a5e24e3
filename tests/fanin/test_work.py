from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hmz_mp import Pool
from hmz_mp.agents import Agent, Failed, Prompt, agent_from_spec
from hmz_mp.core.ambient import Item, run_variable
from hmz_mp.fanin import BadFinding, Retry, ask, fan_out
from hmz_mp.fanin.work import prompt_for
from tests.agents.conftest import FakeRun

pytestmark = pytest.mark.anyio


class Service(msgspec.Struct):
    id: str
    url: str


def agent(name: str) -> Agent:
    return agent_from_spec(f"tool/tests.fanin.functions:{name}")


@pytest.fixture(scope="module")
async def pool(anyio_backend: str) -> AsyncIterator[Pool]:
    async with Pool(2) as pool:
        yield pool


@pytest.mark.parametrize(
    ("template", "item", "text"),
    [
        ("", "words", "words"),
        ("Check it.", "words", "Check it.\n\nwords"),
        ("Check {item_id} {now}: {}", "words", "Check words {now}: {}"),
        ("Check {item}.", Path("a.py"), "Check a.py."),
        ("", Path("a.py"), "The file is a.py."),
        ("Look.", Item("a.py", b"a.py"), "Look.\n\nThe file is a.py."),
        ("Look.", Item("r1", text="a record"), "Look.\n\na record"),
        ("", Prompt("p", path="a.py"), "p"),
        ("Get {url} of {id}", Service("s", "http://s"), "Get http://s of s"),
        ("Get {url}", {"id": "s", "url": ["a", 1]}, 'Get ["a", 1]'),
        ("", {"id": "s", "n": 1}, 's: {"id": "s", "n": 1}'),
        ("{item} {{item_id}}", {"id": "{item_id}"}, '{"id": "{item_id}"} {s}'),
    ],
)
def test_what_an_agent_is_asked(template: str, item: Any, text: str) -> None:
    item_id = "s" if isinstance(item, (dict, Service)) else getattr(item, "item_id", str(item))
    prompt = prompt_for(template, item, item_id)
    assert prompt.text == text
    assert prompt.item_id == item_id


def test_the_path_goes_along() -> None:
    assert prompt_for("", Path("a.py"), "a.py").path == b"a.py"
    assert prompt_for("x", b"\xff", "\udcff").path == b"\xff"
    assert prompt_for("x", Item("a.py", b"a.py"), "a.py").path == b"a.py"
    assert prompt_for("x", "words", "words").path is None


async def test_an_agent_is_work(pool: Pool) -> None:
    report = await fan_out(["a", "bad", "c"], agent("echo"), on_failure="partial", at_once=2)
    assert [one.finding for one in report][::2] == ["a", "c"]
    assert isinstance(report.failed[0].cause, Failed)
    assert report.failed[0].finding == "Failed: bad: ValueError: bad prompt"


async def test_an_agent_with_a_template_answers_with_findings(pool: Pool) -> None:
    work = ask(agent("looks"), "Look at {item_id}.")
    report = await fan_out(["a", "odd", "bad", "wrong"], work, on_failure=Retry(1, 0))
    assert [(one.item_id, one.status) for one in report] == [
        ("a", "ok"),
        ("odd", "needs_review"),
        ("bad", "failed"),
        ("wrong", "failed"),
    ]
    assert report["a"].finding == "asked: Look at a."
    assert isinstance(report.failed[1].cause, BadFinding)
    assert report.outcome("bad").tries == 2


async def test_texts_are_taken_without_a_schema(pool: Pool) -> None:
    report = await fan_out(["a"], ask(agent("echo"), "Look.", schema=None), on_failure="fail")
    assert report.value("a") == "Look.\n\na"


async def test_in_a_run_the_whole_answer_is_where_the_finding_says(pool: Pool) -> None:
    run = FakeRun(pool)
    token = run_variable.set(run)
    try:
        work = ask(agent("looks"), "Look.")
        report = await fan_out(["a", "b c"], work, on_failure="fail")
    finally:
        run_variable.reset(token)
    assert report["b c"].evidence_ref == "hmz-mp show run 'b c'"
    assert sorted(one.item_id for one in run.records()) == ["a", "b c"]
