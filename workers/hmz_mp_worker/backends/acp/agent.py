"""One running agent program, spoken to through the protocol's own SDK.

Owns the program, the SDK's connection over its lines, and which session hears what. The only module
that names the SDK, which is imported on first need. What is said of a session means nothing here.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Protocol

from hmz_mp_worker import state
from hmz_mp_worker.backends.acp.permissions import CANCELLED
from hmz_mp_worker.backends.acp.settings import Settings, environment
from hmz_mp_worker.backends.program import Program, ProgramFailed
from hmz_mp_worker.backends.protocol import encodable

if TYPE_CHECKING:
    from acp.connection import Connection

__all__ = ["AcpAgent", "Declined", "Ended", "LoginFailed", "Refused", "Session"]

_START_SECONDS = 60.0  # OpenCode takes up to 9 s, and the machine may be busy
_CLOSE_SECONDS = 1.5  # for what is asked of a program as a session ends
_EXIT_SECONDS = 1.0  # to exit, once its output has ended
_FOR_EVER = 1e9  # seconds: each turn has a bound of its own
_UNKNOWN = -32601

# To write files is offered, so that the rungs hold for programs that do it without a question. To
# read is not: they do by themselves, and Gemini CLI takes an error for a file that is there, and
# then writes no new one. Nor are terminals: programs end their commands when they are told to.
_CAPABILITIES = {"fs": {"readTextFile": False, "writeTextFile": True}, "terminal": False}


class Refused(Exception):
    """Raised when the program answers a request with an error; ``data`` is what it adds."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data


class Declined(Exception):
    """Raised by a session for what the program will not be given."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class Ended(Exception):
    """Raised when the program has ended, or ends before it has answered."""


class LoginFailed(ProgramFailed):
    """Raised when the program does not let us in."""


class Session(Protocol):
    """Hears what a program says of one session."""

    def update(self, update: dict[str, Any]) -> None:
        """Take a piece of news."""

    def asked(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Answer a question; ``None`` for one that is not known. Raises `Declined`."""


class _Lines:
    """The program's lines as the SDK's `Transport`: a message each."""

    def __init__(self, program: Program) -> None:
        self._program = program

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message."""
        self._program.write(json.dumps(message, separators=(",", ":")).encode())

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, or ``None`` at the end. What is none is kept beside them."""
        try:
            while (data := await self._program.line(_FOR_EVER)) is not None:
                message = _message(data)
                if message is not None:
                    return message
                self._program.note(data[:1000] + b"\n")
        except ProgramFailed as error:
            self._program.note(f"{error}\n".encode())
        return None

    async def close(self) -> None:
        """Do nothing: the program is ended by who started it."""


