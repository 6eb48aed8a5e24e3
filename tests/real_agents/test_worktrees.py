"""Claude Code itself, each turn in a git worktree, against a scripted Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import Project
from tests.model_servers.anthropic import Anthropic
from tests.model_servers.serving import ModelServer, serving
from tests.real_agents.programs import real_program
from tests.worktrees.support import Repository

pytestmark = pytest.mark.agents

SCRIPT = {
    "rules": [
        {
            "match": r"The file is (?P<file>[\w.]+)\.",
            "steps": [
                {"tool": "Read", "input": {"file_path": "{file}"}},
                {
                    "tool": "Edit",
                    "input": {"file_path": "{file}", "old_string": "a, b", "new_string": "a: int"},
                },
                {"text": "Annotated."},
            ],
        },
    ],
    "default": {"steps": [{"text": "scripted"}]},
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving(Anthropic, SCRIPT) as server:
        yield server


def test_files_edited_in_worktrees(tmp_path: Path, server: ModelServer) -> None:
    project = Project(tmp_path)
    project.environment |= {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "none",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }
    repository = Repository(project.root)
    for number in range(6):
        project.write(f"m{number}.py", f"def add{number}(a, b): ...\n")
    repository.commit()
    agent = f"cli=claude,model=claude-sonnet-4-5,program={real_program('claude')}"
    done = project.exec("--worktree", "-a", agent, "--at-once", "2", "--json", "annotate")
    assert done.status == 0, done
    assert [row["answer"] for row in done.rows] == ["Annotated."] * 6
    for number in range(6):
        assert repository.read(f"m{number}.py") == b"def add%d(a: int): ...\n" % number
    assert repository.status() == {b" M m%d.py" % number for number in range(6)}
    assert repository.staged() == b""
    assert repository.worktrees() == []
