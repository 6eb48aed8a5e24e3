"""One conversation with Codex: a thread of an app server, which another may go on with.

Owns the thread and the turn that runs in it. What is said of it is the `TurnReader`'s to
understand.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hmz_mp_worker import state
from hmz_mp_worker.backends.codex.reading import TurnReader
from hmz_mp_worker.backends.codex.server import AppServer, Refused
from hmz_mp_worker.backends.codex.settings import Settings, thread_settings
from hmz_mp_worker.backends.program import ProgramFailed
from hmz_mp_worker.backends.protocol import Failed, Opened, Result, encodable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hmz_mp_worker.backends.codex.servers import Servers
    from hmz_mp_worker.backends.protocol import Ask, Event

__all__ = ["CodexConversation"]

_ABANDON_SECONDS = 1.5  # that a server has to let go of a turn before it is ended itself
_ENDING_SECONDS = 0.5  # that commands have to end once they were told to


class CodexConversation(state.Resource):
    """A conversation.

    Its whole state: the name it is kept under, if it is kept; whether an earlier worker may have
    begun it, so that its thread is to be looked for, and whether a turn of it is known to have
    been answered, so that it has to be there; its thread, the server that has it open, and the
    thread's totals; the turn that is being read, whether it has begun, and what is to be said to
    it; texts that came too late for it.
    """

    def __init__(
        self,
        settings: Settings,
        cwd: str,
        servers: Servers,
        kept_as: str = "",
        *,
        sought: bool = False,
        known: bool = False,
    ) -> None:
        self._settings = settings
        self._cwd = cwd
        self._servers = servers
        self._name = f"hmz-mp {kept_as}" if kept_as else ""
        self._sought = sought
        self._known = known
        self._thread = ""
        self._server: AppServer | None = None
        self._total: dict[str, int] | None = None
        self._reader: TurnReader | None = None
        self._beginning: asyncio.Future[Any] | None = None
        self._begun = False
        self._early: list[str] = []
        self._late: list[str] = []

    async def turn(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """Take one turn; see `protocol.Conversation`."""
        for tries_left in (1, 0):
            self._begun = False
            try:
                async with self._servers.use(self._settings) as server:
                    async for event in self._turn_on(server, ask):
                        yield event
                return
            except ProgramFailed as error:
                yield Failed("died", str(error))
                return
            except Refused as error:
                if server.alive:
                    yield Failed("refused", str(error))
                    return
                if self._begun or not tries_left:
                    yield Failed("died", str(error), status=server.status, detail=server.tail)
                    return
            # Another turn has taken the server with it before this one had begun.

    async def _turn_on(self, server: AppServer, ask: Ask) -> AsyncGenerator[Event, None]:
        await self._open(server, ask)
        yield Opened(self._thread)
        reader = self._reader = TurnReader(self._settings.model, self._total, pursue=ask.pursue)
        try:
            text = encodable(ask.prompt)
            while True:
                await self._begin(server, reader, text, ask)
                async for event in self._read(server, reader):
                    self._known = self._known or (bool(self._name) and isinstance(event, Result))
                    is_end = isinstance(event, (Result, Failed))
                    if not is_end or isinstance(event, Failed) or not self._late:
                        yield event
                if isinstance(event, Failed) or not self._late:
                    return
                text = "\n\n".join(self._late)
                self._late.clear()
                reader = self._reader = TurnReader(self._settings.model, reader.total)
        except TimeoutError:
            seconds = self._settings.stall
            reason = f"nothing was heard of the program for {seconds:g} s"
            yield Failed("stalled", reason, detail=server.tail)
        finally:
            self._reader = None
            self._early.clear()
            self._late.clear()
            self._total = reader.total
            if not reader.over:
                await self._abandon(server, reader)

    # The thread.

    async def _open(self, server: AppServer, ask: Ask) -> None:
        """Have the thread open on this server. Raises `Refused`."""
        if self._server is server and self._thread:
            return
        _check_directory(self._cwd)
        if not self._name:  # such a thread ends with its server
            if ask.again:
                raise ProgramFailed("the program ended before it could be asked again")
            self._thread = ""
        self._server = server
        if not self._thread and self._sought:
            self._thread = await self._found(server)
        settings = thread_settings(self._settings, self._cwd, server.provider)
        if self._thread and await self._resumed(server, settings):
            return
        if self._known:
            self._known = self._sought = False  # the next turn begins it
            raise ProgramFailed(f"its conversation, {self._name!r}, is no longer there")
        wanted = {**settings, "ephemeral": not self._name and not ask.pursue}
        opened = await self._with_or_without_config(server, "thread/start", wanted)
        try:
            self._thread = str(opened["thread"]["id"])
        except (KeyError, TypeError):
            raise Refused("it began a thread without an id") from None
        self._total = dict.fromkeys(("inputTokens", "outputTokens", "cachedInputTokens"), 0)
        if self._name:
            await server.request("thread/name/set", {"threadId": self._thread, "name": self._name})

    async def _with_or_without_config(
        self, server: AppServer, method: str, params: dict[str, Any]
    ) -> Any:
        """Send a request; once more without its settings of the provider, if they are refused."""
        try:
            return await server.request(method, params)
        except Refused:
            if not server.alive or not params.pop("config", None):
                raise
            return await server.request(method, params)

    async def _resumed(self, server: AppServer, settings: dict[str, Any]) -> bool:
        """Have the thread opened again; return whether it is there."""
        wanted = {**settings, "threadId": self._thread, "excludeTurns": True}
        try:
            await self._with_or_without_config(server, "thread/resume", wanted)
        except Refused:
            if not server.alive:
                raise
            self._thread = ""
            return False
        self._total = None
        return True

    async def _found(self, server: AppServer) -> str:
        """Return the thread of this name, or an empty string when there is none."""
        listed = await server.request("thread/list", {"searchTerm": self._name, "limit": 5})
        threads = listed.get("data") if isinstance(listed, dict) else None
        for thread in threads if isinstance(threads, list) else []:
            if isinstance(thread, dict) and thread.get("name") == self._name:
                return str(thread.get("id"))
        return ""

    # The turn.

    async def _begin(self, server: AppServer, reader: TurnReader, text: str, ask: Ask) -> None:
        if ask.pursue:
            goal = {"threadId": self._thread, "objective": text, "status": "active"}
            self._beginning = server.ask("thread/goal/set", goal)
        else:
            params: dict[str, Any] = {"threadId": self._thread, "input": _input(text)}
            if self._settings.effort:
                params["effort"] = self._settings.effort
            if ask.schema:
                params["outputSchema"] = msgspec.json.decode(ask.schema)
            self._beginning = server.ask("turn/start", params)
        answer = await asyncio.shield(self._beginning)
        self._begun = True
        self._note_turn(reader, answer)
        early, self._early = self._early, []
        for one in early:
            self.interject(one)

    def _note_turn(self, reader: TurnReader, answer: Any) -> None:
        turn = answer.get("turn") if isinstance(answer, dict) else None
        if isinstance(turn, dict) and isinstance(turn.get("id"), str):
            reader.turn = turn["id"]

    async def _read(self, server: AppServer, reader: TurnReader) -> AsyncGenerator[Event, None]:
        inbox = server.inbox(self._thread)
        interrupted = False
        while True:
            message = await inbox.get(_ABANDON_SECONDS if interrupted else self._settings.stall)
            if message is None:
                reader.over = True
                raise Refused(await self._how_it_died(server))
            for event in reader.take(message):
                if isinstance(event, Failed):
                    event = self._with_wait(server, event)
                yield event
                if isinstance(event, (Result, Failed)):
                    return
            if reader.failure is not None and not interrupted:
                interrupted = True
                self._interrupt(server, reader)

    async def _how_it_died(self, server: AppServer) -> str:
        await server.exited(_ENDING_SECONDS)
        tail = server.tail
        last = next((one for one in reversed(tail.splitlines()) if one.strip()), "")
        how = f"the program ended with status {server.status} before the turn's end"
        return f"{how}: {last.strip()}" if last else how

    def _with_wait(self, server: AppServer, failed: Failed) -> Failed:
        """Add how long to wait, where a quota is used up and the service told when it is not."""
        if failed.kind != "limited" or failed.retry_after is not None:
            return failed
        resets = [
            window["resetsAt"] - time.time()
            for window in (server.rate_limits.get("primary"), server.rate_limits.get("secondary"))
            if isinstance(window, dict)
            and isinstance(window.get("resetsAt"), int)
            and isinstance(window.get("usedPercent"), (int, float))
            and window["usedPercent"] >= 100
        ]
        return msgspec.structs.replace(failed, retry_after=max(resets)) if resets else failed

    def _interrupt(self, server: AppServer, reader: TurnReader) -> None:
        if reader.turn:
            params = {"threadId": self._thread, "turnId": reader.turn}
            server.ask("turn/interrupt", params)

    def interject(self, text: str) -> None:
        """Say something to the turn that is running; to one of its own, if it is too late."""
        reader, server = self._reader, self._server
        if reader is None or server is None or not reader.turn:
            self._early.append(text)
            return
        text = encodable(text)
        said = server.ask(
            "turn/steer",
            {"threadId": self._thread, "expectedTurnId": reader.turn, "input": _input(text)},
        )

        def heard(answer: asyncio.Future[Any]) -> None:
            if not answer.cancelled() and answer.exception() is not None:
                self._late.append(text)

        said.add_done_callback(heard)

    # Its end.

    async def _abandon(self, server: AppServer, reader: TurnReader) -> None:
        """End a turn, and the commands that run for it; the whole server, if it does not help."""
        reader.over = True
        if not server.alive:
            return
        try:
            async with asyncio.timeout(_ABANDON_SECONDS):
                if reader.goal:
                    paused = {"threadId": self._thread, "status": "paused"}
                    await server.request("thread/goal/set", paused)
                elif self._beginning is not None and not reader.turn:
                    self._note_turn(reader, await asyncio.shield(self._beginning))
                self._interrupt(server, reader)
                await self._end_commands(server, reader)
        except (Refused, TimeoutError, asyncio.CancelledError):
            await server.end()

    async def _end_commands(self, server: AppServer, reader: TurnReader) -> None:
        """Wait for the end of a turn that was interrupted; its commands do not end with it."""
        inbox = server.inbox(self._thread)
        while (message := await inbox.get(_ABANDON_SECONDS)) is not None:
            reader.take(message)
            if message["method"] == "turn/completed":
                break
        await self._clean(server)
        with contextlib.suppress(TimeoutError):  # a version that does not tell of their ends
            while reader.running and (message := await inbox.get(_ENDING_SECONDS)) is not None:
                reader.take(message)

    async def _clean(self, server: AppServer) -> None:
        await server.request("thread/backgroundTerminals/clean", {"threadId": self._thread})

    async def close(self) -> None:
        """Close the thread, and end what it left running."""
        server, thread = self._server, self._thread
        self._server = None
        if server is None or not thread or not server.alive:
            return
        server.forget(thread)
        try:
            async with asyncio.timeout(_ABANDON_SECONDS):
                await self._clean(server)
                await server.request("thread/unsubscribe", {"threadId": thread})
        except (Refused, TimeoutError):
            return  # it goes with its server


def _check_directory(cwd: str) -> None:
    """Raise `ProgramFailed` for a directory that a thread cannot be in."""
    if not Path(cwd).is_dir():
        raise ProgramFailed(f"{cwd} is not a directory")
    try:
        cwd.encode()
    except UnicodeEncodeError:
        raise ProgramFailed(f"{cwd!a} is no UTF-8, and no directory for Codex") from None


def _input(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]
