"""One running app server of Codex: requests and their answers, and what is said of each thread.

Owns the program and its JSON-RPC; what is said means nothing here. A task reads for all threads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from hmz_mp_worker import state
from hmz_mp_worker.backends.codex.settings import Settings, arguments, environment
from hmz_mp_worker.backends.program import Program, ProgramFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["AppServer", "Inbox", "NoAppServer", "Refused"]

_START_SECONDS = 30.0  # on a busy machine, with plugins to load
_UNKNOWN = ("unrecognized subcommand", "unexpected argument", "not a terminal")
_FOR_EVER = 1e9  # seconds: each turn has a bound of its own

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder().decode

# Answers to what the server asks; there is nobody to ask.
_ANSWERS: Mapping[str, Any] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "applyPatchApproval": {"decision": "denied"},
    "execCommandApproval": {"decision": "denied"},
    "mcpServer/elicitation/request": {"action": "decline"},
    "item/tool/requestUserInput": {"answers": {}},
}


class Refused(Exception):
    """Raised when the server answers a request with an error, or has ended."""


class NoAppServer(ProgramFailed):
    """Raised when the program does not know what an app server is."""


class Inbox:
    """What was said of one thread and not taken yet. ``None`` is the end of the server."""

    def __init__(self) -> None:
        self._messages: deque[dict[str, Any] | None] = deque()
        self._reader: asyncio.Future[None] | None = None

    def put(self, message: dict[str, Any] | None) -> None:
        """Add a message."""
        self._messages.append(message)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def get(self, timeout: float) -> dict[str, Any] | None:
        """Return the next message. Raises `TimeoutError`."""
        if not self._messages:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(timeout):
                    await self._reader
            finally:
                self._reader = None
        return self._messages.popleft()


def _may_be_unheeded(answer: asyncio.Future[Any]) -> None:
    """Let nobody wait for an answer: who asked may have been cancelled meanwhile."""
    if not answer.cancelled():
        answer.exception()


class AppServer(state.Resource):
    """A server. Made by `start`; over when its program has ended.

    Its whole state: requests that were not answered, by id; the inboxes of the threads that are
    open; whether it has ended; the provider that its threads use by themselves.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._last_id = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._inboxes: dict[str, Inbox] = {}
        self._ended = False
        self._reading = asyncio.get_running_loop().create_task(self._read())
        self.provider = ""
        self.rate_limits: dict[str, Any] = {}

    @classmethod
    async def start(cls, settings: Settings) -> AppServer:
        """Start a server. Raises `ProgramFailed`."""
        program = await Program.start(
            arguments(settings), cwd=None, environment=environment(settings)
        )
        server = cls(program)
        try:
            await server._greet()
        except Refused as error:
            await server.end()
            is_unknown = any(one in program.tail for one in _UNKNOWN)
            failed = NoAppServer if is_unknown else ProgramFailed
            raise failed(f"its app server did not start: {error}") from error
        except TimeoutError as error:
            await server.end()
            raise ProgramFailed("its app server did not start: it said nothing") from error
        except BaseException:
            await server.end()
            raise
        return server

    async def _greet(self) -> None:
        client = {"name": "hmz_mp", "title": None, "version": "1"}
        capabilities = {"experimentalApi": True}  # for ending what a thread left running
        async with asyncio.timeout(_START_SECONDS):
            await self.request("initialize", {"clientInfo": client, "capabilities": capabilities})
            self._write({"method": "initialized"})
            try:
                read = await self.request("config/read", {})
                provider = read["config"].get("model_provider")
            except (Refused, KeyError, TypeError, AttributeError):
                return  # a version that does not tell
        self.provider = provider if isinstance(provider, str) else ""

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return not self._ended and self._program.alive

    @property
    def status(self) -> int | None:
        """Its exit status, once it has ended."""
        return self._program.status

    @property
    def tail(self) -> str:
        """The end of what it wrote beside its protocol."""
        return self._program.tail

    async def exited(self, seconds: float) -> None:
        """Wait for its exit, at most so long."""
        await self._program.exited(seconds)

    # Speaking.

    def ask(self, method: str, params: dict[str, Any]) -> asyncio.Future[Any]:
        """Send a request; return what will be its answer, or `Refused`."""
        self._last_id += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_may_be_unheeded)
        if self._ended:
            answer.set_exception(Refused(self._how_it_ended()))
        else:
            self._pending[self._last_id] = answer
            self._write({"method": method, "id": self._last_id, "params": params})
        return answer

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Return the answer to a request. Raises `Refused`."""
        return await self.ask(method, params)

    def inbox(self, thread: str) -> Inbox:
        """Return where what is said of a thread comes in."""
        return self._inboxes.setdefault(thread, Inbox())

    def forget(self, thread: str) -> None:
        """Drop what is said of a thread from now on."""
        self._inboxes.pop(thread, None)

    def _write(self, message: dict[str, Any]) -> None:
        self._program.write(_encode(message))

    # Hearing.

    async def _read(self) -> None:
        try:
            while (data := await self._program.line(_FOR_EVER)) is not None:
                try:
                    message = _decode(data)
                except (msgspec.MsgspecError, RecursionError):
                    message = None
                if isinstance(message, dict):
                    self._take(message)
                else:
                    self._program.note(data[:1000] + b"\n")
        except ProgramFailed as error:
            self._program.note(f"{error}\n".encode())
        finally:
            await self._program.exited(1.0)
            self._end_reading()

    def _end_reading(self) -> None:
        self._ended = True
        pending, self._pending = self._pending, {}
        for answer in pending.values():
            if not answer.done():
                answer.set_exception(Refused(self._how_it_ended()))
        for inbox in self._inboxes.values():
            inbox.put(None)

    def _how_it_ended(self) -> str:
        last = next((one for one in reversed(self.tail.splitlines()) if one.strip()), "")
        status = self._program.status
        how = (
            "the program closed its output" if status is None else f"it ended with status {status}"
        )
        return f"{how}: {last.strip()}" if last else how

    def _take(self, message: dict[str, Any]) -> None:
        number, method = message.get("id"), message.get("method")
        if method is None:
            self._take_answer(number, message)
            return
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if number is not None:
            self._decline(number, str(method))
        if method == "account/rateLimits/updated" and isinstance(params.get("rateLimits"), dict):
            self.rate_limits = params["rateLimits"]
        thread = params.get("threadId") or params.get("conversationId")
        inbox = self._inboxes.get(thread) if isinstance(thread, str) else None
        if inbox is not None:
            inbox.put({"method": method, "params": params})

    def _take_answer(self, number: Any, message: dict[str, Any]) -> None:
        answer = self._pending.pop(number, None) if isinstance(number, int) else None
        result = message.get("result")
        thread = result.get("thread") if isinstance(result, dict) else None
        if isinstance(thread, dict) and isinstance(thread.get("id"), str):
            self.inbox(thread["id"])  # what is said of it may follow at once
        if answer is None or answer.done():
            return
        error = message.get("error")
        if error is None:
            answer.set_result(result)
        else:
            said = error.get("message") if isinstance(error, dict) else None
            answer.set_exception(Refused(str(said or error)))

    def _decline(self, number: Any, method: str) -> None:
        answer = _ANSWERS.get(method)
        if answer is not None:
            self._write({"id": number, "result": answer})
        else:
            error = {"code": -32601, "message": f"there is nobody to answer {method}"}
            self._write({"id": number, "error": error})

    # Its end.

    async def close(self) -> None:
        """End it, politely."""
        await self._program.close()
        await asyncio.wait([self._reading])

    async def end(self) -> None:
        """End it and all that its threads have started, now."""
        await self._program.end()
        await asyncio.wait([self._reading])
