"""Sub-runs and the Dispatcher in a flow of ``hmz-mp exec``, which a process of its own runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import Project
from tests.workers.chat.servers import Place, placed

FLOW = '''
import os
from functools import partial
from hmz_mp import tool
from hmz_mp.core.ambient import current_run
from hmz_mp.dispatch import Dispatcher
from hmz_mp.fanin import fan_out, run_subtask
from hmz_mp.flows import Agent, flow

@tool
def read(name: str) -> str:
    """Read it."""
    return name * 3000 + os.environ["PROBE_TOKEN"]

@flow
async def run(agents: tuple[()], task: str) -> None:
    work = partial(run_subtask, model="openai/tiny", base_url=task, max_turns=2,
                   tools=Dispatcher([read], longest=400))
    report = await fan_out(current_run().items(), work, on_failure="partial", at_once=1)
    print(report)
'''
FINDING = {
    "item_id": "{name}",
    "status": "ok",
    "finding": "It is fine.",
    "evidence_ref": "",
    "confidence": "high",
}
READS = {"calls": [{"tool": "read", "input": {"name": "{name}"}}], "usage": {"input": 100}}
SCRIPT = {
    "rules": [
        {"match": r"(?P<name>bad\.txt)", "steps": [{"status": 400, "times": 99}]},
        {"match": r"(?P<name>odd\.txt)", "steps": [READS]},
        {
            "match": r"(?P<name>late\.txt)",
            "steps": [
                READS,
                {"status": 400, "at": 1},
                {"text": json.dumps(FINDING), "usage": {"input": 200}},
            ],
        },
        {
            "match": r"(?P<name>\w+\.txt)",
            "steps": [READS, {"text": json.dumps(FINDING), "usage": {"input": 200}}],
        },
    ]
}


@pytest.fixture
def place() -> Iterator[Place]:
    with placed("openai", SCRIPT) as place:
        yield place


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.environment["PROBE_TOKEN"] = "not-for-files"
    (tmp_path / "flow.py").write_text(FLOW)
    return project


def run(project: Project, place: Place, *arguments: str) -> Any:
    flow = str(project.root.parent / "flow.py")
    return project.exec("-f", flow, "--json", *arguments, place.settings.base_url)


def test_sub_runs_are_turns_of_the_run(project: Project, place: Place) -> None:
    project.files("a.txt", "bad.txt", "odd.txt")
    done = run(project, place)
    assert done.status == 1, done
    assert done.states == {"a.txt": "ok", "bad.txt": "failed", "odd.txt": "needs_review"}
    rows = {row["item_id"]: row for row in done.rows}
    assert json.loads(rows["a.txt"]["answer"])["finding"] == "It is fine."
    (usage,) = rows["a.txt"]["usage"]
    assert (usage["model"], usage["input_tokens"]) == ("tiny", 300)
    assert "no answer after 2 turns" in rows["odd.txt"]["error"]
    assert "2 of 3 items answered, 1 failed: bad.txt; 1 to be reviewed: odd.txt" in done.err
    (folder,) = (project.root / ".hmz-mp" / "runs").iterdir()
    kept = [one.read_text() for one in (folder / "results").iterdir()]
    assert sorted(kept) == ["a.txt" * 3000 + "***", "odd.txt" * 3000 + "***"]
    told = json.dumps(place.server.requests[1]["body"])
    assert "characters in all, the whole is in " in told
    shown = project.run("show", "last", "odd.txt")
    assert b"odd.txt" in shown.out


def test_a_sub_run_that_is_tried_again_is_one_turn(project: Project, place: Place) -> None:
    flow = project.root.parent / "flow.py"
    flow.write_text(
        FLOW.replace('"partial"', "Retry(1, 0)").replace("fan_out, ", "Retry, fan_out, ")
    )
    project.files("late.txt")
    done = run(project, place)
    assert done.status == 0, done
    (row,) = done.rows
    assert (row["item_id"], row["status"], row["attempts"]) == ("late.txt", "ok", 4)
    assert [one["input_tokens"] for one in row["usage"]] == [400]
    (shown,) = project.run("show", "last", "late.txt", "--json").rows
    assert len(shown["tried"]) == 1
    assert shown["usage"] == row["usage"]
    (whole,) = project.run("show", "last", "--json").rows
    assert [one["input_tokens"] for one in whole["usage"]] == [400]


@pytest.mark.slow
def test_the_budget_of_the_run_holds(project: Project, place: Place) -> None:
    project.files("a.txt", "b.txt", "c.txt")
    done = run(project, place, "--max-tokens", "250")
    assert done.status == 1, done
    assert done.states == {"a.txt": "ok", "b.txt": "not_run", "c.txt": "not_run"}
    assert "1 of 3 items answered, 2 failed: b.txt, c.txt" in done.err
