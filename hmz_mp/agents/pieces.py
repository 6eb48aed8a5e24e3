"""An answer that arrives in pieces, from the loop that hears them to one who iterates."""

from __future__ import annotations

import codecs

import anyio

from hmz_mp.agents.failures import Failed

__all__ = ["Pieces"]


class Pieces:
    """What has come and was not taken; together with `rest` it is the answer, whatever came."""

    # The whole state: text to be given, text given, whether more is taken, and whether more comes.
    def __init__(self) -> None:
        self._decoder = _decoder()
        self._waiting = ""
        self._given: list[str] = []
        self._held = False
        self._changed = anyio.Event()
        self._closed = False

    def add(self, data: bytes) -> None:
        """Take a piece as bytes, which may end inside a character."""
        if not self._held:
            self._waiting += self._decoder.decode(data)
            self._changed.set()

    def restart(self) -> None:
        """Take note that the turn begins; what a failed try wrote and nobody took is dropped."""
        self._decoder = _decoder()
        self._waiting = ""
        self._held = bool(self._given)  # then only its end tells whether it fits what was given

    def close(self) -> None:
        """Take note of the end."""
        self._closed = True
        self._changed.set()

    async def next(self) -> str | None:
        """Return the next piece, or ``None`` once the turn has ended."""
        while not self._closed:
            # A newline at the very end is no part of an answer, so it waits for what follows.
            piece = self._waiting.rstrip("\r\n")
            if piece:
                self._waiting = self._waiting[len(piece) :]
                self._given.append(piece)
                return piece
            self._changed = anyio.Event()
            await self._changed.wait()
        return None

    def rest(self, answer: str) -> str:
        """Return what of the answer was not given yet. Raises `Failed` if it begins otherwise."""
        given = "".join(self._given)
        if not answer.startswith(given):
            raise Failed("the turn was tried again and answered otherwise than it had begun to")
        return answer[len(given) :]


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("surrogateescape")
