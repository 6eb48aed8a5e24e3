"""Patches of real worktrees, applied to a real checkout."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hmz_mp.worktrees import applying
from hmz_mp.worktrees.applying import Application, RecordedPatch, apply_patches
from hmz_mp.worktrees.checkout import Checkout
from hmz_mp.worktrees.patches import Change
from hmz_mp.worktrees.writing import Writer
from hmz_mp_worker.worktrees.worktree import Worktree
from tests.worktrees.support import Repository, setup_of, write

Edit = Callable[[Path], object]


class FakeJournal:
    """Patches in memory; ``told`` is what was written down, in order."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.texts: list[bytes] = []
        self.states: dict[int, str] = {}
        self.plans: dict[int, list[Change]] = {}
        self.told: list[tuple[str, int]] = []

    def add(self, item_id: str, patch: bytes) -> None:
        self.items.append(item_id)
        self.texts.append(patch)

    def patches(self) -> Iterator[RecordedPatch]:
        for number, item_id in enumerate(self.items):
            state = self.states.get(number)
            plan = self.plans.get(number)
            yield RecordedPatch(number, item_id, state, plan)  # type: ignore[arg-type]

    def text(self, number: int) -> bytes:
        return self.texts[number]

    def _note(self, number: int, state: str) -> None:
        self.states[number] = state
        self.told.append((state, number))

    def applying(self, number: int, plan: Sequence[Change]) -> None:
        self.plans[number] = list(plan)
        self._note(number, "applying")

    def applied(self, number: int) -> None:
        self._note(number, "applied")

    def withdrawn(self, number: int) -> None:
        self.told.append(("withdrawn", number))
        del self.states[number], self.plans[number]

    def conflicted(self, number: int, problem: str) -> str:
        self._note(number, "conflict")
        return f"patch-{number}"


