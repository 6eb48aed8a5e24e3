"""A conversation with a Codex that has no app server: one ``codex exec`` for each turn.

Owns that program, and goes on with a thread by its id. What its lines mean is the `ExecReader`'s.
A turn cannot be told anything while it runs; what is said then is said in a turn that follows.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hmz_mp_worker import state
from hmz_mp_worker.backends.codex.settings import Settings, environment, exec_arguments
from hmz_mp_worker.backends.program import Program, ProgramFailed
from hmz_mp_worker.backends.protocol import (
    Did,
    Event,
    Failed,
    Opened,
    Result,
    Spent,
    Text,
    Usage,
    as_count,
    encodable,
    failure_of_status,
    judge,
    status_in,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hmz_mp_worker.backends.protocol import Ask

__all__ = ["ExecConversation", "ExecReader"]

_EXIT_SECONDS = 5.0  # to exit, after its last line
_NOT_PERMITTED = "rejected"  # in what it writes to stderr, where it says nothing of it otherwise

_decode = msgspec.json.Decoder().decode


class ExecReader:
    """Reads one turn: lines in, events out. Its state is what was heard."""

    def __init__(self, model: str, before: Usage) -> None:
        self.thread = ""
        self.total = before
        self.answer = ""
        self.error: Failed | None = None
        self.completed = False
        self.denials: list[str] = []
        self._model = model

    def take(self, line: Any) -> list[Event]:
        """Return what a line means."""
        kind = line.get("type") if isinstance(line, dict) else None
        if kind == "thread.started":
            self.thread = str(line.get("thread_id"))
            return [Opened(self.thread)]
        if kind in ("item.started", "item.completed"):
            item = line.get("item")
            return self._item(kind, item) if isinstance(item, dict) else []
        if kind == "turn.completed":
            self.completed = True
            return self._used(line.get("usage"))
        if kind == "turn.failed":
            error = line.get("error")
            said = error.get("message") if isinstance(error, dict) else error
            self.error = failure_of_status(status_in(str(said)), str(said))
        return []

    def _item(self, kind: str, item: dict[str, Any]) -> list[Event]:
        what = item.get("type")
        if what == "agent_message" and kind == "item.completed":
            self.answer = str(item.get("text", ""))
            return [Text(self.answer)]
        if item.get("status") == "declined":
            self.denials.append(str(what))
        if kind == "item.started" and what == "command_execution":
            return [Did(" ".join(f"command {item.get('command')}".split())[:120])]
        return []

    def _used(self, usage: Any) -> list[Event]:
        usage = usage if isinstance(usage, dict) else {}
        before = self.total
        self.total = now = Usage(
            self._model,
            as_count(usage.get("input_tokens")),
            as_count(usage.get("output_tokens")),
            as_count(usage.get("cached_input_tokens")),
        )
        spent = Usage(
            self._model,
            max(0, now.input_tokens - before.input_tokens),
            max(0, now.output_tokens - before.output_tokens),
            max(0, now.cached_tokens - before.cached_tokens),
        )
        return [Spent((spent,))] if spent.input_tokens or spent.output_tokens else []

    def end(self, status: int | None, tail: str) -> Result | Failed:
        """Return how the turn ended, whose program exited with this status."""
        lines = [line for line in tail.splitlines() if line.strip()]
        denials = [*self.denials, *(line for line in lines if _NOT_PERMITTED in line)]
        error = self.error
        if error is None and not self.completed:
            said = f": {lines[-1].strip()}" if lines else ""
            reason = f"the program ended with status {status} before the turn's end{said}"
            error = Failed("died", reason, status=status, detail=tail)
        return judge(error=error, status=status, denials=denials, answer=self.answer, detail=tail)


class ExecConversation(state.Resource):
    """A conversation.

    Its whole state: whether it is kept; its thread and that thread's totals; the program of the
    turn that runs; and what was said to that.
    """

    def __init__(
        self, settings: Settings, cwd: str, kept_as: str = "", *, known: bool = False
    ) -> None:
        self._settings = settings
        self._cwd = cwd
        self._lost = bool(kept_as) and known
        self._thread = ""
        self._total = Usage(settings.model)
        self._program: Program | None = None
        self._said: list[str] = []

    async def turn(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """Take one turn; see `protocol.Conversation`."""
        if self._lost:
            self._lost = False
            reason = "its conversation was lost with its worker: this Codex has no app server"
            yield Failed("died", reason)
            return
        text = ask.prompt
        while True:
            last: Event | None = None
            async for last in self._run(text, ask.schema):
                is_end = isinstance(last, (Result, Failed))
                if not is_end or isinstance(last, Failed) or not self._said:
                    yield last
            if isinstance(last, Failed) or not self._said:
                self._said.clear()
                return
            text = "\n\n".join(self._said)
            self._said.clear()

    async def _run(self, text: str, schema: str) -> AsyncGenerator[Event, None]:
        with tempfile.TemporaryDirectory(prefix="hmz-mp-schema-") as folder:
            file = Path(folder, "schema.json") if schema else None
            if file is not None:
                file.write_text(schema)
            argv = exec_arguments(self._settings, self._thread, str(file) if file else "")
            try:
                program = self._program = await Program.start(
                    argv, cwd=self._cwd, environment=environment(self._settings)
                )
            except ProgramFailed as error:
                yield Failed("died", str(error))
                return
            try:
                program.feed(encodable(text).encode())
                async for event in self._read(program):
                    yield event
            finally:
                self._program = None
                await program.end()

    async def _read(self, program: Program) -> AsyncGenerator[Event, None]:
        reader = ExecReader(self._settings.model, self._total)
        try:
            while (data := await program.line(self._settings.stall)) is not None:
                try:
                    line = _decode(data)
                except (msgspec.MsgspecError, RecursionError):
                    program.note(data[:1000] + b"\n")
                    continue
                for event in reader.take(line):
                    yield event
        except TimeoutError:
            reason = f"nothing was heard of the program for {self._settings.stall:g} s"
            yield Failed("stalled", reason, detail=program.tail)
            return
        except ProgramFailed as error:
            yield Failed("died", str(error), detail=program.tail)
            return
        await program.exited(_EXIT_SECONDS)
        self._thread = reader.thread or self._thread
        self._total = reader.total
        yield reader.end(program.status, program.tail)

    def interject(self, text: str) -> None:
        """Say something in a turn that follows the one that runs."""
        self._said.append(text)

    async def close(self) -> None:
        """End the program of a turn that runs."""
        if self._program is not None:
            await self._program.end()
