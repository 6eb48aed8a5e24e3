"""What a policy wants done: the pool carries these out, in order."""

from __future__ import annotations

from typing import NamedTuple

from hmz_mp.core.jobs import Job, Kind

__all__ = ["CancelTurn", "Command", "Fail", "Kill", "PutBack", "Retire", "Ship", "Start"]


class Start(NamedTuple):
    """Start a worker."""

    worker: int
    kind: Kind


class Ship(NamedTuple):
    """Hand jobs to a worker, in this order."""

    worker: int
    jobs: list[Job]


class Kill(NamedTuple):
    """End a worker, if the call of ticket ``only`` is what it runs (0: whatever it runs)."""

    worker: int
    only: int


class CancelTurn(NamedTuple):
    """Cancel one turn of a host worker."""

    worker: int
    ticket: int


class PutBack(NamedTuple):
    """Say that a job waits, until then at least, as its service is too busy."""

    job: Job
    until: float


class Retire(NamedTuple):
    """Let a worker finish and exit."""

    worker: int


class Fail(NamedTuple):
    """End a job with an error."""

    job: Job
    error: BaseException


Command = Start | Ship | Kill | CancelTurn | Retire | PutBack | Fail
