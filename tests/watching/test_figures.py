from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from hmz_mp.watching.conversations import Conversation
from hmz_mp.watching.figures import agent_line, figure_lines, heading, title
from hmz_mp.watching.snapshot import AgentCount, Snapshot

WIDTHS = range(20, 140, 7)


def snapshot(**fields: Any) -> Snapshot:
    agent = AgentCount("claude/opus:high", {"ok": 1200, "failed": 3, "running": 8, "queued": 90})
    given: dict[str, Any] = dict.fromkeys(Snapshot.__slots__)
    given |= {"run_id": "20261130-004140-0d2c", "directory": Path(), "status": "running"}
    given |= {"started_at": 0.0, "ended_at": 65.0, "agents": (agent,), "working": (), "failed": ()}
    given |= {"tokens": 2_500_000, "cost_usd": 12.5, "at_once": 16}
    return Snapshot(**(given | fields))


def test_a_heading() -> None:
    assert heading(snapshot(), 80) == "run 20261130-004140-0d2c  goes on  1:05"
    assert heading(snapshot(status="failed"), 30) == "failed  1:05  20261130-004140…"


def test_figures() -> None:
    (line,) = figure_lines(snapshot(), 2.5, 5000, 200)
    assert line == (
        "1,203 of 5,000 done  3 failed  8 of 16 at once  90 queued  2.5/s  2.5 M tokens  $12.50"
    )
    assert "1.5/min" in figure_lines(snapshot(), 0.025, 5000, 200)[0]
    over = figure_lines(snapshot(status="ok", tokens=0, cost_usd=0), None, 0, 200)[0]
    assert "at once" not in over
    assert "tokens" not in over


def test_how_long_it_will_take() -> None:
    (line,) = figure_lines(snapshot(seconds_left=75.0), 2.5, 5000, 200)
    assert "  2.5/s  1:15 left  " in line
    (line,) = figure_lines(snapshot(seconds_left=0.0), 2.5, 1203, 200)
    assert "left" not in line


@pytest.mark.parametrize(
    ("tokens", "shown"), [(999, "999"), (15_000, "15.0 k"), (3 * 10**9, "3.0 G")]
)
def test_tokens_are_short(tokens: int, shown: str) -> None:
    assert f"{shown} tokens" in figure_lines(snapshot(tokens=tokens), None, 0, 200)[0]


def test_no_more_at_once_than_may_be() -> None:
    agent = AgentCount("a", {"running": 5})
    assert "4 of 4 at once" in figure_lines(snapshot(agents=(agent,), at_once=4), None, 0, 200)[0]
    free = figure_lines(snapshot(agents=(agent,), at_once=None), None, 0, 200)[0]
    assert "  5 at once" in free


def test_an_agent() -> None:
    agent = AgentCount("sh/wc", {"ok": 50, "failed": 2, "queued": 3})
    assert agent_line(agent, 104, 80) == "sh/wc  ██████░░░░░░  52 of 104, 2 failed"
    assert agent_line(agent, 0, 40) == "sh/wc  52 of 55, 2 failed"
    assert agent_line(AgentCount(""), 0, 40) == "no agent  0 of 0"


def conversation(**fields: Any) -> Conversation:
    given: dict[str, Any] = dict.fromkeys(Conversation._fields)
    return Conversation(**(given | {"item_id": "src/a/very/long/name.py", "place": 0} | fields))


def test_a_title() -> None:
    assert title(conversation(), None, 80) == "src/a/very/long/name.py"
    assert title(conversation(place=2), (1, 8), 80) == "‹1 of 8› src/a/very/long/name.py  turn 3"
    assert title(conversation(), (1, 8), 20) == "‹1 of 8› …ng/name.py"


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_screen(width: int) -> None:
    lines = [heading(snapshot(), width), *figure_lines(snapshot(), 2.5, 5000, width)]
    lines.append(title(conversation(item_id="文字\x1b[2J" * 20, place=3), (1, 8), width))
    if width >= 40:
        long = AgentCount("tool/" + "x" * 100, {"ok": 10_000, "failed": 12})
        lines.append(agent_line(long, 20_000, width))
    assert max(map(cell_len, lines)) <= width, lines
    assert "".join(lines).isprintable()
