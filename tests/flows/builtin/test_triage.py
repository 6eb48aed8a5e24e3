from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.processes import Project
from tests.flows.builtin.agents import AGENTS


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.tools.write_text(AGENTS)
    for number in range(10):
        project.write(f"f{number}.py", "line\n" * (number % 3 + 2))
    return project


def triage(project: Project, *more: str) -> tuple[str, ...]:
    return ("-f", "triage", "-a", project.tool("measure"), "-a", project.tool("told"), *more)


def test_only_what_stands_out_is_asked_about(project: Project) -> None:
    project.write("large.py", "line\n" * 300)
    done = project.exec(*triage(project, "split it?"))
    assert done.status == 0, done
    assert done.lines == [
        "11 of 11 items answered, 0 failed",
        "lines: median 3, from 2 to 300; outliers: large.py 300",
        "",
        "asked about 1 of 11, which stand out:",
        "1 of 1 item answered, 0 failed",
        "large.py: split it? | The file is large.py. | It stands out among many: lines is 300. "
        f"(confidence low) [hmz-mp show {done.err.split('run ')[1].split(':')[0]} large.py]",
    ]
    assert "12 turns in" in done.err


@pytest.mark.slow
def test_nothing_stands_out(project: Project) -> None:
    done = project.exec(*triage(project))
    assert done.status == 0, done
    assert "asked about 0 of 10, which stand out:" in done.lines
    assert done.lines[-1] == "0 of 0 items answered, 0 failed"


@pytest.mark.slow
def test_what_cannot_be_measured_is_in_the_report(project: Project) -> None:
    project.write("broken.py", "raises")
    done = project.exec(*triage(project))
    assert done.status == 1, done
    assert done.lines[0] == "10 of 11 items answered, 1 failed: broken.py"
    assert "cannot measure" in done.lines[1]


def test_settings(project: Project) -> None:
    for number in range(5):
        project.write(f"large{number}.py", "x" * (1000 + number))
    (project.root / ".settings.yaml").write_text("metrics: [deep.letters]\nmost: 2\n")
    done = project.exec(*triage(project, "-c", ".settings.yaml", "--include", "*.py"))
    assert done.status == 0, done
    assert "asked about 2 of 15, which stand out:" in done.lines
    assert "(the farthest of 5)" in done.lines
    assert [line.split(":")[0] for line in done.lines[-2:]] == ["large4.py", "large3.py"]


@pytest.mark.slow
def test_records(project: Project) -> None:
    items = "".join(f"record {'x' * (1 + number % 3)}\n" for number in range(3)) + "r" * 500 + "\n"
    agents = ("-a", project.tool("length"), "-a", project.tool("told"))
    done = project.exec("-f", "triage", *agents, "--items", "-", "why", stdin=items.encode())
    assert done.status == 0, done
    assert "asked about 1 of 4, which stand out:" in done.lines
