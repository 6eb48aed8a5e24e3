from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, TypedDict

import anyio
import pytest

from hmz_mp import Pool, tool
from hmz_mp.agents import Failed
from hmz_mp.core.ambient import TurnRecord
from hmz_mp.dispatch import Dispatcher
from hmz_mp.errors import BadInput, Stopped
from hmz_mp.fanin import Finding, Report, Retry, counting, fan_out, run_subtask
from hmz_mp_worker.backends.protocol import Did
from tests.agents.conftest import running
from tests.helpers import await_until
from tests.tools.width import Width, wide
from tests.workers.chat.servers import SERVICES, Place, placed

pytestmark = pytest.mark.anyio


class Size(TypedDict):
    lines: int


@tool
def ping(service: str, port: int = 80) -> str:
    """Say whether a service answers."""
    if service == "down":
        raise ConnectionError("refused")
    return f"{service}:{port} is up"


@tool
def unused(x: int) -> int:
    return x


def answer(item_id: str = "{name}", **more: Any) -> dict[str, Any]:
    """A step that is a finding."""
    finding = {
        "item_id": item_id,
        "status": "ok",
        "finding": "it is up",
        "evidence_ref": "ping",
        "confidence": "high",
    }
    return {"text": json.dumps(finding | more), "usage": {"input": 300, "output": 20}}


def called(*services: str, **more: Any) -> dict[str, Any]:
    """A step that is calls of ``ping``."""
    calls = [{"tool": "ping", "input": {"service": one}} for one in services]
    return {"calls": calls, "usage": {"input": 100, "output": 10}, **more}


SCRIPT = {
    "rules": [
        {"match": "^That cannot be taken: .*has to be '(?P<name>[^']+)'", "steps": [answer()]},
        {"match": "^That cannot be taken", "steps": [answer("vague")]},
        {"match": "^(?P<name>vague)", "steps": [{"text": "It is up, I think."}]},
        {"match": "^(?P<name>stray)", "steps": [answer("another")]},
        {"match": "^(?P<name>endless)", "steps": [called("a"), called("b", text="Hm, {name}.")]},
        {"match": "^(?P<name>sized)", "steps": [{"text": '```json\n{"lines": 3}\n```'}]},
        {"match": "^(?P<name>refused)", "steps": [{"status": 401, "times": 99}]},
        {
            "match": "^(?P<name>limited\\S*)",
            "steps": [{"status": 429, "retry_after": 0.2}, answer()],
        },
        {"match": "^(?P<name>flaky-\\S+)", "steps": [{"status": 400, "times": 1}, answer()]},
        {"match": "^(?P<name>waits)", "steps": [{"hang_s": 60, "times": 99}]},
        {"match": "^(?P<name>bad-\\S+)", "steps": [{"status": 400, "times": 99}]},
        {"match": "^(?P<name>\\S+)", "steps": [called("{name}", "down", "{name}"), answer()]},
    ]
}


