import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _git_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """git neither sees the developer's settings nor the repository these tests live in."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ada@example.org")


class Tree:
    """A directory to put files in, and a git repository once ``init`` was called."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str | bytes, content: str | bytes = "text\n") -> Path:
        path = self.root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout.decode().strip()

    def init(self) -> None:
        self.git("init", "-q", "-b", "main")

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "work")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    root = tmp_path / "tree"
    root.mkdir()
    return Tree(root)


@pytest.fixture
def repository(tree: Tree) -> Tree:
    tree.init()
    return tree
