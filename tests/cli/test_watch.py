"""``hmz-mp watch`` and ``exec --watch``, on a terminal of their own."""

from __future__ import annotations

import json
import re

import pytest

from hmz_mp.cli import watch
from tests.cli.processes import OnTerminal, Project
from tests.fakes.programs import fake_claude
from tests.waiting import until

from .support import hmz_mp

FULL, GIVEN_BACK = "\x1b[?1049h", "\x1b[?1049l"
COLOUR = re.compile(r"\x1b\[[0-9;]*?(?:3[0-8]|4[0-8]|9[0-7])[;m]")


def hanging(project: Project, count: int, *arguments: str, **size: int) -> OnTerminal:
    (project.root / "running").mkdir(exist_ok=True)
    project.files(*(f"{number}.py" for number in range(count)))
    tool = ("-a", project.tool("hangs"), "--include", "*.py", "--at-once", "2")
    return OnTerminal(project, "exec", *tool, *arguments, **size)


def run_id(project: Project) -> str:
    (directory,) = (project.root / ".hmz-mp" / "runs").glob("2*")
    return directory.name


def test_exec_on_a_full_screen(project: Project) -> None:
    terminal = hanging(project, 5, "--watch")
    terminal.await_shown("0 of 5 done")
    terminal.await_shown("‹1 of 2›")
    assert FULL in terminal.shown
    project.files("go")
    assert terminal.wait() == 0, terminal.shown
    after = terminal.shown.rpartition(GIVEN_BACK)[2]
    assert "5 files, 5 answered with text" in after
    assert "5 turns in " in after
    assert "\x1b[?25l" not in after


def test_ctrl_c_twice_stops_and_shows_the_summary(project: Project) -> None:
    terminal = hanging(project, 5, "--watch")
    terminal.await_shown("‹1 of 2›")
    terminal.type("\x03")
    terminal.await_shown("ctrl+c again stops the run")
    terminal.type("\x03")
    assert terminal.wait() == 130, terminal.shown
    after = terminal.shown.rpartition(GIVEN_BACK)[2]
    assert "interrupted" in after
    assert "3 not run" in after


@pytest.mark.slow
def test_the_run_goes_on_when_the_screen_is_left(project: Project) -> None:
    terminal = hanging(project, 5, "--watch")
    terminal.await_shown("‹1 of 2›")
    terminal.type("q")
    until(lambda: "0/5 done  2 running" in terminal.shown.rpartition(GIVEN_BACK)[2])
    project.files("go")
    assert terminal.wait() == 0, terminal.shown


@pytest.mark.slow
def test_answers_come_when_the_screen_is_given_back(project: Project) -> None:
    terminal = hanging(project, 3, "--watch", "--print")
    terminal.await_shown("‹1 of 2›")
    project.files("go")
    assert terminal.wait() == 0, terminal.shown
    before, _, after = terminal.shown.rpartition(GIVEN_BACK)
    assert "0.py\r\n1.py\r\n2.py\r\n" in after
    assert "0.py\r\n1.py" not in before


def test_a_line_is_said_to_an_agent_that_works(project: Project) -> None:
    agent = f"cli=claude,model=opus,program={fake_claude(project.root)}"
    pid = project.root / "pid"
    (project.root / "items.txt").write_text(f"begin {pid}\n")
    terminal = OnTerminal(project, "exec", "-a", agent, "--items", "items.txt", "--watch")
    terminal.await_shown("‹1 of 1›")
    until(lambda: pid.exists() and pid.read_text() != "")
    terminal.type("i")
    terminal.await_shown("say something")
    terminal.type("faster")
    terminal.await_shown("faster")
    terminal.type("\r")
    assert terminal.wait() == 0, terminal.shown
    rows = project.run("show", "last", "--json").out
    assert json.loads(rows)["items"][0]["answer"] == "heard ['faster']"


@pytest.mark.slow
def test_from_another_terminal_while_it_goes_on_and_after(project: Project) -> None:
    running = hanging(project, 3)
    running.await_shown("0/3 done")
    project.await_running(2)
    other = OnTerminal(project, "watch", columns=40, rows=12)
    other.await_shown("goes on")
    other.await_shown("‹1 of 2›")
    other.type("q")
    assert other.wait() == 0, other.shown
    project.files("go")
    assert running.wait() == 0, running.shown
    after = OnTerminal(project, "watch", run_id(project))
    after.await_shown("3 of 3 done")
    after.type("q")
    assert after.wait() == 0, after.shown


@pytest.mark.slow
def test_ctrl_c_twice_stops_it_from_another_terminal(project: Project) -> None:
    running = hanging(project, 3)
    project.await_running(2)
    other = OnTerminal(project, "watch", "last")
    other.await_shown("‹1 of 2›")
    other.type("\x03")
    other.await_shown("ctrl+c again stops the run")
    other.type("\x03")
    assert running.wait() == 130, running.shown
    other.await_shown("interrupted")
    other.type("q")
    assert other.wait() == 0, other.shown


@pytest.mark.slow
def test_no_colour_when_asked(project: Project) -> None:
    project.environment["NO_COLOR"] = "1"
    terminal = hanging(project, 2, "--watch", columns=40, rows=12)
    terminal.await_shown("‹1 of 2›")
    project.files("go")
    assert terminal.wait() == 0, terminal.shown
    screen = terminal.shown.partition(FULL)[2].rpartition(GIVEN_BACK)[0]
    assert "‹1 of 2›" in screen
    assert not COLOUR.search(screen)


@pytest.mark.parametrize("command", ["watch", "exec -a sh/true --watch"])
def test_it_needs_a_terminal(command: str) -> None:
    done = hmz_mp(*command.split())
    assert done.exit_code == 2
    assert "a full screen needs a terminal" in done.stderr


@pytest.mark.parametrize("command", ["watch", "exec -a sh/true --watch"])
def test_it_needs_textual(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "find_spec", lambda name: None)
    done = hmz_mp(*command.split())
    assert done.exit_code == 2
    assert "pip install 'hmz-mp[tui]'" in done.stderr
