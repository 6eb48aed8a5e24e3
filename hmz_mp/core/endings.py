"""Endings: whether a job that its worker let go of is over, or tried again, and how it is counted.

Part of the policy, and as pure. What the job held is given back before any of this is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hmz_mp.core.commands import Command, Fail, PutBack
from hmz_mp.core.jobs import Ending, Job, JobState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hmz_mp.core.backoff import Backoff
    from hmz_mp.core.dispatcher import Dispatcher
    from hmz_mp.errors import WorkerDied

__all__ = ["LOSSES", "Endings"]

LOSSES = 3  # workers that may die under a job before it began
_SHIPPED, _DONE = JobState.SHIPPED, JobState.DONE


class Endings:
    """Ends the jobs of one pool, each once."""

    # The whole state: how many ended how.
    def __init__(self, dispatcher: Dispatcher, backoff: Backoff, commands: list[Command]) -> None:
        self.counts = {"done": 0, "failed": 0, "retried": 0, "cancelled": 0}
        self._dispatcher = dispatcher
        self._backoff = backoff
        self._commands = commands

    def end(self, job: Job, how: str) -> None:
        """Count a job as ended."""
        job.state = JobState.DONE
        self.counts[how] += 1

    def fail(self, job: Job, error: BaseException) -> None:
        """End a job with an error, unless it is tried again."""
        if not self._retry(job):
            self.end(job, "failed")
            self._commands.append(Fail(job, error))

    def _retry(self, job: Job) -> bool:
        if job.attempts > job.retries:
            return False
        self.counts["retried"] += 1
        self._dispatcher.requeue(job)
        return True

    def lose(self, job: Job, error: WorkerDied, blamed: bool) -> None:
        """Queue again a job whose worker died before it began.

        Not for ever when no other job is ``blamed`` for that, and it keeps happening.
        """
        job.attempts -= 1
        if not blamed:
            job.losses += 1
        if job.losses < LOSSES:
            self._dispatcher.requeue(job)
        else:
            job.retries = 0
            job.attempts = 1
            self.fail(job, error)

    def note_served(
        self, found: Sequence[Job | None], endings: Sequence[Ending], now: float
    ) -> None:
        """Tell the limits that back off of those that were served."""
        for job, ending in zip(found, endings, strict=True):
            if job is not None and ending.ok and job.state is _SHIPPED:
                self._backoff.served(job, ending.seconds, now)

    def ends_badly(self, job: Job, ending: Ending, now: float) -> bool:
        """Whether an answer ends a job that is not wanted any more, or that failed."""
        if job.state is JobState.ABANDONED:
            job.state = _DONE
            return False
        if job.stopping is not None and not ending.ok:
            self.fail(job, job.stopping)
            return False
        if self._put_back(job, ending, now):
            return False
        if job.retries and job.may_retry(ending) and self._retry(job):
            return False
        self.end(job, "failed")
        return True

    def _put_back(self, job: Job, ending: Ending, now: float) -> bool:
        """Put a job back that failed as its service is too busy; not for ever."""
        busy = job.busy(ending)
        last = self._dispatcher.last_ticket
        until = self._backoff.refused(job, last, busy, now) if busy else None
        if until is None:
            if self._backoff.gates and busy is None:
                self._backoff.served(job, None, now)
            return False
        if self._backoff.is_hopeless(job):
            return False
        job.attempts -= 1
        self._dispatcher.requeue(job)
        self._commands.append(PutBack(job, until))
        return True
