"""Sessions of an agent program: opened, opened again, and set to what an agent's settings say.

Owns nothing: what a session is part of is its conversation's. Each function raises `Refused` and
`Ended`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hmz_mp_worker.backends.acp.agent import Refused
from hmz_mp_worker.backends.acp.choices import choices_of, described
from hmz_mp_worker.backends.acp.settings import modes_of
from hmz_mp_worker.backends.program import ProgramFailed

if TYPE_CHECKING:
    from hmz_mp_worker.backends.acp.agent import AcpAgent
    from hmz_mp_worker.backends.acp.choices import Choice
    from hmz_mp_worker.backends.acp.settings import Settings

__all__ = ["Offers", "check_directory", "new", "reopened", "set_up"]

Offers = dict[str, "Choice"]


async def new(agent: AcpAgent, cwd: str) -> tuple[str, dict[str, Any]]:
    """Begin a session in a directory; return its id, and what the program says of it."""
    opened = await agent.request("session/new", {"cwd": cwd, "mcpServers": []})
    session = opened.get("sessionId")
    if not isinstance(session, str) or not session:
        raise Refused(0, "it began a session without an id")
    return session, opened


async def reopened(agent: AcpAgent, cwd: str, session: str) -> dict[str, Any]:
    """Have a session opened again by a program that can do that; return what it says of it."""
    params = {"sessionId": session, "cwd": cwd, "mcpServers": []}
    return await agent.request(agent.reopens, params)


async def set_up(agent: AcpAgent, session: str, settings: Settings, offered: Offers) -> Offers:
    """Set a session to what is wanted of what is offered; return what is offered then."""
    for category, value in _wanted(settings, offered):
        choice = offered.get(category)
        what = category.replace("_", " ")
        if choice is None:
            raise Refused(0, f"the program has no {what} to be set")
        if choice.current == value:
            continue
        try:
            answer = await agent.request(*choice.request(session, value))
        except Refused as error:
            there = described(choice.values)
            said = f"the program has no {what} {value!r}: {error.message}; it has {there}"
            raise Refused(error.code, said, error.data) from None
        # Another model may think otherwise.
        offered = {**offered, category: choice._replace(current=value), **choices_of(answer)}
    return offered


def _wanted(settings: Settings, offered: Offers) -> list[tuple[str, str]]:
    mode = offered.get("mode")
    modes = [one for one in modes_of(settings) if mode is not None and one in mode.values]
    wanted = [
        ("model", settings.model),
        ("mode", settings.mode or (modes or [""])[0]),
        ("thought_level", settings.effort),
    ]
    return [(category, value) for category, value in wanted if value]


def check_directory(cwd: str) -> None:
    """Raise `ProgramFailed` for a directory that a session cannot be in."""
    if not Path(cwd).is_dir():  # not all programs look
        raise ProgramFailed(f"{cwd} is not a directory")
    try:
        cwd.encode()
    except UnicodeEncodeError:
        raise ProgramFailed(f"{cwd!a} is no UTF-8, and no directory for the protocol") from None
