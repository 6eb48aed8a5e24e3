from __future__ import annotations

from pathlib import Path

import pytest

from hmz_mp.core.ambient import Item
from hmz_mp.flows.builtin.review import prompt_for
from tests.cli.processes import OnTerminal, Project
from tests.flows.builtin.agents import AGENTS


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.tools.write_text(AGENTS)
    return project


def test_a_report_of_all_files(project: Project) -> None:
    project.write("a.py", "fine")
    project.write("b/c.py", "fine too")
    done = project.exec("-f", "review", "-a", project.tool("look"), "find unchecked returns")
    assert done.status == 0, done
    assert done.lines == [
        "2 of 2 items answered, 0 failed",
        "a.py: fine [a.py:1]",
        "b/c.py: fine too [b/c.py:1]",
    ]


def test_what_failed_is_in_the_report_the_rows_and_the_status(project: Project) -> None:
    for name in ("fine", "bad", "odd", "raises"):
        project.write(f"{name}.py", name)
    project.write("none.py", "no finding")
    project.write("stray.py", "other")
    agent = project.tool("look")
    done = project.exec("-f", "review", "-a", agent, "--json", "look")
    assert done.status == 1, done
    assert done.states == {
        "bad.py": "failed",
        "fine.py": "ok",
        "none.py": "failed",
        "odd.py": "needs_review",
        "raises.py": "failed",
        "stray.py": "failed",
    }
    errors = {row["item_id"]: row["error"] for row in done.rows}
    assert (errors["fine.py"], errors["bad.py"], errors["odd.py"]) == (None, "bad", "odd")
    assert errors["stray.py"] == "the finding is about 'other.py'"
    assert "2 of 6 items answered, 4 failed: bad.py, none.py, raises.py, stray.py" in done.err
    assert "; 1 to be reviewed: odd.py" in done.err
    assert "to be reviewed:\n  odd.py: odd\n" in done.err
    shown = project.run("show", "last").out.decode()
    assert "4 failed" in shown


@pytest.mark.slow
def test_one_that_is_to_be_reviewed_is_not_ok(project: Project) -> None:
    project.write("odd.py", "odd")
    done = project.exec("-f", "review", "-a", project.tool("look"), "--quiet")
    assert done.status == 1, done
    assert done.err.splitlines() == ["to be reviewed:", "  odd.py: odd"]


def test_records_and_a_task_with_braces(project: Project) -> None:
    items = b"first {item_id}\nsecond\n"
    arguments = ("-f", "review", "-a", project.tool("record"), "--items", "-", "find {path}")
    done = project.exec(*arguments, stdin=items)
    assert done.status == 0, done
    assert done.lines[1].startswith('"first {item_id}": first {item_id} [hmz-mp show ')
    assert done.lines[2].startswith("second: second [hmz-mp show ")


@pytest.mark.slow
def test_a_table_on_a_terminal(project: Project) -> None:
    project.write("a.py", "fine")
    terminal = OnTerminal(project, "exec", "-f", "review", "-a", project.tool("look"), "look")
    assert terminal.wait() == 0
    assert "1 of 1 item answered, 0 failed" in terminal.shown
    assert "evidence" in terminal.shown


def test_what_the_agent_is_asked() -> None:
    prompt = prompt_for("find {x}", Item("a.py", b"a.py"))
    assert prompt.startswith(
        "find {x}\n\nThe file is a.py.\n\nAnswer with one finding. item_id: a.py."
    )
    assert prompt_for("", Item("r", text="a record")).startswith("Review it, and say what")
