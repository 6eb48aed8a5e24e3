"""The file that a turn is about, put into its prompt: a chat model cannot read it itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hmz_mp_worker.backends.protocol import AgentFailed

if TYPE_CHECKING:
    from hmz_mp_worker.backends import Request

__all__ = ["LARGEST", "with_file"]

LARGEST = 4 << 20  # bytes: about a million tokens, more than models read


def with_file(request: Request) -> str:
    """Return the prompt with the text of the turn's file, if it is about one.

    Raises `AgentFailed` for a file that cannot be read, has too much in it, or no text.
    """
    if request.path is None:
        return request.prompt
    name = os.fsdecode(request.path)
    try:
        with Path(request.cwd or "", name).open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise _refused(name, f"cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise _refused(name, f"has more than {LARGEST:,} bytes")
    if b"\0" in data:
        raise _refused(name, "is no text")
    text = data.decode("utf-8", "replace")
    end = "" if text.endswith("\n") else "\n"
    return f'{request.prompt}\n\n<file path="{name}">\n{text}{end}</file>'


def _refused(name: str, why: str) -> AgentFailed:
    return AgentFailed("refused", f"{name} {why}, so it cannot be put into the prompt")
