"""`Dispatcher`: the tool calls of one model turn, run together, answered in order.

Owns which bounds hold for which tool, and what a call's end is told the model as. The pool keeps
the bounds; what calls and results look like is in ``calls``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import random
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import anyio.to_thread

from hmz_mp import portal
from hmz_mp.core.ambient import current_pool
from hmz_mp.core.breaker import Breaker, Busy
from hmz_mp.core.gates import Gate
from hmz_mp.core.limits import Limit, check_width
from hmz_mp.dispatch.busy import busy_of
from hmz_mp.dispatch.calls import read_calls, shaped
from hmz_mp.dispatch.describing import by_name, schemas
from hmz_mp.dispatch.keeping import Keeper
from hmz_mp.dispatch.rendering import NotJson, cut, text_of
from hmz_mp.errors import HmzMpError, PoolClosed, TurnFailed
from hmz_mp.tools import BadArguments, Tool

if TYPE_CHECKING:
    import os

    from hmz_mp.core.caller import Caller
    from hmz_mp.core.pool import Pool
    from hmz_mp.dispatch.calls import ToolCall
    from hmz_mp.dispatch.describing import Flavour

__all__ = ["Answer", "Dispatcher"]

LONGEST = 20_000  # characters of a result; about 5,000 tokens
_LONGEST_ERROR = 2_000
Bound = int | str | Limit


class Answer(NamedTuple):
    """What a model is told of one call."""

    text: str
    is_error: bool = False


class Dispatcher:
    """Carries out the tool calls of model turns.

    ``tools`` are ``@tool`` functions, of which each has its own ``at_once``, ``timeout`` and
    ``retries``; a plain function becomes one. ``at_once``: how many calls may be in flight, of all
    of them (0: any number). ``limits``: for a tool's name, or a tuple of names that share it, how
    many of its calls may be, or a limit of the pool or its name. ``timeout``: seconds for a call
    of a tool that has none of its own, from when it begins; ``deadline``: from when it was asked
    for, whatever it waits for. ``longest``: characters of a result, after which it is cut
    and the whole written to a file: in the run's directory, or in ``directory``, or in one for
    temporary files.

    With ``breaker`` the limits have a circuit breaker: a call that fails as its service is too
    busy (`busy_of`, or a function like it) is put back, and whoever shares the limit waits.

    Raises `TypeError` for a tool that cannot be described to a model, `ValueError` for two of one
    name, for a bound that makes no sense, and for one of a tool that there is not.
    """

    # The whole state: the tools, their bounds, and what submits each tool's calls in the last pool.
    def __init__(
        self,
        tools: Iterable[Tool[..., Any] | Callable[..., Any]],
        *,
        at_once: int = 8,
        limits: Mapping[str | tuple[str, ...], Bound] | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        longest: int = LONGEST,
        directory: str | os.PathLike[str] | None = None,
        breaker: bool | Callable[[BaseException], Busy | None] = False,
    ) -> None:
        self._tools = by_name(tools)
        for one in self._tools.values():
            one.signature.schema()  # raises for what no model can be told
        self._at_once = check_width("at_once", at_once)
        for name, seconds in (("timeout", timeout), ("deadline", deadline)):
            if seconds is not None and not 0 < seconds < math.inf:
                raise ValueError(f"{name} is a number of seconds, not {seconds!r}")
        if longest < 1:
            raise ValueError(f"longest is a number of characters, not {longest}")
        self._timeout = timeout
        self._deadline = deadline
        self._longest = longest
        self._keeper = Keeper(directory)
        self._is_busy = busy_of if breaker is True else breaker or None
        self._limits = self._checked(limits or {})
        self._callers: tuple[Pool, dict[str, Caller]] | None = None

    def __repr__(self) -> str:
        return f"<Dispatcher of {', '.join(self._tools) or 'no tools'}, {self._at_once} at once>"

    @property
    def tools(self) -> list[Tool[..., Any]]:
        """The tools, in order."""
        return list(self._tools.values())

    def schemas(self, flavour: Flavour = "openai") -> list[dict[str, Any]]:
        """Return what ``tools=`` of a service takes; ``openai`` is for its chat completions."""
        return schemas(self._tools.values(), flavour)

    async def run(self, calls: Iterable[Any] | None) -> list[dict[str, Any]]:
        """Carry out the calls of one model turn and return their results, in the same order.

        ``calls`` are ``message.tool_calls`` or ``response.output`` of OpenAI's, or
        ``message.content`` of Anthropic's, as objects or dicts; the results are ``tool`` messages,
        ``function_call_output`` items or ``tool_result`` blocks. A call that fails, does not fit
        its tool, or is for none, has a result that says so; nothing is raised for it.
        """
        read = read_calls(calls)
        answers = await self.answers(read)
        return [
            shaped(call, one.text, is_error=one.is_error)
            for call, one in zip(read, answers, strict=True)
        ]

    async def answers(self, calls: Iterable[ToolCall]) -> list[Answer]:
        """Carry out calls that are read already; return what to tell of each, in order."""
        return await portal.on_a_pool(self._answers, list(calls))

    async def _answers(self, calls: list[ToolCall]) -> list[Answer]:
        pool = current_pool()
        if pool is None:
            raise PoolClosed("there is no pool around these calls")
        callers = self._callers_in(pool)
        answers: list[Answer | None] = [None] * len(calls)
        closed: list[PoolClosed] = []

        async def carry_out(place: int, call: ToolCall) -> None:
            try:
                answers[place] = await self._answer(call, callers)
            except PoolClosed as error:  # no fault of the call's
                closed.append(error)

        async with anyio.create_task_group() as group:
            for place, call in enumerate(calls):
                group.start_soon(carry_out, place, call)
        if closed:
            raise closed[0]
        return [one or _error("the call was cancelled") for one in answers]

    async def _answer(self, call: ToolCall, callers: Mapping[str, Caller]) -> Answer:
        tool = self._tools.get(call.name)
        if tool is None:
            there = ", ".join(self._tools) or "none"
            return _error(f"there is no tool {call.name!r}; there are: {there}")
        try:
            args, kwargs = tool.signature.read(_given(call, tool))
            value = await tool.answer_in(callers[call.name], args, kwargs)
            text = text_of(value)
        except BadArguments as error:
            return _error(str(error))
        except NotJson as error:
            return _error(f"{call.name} has run, and returned {error}")
        except PoolClosed:
            raise
        except Exception as error:
            return _error(_said_by(error))
        if len(text) > self._longest:
            text = await anyio.to_thread.run_sync(partial(self._shortened, call.name, text))
        return Answer(text)

    def _shortened(self, name: str, text: str) -> str:
        try:
            where = f"the whole is in {self._keeper.keep(name, text)}"
        except OSError as error:
            where = f"the whole could not be written: {error.strerror or error}"
        return cut(text, self._longest, where)

    # Bounds.

    def _checked(
        self, limits: Mapping[str | tuple[str, ...], Bound]
    ) -> dict[tuple[str, ...], Bound]:
        found = {}
        for key, bound in limits.items():
            names = (key,) if isinstance(key, str) else tuple(key)
            for name in names:
                if name not in self._tools:
                    there = ", ".join(self._tools) or "none"
                    raise ValueError(f"limits: there is no tool {name!r}; there are: {there}")
            if not isinstance(bound, (str, Limit)):
                check_width(f"the limit of {', '.join(names)}", bound)
            found[names] = bound
        return found

    def _callers_in(self, pool: Pool) -> dict[str, Caller]:
        """Return what submits each tool's calls: all under one gate, and under its limits."""
        if self._callers is not None and self._callers[0] is pool:
            return self._callers[1]
        base = pool.options(
            at_once=self._at_once,
            timeout=self._timeout,
            deadline=self._deadline,
            is_busy=self._is_busy,
            name="dispatcher",
        )
        found = dict.fromkeys(self._tools, base)
        for names, bound in self._limits.items():
            limit = Limit(_gate(names, bound)) if isinstance(bound, int) else bound
            for name in names:
                found[name] = found[name].options(limit=limit)
        callers = {name: self._tools[name].caller_in(caller) for name, caller in found.items()}
        self._callers = pool, callers
        return callers


def _gate(names: tuple[str, ...], at_once: int) -> Gate:
    return Gate(" and ".join(names), at_once, 0, Breaker(random))


def _given(call: ToolCall, tool: Tool[..., Any]) -> Any:
    if call.free and len(names := tool.signature.names) == 1:
        return {names[0]: call.arguments}
    return call.arguments


def _said_by(error: Exception) -> str:
    """Return what a model is told of a failure: its type and text, without the traceback."""
    text = str(error).strip()
    if isinstance(error, (HmzMpError, TurnFailed)):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _error(text: str) -> Answer:
    return Answer(text_of({"error": cut(text, _LONGEST_ERROR)}), is_error=True)
