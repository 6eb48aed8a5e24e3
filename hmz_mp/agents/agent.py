"""An agent: who its turns are, whether it was stopped, and every way to give it a prompt.

Owns the agent's sessions, its turns in flight and its watchers. What its turns run comes from
`kinds`; waiting for many turns at once is in `batches`.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hmz_mp import portal
from hmz_mp.agents import batches
from hmz_mp.agents.kinds import engine_for
from hmz_mp.agents.prompts import as_prompt
from hmz_mp.agents.schema import decoder_for
from hmz_mp.agents.session import Session
from hmz_mp.agents.spec import parse
from hmz_mp.agents.turns import AgentTurn, TurnEvent
from hmz_mp.core.ambient import TurnRecord, current_pool, current_run
from hmz_mp.errors import PoolClosed
from hmz_mp_worker.backends import Request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from hmz_mp.agents.kinds import Engine
    from hmz_mp.agents.prompts import Prompt
    from hmz_mp.agents.turns import Listener
    from hmz_mp.core.caller import Caller
    from hmz_mp.core.pool import Pool
    from hmz_mp.core.turns import Turn

__all__ = ["Agent", "Spent", "agent_from_spec"]

log = logging.getLogger("hmz_mp")

_numbers = itertools.count(1)  # tells apart the agents of this process


class Spent(msgspec.Struct, frozen=True):
    """What an agent's turns have cost so far. ``tool/`` and ``sh/`` use no model: all zeros."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


def agent_from_spec(spec: str, *, name: str | None = None) -> Agent:
    """Make an agent from its written form, ``BACKEND/MODEL`` or ``cli=BACKEND,model=MODEL,...``.

    ``name`` becomes its id. Raises `BadInput`, which says what to correct.
    """
    return Agent(spec, engine_for(parse(spec)), name=name)


