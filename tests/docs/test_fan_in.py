"""The Python of docs/fan-in.md is run as scripts, with a scripted service in OpenAI's place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.fanin.__main__ import measured, table
from tests.docs.test_python import BLOCK, ROOT
from tests.helpers import run_script
from tests.model_servers.openai import OpenAI
from tests.model_servers.serving import ModelServer, serving

PAGE = (ROOT / "docs" / "fan-in.md").read_text(encoding="utf-8")
FINDING = {
    "item_id": "{name}",
    "status": "ok",
    "finding": "It answers; its log has 3 warnings.",
    "evidence_ref": "check",
    "confidence": "high",
}


def check(*services: str, **more: str) -> dict[str, object]:
    return {"calls": [{"tool": "check", "input": {"service": one}} for one in services], **more}


SCRIPT = {
    "rules": [
        {
            "match": "^Check svc-0 to svc-11",
            "steps": [
                check(*(f"svc-{number}" for number in range(12))),
                {"text": "All answer but svc-7."},
            ],
        },
        {"match": "^lost", "steps": [check("lost", text="Let me look again.")]},
        {
            "match": "^(?P<name>svc-[0-9]+)",
            "steps": [check("{name}"), {"text": json.dumps(FINDING)}],
        },
    ]
}


@pytest.fixture(scope="module")
def service() -> Iterator[ModelServer]:
    pytest.importorskip("openai")
    with serving(OpenAI, SCRIPT) as server:
        yield server


@pytest.mark.parametrize("number", range(len(BLOCK.findall(PAGE))))
def test_a_script_runs_as_it_is_shown(number: int, service: ModelServer, tmp_path: Path) -> None:
    ran = run_script(
        tmp_path,
        BLOCK.findall(PAGE)[number],
        env={"OPENAI_BASE_URL": f"{service.url}/v1", "OPENAI_API_KEY": "none"},
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_table_of_tokens_is_what_is_measured() -> None:
    shown = re.findall(r"^\| (\w.*?) \| (\d+) \| ([\d,]+).*$", PAGE, re.MULTILINE)
    costs = await measured()
    assert len(shown) == len(costs), table(costs)
    for (way, turns, read), cost in zip(shown, costs, strict=True):
        assert (way, int(turns)) == (cost.way, cost.turns)
        assert int(read.replace(",", "")) == pytest.approx(cost.read, rel=0.02)
