import os
from pathlib import Path

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.items import Selection, select

from .conftest import Tree

ODD_NAMES = [
    b"with space.py",
    b"new\nline.py",
    b"quo'te\".py",
    b"--leading-dash.py",
    b"[brackets].py",
    "emoji 🐍.py".encode(),
    b"not utf8 \xff\xfe.py",
    b"$(touch pwned);.py",
    b"tab\t.py",
    b"*.py",
    b"odd dir\n\xff/in side.py",
]


def ids(selection: Selection) -> list[str]:
    return [item.item_id for item in selection.items]


@pytest.fixture(params=["git", "walk"])
def either(request: pytest.FixtureRequest, tree: Tree) -> Tree:
    if request.param == "git":
        tree.init()
    return tree


def test_files_come_in_the_byte_order_of_their_paths(either: Tree) -> None:
    for name in ("b.py", "a/z.py", "a.py", "B.py", "a/b/c.py"):
        either.write(name)
    assert ids(select(either.root)) == ["B.py", "a.py", "a/b/c.py", "a/z.py", "b.py"]


def test_a_file_item_carries_its_path_as_bytes(either: Tree) -> None:
    for name in ODD_NAMES:
        either.write(name)
    items = select(either.root).items
    assert [item.path for item in items] == sorted(ODD_NAMES)
    assert [item.item_id for item in items] == [os.fsdecode(name) for name in sorted(ODD_NAMES)]
    assert {item.text for item in items} == {None}
    assert not (either.root / "pwned").exists()


def test_patterns_match_names_of_any_bytes(either: Tree) -> None:
    for name in ODD_NAMES:
        either.write(name)
    either.write("readme.txt")
    found = select(either.root, include=["*.py"], exclude=["odd dir*/"])
    assert [item.path for item in found.items] == sorted(ODD_NAMES[:-1])


def test_tracked_and_untracked_files_are_found_and_ignored_ones_are_not(repository: Tree) -> None:
    repository.write("tracked.py")
    repository.write("tracked_though_ignored.log")
    repository.git("add", "-f", ".")
    repository.write(".gitignore", "*.log\n")
    repository.write("untracked.py")
    repository.write("ignored.log")
    assert ids(select(repository.root)) == [
        ".gitignore",
        "tracked.py",
        "tracked_though_ignored.log",
        "untracked.py",
    ]


def test_deleted_files_links_and_fifos_are_passed_over(either: Tree) -> None:
    either.write("kept.py")
    deleted = either.write("deleted.py")
    (either.root / "link.py").symlink_to("kept.py")
    (either.root / "dangling.py").symlink_to("nowhere")
    if (either.root / ".git").exists():
        either.commit()
    deleted.unlink()
    os.mkfifo(either.root / "pipe.py")
    assert ids(select(either.root)) == ["kept.py"]


def test_a_directory_replaced_by_a_link_hides_its_files(repository: Tree, tmp_path: Path) -> None:
    repository.write("dir/sub/a.py")
    repository.write("other.py")
    repository.commit()
    (repository.root / "dir").rename(tmp_path / "moved")
    (repository.root / "dir").symlink_to(tmp_path / "moved")
    assert ids(select(repository.root)) == ["other.py"]


def test_linked_directories_are_not_followed(either: Tree, tmp_path: Path) -> None:
    outside = Tree(tmp_path / "outside")
    outside.write("secret.py")
    either.write("a.py")
    (either.root / "link").symlink_to(outside.root, target_is_directory=True)
    assert ids(select(either.root)) == ["a.py"]


def test_submodules_and_nested_repositories_are_left_alone(
    repository: Tree, tmp_path: Path
) -> None:
    library = Tree(tmp_path / "library")
    library.write("lib.py")
    library.init()
    library.commit()
    repository.write("main.py")
    repository.git(
        "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.root), "vendored"
    )
    nested = Tree(repository.root / "nested")
    nested.write("inner.py")
    nested.init()
    nested.commit()
    assert ids(select(repository.root)) == [".gitmodules", "main.py"]


def test_started_in_a_subdirectory_only_what_is_below_counts(repository: Tree) -> None:
    repository.write("top.py")
    repository.write("sub/a.py")
    repository.write("sub/deep/b.py")
    repository.commit()
    repository.write("sub/new.py")
    found = select(repository.root / "sub")
    assert ids(found) == ["a.py", "deep/b.py", "new.py"]
    assert found.searched == (
        f"'{repository.root}/sub' in the git repository at '{repository.root}' (3 files)"
    )
    assert ids(select(repository.root / "sub", include=["/a.py"])) == ["a.py"]


def test_files_in_conflict_are_listed_once(repository: Tree) -> None:
    repository.write("a.py", "base\n")
    repository.commit()
    repository.git("checkout", "-q", "-b", "side")
    repository.write("a.py", "side\n")
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.write("a.py", "main\n")
    repository.commit()
    with pytest.raises(Exception, match="merge"):
        repository.git("merge", "side")
    assert ids(select(repository.root)) == ["a.py"]