@pytest.fixture(scope="module", params=["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
async def pool(anyio_backend: str) -> AsyncIterator[Pool]:
    async with Pool(2) as pool:
        yield pool


@pytest.fixture(scope="module", params=SERVICES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with placed(request.param, SCRIPT) as place:
        yield place


@pytest.fixture(scope="module")
def openai() -> Iterator[Place]:
    with placed("openai", SCRIPT) as place:
        yield place


async def test_an_item_is_seen_to_with_tools(pool: Pool, place: Place) -> None:
    with counting() as used:
        finding = await run_subtask(
            "svc-1",
            model=place.settings,
            tools=[ping],
            constraints="Never write.",
            reference="Ports: 80.",
        )
    assert finding == Finding("svc-1", "ok", "it is up", "ping", "high")
    assert (used.input_tokens, used.output_tokens, used.turns) == (400, 30, 2)
    body = place.body()
    told = json.dumps(body)
    for text in ("Never write.", "Ports: 80.", "svc-1:80 is up", "ConnectionError: refused"):
        assert text in told
    assert "unused" not in told
    system = body.get("system") or body["messages"][0]["content"]
    assert "svc-1" not in json.dumps(system)  # so that a service's cache serves all items


async def test_a_model_as_it_is_written(pool: Pool, place: Place) -> None:
    settings = place.settings
    spec = f"cli={place.service},model=tiny,base_url={settings.base_url}"
    item = {"id": "svc-2", "url": "http://x"}
    finding = await run_subtask(item, model=spec, tools=[ping], template="{id} at {url}")
    assert finding.item_id == "svc-2"
    assert place.server.requests[-1]["prompt"] == "svc-2 at http://x\n\nThe item_id is: svc-2"
    again = await run_subtask(
        item, model=f"{place.service}/tiny", base_url=settings.base_url, tools=[ping]
    )
    assert again.item_id == "svc-2"
    with pytest.raises(BadInput, match="of openai/ and anthropic/, not of sh/"):
        await run_subtask("a", model="sh/cat")


async def test_no_answer_in_time_needs_review(pool: Pool, place: Place) -> None:
    before = len(place.server.requests)
    finding = await run_subtask("endless", model=place.settings, tools=[ping], max_turns=3)
    assert finding == Finding(
        "endless",
        "needs_review",
        "no answer after 3 turns; it last said: Hm, endless. (and asked for ping)",
        "",
        "low",
    )
    assert len(place.server.requests) == before + 3


async def test_an_answer_that_does_not_fit_is_sent_back(pool: Pool, openai: Place) -> None:
    assert (await run_subtask("vague", model=openai.settings)).finding == "it is up"
    assert "does not fit Finding" in openai.server.requests[-1]["prompt"]
    finding = await run_subtask("stray", model=openai.settings)
    assert (finding.item_id, finding.status) == ("stray", "ok")
    finding = await run_subtask("vague", model=openai.settings, max_turns=1)
    assert finding.finding == "no answer after 1 turn; it last said: It is up, I think."


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ({"max_tokens": 200}, "220 tokens are used, of 200 that were allowed, after 2 turns"),
        (
            {"max_cost": 0.01, "prices": (50, 500)},
            "$0.0100 is spent, of $0.0100 that was allowed, after 1 turn",
        ),
    ],
)
async def test_budgets(pool: Pool, openai: Place, bound: dict[str, Any], words: str) -> None:
    finding = await run_subtask("endless", model=openai.settings, tools=[ping], **bound)
    assert finding.status == "needs_review"
    assert finding.finding.startswith(words)


async def test_an_answer_counts_whatever_it_has_used(pool: Pool, openai: Place) -> None:
    finding = await run_subtask("svc-3", model=openai.settings, tools=[ping], max_tokens=130)
    assert finding.status == "ok"


@pytest.mark.parametrize(
    "given",
    [
        {"max_turns": 0},
        {"max_tokens": -1},
        {"max_cost": 1.0},
        {"max_cost": float("nan"), "prices": (1, 1)},
        {"prices": (-1, 1)},
    ],
)
async def test_bounds_that_make_no_sense(openai: Place, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"max_|prices"):
        await run_subtask("a", model=openai.settings, **given)


async def test_answers_of_other_types(pool: Pool, openai: Place) -> None:
    assert await run_subtask("sized", model=openai.settings, schema=Size) == {"lines": 3}
    text = await run_subtask("vague", model=openai.settings, schema=None)
    assert text == "It is up, I think."


async def test_a_service_that_refuses(pool: Pool, place: Place) -> None:
    with pytest.raises(Failed) as caught:
        await run_subtask("refused", model=place.settings)
    assert (caught.value.kind, caught.value.item_id) == ("unauthorised", "refused")


async def test_a_busy_service_is_waited_for(pool: Pool, place: Place) -> None:
    finding = await run_subtask("limited", model=place.settings)
    assert finding.status == "ok"


async def test_a_timeout(pool: Pool, openai: Place) -> None:
    with pytest.raises(Failed) as caught:
        await run_subtask("waits-1", model=openai.settings, timeout=0.3)
    assert caught.value.returncode == 124


async def test_in_a_run_it_is_one_turn_with_what_it_has_used(pool: Pool, place: Place) -> None:
    with running(pool) as run:
        await run_subtask("svc-4", model=place.settings, tools=[ping])
    (record,) = run.records()
    assert (record.item_id, record.agent, record.state) == ("svc-4", f"{place.service}/tiny", "ok")
    assert (record.input_tokens, record.output_tokens, record.attempts) == (400, 30, 2)
    assert record.answer is not None
    assert json.loads(record.answer)["item_id"] == "svc-4"
    kinds = [kind for kind, _, _ in run.told]
    assert kinds == ["submitted", "began", *["said"] * 5, "ended"]
    did = [event.words for _, _, event in run.told if isinstance(event, Did)]
    assert did[0] == 'ping {"service": "svc-4"}'
    assert record.cancel is None
    assert record.seconds is not None


async def test_how_turns_of_a_run_end(pool: Pool, openai: Place) -> None:
    ask = partial(run_subtask, model=openai.settings, tools=[ping])
    with running(pool) as run:
        finding = await ask("endless", max_turns=2)
        with pytest.raises(Failed):
            await ask("refused")
        run.refusing = True
        with pytest.raises(Stopped):
            await ask("svc-5")
    assert finding.evidence_ref == "hmz-mp show run endless"
    review, refused = run.records()
    assert (review.state, review.failure) == ("ok", "needs_review")
    assert (refused.state, refused.failure) == ("failed", "unauthorised")
    assert refused.error is not None


async def test_a_run_stops_it(pool: Pool, openai: Place, anyio_backend: str) -> None:
    item = f"waits-stopped-{anyio_backend}"
    with running(pool) as run:

        async def stop() -> None:
            await await_until(lambda: openai.server.asked(f"{item}"))
            (record,) = run.records()
            assert record.cancel is not None
            record.cancel("budget spent")

        async with anyio.create_task_group() as group:
            group.start_soon(stop)
            with pytest.raises(Stopped, match="budget spent"):
                await run_subtask(item, model=openai.settings)
    (record,) = run.records()
    assert (record.state, record.error) == ("cancelled", "budget spent")


async def test_cancelling_it(pool: Pool, openai: Place, anyio_backend: str) -> None:
    item = f"waits-cancelled-{anyio_backend}"
    with running(pool) as run, anyio.CancelScope() as scope:

        async def cancel() -> None:
            await await_until(lambda: openai.server.asked(item))
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(cancel)
            await run_subtask(item, model=openai.settings)
    assert scope.cancelled_caught
    assert run.records()[0].state == "cancelled"


async def test_twenty_of_which_two_fail(pool: Pool, openai: Place) -> None:
    items = [f"svc-{n}" for n in range(18)] + ["bad-a", "bad-b"]
    work = partial(run_subtask, model=openai.settings, tools=[ping])
    before = len(openai.server.requests)
    report: Report = await fan_out(items, work, on_failure=Retry(1, 0.01), at_once=10)
    for form in (str(report), repr(report), report.brief(), report.to_json(), report.to_csv()):
        assert "18 of 20" in form
        assert "bad-a" in form
        assert "bad-b" in form
    assert not report.complete
    assert len(openai.server.requests) == before + 18 * 2 + 2 * 2  # only those two were tried again
    assert report.outcome("svc-0").used.tokens == 430
    assert report.total("input_tokens") == 18 * 400
    assert report.outcome("svc-0").used.turns == 2


async def test_retry_runs_only_those_again(pool: Pool, openai: Place, anyio_backend: str) -> None:
    flaky, limited = f"flaky-{anyio_backend}", f"limited-{anyio_backend}"
    work = partial(run_subtask, model=openai.settings)
    report = await fan_out([limited, flaky], work, on_failure=Retry(1, 0))
    assert report.complete
    assert (report.outcome(flaky).tries, report.outcome(limited).tries) == (2, 1)


async def test_a_dispatcher_is_shared_with_its_caps(pool: Pool) -> None:
    async with Width.measured() as width:
        calls = [{"tool": "wide", "input": {"port": width.url}}] * 4
        steps = [{"calls": calls}, answer()]
        script = {"rules": [{"match": "^(?P<name>\\S+)", "steps": steps}]}
        with placed("openai", script) as place:
            dispatcher = Dispatcher([wide], at_once=3)
            work = partial(run_subtask, model=place.settings, tools=dispatcher)
            report = await fan_out(["a", "b", "c"], work, on_failure="fail")
    assert report.complete
    assert (width.most, width.asked) == (3, 12)


async def test_one_that_was_answered_in_an_earlier_execution_asks_nobody() -> None:
    model = "cli=openai,model=m,base_url=http://127.0.0.1:9/v1"  # nobody is there
    record = TurnRecord("x", model, "subtask", "s", 0, "x", state="ok", answer='{"lines": 3}')
    async with Pool(1) as pool:
        with running(pool, known={"x": record}) as run:
            assert await run_subtask("x", model=model, schema=Size) == {"lines": 3}
            record.answer, record.error = "it is ***", "no answer after 6 turns"
            finding = await run_subtask("x", model=model, schema=Size)
            assert (finding.status, finding.finding) == ("needs_review", "no answer after 6 turns")
    assert run.told == []
