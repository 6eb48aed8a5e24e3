"""What was said in a conversation, in memory and in the file that survives this worker.

Owns the file: a line for each turn, appended when the turn has succeeded. What was said in a turn
that failed, or was lost, is not in the conversation.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import msgspec

from hmz_mp_worker.backends.protocol import AgentFailed
from hmz_mp_worker.chat import Message

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["History"]

log = logging.getLogger("hmz_mp")


class _Turn(msgspec.Struct, frozen=True, array_like=True):
    place: int
    messages: tuple[Message, ...]


_write = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(_Turn).decode


class History:
    """A conversation so far.

    Its whole state: the turns that have succeeded; which one runs, and what was said in it; the
    file, if it is kept.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._turns: list[_Turn] = []
        self._place = 0
        self._said: list[Message] = []
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

    def _take(self, turn: _Turn) -> None:
        """Add a turn, in the place of one whose answer was lost, so that it was tried again."""
        self._turns = [one for one in self._turns if one.place < turn.place]
        self._turns.append(turn)

    def begin(self, place: int) -> None:
        """Take note that the turn at ``place`` begins, maybe once more."""
        self._turns = [one for one in self._turns if one.place < place]
        self._place = place
        self._said = []

    @property
    def messages(self) -> list[Message]:
        """All that was said, in this turn too."""
        return [*(message for one in self._turns for message in one.messages), *self._said]

    def add(self, *messages: Message) -> None:
        """Take note of what is said in this turn."""
        self._said += messages

    def end(self) -> None:
        """Take note that this turn has succeeded."""
        turn = _Turn(self._place, tuple(self._said))
        self._said = []
        self._take(turn)
        if self._file is not None:
            try:
                _append(self._file, _write(turn) + b"\n")
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
