"""One agent turn from submission to its end, and who is told of it.

Owns how a pool's turn becomes an answer, a `Failed` or `Stopped`, and the turn's record. It knows
nothing of batches and sessions, which begin turns and wait for them.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import anyio
import msgspec

from hmz_mp.agents.counting import counters
from hmz_mp.agents.failures import Failed, Unrecoverable, detail_of, failed_by, kind_of, type_of
from hmz_mp.agents.schema import NotOfSchema
from hmz_mp.agents.usage import Usages
from hmz_mp.agents.verdicts import judged
from hmz_mp.core.turns import PutBack, Said, Shipped
from hmz_mp.errors import PoolClosed, Stopped
from hmz_mp_worker.backends.protocol import AGENT, Opened, Spent, read_agent_event
from hmz_mp_worker.placing import Edited

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from hmz_mp.core.ambient import TurnObserver, TurnRecord
    from hmz_mp.core.turns import Turn
    from hmz_mp.portal import Home

__all__ = ["AgentTurn", "TurnEvent", "cancel_all", "land_all"]

log = logging.getLogger("hmz_mp")


class TurnEvent(NamedTuple):
    """What `Agent.watch` tells: a turn was submitted, began, said something, or ended.

    A turn that its service was too busy for says `hmz_mp.core.turns.PutBack`, and begins again
    later. ``event`` is what a turn said: progress, a log record, a piece of its answer, or what its
    agent did (an event of `hmz_mp_worker.backends.protocol`).
    """

    kind: Literal["submitted", "began", "said", "ended"]
    record: TurnRecord
    event: object = None


class Listener(Protocol):
    """Takes an answer in pieces."""

    def add(self, data: bytes) -> None:
        """Take a piece."""

    def restart(self) -> None:
        """Take note that the turn begins, for the first time or again."""

    def close(self) -> None:
        """Take note of the turn's end."""


class Owner(Protocol):
    """The agent that a turn is of."""

    @property
    def command(self) -> str | Sequence[str]:
        """The agent as written, or its program and arguments."""

    @property
    def watched(self) -> bool:
        """Whether anybody wants to be told."""

    def tell(self, event: TurnEvent) -> None:
        """Tell who watches."""

    @property
    def usages(self) -> Usages:
        """What all its turns have used."""

    def forget(self, turn: Turn) -> None:
        """Take note that a turn has ended."""


