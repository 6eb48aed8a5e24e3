"""A directory that one turn has to itself: numbered below a home, and owned by who has its lock.

The file is written before anything else of a place is made, so what a worker left that died is
found again. The lock ends with its process. Base of worktrees and copies.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from itertools import count

import msgspec

__all__ = ["Place", "State", "lock_of"]


class State(msgspec.Struct):
    """What a place's file says: which of its directories is in use, and whether by a turn.

    A worker that died in a turn leaves ``busy`` behind. Then the directory is not used again,
    since something it started may still write there.
    """

    generation: int = 0
    busy: bool = False


class Place:
    """A place, held by one turn."""

    # The whole state: the descriptor that holds the lock, and what the file says.
    def __init__(self, home: str, name: str, inside: str, lock: int, state: State) -> None:
        self._home = home
        self._name = name
        self._inside = inside
        self._lock = lock
        self._state = _read(lock, state)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.directory!r}>"

    @property
    def directory(self) -> str:
        """Its top."""
        generation = self._state.generation
        suffix = f".{generation}" if generation else ""
        return f"{self._home}/{self._name}{suffix}"

    @property
    def cwd(self) -> str:
        """Where in it a turn runs."""
        return f"{self.directory}/{self._inside}" if self._inside else self.directory

    def give_back(self) -> None:
        """Let others have it. May be called in any state."""
        with suppress(OSError):
            self._state.busy = False
            self._write()
        self._let_go()

    def _let_go(self) -> None:
        """Let others have it as it is."""
        with suppress(OSError):
            # Closing it is not enough: a process that is just being started may hold it yet.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        os.close(self._lock)

    def _write(self) -> None:
        data = json.dumps(msgspec.structs.asdict(self._state)).encode("ascii")
        os.pwrite(self._lock, data, 0)
        os.ftruncate(self._lock, len(data))


def lock_of(home: str, session: str | None) -> tuple[str, int]:
    """Return the name of a place and the descriptor that holds its lock.

    Without a ``session``, whose place is its own, that is the first that nobody has.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    if session is not None:
        lock = os.open(f"{home}/{session}.lock", flags, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)  # its last turn may be ending yet
        return session, lock
    for number in count():
        lock = os.open(f"{home}/{number}.lock", flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        except BaseException:
            os.close(lock)
            raise
        else:
            return str(number), lock
    raise AssertionError("unreachable")


def _read(lock: int, state: State) -> State:
    """Return what a place's file says, as a state of the kind of one that was never written."""
    data = os.pread(lock, 1 << 20, 0)
    try:
        return type(state)(**json.loads(data)) if data else state
    except (ValueError, TypeError):  # cut off in the middle
        return type(state)(busy=True)
