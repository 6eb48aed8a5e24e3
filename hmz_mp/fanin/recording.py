"""A sub-run as a turn of the run that it is in: in its ledger, its counts and its budget.

Owns the turn's record, and how the run stops it. Outside a run it does nothing. Imported by
``fanin``; it knows nothing of models.
"""

from __future__ import annotations

import itertools
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from hmz_mp.agents.failures import detail_of, kind_of, type_of
from hmz_mp.agents.usage import Usages
from hmz_mp.agents.verdicts import judged
from hmz_mp.core.ambient import TurnRecord, current_run
from hmz_mp.core.turns import PutBack, Shipped
from hmz_mp.errors import Stopped
from hmz_mp_worker.backends.protocol import Did, Spent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hmz_mp.agents import Prompt
    from hmz_mp.core.ambient import TurnState
    from hmz_mp.core.turns import Event, Turn
    from hmz_mp_worker.backends.protocol import Usage

__all__ = ["Recording"]

_numbers = itertools.count(1)  # tells apart the sub-runs of this process


class Recording:
    """One sub-run, for the run around it."""

    # The whole state: the record, when it first ran, why it was stopped, if it was, and
    # what the answer says of the item.
    def __init__(self, spec: str, item_id: str, prompt: Prompt, identity: str = "") -> None:
        run = current_run()
        self.record = TurnRecord(
            item_id=item_id,
            agent=spec,
            agent_id="subtask",
            session=f"subtask-{next(_numbers)}",
            place=0,
            prompt=prompt.text,
            path=prompt.file,
            identity=identity,
        )
        self.known: TurnRecord | None = None  # of before, if it was answered then
        self._observer = run.observer if run is not None else None
        self._usages = Usages()
        self._began: float | None = None
        self._stopped: Stopped | None = None
        self._verdict: TurnState = "ok"
        self._scope = anyio.CancelScope()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Have the run know of it. Raises `Stopped` when the run takes no more, or stops it.

        When ``known`` is set, the answer is there, and nothing is to be asked.
        """
        record = self.record
        record.submitted_at = time.time()
        record.cancel = self._stop
        if self._observer is not None:
            self.known = self._observer.submitted(record)
        if self.known is not None:
            yield
            return
        try:
            with self._scope:
                yield
            if self._scope.cancelled_caught and self._stopped is not None:
                raise self._stopped
        except Stopped as error:
            await self._end("cancelled" if self._began else "not_run", error)
            raise
        except Exception as error:
            await self._end("failed", error)
            raise
        except BaseException:
            await self._end("cancelled" if self._began else "not_run", Stopped("it was cancelled"))
            raise
        await self._end(self._verdict, None)

    def _stop(self, reason: str | Stopped = "the run was stopped") -> None:
        self._stopped = Stopped(reason) if isinstance(reason, str) else reason
        self._scope.cancel()

    def answered(self, text: str, value: Any) -> None:
        """Take note of the answer."""
        self.record.answer = text
        self._verdict = judged(self.record, value)

    def heard(self, turn: Turn, event: Event) -> None:  # noqa: ARG002  # as the pool calls it
        """Take note of what became of an asking: for the pool's ``on_event``."""
        record, observer = self.record, self._observer
        if isinstance(event, Shipped):
            record.worker = event.worker
            record.attempts += 1
            if self._began is None:
                self._began = time.monotonic()
                record.began_at = record.began_at or time.time()
            if record.state != "running":
                record.state = "running"
                if observer is not None:
                    observer.began(record)
        elif isinstance(event, PutBack):
            record.state = "waiting"
            if observer is not None:
                observer.said(record, event)

    def did(self, words: str) -> None:
        """Take note of a tool that the model asked for."""
        if self._observer is not None:
            self._observer.said(self.record, Did(words))

    def used(self, usage: Usage) -> None:
        """Take note of what an asking has used; the run may be stopped by it."""
        self._usages.add((usage,), self.record)
        if self._observer is not None:
            self._observer.said(self.record, Spent((usage,)))

    async def _end(self, state: TurnState, error: Exception | None) -> None:
        record = self.record
        record.cancel = None
        record.ended_at = time.time()
        if self._began is not None:
            record.seconds = time.monotonic() - self._began
        if error is not None:
            record.error = " ".join(str(error).split())
            cause = error.__cause__ or error
            record.error_type = type_of(cause)
            if state == "failed":
                record.detail = detail_of(cause)
                record.failure = kind_of(cause)
        record.state = state  # last, as it may be written down at any time
        if self._observer is not None:
            written = anyio.Event()
            self._observer.ended(record, written.set)
            with anyio.CancelScope(shield=True):
                await written.wait()
