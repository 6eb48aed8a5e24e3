from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hmz_mp_worker.backends import Request
from hmz_mp_worker.worktrees import turns
from hmz_mp_worker.worktrees.turns import PLACE, Edited, aturn, turn
from hmz_mp_worker.worktrees.worktree import Setup, Worktree, WorktreeFailed
from tests.worktrees.support import Repository, setup_of


@pytest.fixture
def setup(repository: Repository, tmp_path: Path) -> Setup:
    return setup_of(repository, tmp_path / "home")


def edits(cwd: str, word: str) -> str:
    Path(cwd, "a.txt").write_text(f"{word}\n")
    return cwd


async def aedits(cwd: str, word: str) -> str:
    return edits(cwd, word)


def fails(cwd: str) -> str:
    edits(cwd, "half")
    raise ValueError("no")


def is_free(setup: Setup, name: str = "0") -> bool:
    """Whether nobody has a worktree."""
    taken = Worktree.take(setup)
    taken.give_back()
    return taken.directory == f"{setup.home}/{name}"


def test_a_call_is_given_the_directory_and_its_changes_come_back(setup: Setup) -> None:
    done = turn(setup, None, edits, (PLACE, "word"))
    assert isinstance(done, Edited)
    assert done.answer == f"{setup.home}/0"
    assert b"+word\n" in done.patch
    assert turn(setup, None, lambda cwd: cwd, [PLACE]) == (f"{setup.home}/0", b"")
    assert is_free(setup)


def test_a_request_is_given_it_too(setup: Setup) -> None:
    def asked(what: str, request: Request) -> Any:
        return what, request.cwd, request.prompt

    request = Request("prompt", cwd=PLACE)
    done = turn(setup, None, asked, ("what", request))
    assert done.answer == ("what", f"{setup.home}/0", "prompt")
    other = Request("prompt", cwd="/elsewhere")
    assert turn(setup, None, asked, ("what", other)).answer[1] == "/elsewhere"


def test_a_call_that_raises_gives_the_worktree_back(setup: Setup) -> None:
    with pytest.raises(ValueError, match="no"):
        turn(setup, None, fails, (PLACE,))
    assert is_free(setup)
    assert turn(setup, None, lambda cwd: "", (PLACE,)).patch == b""


def test_a_session_goes_on_where_it_was(setup: Setup) -> None:
    first = turn(setup, "s1", edits, (PLACE, "one"))
    second = turn(setup, "s1", lambda cwd: Path(cwd, "a.txt").read_text(), (PLACE,))
    assert second.answer == "one\n"
    assert second.patch == first.patch


def test_a_call_that_spoils_its_worktree_fails(setup: Setup) -> None:
    with pytest.raises(WorktreeFailed, match="cannot be told"):
        turn(setup, None, lambda cwd: os.unlink(f"{cwd}/.git"), (PLACE,))


def test_awaited(setup: Setup) -> None:
    done = asyncio.run(aturn(setup, None, aedits, (PLACE, "word")))
    assert done.answer == f"{setup.home}/0"
    assert b"+word\n" in done.patch
    assert is_free(setup)


def test_many_at_once_have_one_each(setup: Setup) -> None:
    async def at_once() -> list[Edited]:
        together = asyncio.Barrier(3)

        async def waits(cwd: str, word: str) -> str:
            await together.wait()
            return edits(cwd, word)

        return await asyncio.gather(*(aturn(setup, None, waits, (PLACE, word)) for word in "abc"))

    done = asyncio.run(at_once())
    assert len({one.answer for one in done}) == 3
    for one, word in zip(done, "abc", strict=True):
        assert f"+{word}\n".encode() in one.patch


@contextmanager
def _held(step: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Have ``Worktree.take`` or ``patch`` wait until it is told to go on."""
    began, go_on = threading.Event(), threading.Event()
    real = getattr(Worktree, step)
    target: Any = real.__func__ if step == "take" else real

    def waits(first: Any, *arguments: Any) -> Any:
        began.set()
        assert go_on.wait(20)
        return target(first, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Worktree, step, classmethod(waits) if step == "take" else waits)
        yield began, go_on


@pytest.mark.parametrize("step", ["take", "patch"])
def test_a_cancellation_waits_for_git_and_gives_the_worktree_back(setup: Setup, step: str) -> None:
    async def cancelled() -> None:
        with _held(step) as (began, go_on):
            task = asyncio.create_task(aturn(setup, None, aedits, (PLACE, "word")))
            await asyncio.to_thread(began.wait, 20)
            for _ in range(2):  # however often
                task.cancel()
                await asyncio.sleep(0)
            assert not task.done()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled())
    assert is_free(setup)


def test_a_cancellation_of_the_call_gives_the_worktree_back(setup: Setup) -> None:
    async def cancelled() -> None:
        began = asyncio.Event()

        async def hangs(cwd: str) -> str:
            began.set()
            await asyncio.Event().wait()
            return cwd

        task = asyncio.create_task(aturn(setup, None, hangs, (PLACE,)))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert is_free(setup)


def test_the_place_is_no_directory() -> None:
    assert "\0" in turns.PLACE
