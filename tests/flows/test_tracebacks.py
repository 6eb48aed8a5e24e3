from __future__ import annotations

import asyncio

from hmz_mp.errors import BadInput
from hmz_mp.flows.finding import find_flow
from hmz_mp.flows.tracebacks import flow_traceback


def files(text: str) -> set[str]:
    lines = (line.strip() for line in text.splitlines())
    return {line.split('"')[1] for line in lines if line.startswith("File ")}


def test_frames_of_ours_and_of_the_loop_are_left_out() -> None:
    async def fail() -> None:
        find_flow("nothing by this name")

    try:
        asyncio.run(fail())
    except BadInput as error:
        text = flow_traceback(error)
    assert files(text) == {__file__}
    assert "hmz_mp.errors.BadInput: no flow named" in text


def test_causes_contexts_and_groups_are_trimmed_too() -> None:
    def inner() -> None:
        try:
            find_flow("nothing by this name")
        except BadInput as error:
            raise LookupError("cause") from error

    try:
        try:
            inner()
        except LookupError as error:
            raise ExceptionGroup("several", [error]) from None
    except ExceptionGroup as error:
        text = flow_traceback(error)
    assert "LookupError: cause" in text
    assert "direct cause" in text
    assert all(path == __file__ for path in files(text.replace("|", "")))


def test_an_exception_that_is_its_own_context() -> None:
    error = LookupError("round")
    error.__cause__ = error
    assert "LookupError: round" in flow_traceback(error)
