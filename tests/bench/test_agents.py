"""What compares agents' programs, with commands in their place that answer by themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.agents import __main__ as agents

GOOD = 'while read -r line; do echo "answer ${line#prompt }"; done'
CLAUDE = "node_modules/@anthropic-ai/claude-code-linux-x64/claude"


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / ".agents" / CLAUDE
    path.parent.mkdir(parents=True)
    path.touch()
    monkeypatch.setattr(agents, "INSTALLED", tmp_path / ".agents" / "node_modules")
    monkeypatch.setattr(sys, "argv", ["bench.agents", "3", "2"])
    return path


def test_a_table_of_ratios(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    both = {"first": ["sh", "-c", GOOD], "second": ["sh", "-c", GOOD]}
    monkeypatch.setattr(agents, "contenders", lambda _: both)
    agents.main()
    said = capsys.readouterr()
    assert said.out.startswith("3 prompts, 2 rounds, ")
    first, second = said.out.splitlines()[-2:]
    assert first.startswith("| `first` | ")
    assert first.endswith(" | 1.0 × | 1/1.0 |")
    assert second.startswith("| `second` | ")
    assert len(said.err.splitlines()) == 4


def test_a_wrong_answer_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "contenders", lambda _: {"bad": ["sh", "-c", "cat"]})
    with pytest.raises(SystemExit, match=r"bad answered \['prompt 0'"):
        agents.main()


def test_without_the_program(program: Path) -> None:
    program.unlink()
    with pytest.raises(SystemExit, match="make agents"):
        agents.main()


def test_what_is_compared() -> None:
    compared = agents.contenders("/usr/bin/claude")
    assert list(compared) == ["xargs -P4 claude -p", "hmz-mp exec --at-once 2", "hmz-mp exec"]
    assert all(any("/usr/bin/claude" in word for word in words) for words in compared.values())