class Bench:
    """A repository whose worktrees are edited, and what becomes of the patches."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self.repository = repository
        self.folder = folder
        self.checkout = Checkout.find(repository.top)
        self.journal = FakeJournal()
        (folder / "scratch").mkdir()
        self.begin()

    def begin(self) -> None:
        """Let worktrees begin with what is in the checkout now."""
        self.base = self.checkout.snapshot(str(self.folder / "index"))
        shutil.rmtree(self.folder / "home", ignore_errors=True)
        self.setup = setup_of(self.repository, self.folder / "home", self.base)

    def edit(self, item_id: str, edit: Edit) -> None:
        worktree = Worktree.take(self.setup)
        try:
            edit(Path(worktree.directory))
            self.journal.add(item_id, worktree.patch())
        finally:
            worktree.give_back()

    def apply(self) -> Application:
        before = self.repository.read(".git/index"), self.repository.refs(), self.repository.head
        done = apply_patches(self.checkout, self.base, self.folder / "scratch", self.journal)
        after = self.repository.read(".git/index"), self.repository.refs(), self.repository.head
        assert after == before
        return done


@pytest.fixture
def bench(repository: Repository, tmp_path: Path) -> Bench:
    return Bench(repository, tmp_path)


def puts(name: str, text: str) -> Edit:
    return lambda top: (top / name).write_text(text)


def replaces(name: str, old: str, new: str) -> Edit:
    def edit(top: Path) -> None:
        text = (top / name).read_text()
        assert old in text
        (top / name).write_text(text.replace(old, new))

    return edit


def both(*edits: Edit) -> Edit:
    return lambda top: [edit(top) for edit in edits]


def problems(done: Application) -> dict[str, str]:
    return {one.item_id: one.problem for one in done.refused}


def test_nothing_to_apply(bench: Bench) -> None:
    bench.edit("nothing", lambda top: None)
    done = bench.apply()
    assert (done.applied, done.refused, done.complete) == (0, [], True)
    assert bench.repository.status() == set()


def test_every_kind_of_change_comes_into_the_checkout(bench: Bench) -> None:
    repository = bench.repository

    def edit(top: Path) -> None:
        (top / "a.txt").rename(top / "renamed.txt")
        (top / "b.txt").chmod(0o755)
        shutil.rmtree(top / "deep")
        write(os.fsencode(top) + b"/odd\xff\n\"'/-x", b"\0binary\xff")
        (top / "link").symlink_to("nowhere")
        (top / "empty").touch()

    bench.edit("all", edit)
    done = bench.apply()
    assert (done.applied, done.complete) == (1, True)
    assert repository.status() == {
        b" D a.txt",
        b" M b.txt",
        b" D deep/er/c.txt",
        b"?? empty",
        b"?? link",
        b"?? odd\xff\n\"'/-x",
        b"?? renamed.txt",
    }
    assert repository.staged() == b""
    assert repository.read("renamed.txt") == b"one\ntwo\nthree\n"
    assert os.access(repository.place("b.txt"), os.X_OK)
    assert not repository.exists("deep")
    assert os.readlink(repository.place("link")) == b"nowhere"
    assert bench.journal.told == [("applying", 0), ("applied", 0)]


def test_patches_of_the_same_file_are_put_together(bench: Bench) -> None:
    for number, word in enumerate(("one", "three")):
        bench.edit(f"item{number}", replaces("a.txt", word, word.upper()))
    assert bench.apply().applied == 2
    assert bench.repository.read("a.txt") == b"ONE\ntwo\nTHREE\n"


def test_a_conflict_is_named_with_both_items_and_changes_nothing(bench: Bench) -> None:
    bench.edit("first", replaces("a.txt", "two", "2"))
    bench.edit("second", both(replaces("a.txt", "two", "zwei"), replaces("b.txt", "two", "2")))
    bench.edit("third", replaces("b.txt", "one", "1"))
    done = bench.apply()
    assert done.applied == 2
    assert not done.complete
    assert problems(done) == {"second": "'a.txt': conflicts with the patch of 'first'"}
    assert done.refused[0].file == "patch-1"
    assert bench.repository.read("a.txt") == b"one\n2\nthree\n"
    assert bench.repository.read("b.txt") == b"1\ntwo\nthree\n"
    assert bench.repository.staged() == b""


def test_a_conflict_with_the_user(bench: Bench) -> None:
    bench.edit("item", replaces("a.txt", "two", "2"))
    bench.repository.write("a.txt", "one\nmine\nthree\n")
    done = bench.apply()
    assert problems(done) == {"item": "'a.txt': conflicts with what is in the checkout now"}
    assert bench.repository.read("a.txt") == b"one\nmine\nthree\n"


def test_what_the_user_did_elsewhere_meanwhile_stays(bench: Bench) -> None:
    bench.edit("item", replaces("a.txt", "three", "3"))
    bench.repository.write("a.txt", "ONE\ntwo\nthree\n")
    bench.repository.write("b.txt", "staged\n")
    bench.repository.git("add", "b.txt")
    bench.repository.write("mine", "mine\n")
    assert bench.apply().complete
    assert bench.repository.read("a.txt") == b"ONE\ntwo\n3\n"
    assert bench.repository.status() == {b" M a.txt", b"M  b.txt", b"?? mine"}


def test_what_was_not_committed_before_is_there_and_stays(bench: Bench) -> None:
    bench.repository.write("a.txt", "one\ntwo\nthree\nfour\n")
    bench.repository.write("new", "new\n")
    bench.repository.write("staged", "staged\n")
    bench.repository.git("add", "staged")
    bench.begin()
    bench.edit("item", both(replaces("a.txt", "four", "4"), replaces("new", "new", "newer")))
    assert bench.apply().complete
    assert bench.repository.read("a.txt") == b"one\ntwo\nthree\n4\n"
    assert bench.repository.read("new") == b"newer\n"
    assert bench.repository.status() == {b" M a.txt", b"?? new", b"A  staged"}


def test_the_user_committed_meanwhile(bench: Bench) -> None:
    bench.edit("item", replaces("a.txt", "three", "3"))
    bench.repository.write("a.txt", "ONE\ntwo\nthree\n")
    bench.repository.commit()
    assert bench.apply().complete
    assert bench.repository.read("a.txt") == b"ONE\ntwo\n3\n"


def test_the_same_change_twice_is_no_conflict(bench: Bench) -> None:
    same = both(
        replaces("a.txt", "two", "2"), puts("new", "new\n"), lambda top: _gone(top, "b.txt")
    )
    bench.edit("first", same)
    bench.edit("second", same)
    bench.edit("third", both(same, replaces("deep/er/c.txt", "deep", "DEEP")))
    done = bench.apply()
    assert (done.applied, done.complete) == (3, True)
    assert bench.repository.read("deep/er/c.txt") == b"DEEP\n"


def _gone(top: Path, name: str) -> None:
    (top / name).unlink()


def test_the_same_change_and_one_to_merge(bench: Bench) -> None:
    bench.edit("first", both(lambda top: _gone(top, "b.txt"), replaces("a.txt", "one", "1")))
    bench.edit("second", both(lambda top: _gone(top, "b.txt"), replaces("a.txt", "three", "3")))
    done = bench.apply()
    assert (done.applied, done.complete) == (2, True), done
    assert bench.repository.read("a.txt") == b"1\ntwo\n3\n"
    assert not bench.repository.exists("b.txt")


def test_two_make_the_same_file_differently(bench: Bench) -> None:
    bench.edit("first", puts("new", "first\n"))
    bench.edit("second", puts("new", "second\n"))
    done = bench.apply()
    assert problems(done) == {"second": "'new': conflicts with the patch of 'first'"}
    assert bench.repository.read("new") == b"first\n"


def test_one_changes_what_another_deletes(bench: Bench) -> None:
    bench.edit("first", lambda top: _gone(top, "a.txt"))
    bench.edit("second", replaces("a.txt", "two", "2"))
    bench.edit("third", lambda top: _gone(top, "b.txt"))
    bench.edit("fourth", puts("b.txt", "rewritten\n"))
    bench.edit("fifth", replaces("deep/er/c.txt", "deep", "DEEP"))
    bench.edit("sixth", lambda top: _gone(top, "deep/er/c.txt"))
    done = bench.apply()
    assert problems(done) == {
        "second": "'a.txt': conflicts with the patch of 'first'",
        "fourth": "'b.txt': conflicts with the patch of 'third'",
        "sixth": "'deep/er/c.txt': conflicts with the patch of 'fifth'",
    }
    assert bench.repository.read("deep/er/c.txt") == b"DEEP\n"


def test_a_rename_of_what_another_has_changed(bench: Bench) -> None:
    bench.edit("first", replaces("a.txt", "one", "1"))

    def renamed(top: Path) -> None:
        (top / "a.txt").rename(top / "z.txt")
        replaces("z.txt", "three", "3")(top)

    bench.edit("second", renamed)
    done = bench.apply()
    assert done.complete, done
    assert bench.repository.read("z.txt") == b"1\ntwo\n3\n"
    assert not bench.repository.exists("a.txt")


def test_binary_files(bench: Bench) -> None:
    bench.repository.write("bin", bytes(range(256)) * 4)
    bench.repository.commit()
    bench.begin()
    bench.edit("first", lambda top: (top / "bin").write_bytes(b"\0" * 1000))
    bench.edit("second", lambda top: (top / "bin").write_bytes(b"\1" * 1000))
    done = bench.apply()
    assert problems(done) == {"second": "'bin': conflicts with the patch of 'first'"}
    assert bench.repository.read("bin") == b"\0" * 1000


def test_a_file_and_a_directory_of_one_name(bench: Bench) -> None:
    bench.edit("file", puts("thing", "a file\n"))
    bench.edit("directory", lambda top: write(f"{top}/thing/inner", "inner\n"))
    bench.edit("other", lambda top: write(f"{top}/other/inner", "inner\n"))
    bench.edit("file again", puts("other", "a file\n"))
    done = bench.apply()
    assert problems(done) == {
        "directory": "'thing': conflicts with the patch of 'file'",
        "file again": "'other': conflicts with what is in the checkout now",
    }
    assert bench.repository.read("thing") == b"a file\n"
    assert bench.repository.read("other/inner") == b"inner\n"


def test_a_file_becomes_a_directory_and_back(bench: Bench) -> None:
    def swap(top: Path) -> None:
        (top / "a.txt").unlink()
        write(f"{top}/a.txt/inner", "inner\n")
        shutil.rmtree(top / "deep")
        (top / "deep").write_text("a file\n")

    bench.edit("item", swap)
    assert bench.apply().complete
    assert bench.repository.read("a.txt/inner") == b"inner\n"
    assert bench.repository.read("deep") == b"a file\n"


def test_a_directory_with_ignored_files_is_not_replaced(bench: Bench) -> None:
    def swap(top: Path) -> None:
        shutil.rmtree(top / "deep")
        (top / "deep").write_text("a file\n")

    bench.edit("item", swap)
    bench.repository.write("deep/x.ignored", "precious\n")
    done = bench.apply()
    assert not done.complete
    assert bench.repository.read("deep/x.ignored") == b"precious\n"
    assert bench.repository.read("deep/er/c.txt") == b"deep\n"


def test_an_ignored_file_of_the_user_is_not_overwritten(bench: Bench) -> None:
    bench.edit("item", lambda top: _forced(top, "new.ignored"))
    bench.repository.write("new.ignored", "precious\n")
    done = bench.apply()
    assert problems(done) == {"item": "'new.ignored': conflicts with what is in the checkout now"}
    assert bench.repository.read("new.ignored") == b"precious\n"


def _forced(top: Path, name: str) -> None:
    (top / name).write_text("forced\n")
    from tests.worktrees.support import run_git

    run_git(top, "add", "--force", name)


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_what_git_was_told_to_overlook_is_not_overwritten(bench: Bench, flag: str) -> None:
    bench.repository.git("update-index", flag, "a.txt")
    bench.repository.write("a.txt", "my own settings\n")
    bench.begin()
    bench.edit("item", replaces("a.txt", "two", "2"))
    done = bench.apply()
    assert problems(done) == {"item": "'a.txt': conflicts with what is in the checkout now"}
    assert bench.repository.read("a.txt") == b"my own settings\n"


def test_nothing_is_written_through_a_link(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    bench.edit("item", lambda top: write(f"{top}/out/x", "x\n"))
    os.symlink(outside, bench.repository.place("out"))
    done = bench.apply()
    assert problems(done) == {"item": "'out': conflicts with what is in the checkout now"}
    assert list(outside.iterdir()) == []


def test_something_that_is_no_file_is_in_the_way(bench: Bench) -> None:
    bench.edit("item", puts("pipe", "x\n"))
    os.mkfifo(bench.repository.place("pipe"))
    done = bench.apply()
    assert problems(done) == {"item": "'pipe': conflicts with what is in the checkout now"}


@pytest.mark.parametrize("path", ["../outside", ".git/hooks/post-checkout", "sub/../../x"])
def test_a_patch_that_is_none_of_ours_is_refused_alone(bench: Bench, path: str) -> None:
    new = f":000000 100644 {'0' * 40} {'1' * 40} A\t{path}\n\ndiff --git a/{path} b/{path}\n"
    bench.journal.add("unsafe", new.encode())
    bench.journal.add("nonsense", b"hello\n")
    bench.edit("item", replaces("a.txt", "two", "2"))
    done = bench.apply()
    assert done.applied == 1
    assert problems(done) == {
        "unsafe": f"it would write to {path!r}",
        "nonsense": "it cannot be read: this is no patch: it says b'hello' of a file",
    }


def test_a_sparse_checkout(bench: Bench) -> None:
    bench.repository.git("sparse-checkout", "set", "deep")
    assert bench.repository.exists("deep/er/c.txt")
    bench.begin()
    bench.edit("item", replaces("deep/er/c.txt", "deep", "DEEP"))
    done = bench.apply()
    assert done.complete, done
    assert bench.repository.status() == {b" M deep/er/c.txt"}


def test_line_ends_are_the_users(bench: Bench) -> None:
    lines = [f"line {number}\n" for number in range(9)]
    bench.repository.write("lines", "".join(lines))
    bench.repository.commit()
    bench.repository.git("config", "core.autocrlf", "true")
    os.unlink(bench.repository.place("lines"))
    bench.repository.git("checkout", "--quiet", "--", ".")
    assert bench.repository.read("lines").count(b"\r\n") == 9
    bench.begin()
    edit = _in_bytes("lines", b"line 0\r\n", b"LINE 0\r\n")
    bench.edit("item", both(edit, puts("new", "new\n")))
    bench.edit("other", _in_bytes("lines", b"line 8\r\n", b"LINE 8\r\n"))
    _in_bytes("lines", b"line 4\r\n", b"LINE 4\r\n")(bench.repository.top)
    assert bench.apply().complete
    lines[0], lines[4], lines[8] = "LINE 0\n", "LINE 4\n", "LINE 8\n"
    assert bench.repository.read("lines") == "".join(lines).replace("\n", "\r\n").encode()
    assert bench.repository.read("new") == b"new\r\n"


def _in_bytes(name: str, old: bytes, new: bytes) -> Edit:
    return lambda top: (top / name).write_bytes((top / name).read_bytes().replace(old, new))


def test_permissions_stay(bench: Bench) -> None:
    os.chmod(bench.repository.place("a.txt"), 0o600)
    bench.edit("item", replaces("a.txt", "two", "2"))
    assert bench.apply().complete
    assert os.stat(bench.repository.place("a.txt")).st_mode & 0o777 == 0o600


def test_settings_and_hooks_of_the_user_do_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.repository.git("config", "apply.whitespace", "fix")
    bench.repository.git("config", "apply.ignoreWhitespace", "change")
    bench.repository.git("config", "rerere.enabled", "true")
    for hook in ("post-index-change", "post-checkout", "pre-applypatch"):
        bench.repository.write(f".git/hooks/{hook}", f"#!/bin/sh\ntouch {tmp_path}/ran\n", 0o755)
    bench.edit("first", replaces("a.txt", "one", "1   "))
    bench.edit("second", replaces("a.txt", "three", "3   "))
    bench.edit("third", replaces("a.txt", "three", "4   "))
    assert len(bench.apply().refused) == 1
    assert bench.repository.read("a.txt") == b"1   \ntwo\n3   \n"
    assert not (tmp_path / "ran").exists()
    assert not bench.repository.exists(".git/rr-cache/x")
    assert not any(Path(bench.repository.top, ".git").glob("rr-cache/*"))


def collect(bench: Bench) -> None:
    """Have git remove every object that nothing refers to."""
    shutil.rmtree(bench.folder / "home")
    for lock in bench.repository.top.glob(".git/worktrees/*/locked"):
        lock.unlink()
    bench.repository.git("worktree", "prune", "--expire", "now")
    bench.repository.git("prune", "--expire", "now")


def test_objects_that_git_has_collected_are_made_again(bench: Bench) -> None:
    bench.repository.write("a.txt", "one\ntwo\nthree\nfour\n")
    bench.repository.commit()
    bench.begin()
    bench.edit("item", both(replaces("a.txt", "two", "2"), puts("new", "new\n")))
    bench.edit("other", replaces("a.txt", "four", "4"))
    collect(bench)
    done = bench.apply()
    assert done.complete, done
    assert bench.repository.read("a.txt") == b"one\n2\nthree\n4\n"
    assert bench.repository.read("new") == b"new\n"


def test_a_base_that_git_has_collected_is_not_needed(bench: Bench) -> None:
    bench.repository.write("a.txt", "one\ntwo\nthree\nfour\n")
    bench.begin()
    bench.edit("item", replaces("a.txt", "two", "2"))
    bench.edit("other", replaces("b.txt", "two", "2"))
    collect(bench)
    bench.repository.git("cat-file", "-e", bench.base, status=1)
    done = bench.apply()
    assert done.complete, done
    assert bench.repository.read("a.txt") == b"one\n2\nthree\nfour\n"


def test_many_patches_in_order(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_BATCH", 3)
    for number in range(8):
        bench.edit(f"item{number}", puts(f"file{number}", f"{number}\n"))
    done = bench.apply()
    assert done.applied == 8
    assert bench.journal.told == [
        (state, number) for number in range(8) for state in ("applying", "applied")
    ]


# Again, after it was cut short.


class Interruption(BaseException):
    """Stands for the end of the process."""


def cut_short(bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int, *, undone: bool) -> None:
    """Apply, and end with the second change of patch ``number`` not written yet."""
    at = 0
    real = Writer._put

    def put(writer: Writer, change: Change) -> None:
        nonlocal at
        at += bench.journal.told[-1] == ("applying", number)
        if at == 2:
            if not undone:
                writer._steps.clear()
            raise Interruption
        real(writer, change)

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "_put", put)
        if not undone:
            patched.setattr(FakeJournal, "withdrawn", lambda *_: None)
        with pytest.raises(Interruption):
            bench.apply()


def three(bench: Bench) -> None:
    bench.edit("first", replaces("a.txt", "one", "1"))
    bench.edit("second", both(replaces("a.txt", "three", "3"), puts("new", "new\n")))
    bench.edit("third", replaces("b.txt", "one", "1"))


def test_what_was_killed_in_the_middle_is_finished(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(bench)
    cut_short(bench, monkeypatch, 1, undone=False)
    assert bench.journal.states == {0: "applied", 1: "applying"}
    assert bench.repository.read("a.txt") == b"1\ntwo\n3\n"
    assert not bench.repository.exists("new")
    done = bench.apply()
    assert (done.already, done.applied, done.complete) == (1, 2, True), done
    assert bench.repository.read("a.txt") == b"1\ntwo\n3\n"
    assert bench.repository.read("new") == b"new\n"
    assert bench.repository.read("b.txt") == b"1\ntwo\nthree\n"


def test_what_was_killed_and_then_changed_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(bench)
    cut_short(bench, monkeypatch, 1, undone=False)
    bench.repository.write("a.txt", "mine\n")
    done = bench.apply()
    assert problems(done) == {
        "second": "it is applied in part: 'a.txt' changed after its writing was cut short"
    }
    assert bench.repository.read("a.txt") == b"mine\n"


def test_an_interruption_leaves_a_patch_whole_or_not_begun(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(bench)
    cut_short(bench, monkeypatch, 1, undone=True)
    assert bench.journal.told[-1] == ("withdrawn", 1)
    assert bench.repository.read("a.txt") == b"1\ntwo\nthree\n"
    assert not bench.repository.exists("new")
    assert bench.apply().complete
    assert bench.repository.read("new") == b"new\n"


def test_a_disk_that_fails_ends_it_and_can_be_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(bench)

    def full(writer: Writer, change: Change) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "_put", full)
        done = bench.apply()
    assert done.problem == "[Errno 28] No space left on device"
    assert [one.item_id for one in done.refused] == ["first", "second", "third"]
    assert not done.complete
    assert bench.repository.status() == set()
    assert bench.apply().applied == 3


def test_ctrl_c_ends_it_and_can_be_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(bench)

    def interrupted(writer: Writer, change: Change) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "_put", interrupted)
        done = bench.apply()
    assert done.problem == "interrupted"
    assert not done.complete
    assert bench.apply().applied == 3


def test_a_file_that_changes_meanwhile_is_let_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(bench)
    real = Writer.write

    def late(writer: Writer, changes: Sequence[Change]) -> None:
        if bench.journal.told[-1] == ("applying", 0):
            bench.repository.write("a.txt", "ONE\ntwo\nthree\n")
        real(writer, changes)

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "write", late)
        done = bench.apply()
    assert problems(done) == {"first": "'a.txt' was changed while patches were applied"}
    assert done.applied == 2
    assert bench.repository.read("a.txt") == b"ONE\ntwo\n3\n"
    assert bench.repository.read("b.txt") == b"1\ntwo\nthree\n"


def test_a_patch_that_did_not_fit_is_tried_again(bench: Bench) -> None:
    bench.edit("item", replaces("a.txt", "two", "2"))
    bench.repository.write("a.txt", "mine\n")
    assert not bench.apply().complete
    bench.repository.git("checkout", "--quiet", "a.txt")
    assert bench.apply().complete
    assert bench.repository.read("a.txt") == b"one\n2\nthree\n"


def test_a_patch_that_was_taken_by_hand_is_applied(bench: Bench) -> None:
    bench.edit("item", replaces("a.txt", "two", "2"))
    bench.repository.write("a.txt", "mine\n")
    assert not bench.apply().complete
    bench.repository.write("a.txt", "one\n2\nthree\n")
    assert bench.apply().complete


def test_two_applications_wait_for_each_other(bench: Bench, tmp_path: Path) -> None:
    three(bench)
    inside = threading.Event()
    go_on = threading.Event()
    real = FakeJournal.applying

    def applying_slowly(journal: FakeJournal, number: int, plan: Sequence[Change]) -> None:
        inside.set()
        assert go_on.wait(20)
        real(journal, number, plan)

    other = Bench.__new__(Bench)
    other.__dict__.update(bench.__dict__)
    other.journal = FakeJournal()
    other.journal.add("other", bench.journal.texts[2])
    other.folder = tmp_path / "other"
    (other.folder / "scratch").mkdir(parents=True)
    results: list[Application] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FakeJournal, "applying", applying_slowly)
        first = threading.Thread(target=lambda: results.append(bench.apply()))
        first.start()
        assert inside.wait(20)
        second = threading.Thread(target=lambda: results.append(other.apply()))
        second.start()
        assert not other.journal.told
        go_on.set()
        first.join()
        second.join()
    assert [one.complete for one in results] == [True, True]
