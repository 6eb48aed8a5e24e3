from __future__ import annotations

import contextlib
from typing import Any

import pytest

from hmz_mp.cli import checks
from hmz_mp.cli.checks import AUTO_WAITING, Options, check, widths
from hmz_mp.errors import BadInput
from tests.cli.processes import Project

CPUS = 6


@pytest.mark.parametrize(
    ("given", "waits", "expected"),
    [
        ({}, False, (CPUS, None)),
        ({}, True, (CPUS, None)),
        ({"workers": 3}, False, (3, 3)),
        ({"at_once": 20}, False, (20, 20)),
        ({"at_once": 20, "workers": 3}, False, (20, 3)),
        ({"at_once": 0}, False, (0, None)),
        ({"at_once": "auto"}, False, (CPUS, None)),
        ({"at_once": "auto"}, True, (AUTO_WAITING, None)),
        ({"at_once": "auto", "workers": 40}, True, (40, 40)),
    ],
)
def test_how_many_turns_at_once_and_how_many_workers(
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
    waits: bool,
    expected: tuple[int, int | None],
) -> None:
    monkeypatch.setattr(checks, "usable_cpus", lambda: CPUS)
    assert widths(Options(**given), waits=waits) == expected


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
