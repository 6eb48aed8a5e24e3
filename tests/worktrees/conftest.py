from __future__ import annotations

from pathlib import Path

import pytest

from tests.worktrees.support import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with a commit of a few files."""
    made = Repository(tmp_path / "project")
    made.write("a.txt", "one\ntwo\nthree\n")
    made.write("b.txt", "one\ntwo\nthree\n")
    made.write("deep/er/c.txt", "deep\n")
    made.write(".gitignore", "*.ignored\n")
    made.commit()
    return made
