import subprocess
from pathlib import Path

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.items import select
from hmz_mp.items.repository import Repository

from .conftest import Tree
from .test_selection import ids


def test_changed_since_is_what_differs_from_the_merge_base(repository: Tree) -> None:
    for name in ("same.py", "edited.py", "staged.py", "committed.py", "deleted.py", "touched.py"):
        repository.write(name)
    repository.write(".gitignore", "*.log\n")
    repository.commit()
    repository.git("checkout", "-q", "-b", "topic")
    repository.write("committed.py", "new\n")
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.write("only_on_main.py")
    repository.write("same.py", "changed on main\n")
    repository.commit()
    repository.git("checkout", "-q", "topic")
    repository.write("edited.py", "new\n")
    repository.write("staged.py", "new\n")
    repository.git("add", "staged.py")
    repository.write("untracked.py")
    repository.write("ignored.log")
    repository.write("touched.py")
    (repository.root / "deleted.py").unlink()
    expected = ["committed.py", "edited.py", "staged.py", "untracked.py"]
    found = select(repository.root, changed_since="main")
    assert ids(found) == expected
    assert found.searched == (
        f"what changed since 'main' in the git repository at '{repository.root}' (4 files)"
    )
    assert ids(select(repository.root, changed_since="main", include=["e*"])) == ["edited.py"]


def test_changed_since_counts_renames_and_odd_names(repository: Tree) -> None:
    repository.write("old.py", "the same content\n" * 20)
    repository.write(b"kept\xff\n.py")
    repository.commit()
    repository.git("mv", "old.py", "new.py")
    repository.write(b"kept\xff\n.py", "changed\n")
    found = select(repository.root, changed_since="HEAD")
    assert [item.path for item in found.items] == [b"kept\xff\n.py", b"new.py"]


def test_changed_since_in_a_subdirectory(repository: Tree) -> None:
    repository.write("top.py")
    repository.write("sub/a.py")
    repository.commit()
    repository.write("top.py", "new\n")
    repository.write("sub/a.py", "new\n")
    repository.write("sub/b.py")
    assert ids(select(repository.root / "sub", changed_since="HEAD")) == ["a.py", "b.py"]


def test_changed_since_ignores_submodules_and_the_users_diff_settings(
    repository: Tree, tmp_path: Path
) -> None:
    library = Tree(tmp_path / "library")
    library.write("lib.py")
    library.init()
    library.commit()
    repository.git(
        "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.root), "vendored"
    )
    repository.write("a.py")
    repository.commit()
    repository.git("config", "diff.external", "false")
    repository.git("config", "diff.mnemonicPrefix", "true")
    repository.git("config", "color.ui", "always")
    (repository.root / "vendored" / "lib.py").write_text("changed\n")
    repository.write("a.py", "changed\n")
    assert ids(select(repository.root, changed_since="HEAD")) == ["a.py"]


def test_changed_since_takes_anything_that_names_a_commit(repository: Tree) -> None:
    repository.write("a.py")
    first = repository.commit()
    repository.git("tag", "-a", "v1", "-m", "one")
    repository.write("b.py")
    repository.commit()
    for ref in (first, first[:10], "v1", "HEAD~1", "main~1", "@{0}~1", "refs/tags/v1"):
        assert ids(select(repository.root, changed_since=ref)) == ["b.py"]


def test_changed_since_without_a_common_ancestor_compares_with_the_ref(repository: Tree) -> None:
    repository.write("a.py")
    repository.write("b.py")
    repository.commit()
    repository.git("checkout", "-q", "--orphan", "other")
    repository.write("b.py", "different\n")
    repository.commit()
    assert ids(select(repository.root, changed_since="main")) == ["b.py"]


@pytest.mark.parametrize(
    "ref",
    [
        "nosuch",
        "",
        "-p",
        "--all",
        "--output=pwned",
        "^main",
        "main..main",
        "HEAD:a.py",
        "a\0b",
        "'",
    ],
)
def test_an_unknown_ref_is_bad_input(repository: Tree, ref: str) -> None:
    repository.write("a.py")
    repository.commit()
    with pytest.raises(BadInput) as caught:
        select(repository.root, changed_since=ref)
    assert f"--changed-since {ref!r}" in str(caught.value)
    assert "no such commit, branch or tag" in str(caught.value)
    assert not (repository.root / "pwned").exists()


def test_a_ref_in_a_repository_without_commits_is_bad_input(repository: Tree) -> None:
    repository.write("a.py")
    with pytest.raises(BadInput, match="no such commit"):
        select(repository.root, changed_since="HEAD")


def test_nothing_changed_is_bad_input(repository: Tree) -> None:
    repository.write("a.py")
    repository.commit()
    with pytest.raises(BadInput, match="no items: searched what changed since 'HEAD'"):
        select(repository.root, changed_since="HEAD")


def test_changed_since_needs_a_repository(tree: Tree) -> None:
    tree.write("a.py")
    with pytest.raises(BadInput, match=r"is not a git repository$"):
        select(tree.root, changed_since="main")


def test_a_bare_repository_is_none(tree: Tree) -> None:
    tree.git("init", "-q", "--bare", ".")
    assert Repository.find(tree.root) == (None, "")


def test_without_git_the_walk_is_used_and_said(
    repository: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.write("a.py")
    monkeypatch.setenv("PATH", "")
    found = select(repository.root)
    assert ids(found) == ["a.py"]
    assert found.warnings == ["files were found without git: git is not installed"]
    with pytest.raises(BadInput, match="git is not installed"):
        select(repository.root, changed_since="main")


def test_a_repository_that_git_refuses_is_walked_and_said(repository: Tree) -> None:
    repository.write("a.py")
    (repository.root / ".git" / "config").write_text("[core\n")
    found = select(repository.root)
    assert ids(found) == ["a.py"]
    assert len(found.warnings) == 1
    assert "bad config" in found.warnings[0]


def test_a_broken_index_is_bad_input(repository: Tree) -> None:
    repository.write("a.py")
    (repository.root / ".git" / "index").write_bytes(b"nonsense")
    with pytest.raises(BadInput, match=r"git could not list .*index"):
        select(repository.root)


def test_the_index_is_not_locked_or_rewritten(repository: Tree) -> None:
    path = repository.write("a.py")
    repository.commit()
    index = (repository.root / ".git" / "index").read_bytes()
    path.write_text("other\n")
    path.write_text("text\n")
    (repository.root / ".git" / "index.lock").touch()
    repository.write("b.py")
    assert ids(select(repository.root, changed_since="HEAD")) == ["b.py"]
    assert (repository.root / ".git" / "index").read_bytes() == index


def test_repr(repository: Tree) -> None:
    found, reason = Repository.find(repository.root)
    assert (repr(found), reason) == (
        f"<Repository '{repository.root}' from '{repository.root}'>",
        "",
    )


def test_top_with_a_newline_in_its_name(tmp_path: Path) -> None:
    odd = Tree(tmp_path / "odd\nname\xff")
    odd.write("a.py")
    subprocess.run(["git", "init", "-q", str(odd.root)], check=True)
    assert select(odd.root).searched == f"the git repository at {str(odd.root)!r} (1 file)"