class AgentTurn:
    """A turn that was submitted, or refused."""

    # `error` or `answer` is set by the one ending; `stopping` by whoever asked for it to stop.
    __slots__ = (
        "_counters",
        "_decode",
        "_listener",
        "_observer",
        "_owner",
        "_tried",
        "_turn",
        "_waiters",
        "answer",
        "done",
        "error",
        "home",
        "recalled",
        "record",
        "stopping",
    )

    def __init__(
        self,
        record: TurnRecord,
        owner: Owner,
        home: Home,
        *,
        decode: Callable[[str], Any] | None,
        observer: TurnObserver | None,
        listener: Listener | None = None,
    ) -> None:
        self.record = record
        self.home = home
        self.answer: Any = None
        self.error: BaseException | None = None
        self.stopping: Stopped | None = None
        self.done = False
        self.recalled = False  # answered by an earlier execution of the run
        self._counters = counters()  # of who asks
        self._owner = owner
        self._decode = decode
        self._observer = observer
        self._listener = listener
        self._tried = 0  # attempts of earlier tries, that the run has it go on from
        self._turn: Turn | None = None
        self._waiters: tuple[Awaitable[None], ...] = ()

    # Its life.

    def submit(self, submit: Callable[[], Turn], refusal: str | None) -> Turn | None:
        """Submit the turn to the pool.

        ``None`` if it was refused, by the run or for the agent's ``refusal``, or was answered
        before: it has ended then.
        """
        record = self.record
        record.submitted_at = time.time()
        record.cancel = self.stop
        record.tell = self.interject
        if self._observer is not None:
            try:
                known = self._observer.submitted(record)
            except Stopped as error:
                self._observer = None  # it has had its say
                self._end("not_run", error)
                return None
            if known is not None:
                self._recall(known)
                return None
            self._tried = record.attempts
        if self._owner.watched:
            self._owner.tell(TurnEvent("submitted", record))
        if refusal is not None:
            self._end("not_run", Stopped(refusal))
            return None
        try:
            turn = self._turn = submit()
        except BaseException as error:
            self._end("failed", error)
            raise
        turn.add_done_callback(self._landed)
        return turn

    def heard(self, event: object) -> None:
        """Take note of an event of the pool's turn."""
        record = self.record
        if record.ended_at is not None:
            return
        if isinstance(event, Shipped):
            record.worker = event.worker
            record.attempts += 1
            if self._listener is not None:
                self._listener.restart()
            if record.state != "running":
                record.began_at = record.began_at or time.time()
                record.state = "running"
                self._say("began")
            else:
                self._say("said", event)
            return
        if isinstance(event, PutBack):
            record.state = "waiting"
        elif isinstance(event, Said):
            if event.kind == "text" and self._listener is not None:
                self._listener.add(event.data)
            elif event.kind == AGENT:
                event = self._of_agent(event)
        self._say("said", event)

    def _of_agent(self, said: Said) -> object:
        try:
            event = read_agent_event(said.data)
        except msgspec.MsgspecError:  # users' code may say a kind of ours
            return said
        if isinstance(event, Opened):
            self.record.conversation = event.conversation
        elif isinstance(event, Spent):
            self._owner.usages.add(event.usage, self.record)
            for used in self._counters:
                used.add(event.usage)
        return event

    def interject(self, text: str) -> bool:
        """Say something to the turn's agent. False if it is not running, or cannot be told."""
        turn = self._turn
        return turn is not None and turn.tell(text.encode("utf-8", "surrogateescape"))

    def stop(self, reason: str | Stopped = "the run was stopped") -> None:
        """End the turn for everyone: who awaits it gets `Stopped`. Only on the turn's own loop."""
        if not self.done and self._turn is not None:
            if self.stopping is None:
                self.stopping = Stopped(reason) if isinstance(reason, str) else reason
            self._turn.cancel()

    def _landed(self, turn: Turn) -> None:
        try:
            self._land(turn)
        finally:
            self._owner.forget(turn)

    def _land(self, turn: Turn) -> None:
        account = turn.account
        if account is not None:
            record = self.record
            record.worker = account.worker or record.worker  # one that was ended tells no more
            record.seconds = account.seconds
            record.attempts = self._tried + account.attempts
            record.output = account.output
            for used in self._counters:
                used.turns += 1
        if turn.cancelled():
            began = self.record.state == "running"
            error = self.stopping or Stopped("the turn was cancelled")
            self._end("cancelled" if began else "not_run", error)
        elif (failure := turn.exception()) is not None:
            self._end("failed", failure)
        else:
            result = turn.result()
            if isinstance(result, Edited):
                self.record.patch, result = result.patch, result.answer
            self._answered(result)

    def _answered(self, text: str) -> None:
        self.record.answer = text
        try:
            self.answer = text if self._decode is None else self._decode(text)
        except NotOfSchema as error:
            self._end("failed", error)
        else:
            self._end(judged(self.record, self.answer), None)

    def _end(
        self, state: Literal["ok", "failed", "cancelled", "not_run"], error: BaseException | None
    ) -> None:
        record = self.record
        record.ended_at = time.time()
        record.cancel = record.tell = None
        if error is not None:
            self.error = self._failure(error) if state == "failed" else error
            record.error = _one_line(self.error)
            record.error_type = type_of(error)
            if state == "failed":
                record.detail = detail_of(error)
                record.failure = kind_of(error)
        record.state = state  # last, as it may be written down at any time
        self._turn = None
        if self._observer is None:
            self._is_done()
            return
        try:
            self._observer.ended(record, self._is_done)
        except Exception:
            log.exception("the run raised on being told that %s ended", record.item_id)
            self._is_done()

    def _recall(self, known: TurnRecord) -> None:
        """End the turn with the answer that it had when it was asked before."""
        self._observer = None
        self.record = known
        self.recalled = True
        text = known.answer or ""
        try:
            self.answer = text if self._decode is None else self._decode(text)
        except NotOfSchema as error:  # a secret in it was masked
            self.error = self._failure(error)
        self._owner.usages.recall(known)
        if self._owner.watched:
            self._owner.tell(TurnEvent("submitted", known))
        self._is_done()

    def _is_done(self) -> None:
        """Let everybody have the outcome."""
        if self.done:
            return
        self.done = True
        if self._owner.watched:
            self._owner.tell(TurnEvent("ended", self.record))
        if self._listener is not None:
            self._listener.close()
        for waiter in self._waiters:
            self.home.wake(waiter)

    def _say(self, kind: Literal["began", "said"], event: object = None) -> None:
        """Tell the run, then the agent. What the run raises is logged: the turn is who waits."""
        record, observer = self.record, self._observer
        if observer is not None:
            try:
                if kind == "began":
                    observer.began(record)
                else:
                    observer.said(record, event)
            except Exception:
                log.exception("the run raised on being told that %s %s", record.item_id, kind)
        if self._owner.watched:
            self._owner.tell(TurnEvent(kind, record, event))

    def _failure(self, error: BaseException) -> BaseException:
        if isinstance(error, (PoolClosed, Stopped)):
            return error  # no fault of the turn's
        return failed_by(error, cmd=self._owner.command, item_id=self.record.item_id)

    # Who waits for it.

    async def landed(self) -> None:
        """Wait for the end. Cancelling the wait cancels the turn, and still waits for its end."""
        if self.done:
            return
        try:
            await self._waiter()
        except BaseException:
            if self._turn is not None:
                self._turn.cancel()
            if not self.done:
                with anyio.CancelScope(shield=True):
                    await self._waiter()
            raise

    def _waiter(self) -> Awaitable[None]:
        """Return something to await that the end wakes, for one who waits."""
        waiter = self.home.waiter()
        self._waiters = (*self._waiters, waiter)
        return waiter

    def value(self, *, suppress: bool = False) -> Any:
        """Return the answer, or raise. ``suppress`` answers a `Failed` with nothing, if it can."""
        if self.error is None:
            return self.answer
        suppressed = isinstance(self.error, Failed) and not isinstance(self.error, Unrecoverable)
        if suppress and suppressed:
            return "" if self._decode is None else None
        raise self.error

    def cancel(self) -> None:
        """End a turn that nobody will wait for."""
        if self._turn is not None:
            self._turn.cancel()


async def land_all(turns: Iterable[AgentTurn]) -> None:
    """Wait until all have ended. Cancelling the wait cancels all of them."""
    turns = list(turns)
    try:
        for turn in turns:
            await turn.landed()
    except BaseException:
        await cancel_all(turns)
        raise


async def cancel_all(turns: Iterable[AgentTurn]) -> None:
    """Cancel all and wait until they have ended."""
    turns = list(turns)
    for turn in turns:
        turn.cancel()
    with anyio.CancelScope(shield=True):
        for turn in turns:
            await turn.landed()


def _one_line(error: BaseException) -> str:
    if isinstance(error, Failed):
        return error.reason
    return " ".join(str(error).split())
