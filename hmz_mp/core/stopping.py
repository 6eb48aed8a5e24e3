"""Stopping: how the call of a job is ended that somebody does not want any more.

Part of the policy, and as pure. The job ends once its worker lets go of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hmz_mp.core.commands import CancelTurn, Command, Kill
from hmz_mp.core.jobs import Job, Worker, WorkerState

if TYPE_CHECKING:
    from hmz_mp.core.roster import Roster
    from hmz_mp.core.timers import Timers

__all__ = ["LOOK_AGAIN", "Stopping"]

LOOK_AGAIN = 0.02  # seconds until a call that was to be stopped, and was not running, is looked at
HOST_GRACE = 5.0  # seconds that a host worker has to let go of a cancelled turn


class Stopping:
    """Ends the calls of one pool. Its state is the jobs' and the workers' own."""

    def __init__(self, roster: Roster, timers: Timers, commands: list[Command]) -> None:
        self._roster = roster
        self._timers = timers
        self._commands = commands

    def stop(self, job: Job, now: float) -> None:
        """End the call of a shipped job: a host cancels its task; a call worker is killed."""
        worker = job.worker
        if worker is None or worker.state is WorkerState.DYING:
            return
        if worker.kind == "host":
            self._stop_turn(job, worker, now)
        elif next(iter(worker.inflight)) == job.ticket:
            self.condemn(worker, job.ticket)
        else:  # behind others that are short: by then it has answered, or is what runs
            self._timers.add(now + LOOK_AGAIN, job, job.ticket, None)

    def _stop_turn(self, job: Job, worker: Worker, now: float) -> None:
        if job.expected < 0:  # asked for before, and the grace has passed
            self.condemn(worker, 0)
            return
        job.expected = -1.0
        self._commands.append(CancelTurn(worker.id, job.ticket))
        self._timers.add(now + HOST_GRACE, job, job.ticket, None)

    def condemn(self, worker: Worker, only: int) -> None:
        """End a worker, if the call of ticket ``only`` is what it runs (0: whatever it runs)."""
        self._roster.condemn(worker)
        worker.killing = only
        self._commands.append(Kill(worker.id, only))
