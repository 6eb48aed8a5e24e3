from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from hmz_mp.cli.flows import _print_table

from .support import hmz_mp

PAIR = '''
from hmz_mp.flows import Agent, flow

@flow
def first(agents: tuple[Agent], task):
    """The \x1b[31mfirst [red]."""

@flow
def second(agents: tuple[Agent, Agent], task): ...
'''


@pytest.fixture
def flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    folder = tmp_path / "here" / ".humanize" / "flows"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    (folder / "pair.py").write_text(PAIR)
    (folder / "fanout.py").write_text("def broken(:\n")
    (folder / "empty.py").write_text("")
    return folder


def test_a_line_for_each_flow(flows: Path) -> None:
    done = hmz_mp("flows")
    assert (done.exit_code, done.stderr) == (0, "")
    heading, *rows = done.stdout.splitlines()
    assert heading.split() == ["FLOW", "AGENTS", "WHERE", "ABOUT"]
    assert [row.split()[0] for row in rows] == [
        *("empty", "fanout", "pair:first", "pair:second", "fanout", "review", "triage"),
    ]
    by_name = dict(zip((row.split()[0] for row in rows[:4]), rows, strict=False))
    assert "holds no function that is marked @flow" in by_name["empty"]
    assert "is no Python" in by_name["fanout"]
    assert "tuple[Agent, Agent]" in by_name["pair:second"]
    assert "The \\x1b[31mfirst [red]." in by_name["pair:first"]
    assert "another comes first" in rows[4]


def test_as_objects(flows: Path) -> None:
    done = hmz_mp("flows", "--json")
    assert done.exit_code == 0
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[2] == {
        "name": "pair:first",
        "path": str(flows / "pair.py"),
        "place": str(flows),
        "agents": "tuple[Agent]",
        "summary": "The \x1b[31mfirst [red].",
        "hidden": False,
        "problem": "",
    }
    assert [(row["name"], row["place"]) for row in rows if row["hidden"]] == [
        ("fanout", "built in")
    ]


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_it_fits_the_terminal(flows: Path, width: int) -> None:
    rows = [json.loads(line) for line in hmz_mp("flows", "--json").stdout.splitlines()]
    stream = io.StringIO()
    _print_table(rows, Console(file=stream, width=width, force_terminal=True, no_color=True))
    shown = stream.getvalue().replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[2m", "")
    assert all(len(line) <= width for line in shown.splitlines())
    assert "pair:second" in shown
