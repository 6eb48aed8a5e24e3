from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hmz_mp.shipping.base import Base, name_of
from hmz_mp.worktrees.trees import Opened
from hmz_mp_worker.git import GitFailed
from hmz_mp_worker.shipping.parcels import EXECUTABLE, LINK, PLAIN, SentFile
from tests.waiting import is_gone
from tests.worktrees.support import Repository


@pytest.fixture
def base(opened: Opened) -> Iterator[Base]:
    made = Base(opened)
    yield made
    made.close()


def test_files_are_as_the_run_found_them(repository: Repository, base: Base) -> None:
    repository.write("a.txt", "changed since\n")
    repository.write("later.txt")
    assert base.read(b"a.txt") == SentFile(b"a.txt", PLAIN, b"one, changed\n")
    assert base.read(b"new.txt").content == b"uncommitted\n"
    assert base.read(b"deep/run.sh").mode == EXECUTABLE
    assert base.read(b"link.txt") == SentFile(b"link.txt", LINK, b"deep/er/c.txt")
    assert base.read(b"odd \xff\n[x].txt").content == b"odd\n"
    assert b"later.txt" not in base
    assert b"x.ignored" not in base
    assert b"new.txt" in base.names


def test_what_a_file_needs_goes_along(base: Base) -> None:
    assert list(base.with_needed(b"a.txt")) == [b"a.txt", b".gitignore"]
    needed = [b"deep/er/c.txt", b"deep/.gitignore", b".gitignore"]
    assert list(base.with_needed(b"deep/er/c.txt")) == needed
    assert list(base.with_needed(b"link.txt")) == [b"link.txt", b".gitignore", *needed]
    assert list(base.with_needed(b"out.txt")) == [b"out.txt", b".gitignore"]


def test_links_in_a_circle_end(repository: Repository, opened: Opened) -> None:
    (repository.top / "x").symlink_to("y")
    (repository.top / "y").symlink_to("x")
    repository.commit()
    base = Base(Opened(opened.checkout, repository.head, opened.home))
    assert set(base.with_needed(b"x")) == {b"x", b"y", b".gitignore"}
    base.close()


def test_submodules_are_no_files(repository: Repository, opened: Opened) -> None:
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{repository.head},sub")
    tree = repository.git("write-tree").decode().strip()
    assert b"sub" not in Base(Opened(opened.checkout, tree, opened.home))


def test_threads_read_together(base: Base) -> None:
    wrong: list[object] = []

    def read() -> None:
        for _ in range(50):
            for name in (b"a.txt", b"new.txt", b"deep/er/c.txt"):
                content = base.read(name).content
                known = {b"a.txt": b"one, changed\n", b"new.txt": b"uncommitted\n"}
                if content != known.get(name, b"deep\n"):
                    wrong.append((name, content))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_git_that_ended_is_said_and_another_is_asked_then(base: Base) -> None:
    assert base.read(b"a.txt").content == b"one, changed\n"
    reader = base._reader
    assert reader is not None
    reader.kill()
    reader.wait()
    with pytest.raises((GitFailed, OSError)):
        base.read(b"a.txt")
    assert base.read(b"a.txt").content == b"one, changed\n"
    base.close()
    assert is_gone(reader.pid)


def test_a_blob_that_is_gone_is_said(base: Base) -> None:
    base._files[b"a.txt"] = PLAIN, "0" * 40
    with pytest.raises(GitFailed, match=f"there is no blob {'0' * 40} any more"):
        base.read(b"a.txt")
    assert base.read(b"new.txt").content == b"uncommitted\n"


@pytest.mark.parametrize(
    ("inside", "path", "name"),
    [
        ("", b"a", b"a"),
        ("", b"./a/../b", b"b"),
        ("in/side", b"a", b"in/side/a"),
        ("in/side", b"../a", b"in/a"),
        ("\udcff", b"a", b"\xff/a"),
    ],
)
def test_names_are_from_the_top(inside: str, path: bytes, name: bytes) -> None:
    assert name_of(inside, path) == name
