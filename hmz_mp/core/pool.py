"""The pool: worker processes, and the calls shipped to them, as one async context manager."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import get_ident
from types import TracebackType
from typing import Any, Protocol

from hmz_mp.core.ambient import pool_variable
from hmz_mp.core.caller import Caller, check_settings
from hmz_mp.core.coordinator import Coordinator
from hmz_mp.core.cpus import usable_cpus
from hmz_mp.core.functions import Function, FunctionTable, pack_arguments, pack_initializer
from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Kind, Lane
from hmz_mp.core.limits import AtOnce, Limit, LimitTable, check_width
from hmz_mp.core.loop import Driver, current_driver
from hmz_mp.core.policy import Policy
from hmz_mp.core.programs import NAME
from hmz_mp.core.shipment import NO_SETTINGS, Settings
from hmz_mp.core.statistics import (
    LimitStatistics,
    Statistics,
    WorkerStatistics,
)
from hmz_mp.core.turns import Turn
from hmz_mp.engines.choice import EngineOptions, check_engine, make_engine
from hmz_mp.engines.zygote import ZygoteConfig
from hmz_mp.errors import PoolClosed, Unpicklable
from hmz_mp_worker.payload import Payload

__all__ = ["Pool"]

_NICEST = 19  # the lowest priority that there is


_entered_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _note_fork() -> None:
    for pool in _entered_pools:
        pool._thread = _ANOTHER_PROCESS


os.register_at_fork(after_in_child=_note_fork)
_CLOSED = 0  # these two are no thread's number
_ANOTHER_PROCESS = -1


class _Submitter(Protocol):
    """Whose settings and lanes a call goes under: a caller's, or a session's."""

    _settings: Settings

    def _lane(self, kind: Kind) -> Lane: ...


class Pool(Caller):
    """A pool of worker processes, for ``async with``, on asyncio or trio.

    ``workers``: how many processes for plain calls, by default the CPUs this process may use;
    ``async def`` functions run many at a time in further ones, at most as many.
    Workers start on demand, and end after ``idle_timeout`` seconds without work.
    ``at_once``: how many turns of the pool may be in flight (0: any number).
    ``preload``: modules to import once, before workers are forked.
    ``initializer(*initargs)`` runs first in every worker.
    ``timeout``, ``retries``, ``memory``: for every turn, as in `options`.
    ``turns_per_worker``: replace a worker after so many. ``env`` and ``cwd``: of the workers.
    ``start_timeout``: how many seconds a worker, with its initializer, may take to be set up.
    ``nice``: how much lower than this process's the priority of plain calls is, as by ``nice``;
    it keeps the loop responsive while they use all CPUs. 0 leaves it as it is.
    ``engine``: where workers are: on this machine, or beside those of a Dask cluster
    (``dask://HOST:PORT``, docs/cluster.md), where ``workers`` is by default as many as they have
    threads. Raises `BadInput` for an address of no scheduler, here or on entering.

    Leaving waits for what was submitted; leaving by an exception ends every worker and what it
    started before it returns.
    """

    # The whole state: the options; the functions, limits and counters of what was submitted; and
    # between entering and leaving the loop's driver, the coordinator and the thread they are on.
    def __init__(
        self,
        workers: int | None = None,
        *,
        at_once: int = 0,
        preload: Sequence[str] = (),
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        timeout: float | None = None,
        retries: int = 0,
        memory: int | None = None,
        turns_per_worker: int | None = None,
        idle_timeout: float = 60.0,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        start_timeout: float = 60.0,
        nice: int = 5,
        engine: str = "local",
    ) -> None:
        if workers is not None and check_width("workers", workers) == 0:
            raise ValueError("workers has to be at least 1")
        check_engine(engine)
        if not idle_timeout > 0:
            raise ValueError(f"idle_timeout has to be more than 0, not {idle_timeout!r}")
        self._engine_name = engine
        self._workers_given = workers
        self._width = workers if workers is not None else usable_cpus()
        if not start_timeout > 0:
            raise ValueError(f"start_timeout has to be more than 0, not {start_timeout!r}")
        self._idle_timeout = idle_timeout
        self._start_timeout = start_timeout
        self._turns_per_worker = check_width("turns_per_worker", turns_per_worker or 0)
        self._initializer = pack_initializer(initializer, initargs) if initializer else b""
        self._config = ZygoteConfig(
            tuple(preload),
            dict(env or {}),
            os.fspath(cwd) if cwd is not None else None,
            _check_nice(nice),
        )
        self._functions = FunctionTable(self._functions_in_use)
        self._limits = LimitTable()
        self._gate = Gate("pool", check_width("at_once", at_once))
        self._last_lane = 0
        self._driver: Driver | None = None
        self._coordinator: Coordinator | None = None
        self._thread = _CLOSED  # the one that may use it, while it is open
        self._outer: Pool | None = None
        self._left = False
        settings = check_settings(Settings(timeout=timeout, retries=retries, memory=memory))
        self._bind(self, settings, (self._gate,))

    # Entering and leaving.

    async def __aenter__(self) -> Pool:
        if self._coordinator is not None or self._left:
            raise PoolClosed("this pool was entered before; make a new one")
        self._driver = current_driver()
        policy = Policy(
            self._width,
            turns_per_worker=self._turns_per_worker,
            idle_timeout=self._idle_timeout,
        )
        coordinator = Coordinator(self._driver, policy, self._start_timeout)
        options = EngineOptions(
            self._workers_given,
            self._width,
            self._config,
            self._initializer,
            logging.getLogger().getEffectiveLevel(),
        )
        coordinator.engine = make_engine(self._engine_name, self._driver, coordinator, options)
        coordinator.watch.engine = coordinator.engine
        await coordinator.engine.open()
        self._coordinator = coordinator
        self._thread = get_ident()
        _entered_pools.add(self)
        self._outer = pool_variable.get()
        pool_variable.set(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        coordinator = self._entered()
        orderly = False
        try:
            if kind is None:
                await coordinator.wait_idle()
                orderly = True
        finally:
            self._left = True
            self._thread = _CLOSED
            pool_variable.set(self._outer)
            coordinator.abandon()
            if orderly:
                await coordinator.engine.close()
            else:
                await coordinator.engine.kill_all()
            coordinator.stop_timers()
            assert self._driver is not None
            await self._driver.close()

    def _entered(self) -> Coordinator:
        """Return the coordinator. Raises `PoolClosed` or `RuntimeError` for use out of place."""
        if self._thread == get_ident():
            assert self._coordinator is not None
            return self._coordinator
        if self._left:
            raise PoolClosed("the pool was left: submit inside its `async with` block")
        if self._thread == _CLOSED:
            raise PoolClosed("the pool is not open: use it inside `async with Pool() as pool:`")
        if self._thread == _ANOTHER_PROCESS:
            raise PoolClosed("this pool belongs to the process that this one was forked from")
        raise RuntimeError(
            "a pool belongs to the thread of its event loop: from another thread use "
            "anyio.from_thread.run(pool.run, fn, ...)"
        )

    # Submitting, for callers and sessions.

    def _submit(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        caller: _Submitter,
    ) -> Turn:
        """Submit a call under a caller's settings, to its lane."""
        coordinator = self._coordinator if self._thread == get_ident() else self._entered()
        assert coordinator is not None
        try:
            function = self._functions.known(fn) or self._resolve(fn)
            payload = pack_arguments(fn, args, kwargs)
        except Unpicklable as error:
            return coordinator.refuse(self._lane("call"), caller._settings, error)
        return coordinator.submit(function, payload, caller._lane(function.kind), caller._settings)

    def _submit_packed(self, function: Function, payload: bytes | Payload, lane: Lane) -> Turn:
        """Submit a call that is packed already, under no settings of its own."""
        return self._entered().submit(function, payload, lane, NO_SETTINGS)

    def _resolve(self, fn: Callable[..., Any]) -> Function:
        """Return the shipped form of a function that is new, or has changed."""
        functions, coordinator = self._functions, self._coordinator
        assert coordinator is not None
        function = functions.resolve(fn)
        if functions.by_value:
            coordinator.engine.prepare_by_value()
        if functions.dropped:
            dropped, functions.dropped = functions.dropped, []
            coordinator.engine.forget(dropped, ())
        return function

    def _functions_in_use(self) -> Iterable[Function]:
        coordinator = self._coordinator
        return [turn.job.function for turn in coordinator.pending.values()] if coordinator else ()

    def _new_lane(
        self, kind: Kind, gates: tuple[Gate, ...], priority: int, *, serial: bool = False
    ) -> Lane:
        self._last_lane += 1
        bounding = tuple(gate for gate in gates if gate.may_bound)
        return Lane(self._last_lane, kind, bounding, priority=priority, serial=serial)

    def _end_session(self, lane: Lane) -> None:
        """Take note that a session object is gone; its queued turns still run."""
        if self._coordinator is None or self._left:
            return
        if not lane.jobs and not lane.busy:
            self._coordinator.policy.end_session(lane)
            self._coordinator.ended_sessions.append(lane.id)

    # Asking.

    @property
    def width(self) -> int:
        """How many workers for plain calls there may be now, at least 1."""
        coordinator = self._coordinator
        return self._width if coordinator is None else coordinator.policy.roster.limit or 1

    def limit(self, name: str, at_once: AtOnce = 0, per_minute: int = 0) -> Limit:
        """Return the pool's limit of that name, made now if there is none.

        ``at_once`` turns of those that name it may be in flight, ``per_minute`` may begin in any
        60 seconds; 0 bounds nothing. ``at_once="auto"`` finds out how many, by the turns whose
        ``is_busy`` says that the service is too busy (`options`), and by how long turns take.
        Raises `ValueError` when it exists with other bounds.
        """
        return self._limits.get(name, at_once, per_minute)

    def agent_programs(self) -> Limit:
        """Return the limit of turns that run a program of their own: as many as memory bears.

        How much that is is measured on those that run. Raises `PoolClosed` outside ``async with``.
        """
        coordinator = self._entered()
        limit, is_new = self._limits.bounded_elsewhere(NAME)
        if is_new:
            coordinator.watch.bound_programs(limit.gate)
        return limit

    def widths(self) -> dict[str, int]:
        """Return how many turns the limits with ``at_once="auto"`` allow now, by their names."""
        return self._limits.widths()

    def statistics(self) -> Statistics:
        """Return the pool's counts, workers and widths at this moment."""
        coordinator = self._entered()
        policy, engine = coordinator.policy, coordinator.engine
        workers = [
            WorkerStatistics(
                engine.pid(one.id),
                one.kind,
                one.state.value,
                one.served,
                engine.resident_memory(one.id),
            )
            for one in policy.roster.workers.values()
        ]
        limits = {
            gate.name: LimitStatistics(
                gate.capacity,
                gate.per_minute,
                gate.used,
                gate.widest,
                gate.count_waiting(),
                limit.width,
            )
            for limit in self._limits
            for gate in [limit.gate]
        }
        return Statistics(
            queued=policy.queued,
            running=policy.running,
            widest=policy.widest,
            workers=workers,
            limits=limits,
            **policy.counts,
        )

    def __repr__(self) -> str:
        state = "left" if self._left else "new" if self._coordinator is None else "open"
        return f"<Pool {state} workers={self.width}>"


def _check_nice(nice: int) -> int:
    if isinstance(nice, bool) or not isinstance(nice, int):
        raise TypeError(f"nice is a whole number, not {nice!r}")
    if not 0 <= nice <= _NICEST:
        raise ValueError(f"nice is from 0, for no lower priority, to {_NICEST}, not {nice}")
    return nice
