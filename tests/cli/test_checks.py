from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.agents import agent_from_spec
from hmz_mp.cli import checks
from hmz_mp.cli.checks import Options, check, set_widths
from hmz_mp.errors import BadInput
from hmz_mp.runs.costs import Budget
from tests.cli.processes import Project
from tests.fakes.programs import fake_claude, fake_codex
from tests.worktrees.support import Repository

CPUS = 6


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (CPUS, None)),
        ({"workers": 3}, (3, 3)),
        ({"at_once": 20}, (20, 20)),
        ({"at_once": 20, "workers": 3}, (20, 3)),
        ({"at_once": 0}, (0, None)),
        ({"at_once": "auto"}, (CPUS, None)),
    ],
)
def test_how_many_turns_at_once_and_how_many_workers(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], expected: tuple[int, int | None]
) -> None:
    monkeypatch.setattr(checks, "usable_cpus", lambda: CPUS)
    computing = agent_from_spec("tool/os:path.basename")
    assert set_widths(Options(**given), [computing]) == expected


TOOL, COMMAND, PROGRAM = "tool/os:path.basename", "sh/cat", "claude"


@pytest.mark.parametrize(
    ("agents", "given", "cap", "at_once"),
    [
        ([TOOL], {}, 0, CPUS),  # a worker takes one at a time: that caps them
        ([TOOL], {"at_once": "auto"}, 0, CPUS),
        ([TOOL], {"at_once": 4}, 4, 4),
        ([COMMAND], {}, CPUS, CPUS),
        ([COMMAND], {"at_once": "auto"}, 0, "auto"),
        ([COMMAND, TOOL], {}, CPUS, CPUS),
        ([PROGRAM], {}, 0, "auto"),
        ([PROGRAM], {"at_once": 200}, 200, 200),
        ([PROGRAM, COMMAND], {}, 0, "auto"),
    ],
)
def test_turns_are_counted_where_workers_do_not_cap_them(
    monkeypatch: pytest.MonkeyPatch,
    project: Project,
    tmp_path: Path,
    agents: list[str],
    given: dict[str, Any],
    cap: int,
    at_once: int | str,
) -> None:
    monkeypatch.setattr(checks, "usable_cpus", lambda: CPUS)
    program = f"cli=claude,model=opus,program={fake_claude(tmp_path)}"
    specs = tuple(program if one is PROGRAM else one for one in agents)
    project.write("two.py", TWO if len(agents) > 1 else FLOW)
    monkeypatch.chdir(project.root)
    checked = check(Options(flow="./two.py", agents=specs, **given))
    assert (checked.cap, checked.at_once) == (cap, at_once)


@pytest.mark.parametrize(
    "given",
    [
        {"include": ("*",)},
        {"exclude": ("*",)},
        {"changed_since": "HEAD"},
        {"items": "-"},
        {"dry_run": True},
    ],
)
def test_options_that_select_items(given: dict[str, Any]) -> None:
    assert Options(**given).selects
    assert not Options(task="t", at_once=3, style="json").selects


FLOW = """
from hmz_mp.flows import flow, Agent

@flow
def run(agents: tuple[Agent], task: str) -> None: ...
"""

TWO = FLOW.replace("tuple[Agent]", "tuple[Agent, Agent]")


def test_items_are_searched_for_when_they_are_sure_to_matter(project: Project) -> None:
    project.write(".humanize/flows/own.py", FLOW)
    project.files("a.py")
    with contextlib.chdir(project.root):
        own = check(Options(flow="own", agents=("sh/cat",)))
        assert not own.items.was_searched
        assert [item.item_id for item in own.items()] == [".humanize/flows/own.py", "a.py"]
        assert own.items.was_searched
        assert check(Options(agents=("sh/cat",), include=("*.py",))).items.was_searched
        with pytest.raises(BadInput, match="no items"):
            check(Options(flow="own", agents=("sh/cat",), include=("*.nothing",)))


def test_what_a_run_that_can_start_has(project: Project) -> None:
    project.files("a.py")
    with contextlib.chdir(project.root):
        checked = check(Options(agents=("sh/cat {path}",), at_once=3))
    assert (checked.flow.name, checked.at_once, checked.workers) == ("fanout", 3, 3)
    assert [agent.spec for agent in checked.agents] == ["sh/cat {path}"]
    assert checked.root == project.root
    assert checked.settings is None


def test_worktrees_need_a_repository(project: Project) -> None:
    project.files("a.py")
    with contextlib.chdir(project.root):
        with pytest.raises(BadInput, match="worktrees need a git checkout"):
            check(Options(agents=("sh/cat {path}",), worktree=True))
        Repository(project.root).commit()
        assert check(Options(agents=("sh/cat {path}",), worktree=True)).options.worktree


def test_money_bounds_only_those_who_say_what_they_cost(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude = f"cli=claude,model=opus,program={fake_claude(tmp_path)}"
    codex = f"cli=codex,model=gpt-5,program={fake_codex(tmp_path)}"
    project.write("a.py")
    monkeypatch.chdir(project.root)
    budget = Budget(max_cost=1.0)
    for agent in (claude, "sh/cat", "tool/os:path.basename"):
        assert check(Options(agents=(agent,), budget=budget)).options.budget == budget
    check(Options(agents=(codex,), budget=Budget(max_tokens=1)))
    with pytest.raises(BadInput, match=r"does not say what its turns cost, .* use --max-tokens"):
        check(Options(agents=(codex,), budget=budget))