class Agent:
    """Takes prompts and answers them, in workers. Made by `agent_from_spec`.

    Answers are ``str``, or of the type that ``schema=`` asks for. A turn that failed raises
    `Failed`; with ``suppress=True`` its answer is ``""``, or ``None`` with a schema. A turn of an
    agent that was stopped raises `Stopped`, always.
    """

    # The whole state: sessions kept and how many there were; turns in flight by the pool's turn;
    # the reason to stop, once there is one; the watchers; and the pool's view, with its pool.
    def __init__(self, spec: str, engine: Engine, *, name: str | None = None) -> None:
        self.spec = spec
        self.id = name or f"agent{next(_numbers)}"
        self._engine = engine
        self._sessions: list[Session] = []
        self._opened = 0
        self._live: dict[Turn, AgentTurn] = {}
        self._stopped: str | None = None
        self._watchers: list[Callable[[TurnEvent], object]] = []
        self._view: tuple[Pool, Caller] | None = None

    def __repr__(self) -> str:
        state = "stopped" if self.stopped else f"{len(self._live)} turns in flight"
        return f"<Agent {self.id} {self.spec} {state}>"

    @property
    def waits(self) -> bool:
        """Whether its turns wait more than they compute, so that many share a process."""
        return self._engine.waits

    @property
    def stopped(self) -> bool:
        """Whether it was told to take no more turns."""
        return self._stopped is not None

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions opened by `new` and `batch_new`, in order; one-turn ones are not kept."""
        return tuple(self._sessions)

    @property
    def opened(self) -> int:
        """How many sessions were opened so far, the one-turn sessions included."""
        return self._opened

    @property
    def spent(self) -> Spent:
        """What its turns have cost so far."""
        return Spent()

    # One turn.

    async def aturn(
        self,
        prompt: str | Prompt,
        *,
        suppress: bool = False,
        schema: Any = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Give one prompt to a session of its own and return the answer."""
        return await portal.on_a_pool(self._aturn, prompt, suppress, schema, _absolute(cwd))

    def __call__(
        self,
        prompt: str | Prompt,
        *,
        suppress: bool = False,
        schema: Any = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Do what `aturn` does, blocking."""
        return portal.call(self.aturn, prompt, suppress=suppress, schema=schema, cwd=cwd)

    async def apursue(
        self, objective: str | Prompt, *, suppress: bool = False, schema: Any = None
    ) -> Any:
        """Work towards an objective until it is reached.

        For ``tool/`` and ``sh/`` that is one turn, with the objective as its prompt.
        """
        return await self.aturn(objective, suppress=suppress, schema=schema)

    def pursue(self, objective: str | Prompt, *, suppress: bool = False, schema: Any = None) -> Any:
        """Do what `apursue` does, blocking."""
        return portal.call(self.apursue, objective, suppress=suppress, schema=schema)

    async def _aturn(
        self, prompt: str | Prompt, suppress: bool, schema: Any, cwd: str | None
    ) -> Any:
        turn = self.begin(as_prompt(prompt), self.view(), schema=schema, cwd=cwd)
        await turn.landed()
        return turn.value(suppress=suppress)

    # Many turns, a session each.

    async def abatch(
        self,
        prompts: Iterable[str | Prompt],
        *,
        at_once: int = 0,
        schema: Any = None,
        suppress: bool = False,
        cwd: str | os.PathLike[str] | None = None,
    ) -> list[Any]:
        """Give each prompt to a session of its own and return the answers in the same order.

        At most ``at_once`` turns are in flight (0: no cap of its own). The first failure in prompt
        order is raised once every turn has ended. Cancelling the call cancels its turns.
        """
        return await portal.on_a_pool(
            batches.abatch, self, prompts, _width(at_once), schema, suppress, _absolute(cwd)
        )

    def batch(
        self,
        prompts: Iterable[str | Prompt],
        *,
        at_once: int = 0,
        schema: Any = None,
        suppress: bool = False,
        cwd: str | os.PathLike[str] | None = None,
    ) -> list[Any]:
        """Do what `abatch` does, blocking."""
        return portal.call(
            self.abatch, prompts, at_once=at_once, schema=schema, suppress=suppress, cwd=cwd
        )

    def amap(
        self,
        prompts: Iterable[str | Prompt],
        *,
        at_once: int = 0,
        suppress: bool = False,
        schema: Any = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Iterate over the answers in prompt order, as `abatch` gives them, as they come.

        Reads ahead a bounded number of prompts, so memory does not grow with how many there are.
        A failure is raised in its place; leaving the loop cancels what was begun.
        """
        return portal.each_on_a_pool(
            batches.amap, self, prompts, _width(at_once), schema, suppress, _absolute(cwd)
        )

    # Sessions.

    def new(self, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open a session, whose turns run in ``cwd``. It costs nothing until it takes a turn."""
        (session,) = self.batch_new(1, cwd)
        return session

    def batch_new(self, n: int, cwd: str | os.PathLike[str] | None = None) -> list[Session]:
        """Open ``n`` sessions."""
        if n < 0:
            raise ValueError(f"there cannot be {n} sessions")
        at = _absolute(cwd)
        first = self._opened + 1
        self._opened += n
        sessions = [Session(self, number, at) for number in range(first, first + n)]
        self._sessions.extend(sessions)
        return sessions

    # Stopping and watching.

    def stop(self, reason: str = "the agent was stopped") -> None:
        """Take no more turns. Those in flight are ended; all of them raise `Stopped`.

        May be called from any thread, more than once.
        """
        self._stopped = self._stopped or reason
        here = threading.get_ident()
        for turn in list(self._live.values()):
            if turn.home.thread == here:
                turn.stop(reason)
            else:
                turn.home.soon(partial(turn.stop, reason))

    def watch(self, callback: Callable[[TurnEvent], object]) -> Callable[[], None]:
        """Call ``callback(event)`` for all that happens to its turns; return what ends that.

        It is called on the turns' loop, and is not to block. What it raises is logged.
        """
        self._watchers.append(callback)

        def unwatch() -> None:
            if callback in self._watchers:
                self._watchers.remove(callback)

        return unwatch

    def _tell(self, event: TurnEvent) -> None:
        for watcher in tuple(self._watchers):
            try:
                watcher(event)
            except Exception:
                log.exception("a watcher of agent %s raised on %s", self.id, event.kind)

    # What sessions and batches build on.

    def view(self, at_once: int = 0) -> Caller:
        """Return the pool around, set up for this agent's turns, ``at_once`` of them at a time."""
        pool = current_pool()
        if pool is None:
            raise PoolClosed("there is no pool around this turn")
        if at_once:
            return self._options(pool, at_once)
        if self._view is None or self._view[0] is not pool:
            self._view = pool, self._options(pool, 0)
        return self._view[1]

    def _options(self, pool: Pool, at_once: int) -> Caller:
        options = dict(self._engine.options)
        if width := options.pop("at_once", 0):
            options["limit"] = pool.limit(f"agent {self.id}", at_once=width)
        return pool.options(**options, at_once=at_once, name=self.id, on_event=self._heard)

    def begin(
        self,
        prompt: Prompt,
        view: Any,
        *,
        schema: Any = None,
        cwd: str | None = None,
        session: str | None = None,
        place: int = 0,
        listener: Listener | None = None,
    ) -> AgentTurn:
        """Submit one turn to a view of the pool, or to a session of one.

        A turn that the agent or the run refuses has ended, with `Stopped`.
        """
        decode = None if schema is None else decoder_for(schema)
        if session is None:
            self._opened += 1
            session = f"{self.id}-{self._opened}"
        run = current_run()
        record = TurnRecord(
            item_id=prompt.item_id or (f"{session}.{place}" if place else session),
            agent=self.spec,
            agent_id=self.id,
            session=session,
            place=place,
            prompt=prompt.text,
            path=prompt.file,
            cwd=cwd,
        )
        turn = AgentTurn(
            record,
            command=self._engine.command,
            decode=decode,
            observer=run.observer if run is not None else None,
            tell=self._tell,
            listener=listener,
        )
        task = run.task if run is not None else ""
        request = Request(prompt.text, record.item_id, record.path, task, cwd)
        submit = partial(view.submit, self._engine.call, request)
        submitted = turn.submit(submit, self._stopped)
        if submitted is not None:
            self._live[submitted] = turn
            submitted.add_done_callback(self._forget)
        return turn

    def _forget(self, turn: Turn) -> None:
        self._live.pop(turn, None)

    def _heard(self, turn: Turn, event: object) -> None:
        agent_turn = self._live.get(turn)
        if agent_turn is not None:
            agent_turn.heard(event)


def _absolute(cwd: str | os.PathLike[str] | None) -> str | None:
    return None if cwd is None else str(Path(cwd).absolute())


def _width(at_once: int) -> int:
    if at_once < 0:
        raise ValueError(f"at_once cannot be {at_once}; 0 is no cap")
    return at_once
