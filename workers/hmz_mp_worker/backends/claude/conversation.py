"""One conversation with a running Claude Code: turns, interjections, a new one, its end.

Owns the program of the conversation and starts another when it has to. What is read is the
`TurnReader`'s to understand.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import msgspec

from hmz_mp_worker import state
from hmz_mp_worker.backends.claude.lines import Line, Totals, TurnReader, read_line
from hmz_mp_worker.backends.claude.settings import Settings, arguments, environment
from hmz_mp_worker.backends.program import Program, ProgramFailed
from hmz_mp_worker.backends.protocol import Failed, Result, encodable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hmz_mp_worker.backends.protocol import Ask, Event

__all__ = ["ClaudeConversation"]

_ANSWER_SECONDS = 5.0  # for what the program does by itself, without a model
_IN_USE = "is already in use"

_encode = msgspec.json.encode


class ClaudeConversation(state.Resource):
    """A conversation. Its program is started by its first turn, and by any that finds none.

    Its whole state: the id it is kept under, if it is kept; whether the program knows that id;
    the program, its totals and the schema it was started with; the turn that is being read, and
    what was said to it before it could be; whether the last turn came to its end in order; when the
    program was started, until it is heard, and how long that took.
    """

    def __init__(
        self, settings: Settings, cwd: str | None, kept_as: str = "", *, known: bool = False
    ) -> None:
        self._settings = settings
        self._cwd = cwd
        self._id = kept_as
        self._known = known
        self._home = kept_as or str(uuid.uuid4())
        self._program: Program | None = None
        self._schema = ""
        self._totals: Totals = {}
        self._reader: TurnReader | None = None
        self._early: list[str] = []
        self._used = ""  # the conversation that the program is in, once a turn was taken
        self._in_order = True
        self._launched = 0.0
        self.start_seconds: float | None = None

    @property
    def alive(self) -> bool:
        """Whether its program runs."""
        return self._program is not None and self._program.alive

    @property
    def reusable(self) -> bool:
        """Whether its program can be used for another conversation."""
        return self.alive and self._in_order and not self._id

    async def turn(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """Take one turn; see `protocol.Conversation`."""
        self._in_order = False
        try:
            used_before = await self._start(ask)
            async for event in self._turn(ask, used_before):
                yield event
        except ProgramFailed as error:
            yield Failed("died", str(error), detail=self._tail())
        except TimeoutError:
            seconds = self._settings.stall
            reason = f"nothing was heard of the program for {seconds:g} s"
            yield Failed("stalled", reason, detail=self._tail())
        finally:
            self._reader = None
            self._early.clear()
            if not self._in_order:
                await self.end()

    async def _start(self, ask: Ask) -> bool:
        """Have a program at hand, in the right conversation; return whether it took turns."""
        program = self._program
        if program is not None and program.alive and self._schema == ask.schema:
            goes_on = self._id or ask.again or not self._used
            if goes_on or await self._begin_anew(program):
                return not ask.again
            await self.end()
        if ask.again and not self._id:
            raise ProgramFailed("the program ended before it could be asked again")
        await self.close()
        await self._launch(ask)
        return False

    async def _launch(self, ask: Ask) -> None:
        which: tuple[str, ...] = ()
        if self._id:
            which = ("--resume" if self._known else "--session-id", self._id)
        settings = self._settings
        argv = arguments(settings, ask, which, kept=bool(self._id))
        self._program = await Program.start(
            argv, cwd=self._cwd, environment=environment(settings, self._home)
        )
        self._launched = time.monotonic()
        self._schema = ask.schema
        self._totals = {}
        self._used = ""

    async def _turn(self, ask: Ask, used_before: bool) -> AsyncGenerator[Event, None]:
        while True:
            program = self._program
            assert program is not None
            reader = TurnReader(self._totals, schema=bool(ask.schema), partial=bool(self._id))
            self._reader = reader
            program.drop_lines()
            self._say(self._words(ask))
            early, self._early = self._early, []
            for text in early:
                self.interject(text)
            again = False
            async for event in self._read(program, reader):
                if isinstance(event, Failed) and event.kind == "died":
                    # One that ended since its last turn has not begun with this one.
                    again = self._mistaken(event) or (used_before and not reader.conversation)
                if again:
                    used_before = False
                else:
                    yield event
            if not again:
                return
            await self.close()
            await self._launch(ask)

    def _words(self, ask: Ask) -> str:
        if ask.pursue:
            return f"/goal {ask.prompt}"
        # What stands first decides whether the program takes it for a command of its own.
        is_command = ask.prompt.startswith("/") and not self._settings.commands
        return f" {ask.prompt}" if is_command else ask.prompt

    def _say(self, text: str) -> str:
        """Write a message for the program; return its id, under which it is heard of again."""
        id = str(uuid.uuid4())  # noqa: A001  # never used twice: the program drops what it knows
        message = {
            "type": "user",
            "message": {"role": "user", "content": encodable(text)},
            "parent_tool_use_id": None,
            "session_id": "",
            "uuid": id,
        }
        assert self._program is not None
        self._program.write(_encode(message))
        return id

    async def _read(self, program: Program, reader: TurnReader) -> AsyncGenerator[Event, None]:
        interrupted = False
        while True:
            patience = _ANSWER_SECONDS if interrupted else self._settings.stall
            try:
                line = await self._line(program, patience)
            except TimeoutError:
                if not interrupted:
                    raise
                line = None  # it would not let go of a turn that has failed already
            if line is None:
                yield reader.failure or await self._died(program)
                return
            for event in reader.take(line):
                if isinstance(event, (Result, Failed)):
                    self._note_end(reader)
                yield event
                if isinstance(event, (Result, Failed)):
                    return
            if reader.failure is not None and not interrupted:
                interrupted = True
                request = {"subtype": "interrupt"}
                id = str(uuid.uuid4())  # noqa: A001  # the protocol's word
                program.write(
                    _encode({"type": "control_request", "request_id": id, "request": request})
                )

    async def _line(self, program: Program, patience: float) -> Line | None:
        """Return the program's next line; what is none of its protocol's is kept beside it."""
        while True:
            data = await program.line(patience)
            if data is None:
                return None
            if self._launched:
                self.start_seconds = time.monotonic() - self._launched
                self._launched = 0.0
            line = read_line(data)
            if line is not None:
                return line
            program.note(data[:1000] + b"\n")

    def _note_end(self, reader: TurnReader) -> None:
        self._totals = reader.totals
        self._used = reader.conversation or self._used
        self._known = not reader.not_found
        self._in_order = not reader.not_found and (not reader.background or bool(self._id))

    def _mistaken(self, failed: Failed) -> bool:
        """Tell whether a turn failed because the program knows its conversation, and note that.

        It does when a turn had begun and not ended as its program, or an earlier worker, was lost.
        """
        mistaken = bool(self._id) and not self._known and _IN_USE in failed.detail
        self._known = self._known or mistaken
        return mistaken

    async def _died(self, program: Program) -> Failed:
        await program.exited(_ANSWER_SECONDS)
        status = program.status
        tail = program.tail
        last = next((one for one in reversed(tail.splitlines()) if one.strip()), "")
        how = "closed its output" if status is None else f"ended with status {status}"
        reason = f"the program {how} before the turn's end"
        if last:
            reason = f"{reason}: {last.strip()}"
        return Failed("died", reason, status=status, detail=tail)

    async def _begin_anew(self, program: Program) -> bool:
        """Have the program begin a new conversation; return whether it did.

        It did if its id is another one: then nothing of the last conversation is in it.
        """
        reader = TurnReader(self._totals, schema=False, partial=False)
        program.drop_lines()
        self._say("/clear")
        before = self._used
        while True:
            try:
                line = await self._line(program, _ANSWER_SECONDS)
            except TimeoutError:
                return False
            if line is None:
                return False
            reader.take(line)
            if line.type == "result":
                self._totals = reader.totals
                return bool(reader.conversation) and reader.conversation != before

    def interject(self, text: str) -> None:
        """Say something to the turn that is running."""
        if self._reader is None:
            self._early.append(text)
        elif self._program is not None:
            self._reader.unheard.add(self._say(text))

    def _tail(self) -> str:
        return self._program.tail if self._program is not None else ""

    async def close(self) -> None:
        """End the program, politely."""
        program, self._program = self._program, None
        if program is not None:
            await program.close()

    async def end(self) -> None:
        """End the program and what it started, now."""
        program, self._program = self._program, None
        if program is not None:
            await program.end()
