from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from hmz_mp_worker.backends import Request
from hmz_mp_worker.placing import PLACE, Edited
from hmz_mp_worker.shipping.copies import Copy, CopyFailed
from hmz_mp_worker.shipping.parcels import Parcel, Setup, encode
from hmz_mp_worker.shipping.turns import CODE, aturn, turn
from tests.workers.shipping.support import declaring, files, setup_in

DECLARED = encode(Parcel(files(tools="x = 1\n")))
PARCEL = encode(Parcel(files(a="one\n")))


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return setup_in(tmp_path)


def edits(cwd: str, word: str) -> str:
    Path(cwd, "a.txt").write_text(f"{word}\n")
    return cwd


async def aedits(cwd: str, word: str) -> str:
    return edits(cwd, word)


def is_free(setup: Setup) -> bool:
    """Whether nobody has a copy."""
    copy = Copy.take(setup, declaring(), Parcel(), None)
    copy.give_back()
    return copy.directory == f"{setup.home}/0"


def test_a_call_is_given_the_directory_and_its_changes_come_back(setup: Setup) -> None:
    done = turn(encode(setup), DECLARED, PARCEL, None, edits, (PLACE, "word"))
    assert isinstance(done, Edited)
    assert done.answer == f"{setup.home}/0"
    assert b"-one\n+word\n" in done.patch
    assert is_free(setup)


def test_a_request_and_code_are_placed_too(setup: Setup) -> None:
    def asked(request: Request, code: str, top: str) -> tuple[str | None, str, list[str]]:
        return request.cwd, Path(code).read_text(), os.listdir(top)

    given = (Request("prompt", cwd=PLACE), f"{CODE}/tools.txt", CODE)
    done = turn(encode(setup), DECLARED, PARCEL, None, asked, given)
    assert done == ((f"{setup.home}/0", "x = 1\n", ["tools.txt"]), b"")


def test_a_call_that_raises_gives_the_copy_back(setup: Setup) -> None:
    with pytest.raises(ZeroDivisionError):
        turn(encode(setup), DECLARED, PARCEL, None, lambda cwd: 1 // 0, (PLACE,))
    assert is_free(setup)


def test_code_that_cannot_be_written_gives_the_copy_back(setup: Setup) -> None:
    wrong = encode(Parcel([*files(a="a"), *files(a="b")]))
    with pytest.raises(OSError, match=r"a\.txt"):
        turn(encode(setup), wrong, PARCEL, None, len, (CODE,))
    assert is_free(setup)


def test_awaited(setup: Setup) -> None:
    done = asyncio.run(aturn(encode(setup), DECLARED, PARCEL, "s1", aedits, (PLACE, "word")))
    assert done.answer == f"{setup.home}/s1"
    assert b"-one\n+word\n" in done.patch
    problem = encode(Parcel(problem="not there"))
    with pytest.raises(CopyFailed, match="not there"):
        asyncio.run(aturn(encode(setup), DECLARED, problem, None, aedits, (PLACE, "word")))
    assert is_free(setup)


def test_a_cancellation_gives_the_copy_back(setup: Setup) -> None:
    async def cancelled() -> None:
        began = asyncio.Event()

        async def hangs(cwd: str) -> str:
            began.set()
            await asyncio.Event().wait()
            return cwd

        task = asyncio.create_task(aturn(encode(setup), DECLARED, PARCEL, None, hangs, (PLACE,)))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert is_free(setup)
