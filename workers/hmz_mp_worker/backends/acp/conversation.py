"""One conversation with an agent program: a session of it, which another one may go on with.

Owns the session and the turn that runs in it. What is said of a turn is the `TurnReader`'s to
understand.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hmz_mp_worker import state
from hmz_mp_worker.backends.acp import files, sessions
from hmz_mp_worker.backends.acp.agent import (
    AcpAgent,
    Declined,
    Ended,
    LoginFailed,
    Refused,
)
from hmz_mp_worker.backends.acp.choices import choices_of
from hmz_mp_worker.backends.acp.permissions import CANCELLED, Rules, chosen
from hmz_mp_worker.backends.acp.reading import TurnReader, failure_of
from hmz_mp_worker.backends.acp.settings import Settings
from hmz_mp_worker.backends.program import ProgramFailed
from hmz_mp_worker.backends.protocol import Event, Failed, Opened, Result, encodable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hmz_mp_worker.backends.protocol import Ask
    from hmz_mp_worker.backends.shared import Shared

__all__ = ["AcpConversation"]

_ABANDON_SECONDS = 2.0  # that a program has to let go of a turn before it is ended itself
_DENIED = -32003
_DRAIN = "craft/drainMidTurnQueue"  # Qwen Code's: what was said to it in the middle of a turn


class AcpConversation(state.Resource):
    """A conversation; it hears what is said of its session.

    Its whole state: whether it is kept, and whether its session, if it is known, has to be there
    or was lost; the program that has it open, and whether that is held for it; what it is set to,
    and has cost; the turn that is read, its events, whether it has begun and whether it is being
    let go of; and what is to be said to it.
    """

    def __init__(
        self,
        settings: Settings,
        cwd: str,
        agents: Shared[AcpAgent],
        *,
        kept: bool = False,
        known_as: str | None = "",
        known: bool = False,
    ) -> None:
        self._settings = settings
        self._cwd = cwd
        self._agents = agents
        self._key = (settings.program, id(self) if settings.fresh else 0)
        self._rules = Rules(settings, cwd)
        self._kept = kept
        self._session = known_as or ""
        self._known = known or known_as is None
        self._agent: AcpAgent | None = None
        self._holds = False
        self._offered: sessions.Offers = {}
        self._cost: float | None = None
        self._reader: TurnReader | None = None
        self._events: asyncio.Queue[list[Event] | None] = asyncio.Queue()
        self._begun = False
        self._leaving = False
        self._said: list[str] = []

    async def turn(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """Take one turn; see `protocol.Conversation`."""
        start = partial(AcpAgent.start, self._settings)
        for tries_left in (1, 0):
            self._begun = False
            try:
                async with self._agents.use(self._key, start) as agent:
                    async for event in self._turn_on(agent, ask):
                        yield event
                return
            except LoginFailed as error:
                yield Failed("unauthorised", str(error))
                return
            except ProgramFailed as error:
                yield Failed("died", str(error))
                return
            except Ended as error:
                if self._begun or not tries_left:
                    yield Failed("died", str(error), status=agent.status, detail=agent.tail)
                    return
            # Another turn has taken the program with it before this one had begun.

    async def _turn_on(self, agent: AcpAgent, ask: Ask) -> AsyncGenerator[Event, None]:
        try:
            async with asyncio.timeout(self._settings.stall):
                await self._open(agent, ask)
            yield Opened(self._session)
            text = self._words(ask)
            while True:
                end: Event | None = None
                async for event in self._prompt(agent, text):
                    end = event
                    if not isinstance(event, Result) or not self._said:
                        yield event
                if not isinstance(end, Result) or not self._said:
                    return
                text = "\n\n".join(self._taken())
        except Refused as error:
            yield failure_of(error.code, error.message, error.data, agent.ways_in)
        except TimeoutError:  # it does not even open a session
            await agent.end()
            yield self._stalled(agent)
        finally:
            self._said.clear()

    def _words(self, ask: Ask) -> str:
        """Return what the agent is asked; the protocol has no schemas."""
        text = ask.prompt
        if text.startswith("/") and not self._settings.commands:
            text = f" {text}"  # what stands first makes it a command of the program's
        if not ask.schema or ask.again:
            return text
        wanted = "Answer with JSON that fits this JSON schema, and with nothing else"
        return f"{text}\n\n{wanted}:\n{ask.schema}"

    def _stalled(self, agent: AcpAgent) -> Failed:
        reason = f"nothing was heard of the program for {self._settings.stall:g} s"
        return Failed("stalled", reason, detail=agent.tail)

    # The session.

    async def _open(self, agent: AcpAgent, ask: Ask) -> None:
        """Have the session open in this program. Raises `Refused`, `Ended` and `ProgramFailed`."""
        if self._agent is agent:
            return
        sessions.check_directory(self._cwd)
        if ask.again and not self._kept:
            raise ProgramFailed("the program ended before it could be asked again")
        self._let_go()
        opened = await self._reopened(agent) if self._kept else None
        self._cost = None
        if opened is None:
            self._cost = 0.0
            self._session, opened = await sessions.new(agent, self._cwd)
        goes_with_it = not agent.reopens if self._kept else self._settings.fresh
        if goes_with_it:  # so the program has to stay
            await self._agents.acquire(self._key, partial(AcpAgent.start, self._settings))
            self._holds = True
        # Some do not say again what there is: then it is set once more, whatever it is.
        offered = choices_of(opened) or {
            name: choice._replace(current="") for name, choice in self._offered.items()
        }
        if offered or self._cost is not None:
            offered = await sessions.set_up(agent, self._session, self._settings, offered)
        self._offered = offered
        self._agent = agent

    async def _reopened(self, agent: AcpAgent) -> dict[str, Any] | None:
        """Have the session opened again; ``None`` if there is none yet."""
        session, why = self._session, "nobody knows its name"
        if session and agent.reopens:
            try:
                return await sessions.reopened(agent, self._cwd, session)
            except Refused as error:
                why = f"{session} is no longer there: {error.message}"
        elif session:
            why = "its program cannot go on with one"
        must, self._known, self._session = self._known, False, ""  # the next turn begins anew
        if must:
            raise ProgramFailed(f"its conversation was lost: {why}")
        return None

    def _model(self) -> str:
        offered = self._offered.get("model")
        model = self._settings.model or (offered.current if offered is not None else "")
        return encodable(model) or Path(self._settings.command[0]).name

    # The turn.

    async def _prompt(self, agent: AcpAgent, text: str) -> AsyncGenerator[Event, None]:
        reader = self._reader = TurnReader(self._model(), self._rules, self._cost)
        self._events = asyncio.Queue()
        agent.listen(self._session, self)
        prompt = [{"type": "text", "text": encodable(text)}]
        params = {"sessionId": self._session, "prompt": prompt}
        answering = asyncio.ensure_future(agent.request("session/prompt", params))
        self._begun = True
        answering.add_done_callback(partial(_note_end, self._events))
        try:
            while True:
                async with asyncio.timeout(self._settings.stall):
                    events = await self._events.get()
                if events is None:
                    break
                for event in events:
                    yield event
            for event in reader.end(answering.result()):
                self._known = self._known or (self._kept and isinstance(event, Result))
                yield event
        except TimeoutError:
            await self._abandon(agent, answering)
            yield self._stalled(agent)
        finally:
            if not answering.done():
                await self._abandon(agent, answering)
            self._reader = None
            self._cost = reader.cost
            agent.listen(self._session, None)

    def update(self, update: dict[str, Any]) -> None:
        """Take a piece of news of the session."""
        if self._reader is not None:
            self._events.put_nowait(self._reader.take(update))

    def asked(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Answer a question of the program's. Raises `Declined`."""
        reader = self._reader
        if method == "session/request_permission":
            if reader is None or self._leaving:
                return CANCELLED
            call = params.get("toolCall")
            permitted, events = reader.question(call if isinstance(call, dict) else {})
            self._events.put_nowait(events)
            return chosen(params.get("options"), permitted=permitted)
        if method == "fs/write_text_file" and reader is not None:
            return self._write(reader, params)
        if method == _DRAIN:
            return {"messages": self._taken(), "hasQueuedPrompt": False}
        return None

    def _write(self, reader: TurnReader, params: dict[str, Any]) -> dict[str, Any]:
        self._events.put_nowait([])  # a sign of life
        path = str(params.get("path"))
        if not self._rules.permit("edit", (path,)):
            reader.deny(f"edit {path}")
            raise Declined(_DENIED, f"the agent is not permitted to edit {path}")
        return files.write(self._cwd, params)

    def interject(self, text: str) -> None:
        """Say something before the turn's next step if the program asks; else after the turn."""
        if text.strip():  # nothing else can be said
            self._said.append(encodable(text))

    def _taken(self) -> list[str]:
        said, self._said = self._said, []
        return said

    # Its end.

    async def _abandon(self, agent: AcpAgent, answering: asyncio.Future[Any]) -> None:
        """End a turn; the whole program, if that does not help, or if nobody else needs it."""
        self._leaving = True
        try:
            await agent.cancel(self._session)
            await asyncio.wait([answering], timeout=_ABANDON_SECONDS)
        finally:
            self._leaving = False
            is_alone = self._agents.users(self._key) == 1 and bool(agent.reopens)
            if not answering.done() or is_alone:
                # What it started and does not know of any more ends with it.
                await agent.end()
            await asyncio.wait([answering])
            if not answering.cancelled():
                answering.exception()  # nobody wants to know

    async def close(self) -> None:
        """Let go of the session."""
        agent, self._agent = self._agent, None
        if agent is not None and self._session and not self._kept:
            await agent.forget(self._session)
        self._let_go()

    def _let_go(self) -> None:
        if self._holds:
            self._holds = False
            self._agents.release(self._key, at_once=self._settings.fresh)


def _note_end(events: asyncio.Queue[list[Event] | None], _: asyncio.Future[Any]) -> None:
    events.put_nowait(None)
