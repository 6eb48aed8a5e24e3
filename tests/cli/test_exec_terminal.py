"""``hmz-mp exec`` on a terminal: the bar, its size, colours, Ctrl-C."""

from __future__ import annotations

import pytest

from tests.cli.processes import OnTerminal, Project
from tests.waiting import is_gone

pytestmark = pytest.mark.slow


def hanging(project: Project, count: int, *arguments: str, **size: int) -> OnTerminal:
    (project.root / "running").mkdir(exist_ok=True)
    project.files(*(f"{number}.py" for number in range(count)))
    tool = ("-a", project.tool("hangs"), "--include", "*.py")
    return OnTerminal(project, "exec", *tool, *arguments, **size)


def let_go(project: Project) -> None:
    project.files("go")


def test_the_bar_and_what_runs(project: Project) -> None:
    terminal = hanging(project, 5, "--at-once", "2")
    terminal.await_shown("0/5 done  2 running")
    terminal.await_shown("0.py")
    terminal.await_shown("1.py")
    let_go(project)
    assert terminal.wait() == 0, terminal.shown
    assert "━" in terminal.shown
    assert "5 turns in " in terminal.shown
    assert "5 files, 5 answered with text" in terminal.shown
    assert terminal.shown.count("\x1b[?25h") >= 1
    after = terminal.shown.rpartition("\x1b[?25h")[2]
    assert "\x1b[?25l" not in after


def test_on_40_columns_and_after_a_change_of_size(project: Project) -> None:
    terminal = hanging(project, 5, "--at-once", "2", columns=40, rows=10)
    terminal.await_shown("0/5 done  2 running")
    narrow = terminal.shown
    assert "━" * 41 not in narrow
    terminal.resize(100, 30)
    terminal.await_shown("━" * 80)
    let_go(project)
    assert terminal.wait() == 0, terminal.shown


def test_no_colour_when_asked(project: Project) -> None:
    project.environment["NO_COLOR"] = "1"
    terminal = hanging(project, 2)
    terminal.await_shown("0/2 done")
    let_go(project)
    assert terminal.wait() == 0
    assert "\x1b[3" not in terminal.shown
    assert "\x1b[9" not in terminal.shown


def test_a_dumb_terminal_gets_lines(project: Project) -> None:
    project.environment["TERM"] = "dumb"
    project.files("a.py")
    terminal = OnTerminal(project, "exec", "-a", project.tool("name"))
    assert terminal.wait() == 0
    assert "\x1b" not in terminal.shown


def test_answers_are_shown_above_the_bar(project: Project) -> None:
    terminal = hanging(project, 3, "--print", "--at-once", "1")
    terminal.await_shown("0/3 done")
    let_go(project)
    assert terminal.wait() == 0, terminal.shown
    for name in ("0.py\r\n", "1.py\r\n", "2.py\r\n"):
        assert name in terminal.shown


def test_quiet(project: Project) -> None:
    project.files("a.py")
    terminal = OnTerminal(project, "exec", "--quiet", "--print", "-a", project.tool("name"))
    assert terminal.wait() == 0
    assert sorted(terminal.shown.splitlines()) == ["1 file, 1 answered with text", "a.py"]


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c(project: Project, times: int) -> None:
    terminal = hanging(project, 9, "--at-once", "2")
    workers = project.await_running(2)
    for _ in range(times):
        terminal.type("\x03")
    assert terminal.wait() == 130, terminal.shown
    assert "2 stopped while running, 7 not run" in terminal.shown
    assert "0.py: interrupted" in terminal.shown
    assert "Traceback" not in terminal.shown
    assert all(is_gone(pid) for pid in workers)
    assert "\x1b[?25l" not in terminal.shown.rpartition("\x1b[?25h")[2]
