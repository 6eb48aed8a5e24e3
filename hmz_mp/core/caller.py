"""Calling a pool: `submit`, `run`, `map`, `session`, and `options`, which gives the same again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Kind, Lane
from hmz_mp.core.limits import AUTO, AtOnce, Limit, adapted, check_at_once, check_width
from hmz_mp.core.session import Session
from hmz_mp.core.shipment import NO_SETTINGS, IsBusy, OnEvent, RetryIf, Settings
from hmz_mp.core.turns import Turn

if TYPE_CHECKING:
    from hmz_mp.core.pool import Pool

__all__ = ["Caller", "check_settings"]


class Caller:
    """Submits to one pool under fixed settings. Got from `Pool.options`; a pool is one itself."""

    # The whole state: the pool, the settings, and a lane for each kind of function.
    _pool: Pool
    _settings: Settings
    _gates: tuple[Gate, ...]
    _lanes: dict[Kind, Lane]

    def _bind(self, pool: Pool, settings: Settings, gates: tuple[Gate, ...]) -> None:
        self._pool = pool
        self._settings = settings
        self._gates = gates
        self._lanes = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Turn:
        """Ship ``fn(*args, **kwargs)`` to a worker; return its turn at once.

        ``fn`` may be a lambda, a closure, a function of ``__main__``, a method, a partial, or an
        ``async def``, which then runs on a worker's event loop. The arguments are taken as they
        are now. What cannot be pickled fails the turn with `Unpicklable`.
        Raises `PoolClosed` outside ``async with``, and `TypeError` for what is not a function.
        """
        return self._pool._submit(fn, args, kwargs, self)

    async def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Return the answer of ``fn(*args, **kwargs)``, or raise what it failed with."""
        return await self.submit(fn, *args, **kwargs)

    def map(
        self,
        fn: Callable[..., Any],
        /,
        *iterables: Any,
        at_once: int = 0,
        ordered: bool = True,
        suppress: bool = False,
    ) -> AsyncIterator[Any]:
        """Yield ``fn``'s answers for the items of the iterables, taken together as by ``zip``.

        Takes sync and async iterables, infinite ones too: it reads ahead a bounded window only.
        An async generator that was not read to its end is closed with this one.
        ``at_once`` bounds how many are in flight (0: nothing but the pool's own width),
        ``ordered=False`` yields answers as they land. The first failure is raised in its place
        and what was begun is cancelled; ``suppress=True`` yields ``None`` there and goes on.
        """
        from hmz_mp.core.mapping import mapped  # a slow import, that many programs do not need

        if not iterables:
            raise TypeError("map takes at least one iterable")
        gates = (*self._gates, *_own_gate("map", at_once))
        caller = Caller()
        caller._bind(self._pool, self._settings, gates)
        return mapped(caller, fn, iterables, ordered=ordered, suppress=suppress)

    def session(self, name: str | None = None, *, keep: bool = False) -> Session:
        """Return a new session: its turns run one after the other, in one process.

        What a call changes of its process (working directory, environment, signal handlers,
        umask, locale, recursion limit, ``sys.path``) is put back after it. With ``keep`` it is
        there again in the session's next turn, and nowhere else.
        """
        return Session(self._pool, self._settings, self._gates, name, keep)

    def options(
        self,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        retries: int | None = None,
        memory: int | None = None,
        limit: Limit | str | None = None,
        at_once: AtOnce = 0,
        priority: int | None = None,
        item_id: str | None = None,
        name: str | None = None,
        on_event: OnEvent | None = None,
        is_busy: IsBusy | None = None,
        retry_if: RetryIf | None = None,
    ) -> Caller:
        """Return the same calls with these settings; those left out stay as they are.

        ``timeout``: seconds from when the call begins to run; ``deadline``: from submission.
        ``retries``: how often a turn that failed is tried again; with ``retry_if(error)``, which
        says whether that is any use, not for whatever it raised. ``memory``: bytes that the
        turn's process, with its children, may hold. ``limit``: a `Limit` or its name;
        ``at_once``: how many turns of these options may be in flight; ``"auto"`` has the limit
        find that out (`hmz_mp.core.width`), or these options alone where there is no limit.
        ``priority``: higher goes first. ``item_id`` and ``name`` say what the turn is about.
        ``on_event(turn, event)`` is called on the loop for what `hmz_mp.core.turns` calls an event.
        ``is_busy(error)`` says whether a turn failed because its service is too busy, with a
        `hmz_mp.core.breaker.Busy`; then, with a ``limit``, it is put back to be tried later, and
        everybody at that limit waits.
        """
        given = {
            "timeout": timeout, "deadline": deadline, "retries": retries, "memory": memory,
            "priority": priority, "item_id": item_id, "name": name, "on_event": on_event,
            "is_busy": is_busy, "retry_if": retry_if,
        }  # fmt: skip
        changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        settings = check_settings(replace(self._settings, **changes))
        number = check_at_once(at_once)
        gates = (*self._gates, *_own_gate(name or "options", number))
        if limit is not None:
            gate = self._pool._limits.named(limit).gate
            gates = gates if gate in gates else (*gates, gate)
        if at_once == AUTO:
            gates = adapted(gates)
        caller = Caller()
        caller._bind(self._pool, settings, gates)
        return caller

    def _lane(self, kind: Kind) -> Lane:
        lane = self._lanes.get(kind)
        if lane is None:
            lane = self._pool._new_lane(kind, self._gates, self._settings.priority)
            self._lanes[kind] = lane
        return lane


def _own_gate(name: str, at_once: int) -> tuple[Gate, ...]:
    return (Gate(name, at_once),) if check_width("at_once", at_once) else ()


def check_settings(settings: Settings) -> Settings:
    """Return settings that make sense. Raises `ValueError` naming the one that does not."""
    for name in ("timeout", "deadline", "memory"):
        value = getattr(settings, name)
        if value is not None and not value > 0:
            raise ValueError(f"{name} has to be more than 0, not {value!r}")
    check_width("retries", settings.retries)
    return NO_SETTINGS if settings == NO_SETTINGS else settings
