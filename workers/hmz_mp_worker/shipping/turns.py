"""A turn in a copy: its files are written, it runs among them, what it changed is its patch.

Imported by the coordinator for what it ships. ``setup`` and ``files`` are those of the run, and
come with the function, once; ``parcel`` is the turn's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hmz_mp_worker.placing import Edited, in_thread, placed
from hmz_mp_worker.shipping.copies import Copy, code_directory
from hmz_mp_worker.shipping.parcels import declared, decode_parcel, decode_setup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["CODE", "aturn", "turn"]

CODE = "\0shipped"  # begins a path of a declared file, or its directory, that code is loaded from


def turn(
    setup: bytes,
    files: bytes,
    parcel: bytes,
    session: str | None,
    call: Callable[..., Any],
    arguments: Sequence[Any],
) -> Edited:
    """Run a turn that takes a process of its own: ``call(*arguments)`` in a copy.

    An argument that is `PLACE`, or that has it as its ``cwd``, gets the copy's directory. One that
    begins with `CODE` gets the directory of the files that go with every turn there.
    """
    copy, arguments = _taken(setup, files, parcel, session, arguments)
    try:
        answer = call(*placed(arguments, copy.cwd))
        return Edited(answer, copy.patch())
    finally:
        copy.give_back()


async def aturn(
    setup: bytes,
    files: bytes,
    parcel: bytes,
    session: str | None,
    call: Callable[..., Any],
    arguments: Sequence[Any],
) -> Edited:
    """Run a turn that waits, in the same way; files are written and compared beside the loop."""
    copy, arguments = await in_thread(
        _taken, setup, files, parcel, session, arguments, undo=_give_back
    )
    try:
        answer = await call(*placed(arguments, copy.cwd))
        return Edited(answer, await in_thread(copy.patch))
    finally:
        copy.give_back()


def _taken(
    setup: bytes, files: bytes, parcel: bytes, session: str | None, arguments: Sequence[Any]
) -> tuple[Copy, Sequence[Any]]:
    run, common = decode_setup(setup), declared(files)
    copy = Copy.take(run, common, decode_parcel(parcel), session)
    try:
        if any(_is_code(one) for one in arguments):
            directory = code_directory(run, common)
            arguments = [
                directory + one[len(CODE) :] if _is_code(one) else one for one in arguments
            ]
        return copy, arguments
    except BaseException:
        copy.give_back()
        raise


def _give_back(taken: tuple[Copy, Sequence[Any]]) -> None:
    taken[0].give_back()


def _is_code(argument: Any) -> bool:
    return isinstance(argument, str) and argument.startswith(CODE)
