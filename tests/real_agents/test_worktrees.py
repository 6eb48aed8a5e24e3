"""Claude Code itself, each turn in a git worktree, against a scripted Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import Project
from tests.model_servers.anthropic import Anthropic
from tests.model_servers.serving import ModelServer, serving
from tests.real_agents.programs import real_program
from tests.worktrees.support import Repository

pytestmark = pytest.mark.agents


def edits(file: str, old: str, new: str) -> list[dict[str, Any]]:
    """Return the steps that edit a file."""
    edit = {"file_path": file, "old_string": old, "new_string": new}
    return [
        {"tool": "Read", "input": {"file_path": file}},
        {"tool": "Edit", "input": edit},
    ]


OWN = edits("{file}", "a, b", "a: int")
ANNOTATED = {"text": "Annotated."}
SCRIPT = {
    "rules": [
        {
            "match": r"The file is (?P<file>m(07|23)\.py)\.",
            "steps": [*OWN, *edits("shared.py", "nobody", "{file}"), ANNOTATED],
        },
        {"match": r"The file is (?P<file>[\w.]+)\.", "steps": [*OWN, ANNOTATED]},
    ],
    "default": {"steps": [{"text": "scripted"}]},
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving(Anthropic, SCRIPT) as server:
        yield server


def test_forty_files_of_which_two_conflict(tmp_path: Path, server: ModelServer) -> None:
    project = Project(tmp_path)
    project.environment |= {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "none",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }
    repository = Repository(project.root)
    for number in range(40):
        project.write(f"m{number:02}.py", f"def add{number}(a, b): ...\n")
    project.write("shared.py", 'LAST = "nobody"\n')
    repository.commit()
    agent = f"cli=claude,model=claude-sonnet-4-5,program={real_program('claude')}"
    words = ("--worktree", "-a", agent, "--include", "m*", "--at-once", "2", "--json", "annotate")
    done = project.exec(*words)
    assert done.status == 1, done
    assert [row["answer"] for row in done.rows] == ["Annotated."] * 40
    wrong = {row["item_id"]: row["error"] for row in done.rows if row["status"] != "ok"}
    assert wrong == {"m23.py": "'shared.py': conflicts with the patch of 'm07.py'"}
    assert "39 patches applied to the checkout\n1 patch not applied" in done.err
    changed = {number for number in range(40) if number != 23}
    for number in range(40):
        text = f"def add{number}(a: int): ...\n" if number in changed else "def add23(a, b): ...\n"
        assert repository.read(f"m{number:02}.py") == text.encode()
    assert repository.read("shared.py") == b'LAST = "m07.py"\n'
    expected = {b" M m%02d.py" % number for number in changed}
    assert repository.status() == expected | {b" M shared.py"}
    assert repository.staged() == b""
    assert repository.worktrees() == []
