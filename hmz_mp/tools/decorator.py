"""``@tool`` itself: a function, and what bounds its turns.

Owns the decorator. Workers import users' modules that use it, so this imports no loop, no pool
and no portal until a call needs one.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hmz_mp.core.caller import Caller
    from hmz_mp.core.limits import Limit
    from hmz_mp.core.pool import Pool
    from hmz_mp.tools.signature import Signature

__all__ = ["Tool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

_TOGETHER = (
    "Calls are independent of each other: ask for all that you need together, in one turn, and "
    "they run at the same time."
)
_LISTED = "It takes a list: give it all items in one call."


class Tool(Generic[P, R]):
    """A function with a place in the workers: call it here, or have it called there.

    ``function`` is the function itself; ``at_once``, ``timeout`` and ``retries`` bound every turn
    of the tool in a pool, however it was asked for. ``takes_batch`` says that the function takes
    a list of items and answers with a list, and ``description`` says what it is for.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        at_once: int = 0,
        timeout: float | None = None,
        retries: int = 0,
        batch: bool = False,
        description: str | None = None,
    ) -> None:
        if not inspect.isroutine(function):
            raise TypeError(f"@tool goes on a function, not on {type(function).__name__}")
        if at_once < 0 or retries < 0 or (timeout is not None and timeout <= 0):
            raise ValueError("at_once= and retries= are 0 or more, timeout= is more than 0")
        self.function: Callable[P, R] = function
        self.at_once = at_once
        self.timeout = timeout
        self.retries = retries
        self.takes_batch = batch
        self.description = description or inspect.getdoc(function) or ""
        self._caller: tuple[Pool, Caller] | None = None
        self._limits: weakref.WeakKeyDictionary[Pool, Limit] = weakref.WeakKeyDictionary()
        functools.update_wrapper(self, function)

    __name__: str
    __qualname__: str

    @property
    def name(self) -> str:
        """The function's name."""
        return self.__name__

    # What a model is told.

    @functools.cached_property
    def signature(self) -> Signature:
        """What it takes. Raises `TypeError` if that cannot be described."""
        from hmz_mp.tools.signature import Signature

        return Signature(self.function, self.name)

    @property
    def parameters(self) -> dict[str, Any]:
        """What it takes, as a JSON schema."""
        return self.signature.schema()

    @property
    def explanation(self) -> str:
        """What a model reads: what it is for, and that it may be asked for many times at once."""
        notes = f"{_LISTED} {_TOGETHER}" if self.takes_batch else _TOGETHER
        return f"{self.description}\n\n{notes}".strip()

    def __repr__(self) -> str:
        return f"<tool {self.__module__}.{self.__qualname__}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function plainly, here."""
        return self.function(*args, **kwargs)

    async def aturn(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the function in a worker and return its answer, or raise what it raised."""
        from hmz_mp import portal

        return await portal.on_a_pool(self._turn, args, kwargs)

    async def abatch(
        self, items: Iterable[Any], *, at_once: int = 0, suppress: bool = False
    ) -> list[Any]:
        """Call the function once per item; return the answers in the same order.

        At most ``at_once`` of them are in flight (0: no cap of its own, beside the tool's). The
        first failure is raised in its place, and the rest is cancelled; ``suppress=True`` answers
        ``None`` there. A tool with ``batch=True`` gets the items as one list, in one turn.
        """
        from hmz_mp import portal

        if self.takes_batch:
            return await portal.on_a_pool(self._one_batch, items, suppress)
        return await portal.on_a_pool(self._each, items, at_once, suppress)

    def batch(self, items: Iterable[Any], *, at_once: int = 0, suppress: bool = False) -> list[Any]:
        """Do what `abatch` does, blocking."""
        from hmz_mp import portal

        return portal.call(self.abatch, items, at_once=at_once, suppress=suppress)

    async def answer_in(
        self, caller: Caller, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Have one call answered, in a worker, by what `caller_in` returned."""
        return await caller.run(self.shipped(), *args, **(kwargs or {}))

    async def _turn(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return await self.answer_in(self._view(), args, kwargs)

    async def _each(self, items: Iterable[Any], at_once: int, suppress: bool) -> list[Any]:
        answers = self._view().map(self.shipped(), items, at_once=at_once, suppress=suppress)
        return [answer async for answer in answers]

    async def _one_batch(self, items: Iterable[Any], suppress: bool) -> list[Any]:
        listed = list(items)
        if not listed:
            return []
        try:
            answers = list(await self.answer_in(self._view(), (listed,)))
        except Exception:
            if suppress:
                return [None] * len(listed)
            raise
        if len(answers) != len(listed):
            raise ValueError(
                f"{self!r} was given {len(listed)} items and answered {len(answers)} times"
            )
        return answers

    def _view(self) -> Caller:
        from hmz_mp.core.ambient import current_pool
        from hmz_mp.errors import PoolClosed

        pool = current_pool()
        if pool is None:
            raise PoolClosed("there is no pool around this call")
        if self._caller is None or self._caller[0] is not pool:
            self._caller = (pool, self.caller_in(pool))
        return self._caller[1]

    def caller_in(self, base: Caller) -> Caller:
        """Return what submits its turns: a pool or a caller, with the tool's settings on top."""
        return base.options(
            limit=self._limit_in(base._pool) if self.at_once else None,
            timeout=self.timeout,
            retries=self.retries or None,
            name=self.name,
        )

    def _limit_in(self, pool: Pool) -> Limit:
        """Return the tool's ``at_once`` in a pool: one, under whatever settings it is called."""
        from hmz_mp.core.gates import Gate
        from hmz_mp.core.limits import Limit

        limit = self._limits.get(pool)
        if limit is None:
            limit = self._limits[pool] = Limit(Gate(self.name, self.at_once))
        return limit

    def _is_found_by_name(self) -> bool:
        """Whether a worker that imports the tool's module finds this tool there."""
        from hmz_mp.core.importable import is_importable

        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        return found is self and is_importable(self.__module__)

    def shipped(self) -> Callable[..., Any]:
        """Return what a worker is given to call."""
        # The function's own name finds the tool, so the function itself could only go by value.
        return self if self._is_found_by_name() else self.function

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._is_found_by_name():
            return self.__qualname__
        settings = (self.at_once, self.timeout, self.retries, self.takes_batch, self.description)
        return _rebuild, (self.function, *settings)


class AsyncTool(Tool[P, R]):
    """A tool of a coroutine function: its turns share a worker's loop, many at a time."""

    async def __call__(  # type: ignore[override]  # R is the coroutine's type
        self, *args: P.args, **kwargs: P.kwargs
    ) -> Any:
        """Await the function plainly, here."""
        function: Callable[..., Any] = self.function
        return await function(*args, **kwargs)


def _rebuild(
    function: Callable[..., Any],
    at_once: int,
    timeout: float | None,
    retries: int,
    batch: bool,
    description: str,
) -> Tool[..., Any]:
    return _made(
        function,
        at_once=at_once,
        timeout=timeout,
        retries=retries,
        batch=batch,
        description=description,
    )


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    at_once: int = 0,
    timeout: float | None = None,
    retries: int = 0,
    batch: bool = False,
    description: str | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """Make a function a tool: ``@tool`` or ``@tool(at_once=8, timeout=60)``.

    ``at_once``: how many turns of it may be in flight in a pool (0: no cap). ``timeout``: seconds
    for one turn. ``retries``: how often a turn that failed is tried again. ``batch``: the function
    takes a list of items and answers with a list as long. ``description``: what it is for, in
    place of its docstring.
    """
    if function is None:
        return lambda function: _made(function, **settings)
    return _made(function, **settings)


def _made(function: Callable[..., Any], **settings: Any) -> Tool[..., Any]:
    kind = AsyncTool if inspect.iscoroutinefunction(function) else Tool
    return kind(function, **settings)
