from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hmz_mp.worktrees import writing
from hmz_mp.worktrees.disk import Signature, signature
from hmz_mp.worktrees.patches import Change, Entry
from hmz_mp.worktrees.writing import FileMoved, Writer

FILE = Entry("100644", "a" * 40)


class Desk:
    """A directory to be written into, and new files that are ready."""

    def __init__(self, folder: Path) -> None:
        self.top, self.stage, self.undo = (folder / name for name in ("top", "stage", "undo"))
        for directory in (self.top, self.stage, self.undo):
            directory.mkdir()
        self.signatures: dict[bytes, Signature | None] = {}
        self.kept = ""

    def there(self, name: str, text: str = "old\n") -> None:
        (self.top / name).parent.mkdir(parents=True, exist_ok=True)
        (self.top / name).write_text(text)

    def ready(self, name: str, text: str = "new\n") -> None:
        (self.stage / name).parent.mkdir(parents=True, exist_ok=True)
        (self.stage / name).write_text(text)

    def look(self, *names: str) -> None:
        for name in names:
            path = os.fsencode(name)
            self.signatures[path] = signature(os.fsencode(self.top) + b"/" + path)

    def write(self, *changes: tuple[str, bool, bool]) -> None:
        """Write changes, each a name and whether it was there before and is there after."""
        writer = Writer(str(self.top), str(self.stage), str(self.undo), self.signatures, self.kept)
        writer.write(
            [
                Change(os.fsencode(name), FILE if before else None, FILE if after else None)
                for name, before, after in changes
            ]
        )

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.top)): path.read_text()
            for path in sorted(self.top.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def three(desk: Desk) -> None:
    desk.there("changed")
    desk.there("dir/goes")
    for name in ("changed", "deep/er/comes"):
        desk.ready(name)
    desk.look("changed", "dir/goes", "deep/er/comes")


THREE = (("changed", True, True), ("deep/er/comes", False, True), ("dir/goes", True, False))


def test_files_come_change_and_go_with_their_directories(desk: Desk) -> None:
    three(desk)
    desk.write(*THREE)
    assert desk.files() == {"changed": "new\n", "deep/er/comes": "new\n"}
    assert not (desk.top / "dir").exists()
    assert list(desk.undo.iterdir()) == []


def test_the_directory_of_the_run_stays(desk: Desk) -> None:
    desk.there("dir/sub/goes")
    desk.look("dir/sub/goes")
    desk.kept = "dir"
    desk.write(("dir/sub/goes", True, False))
    assert (desk.top / "dir").is_dir()
    assert not (desk.top / "dir" / "sub").exists()


@pytest.mark.parametrize("name", ["changed", "dir/goes", "deep/er/comes"])
def test_a_file_that_is_not_as_expected_stops_all(desk: Desk, name: str) -> None:
    three(desk)
    desk.there(name, "changed meanwhile\n")
    before = desk.files()
    with pytest.raises(FileMoved):
        desk.write(*THREE)
    assert desk.files() == before
    assert (desk.top / "dir").is_dir()


@pytest.mark.parametrize("step", ["_link", "_create", "_move"])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_whatever_fails_everything_is_as_before(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, step: str, failure: BaseException
) -> None:
    three(desk)
    desk.there("other")
    desk.ready("other")
    desk.look("other")
    before = desk.files()
    real = getattr(writing, step)

    def fails(source: bytes, target: bytes) -> None:
        if b"stage" in source or step == "_link":
            raise failure
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(writing, step, fails)
        with pytest.raises(type(failure)):
            desk.write(*THREE, ("other", True, True))
    assert desk.files() == before
    assert not (desk.top / "deep").exists()
    assert list(desk.undo.iterdir()) == []
    desk.ready("deep/er/comes")
    desk.ready("changed")
    desk.write(*THREE)
    assert desk.files() == {"changed": "new\n", "deep/er/comes": "new\n", "other": "old\n"}


def test_nothing_is_written_through_a_link(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    desk.ready("out/x")
    desk.look("out/x")
    (desk.top / "out").symlink_to(tmp_path / "outside")
    with pytest.raises(FileMoved):
        desk.write(("out/x", False, True))
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_directory_that_empties_becomes_a_file(desk: Desk) -> None:
    desk.there("a/b")
    desk.ready("a")
    desk.look("a", "a/b")
    desk.write(("a", False, True), ("a/b", True, False))
    assert desk.files() == {"a": "new\n"}


def test_a_directory_that_does_not_empty_stays(desk: Desk) -> None:
    desk.there("a/b")
    desk.there("a/mine")
    desk.ready("a")
    desk.look("a", "a/b")
    with pytest.raises(OSError, match="not empty"):
        desk.write(("a", False, True), ("a/b", True, False))
    assert desk.files() == {"a/b": "old\n", "a/mine": "old\n"}


def test_an_empty_directory_becomes_a_file(desk: Desk) -> None:
    (desk.top / "a").mkdir()
    desk.ready("a")
    desk.look("a")
    desk.write(("a", False, True))
    assert desk.files() == {"a": "new\n"}


def test_from_another_file_system(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    three(desk)
    real = os.replace

    def replace(source: bytes, target: bytes) -> None:
        if source.startswith(os.fsencode(desk.top)) != target.startswith(os.fsencode(desk.top)):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        real(source, target)

    def link(*args: object, **options: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(os, "link", link)
    desk.write(*THREE)
    assert desk.files() == {"changed": "new\n", "deep/er/comes": "new\n"}
    assert list(desk.undo.iterdir()) == []
    assert [path.name for path in desk.top.iterdir()] in (
        ["changed", "deep"],
        ["deep", "changed"],
    )


def test_a_later_patch_knows_what_an_earlier_one_wrote(desk: Desk) -> None:
    three(desk)
    desk.write(*THREE)
    desk.ready("changed", "newer\n")
    desk.ready("deep/er/comes", "newer\n")
    desk.write(("changed", True, True), ("deep/er/comes", True, True))
    assert desk.files() == {"changed": "newer\n", "deep/er/comes": "newer\n"}
