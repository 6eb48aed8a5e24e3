import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hmz_mp.items import select

from .conftest import Tree
from .test_selection import ids

FILES = [
    "a.py",
    "a.log",
    "keep.log",
    "build/out.py",
    "build/keep/x.py",
    "src/a.py",
    "src/a.log",
    "src/build/x.py",
    "src/sub/keep.log",
    "src/sub/deep/y.tmp",
    "src/sub/deep/z.py",
    "docs/index.md",
    "docs/api/x.md",
    "space name/ends ",
    "#hash",
    "!bang",
    "caf\u00e9.py",
    os.fsdecode(b"by\xfft.py"),
    "new\nline.log",
    "dir\nline/x.py",
]

IGNORE_FILES = [
    {"": "*.log\n!keep.log\n"},
    {"": "build/\n"},
    {"": "/build\n/src/a.py\n"},
    {"": "build/*\n!build/keep\n"},
    {"": "docs/**\n!docs/index.md\n"},
    {"": "**/deep\n"},
    {"": "src/**/*.py\n"},
    {"": "*\n!*.py\n!*/\n"},
    {"": "# comment\n\\#hash\n\\!bang\n\n"},
    {"": "*.log\r\ndocs/\r\n"},
    {"": "ends\\ \n[a-b].py\nb?.py\n"},
    {"": "\\\n!\n/\n*.tmp\n"},
    {"": "*.log\n", "src": "!a.log\nsub/\n"},
    {"": "src/\n", "src": "!a.py\n"},
    {"": "*.py\n", "src": "!*.py\n", "src/sub": "*.py\n!keep.log\n", "src/sub/deep": "!z.py"},
    {"src": "/a.py\n/sub/deep/\n"},
    {"": "dir*/\nnew*\n"},
    {"": "\ufeff*.log\n"},
    {"": ".gitignore\n*.md"},
    {"": "*/\n!src/\n"},
    {"": "*\n!src/\n!src/**\n*.tmp\n"},
    {"": "**/sub/**\n!**/sub/deep/\n"},
    {"": "src/**/\n"},
    {"": "**\n!/a.py\n"},
    {"": "/**/x.py\n!/src/**/x.py\n"},
    {"": "sub/deep\n/sub\nspace name/   \n"},
    {"": "src/*/\n!src/sub\n"},
]


@pytest.mark.parametrize("ignore", IGNORE_FILES, ids=repr)
def test_the_walk_finds_what_git_finds(tree: Tree, ignore: dict[str, str]) -> None:
    for name in FILES:
        tree.write(name)
    for where, content in ignore.items():
        tree.write(os.path.join(where, ".gitignore"), content)
    walked = ids(select(tree.root))
    tree.init()
    assert walked == ids(select(tree.root))


def test_nested_repositories_are_walked_but_their_git_directory_is_not(tree: Tree) -> None:
    nested = Tree(tree.root / "nested")
    nested.write("a.py")
    nested.write("ignored.log")
    nested.write(".gitignore", "*.log\n")
    nested.init()
    tree.write("linked/.git", "gitdir: elsewhere\n")
    tree.write("linked/b.py")
    assert ids(select(tree.root)) == ["linked/b.py", "nested/.gitignore", "nested/a.py"]


def test_a_gitignore_that_is_a_link_or_a_directory_is_not_read(tree: Tree) -> None:
    tree.write("patterns", "*.py\n")
    tree.write("a.py")
    (tree.root / ".gitignore").symlink_to("patterns")
    tree.write("sub/.gitignore/b.py")
    assert ids(select(tree.root)) == ["a.py", "patterns", "sub/.gitignore/b.py"]


def test_what_cannot_be_listed_or_read_is_said(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.write("a.py")
    tree.write("shut/b.py")
    tree.write("odd/.gitignore", "*\n")
    tree.write("odd/c.py")
    real = os.scandir

    def scandir(path: Path) -> object:
        if path.name == "shut":
            raise PermissionError(13, "Permission denied")
        return real(path)

    def read_bytes(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("hmz_mp.items.walk.os.scandir", scandir)
    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    found = select(tree.root)
    assert ids(found) == ["a.py", "odd/.gitignore", "odd/c.py"]
    assert sorted(found.warnings) == [
        "cannot list 'shut/': Permission denied",
        "cannot read 'odd/.gitignore': Permission denied",
    ]


@pytest.fixture
def deep(tree: Tree) -> Iterator[str]:
    """The name of a directory that lies deeper than Python recurses."""
    descriptor = os.open(tree.root, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    yield "/".join(["d"] * 1200)
    subprocess.run(["rm", "-rf", str(tree.root)], check=True)  # shutil and pytest recurse


def test_deep_trees_do_not_recurse(tree: Tree, deep: str) -> None:
    (tree.root / deep / "a.py").write_text("x")
    found = select(tree.root, include=["*.py"], exclude=["*.txt"])
    assert [item.path for item in found.items] == [deep.encode() + b"/a.py"]
    assert found.warnings == []
