from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hmz_mp.worktrees.trees import Opened, Worktrees
from tests.worktrees.support import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with a tool, a package, data, a link and what is ignored."""
    made = Repository(tmp_path / "project")
    made.write("a.txt", "one\n")
    made.write("tools.py", "def check(path):\n    return path\n")
    made.write("pkg/__init__.py", "")
    made.write("pkg/sub/__init__.py", "")
    made.write("pkg/sub/tool.py", "def check(path):\n    return path\n")
    made.write("pkg/table.csv", "1,2\n")
    made.write("deep/er/c.txt", "deep\n")
    made.write("deep/run.sh", "#!/bin/sh\n", 0o755)
    made.write("deep/.gitignore", "*.deep\n")
    made.write(".gitignore", "*.ignored\n")
    made.write(b"odd \xff\n[x].txt", "odd\n")
    Path(made.top, "link.txt").symlink_to("deep/er/c.txt")
    Path(made.top, "out.txt").symlink_to("/etc/passwd")
    made.commit()
    made.write("x.ignored", "no\n")
    made.write("new.txt", "uncommitted\n")
    made.write("a.txt", "one, changed\n")
    return made


@pytest.fixture
def trees(repository: Repository) -> Iterator[Worktrees]:
    made = Worktrees(repository.top, "run")
    yield made
    made.close()


@pytest.fixture
def opened(trees: Worktrees) -> Opened:
    return trees.open()