def _message(data: bytes) -> dict[str, Any] | None:
    """Return a line as a message that the SDK can take, which trusts its peer."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("id"), (int, str, type(None))):
        return None
    if message.get("id") is None:
        message.pop("id", None)
    if "error" in message:
        error = message["error"]
        error = dict(error) if isinstance(error, dict) else {"message": str(error)}
        code = error.get("code")
        message["error"] = error | {"code": code if isinstance(code, int) else 0}
    return message


class AcpAgent(state.Resource):
    """A running program. Made by `start`; over once `end` or `close` has returned.

    Its whole state: the program, the connection over it, the sessions that listen, and what it
    said of itself.
    """

    def __init__(self, program: Program, connect: type[Connection]) -> None:
        self._program = program
        self._sessions: dict[str, Session] = {}
        self._connection = connect(self._handle, _Lines(program))
        self._abilities: dict[str, Any] = {}
        self._logins: list[Any] = []

    @classmethod
    async def start(cls, settings: Settings) -> AcpAgent:
        """Start a program. Raises `ProgramFailed`."""
        from acp.connection import Connection  # before there is a program that had to be ended

        program = await Program.start(settings.command, cwd=None, environment=environment(settings))
        agent = cls(program, Connection)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await agent._greet(settings)
        except (Refused, Ended) as error:
            await agent.end()
            reason = error.message if isinstance(error, Refused) else str(error)
            raise ProgramFailed(f"it does not speak the Agent Client Protocol: {reason}") from error
        except TimeoutError as error:
            await agent.end()
            raise ProgramFailed(
                f"it said nothing of the Agent Client Protocol in {_START_SECONDS:g} s"
            ) from error
        except BaseException:
            await agent.end()
            raise
        return agent

    async def _greet(self, settings: Settings) -> None:
        from acp.meta import PROTOCOL_VERSION

        answer = await self.request(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "clientCapabilities": _CAPABILITIES,
                "clientInfo": {"name": "hmz_mp", "title": "hmz_mp", "version": "1"},
            },
        )
        version = answer.get("protocolVersion")
        if version != PROTOCOL_VERSION:
            raise Refused(0, f"it speaks version {version} of it, not {PROTOCOL_VERSION}")
        self._abilities = _dict(answer.get("agentCapabilities"))
        logins = answer.get("authMethods")
        self._logins = logins if isinstance(logins, list) else []
        if settings.auth:
            try:
                await self.request("authenticate", {"methodId": settings.auth})
            except Refused as error:
                raise LoginFailed(
                    f"auth={settings.auth} was refused: {error.message}; it has {self._ids()}"
                ) from error

    # What it is.

    @property
    def alive(self) -> bool:
        """Whether it runs, and can be spoken to."""
        return self._program.alive

    @property
    def status(self) -> int | None:
        """Its exit status, once it has ended."""
        return self._program.status

    @property
    def tail(self) -> str:
        """The end of what it wrote beside the protocol."""
        return self._program.tail

    @property
    def reopens(self) -> str:
        """The request by which it goes on with a session; empty if it cannot."""
        if "resume" in self._of_sessions():  # without saying all of it again
            return "session/resume"
        return "session/load" if self._abilities.get("loadSession") is True else ""

    @property
    def ways_in(self) -> str:
        """How one logs in to it, in its own words."""
        ways = [one for one in self._logins if isinstance(one, dict)]
        return "; ".join(str(one.get("description") or one.get("name")) for one in ways)

    def _ids(self) -> str:
        return ", ".join(str(one.get("id")) for one in self._logins if isinstance(one, dict))

    def _of_sessions(self) -> dict[str, Any]:
        found = _dict(self._abilities.get("sessionCapabilities"))
        return {name: value for name, value in found.items() if value is not None}

    # Speaking.

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. Raises `Refused` and `Ended`."""
        from acp import RequestError

        try:
            return _dict(await self._connection.send_request(method, params))
        except RequestError as error:
            raise Refused(error.code, encodable(str(error)), error.data) from None
        except ConnectionError:
            await self._program.exited(_EXIT_SECONDS)
            raise Ended(self._how_it_ended()) from None

    def _how_it_ended(self) -> str:
        last = next((one for one in reversed(self.tail.splitlines()) if one.strip()), "")
        status = self.status
        how = "closed its output" if status is None else f"ended with status {status}"
        return f"the program {how}: {last.strip()}" if last else f"the program {how}"

    async def cancel(self, session: str) -> None:
        """Tell it to let go of a turn."""
        try:
            await self._connection.send_notification("session/cancel", {"sessionId": session})
        except ConnectionError:
            return

    async def forget(self, session: str) -> None:
        """Tell it that a session is not gone on with, if it wants to know."""
        if "close" in self._of_sessions() and self.alive:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self.request("session/close", {"sessionId": session})
            except (Refused, Ended, TimeoutError):
                return

    # Hearing.

    def listen(self, session: str, listener: Session | None) -> None:
        """Have what is said of a session told to ``listener`` from now on; ``None`` drops it."""
        if listener is None:
            self._sessions.pop(session, None)
        else:
            self._sessions[session] = listener

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        # It never waits: the SDK has a task for each message, and begins them in order.
        from acp import RequestError

        params = _dict(params)
        named = params.get("sessionId")
        session = self._sessions.get(named) if isinstance(named, str) else None
        if is_notification:
            if session is not None and method == "session/update":
                session.update(_dict(params.get("update")))
            return None
        if session is None and method == "session/request_permission":
            return CANCELLED  # of a turn that has ended
        try:
            answer = session.asked(method, params) if session is not None else None
        except Declined as error:
            raise RequestError(error.code, error.message) from None
        if answer is None:
            raise RequestError(_UNKNOWN, f"there is nobody to answer {method}")
        return answer

    # Its end.

    async def close(self) -> None:
        """End it, politely."""
        try:
            await self._program.close()
        finally:
            await self._connection.close()

    async def end(self) -> None:
        """End it and all that it has started, now."""
        try:
            await self._program.end()
        finally:
            await self._connection.close()


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