def test_own_runs_are_never_items(either: Tree) -> None:
    either.write(".hmz-mp/runs/x/answer.txt")
    either.write("a.py")
    assert ids(select(either.root)) == ["a.py"]


def test_binary_files_are_skipped_and_counted(either: Tree) -> None:
    either.write("text.py")
    either.write("empty.py", b"")
    either.write("image.png", b"\x89PNG\0\0")
    either.write("at the edge", b"x" * 8191 + b"\0")
    either.write("past the edge", b"x" * 8192 + b"\0")
    found = select(either.root)
    assert ids(found) == ["empty.py", "past the edge", "text.py"]
    assert found.skipped_binary == 2
    assert select(either.root, include=["*.py"]).skipped_binary == 0


def test_a_file_that_cannot_be_read_is_still_an_item(
    either: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    either.write("a.py")

    real = os.open

    def refuse(path: str | bytes, flags: int) -> int:
        if os.fsencode(path).endswith(b"a.py"):
            raise PermissionError(13, "Permission denied")
        return real(path, flags)

    monkeypatch.setattr("hmz_mp.items.files.os.open", refuse)
    assert ids(select(either.root)) == ["a.py"]


def test_a_file_that_fails_when_read_is_still_an_item(
    either: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    either.write("a.py")
    real = os.read

    def fail(descriptor: int, count: int) -> bytes:
        if count == 8192:
            raise OSError(5, "Input/output error")
        return real(descriptor, count)

    monkeypatch.setattr("hmz_mp.items.files.os.read", fail)
    assert ids(select(either.root)) == ["a.py"]


def test_include_and_exclude(either: Tree) -> None:
    for name in ("a.py", "a.txt", "docs/b.py", "docs/deep/c.md", "tests/t.py"):
        either.write(name)

    def chosen(include: list[str], exclude: list[str]) -> list[str]:
        return ids(select(either.root, include=include, exclude=exclude))

    assert chosen(["*.py"], []) == ["a.py", "docs/b.py", "tests/t.py"]
    assert chosen(["*.py", "*.md"], ["tests/"]) == ["a.py", "docs/b.py", "docs/deep/c.md"]
    assert chosen(["docs/"], []) == ["docs/b.py", "docs/deep/c.md"]
    assert chosen(["/*.py"], []) == ["a.py"]
    assert chosen(["docs/**/*.md"], []) == ["docs/deep/c.md"]
    assert chosen(["*.py", "!t.py"], []) == ["a.py", "docs/b.py"]
    assert chosen([], ["docs/*", "!docs/deep/"]) == [
        "a.py",
        "a.txt",
        "docs/deep/c.md",
        "tests/t.py",
    ]
    assert chosen([], ["*", "!*.txt"]) == ["a.txt"]


@pytest.mark.parametrize("pattern", ["", "  ", "#comment", "!", "/", "a\\"])
@pytest.mark.parametrize("option", ["include", "exclude"])
def test_a_pattern_that_can_match_nothing_is_bad_input(
    tree: Tree, option: str, pattern: str
) -> None:
    tree.write("a.py")
    given = {option: [pattern]}
    with pytest.raises(BadInput) as caught:
        select(tree.root, include=given.get("include", ()), exclude=given.get("exclude", ()))
    assert f"--{option} {pattern!r}" in str(caught.value)


def test_nothing_found_says_what_was_searched(either: Tree) -> None:
    either.write("a.py")
    either.write("b.rs", b"\0")
    with pytest.raises(BadInput) as caught:
        select(either.root, include=["*.rs"], exclude=["x"])
    said = str(caught.value)
    assert said.startswith("no items: searched the ")
    assert str(either.root) in said
    assert said.endswith("(2 files) with --include '*.rs' --exclude 'x'; 1 binary file skipped")


def test_an_empty_directory_and_one_that_is_none(either: Tree) -> None:
    with pytest.raises(BadInput, match=r"\(0 files\)$"):
        select(either.root)
    with pytest.raises(BadInput, match="is not a directory"):
        select(either.root / "absent")


def test_items_and_changed_since_exclude_each_other(tree: Tree) -> None:
    with pytest.raises(BadInput, match="cannot be used together"):
        select(tree.root, items_file="x", changed_since="main")


def test_root_may_be_relative(either: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    either.write("a.py")
    monkeypatch.chdir(either.root)
    assert ids(select(Path())) == ["a.py"]


def test_many_files_cost_no_process_each(repository: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    from hmz_mp.items import repository as module

    for number in range(300):
        repository.write(f"pkg{number % 7}/m{number}.py")
    asked = []
    real = module._git

    def counted(*arguments: object) -> object:
        asked.append(arguments)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_git", counted)
    assert len(select(repository.root).items) == 300
    assert len(asked) == 2
