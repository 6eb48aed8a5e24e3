"""What was said in a conversation, in memory and in the file that survives this worker.

Owns the file: a line for each exchange, appended when its reply has come whole. What was asked in
a turn that failed, or was lost, is not in the conversation.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import msgspec

from hmz_mp_worker.backends.protocol import AgentFailed
from hmz_mp_worker.chat import Message, Reply, User

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Exchange", "History"]

log = logging.getLogger("hmz_mp")


class Exchange(msgspec.Struct, frozen=True, array_like=True):
    """A question and its reply, of the turn at ``place``; ``is_first`` of that turn's."""

    place: int
    is_first: bool
    question: User
    reply: Reply


_write = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(Exchange).decode


class History:
    """A conversation so far.

    Its whole state: the exchanges; the turn that runs, and whether one of its own is there; the
    file, if it is kept.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._exchanges: list[Exchange] = []
        self._place = 0
        self._has_begun = False
        self._file = file

    def load(self) -> bool:
        """Take up what an earlier worker has left; return whether there was anything.

        Raises `AgentFailed` if that cannot be read.
        """
        assert self._file is not None
        try:
            *lines, rest = self._file.read_bytes().split(b"\n")
            for line in lines:
                self._take(_read(line))
            if rest:  # a worker was killed in the middle of this line
                os.truncate(self._file, sum(len(line) + 1 for line in lines))
        except FileNotFoundError:
            return False
        except (OSError, msgspec.MsgspecError) as error:
            reason = f"its conversation, {self._file}, cannot be read: {error}"
            raise AgentFailed("died", reason) from None
        return True

    def _take(self, exchange: Exchange) -> None:
        if exchange.is_first:  # another try of that turn, after one that was lost
            self._forget(exchange.place)
        self._exchanges.append(exchange)

    def _forget(self, place: int) -> None:
        self._exchanges = [one for one in self._exchanges if one.place < place]

    def begin(self, place: int) -> None:
        """Take note that the turn at ``place`` begins, maybe once more."""
        self._forget(place)
        self._place, self._has_begun = place, False

    @property
    def messages(self) -> list[Message]:
        """All that was said."""
        return [message for one in self._exchanges for message in (one.question, one.reply)]

    def add(self, question: User, reply: Reply) -> None:
        """Take note of an exchange."""
        exchange = Exchange(self._place, not self._has_begun, question, reply)
        self._has_begun = True
        self._take(exchange)
        if self._file is not None:
            try:
                _append(self._file, _write(exchange) + b"\n")
            except OSError as error:
                log.warning("%s is in this worker's memory only: %s", self._file, error)
                self._file.unlink(missing_ok=True)  # half a conversation would be gone on with
                self._file = None


def _append(file: Path, data: bytes) -> None:
    file.parent.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)
