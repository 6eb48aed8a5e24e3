"""What submits one agent's turns: to which pool, under which settings, with whom told.

Owns the agent's turns in flight, its watchers, and the reason to stop, once there is one. It
knows of runs only their observer; the agent, its sessions and its batches begin turns here.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from hmz_mp import portal
from hmz_mp.agents.failures import busy_of, pressure_of, worth_retrying
from hmz_mp.agents.identity import Identities
from hmz_mp.agents.placing import placed
from hmz_mp.agents.schema import decoder_for
from hmz_mp.agents.turns import AgentTurn, TurnEvent
from hmz_mp.agents.usage import Usages
from hmz_mp.core.ambient import TurnRecord, current_pool, current_run
from hmz_mp.core.limits import AUTO
from hmz_mp.errors import PoolClosed
from hmz_mp_worker.backends import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hmz_mp.agents.kinds import Engine
    from hmz_mp.agents.placing import Place
    from hmz_mp.agents.prompts import Prompt
    from hmz_mp.agents.turns import Listener
    from hmz_mp.core.caller import Caller
    from hmz_mp.core.limits import AtOnce
    from hmz_mp.core.pool import Pool
    from hmz_mp.core.session import Session as PoolSession
    from hmz_mp.core.turns import Turn

__all__ = ["Submitter"]

log = logging.getLogger("hmz_mp")


class Submitter:
    """Begins the turns of one agent and can end all of them."""

    # The whole state: how many sessions there were; turns in flight by the pool's turn, and what
    # was heard of one, by thread, that is just being submitted; the reason to stop; the watchers;
    # the last pool, set up for this agent; how many of its turns go at once; what they have used,
    # and their identities.
    def __init__(self, spec: str, id: str, engine: Engine) -> None:  # noqa: A002  # as in api.md
        self.spec = spec
        self.id = id
        self.opened = 0
        self.stopped: str | None = None
        self._engine = engine
        self._live: dict[Turn, AgentTurn] = {}
        self._early: dict[int, list[tuple[Turn, object]]] = {}
        self._watchers: list[Callable[[TurnEvent], object]] = []
        self._view: tuple[Pool, Caller, portal.Home] | None = None
        self._width: AtOnce = 0
        self._usages = Usages()
        self._identities: Identities | None = None

    @property
    def usages(self) -> Usages:
        """What all its turns have used."""
        return self._usages

    @property
    def command(self) -> str | Sequence[str]:
        """The agent as written, or its program and arguments."""
        return self._engine.command

    @property
    def watched(self) -> bool:
        """Whether anybody watches."""
        return bool(self._watchers)

    @property
    def converses(self) -> bool:
        """Whether its agent keeps conversations."""
        return self._engine.converses

    @property
    def interjects(self) -> bool:
        """Whether its agent can be told something in the middle of a turn."""
        return self._engine.converses and self._engine.interjects

    @property
    def in_flight(self) -> int:
        """How many turns were submitted and have not ended."""
        return len(self._live)

    def view(self, at_once: AtOnce = 0) -> Caller:
        """Return the pool around, set up for this agent's turns, ``at_once`` of them at a time."""
        pool, view, _ = self._around()
        if at_once == AUTO:
            return self._adapting(pool, view)
        return view.options(at_once=at_once) if at_once else view

    def bound(self, at_once: AtOnce) -> None:
        """Have so many turns in flight at most, from now on, unless the spec says how many."""
        self._width = at_once
        self._view = None

    def _around(self) -> tuple[Pool, Caller, portal.Home]:
        pool = current_pool()
        if pool is None:
            raise PoolClosed("there is no pool around this turn")
        around = self._view
        if around is None or around[0] is not pool:
            self._view = around = pool, self._set_up(pool), portal.home()
        return around

    def _set_up(self, pool: Pool) -> Caller:
        options: dict[str, Any] = {"at_once": self._width} | self._engine.options
        at_once = options.pop("at_once")
        if self._engine.account:
            options |= {"limit": pool.limit(self._engine.account), "is_busy": busy_of}
        if self._engine.converses:
            options["retry_if"] = worth_retrying
        view = pool.options(**options, name=self.id, on_event=self._heard)
        if self._engine.programs:
            view = view.options(limit=pool.agent_programs())
        if at_once == AUTO:
            return self._adapting(pool, view)
        return view.options(at_once=at_once, name=self.id)

    def _adapting(self, pool: Pool, view: Caller) -> Caller:
        """Return a view whose turns find out how many go at once, those of its account together."""
        if self._engine.account:
            pool.limit(self._engine.account, AUTO)
            return view
        return view.options(limit=pool.limit(self.id, AUTO), is_busy=pressure_of)

    def begin(
        self,
        prompt: Prompt,
        view: Caller | PoolSession,
        *,
        schema: Any = None,
        cwd: Place = None,
        session: str | None = None,
        place: int = 0,
        listener: Listener | None = None,
        conversation: str = "",
        begun: bool = False,
        known_as: str | None = "",
        pursue: bool = False,
        after: str | None = None,
    ) -> AgentTurn:
        """Submit one turn to a view of the pool, or to a session of one.

        A turn that the agent or the run refuses has ended, with `Stopped`.
        """
        decode = None if schema is None else decoder_for(schema)
        at, own = placed(cwd, None if session is None else (self, session))
        if session is None:
            self.opened += 1
            session, kept_as = f"{self.id}-{self.opened}", ""
        else:
            kept_as = conversation or session
        run = current_run()
        identity = ""
        if run is not None:
            identity = self._identify(prompt, at, schema=schema, pursue=pursue, after=after)
        record = TurnRecord(
            item_id=prompt.item_id or (f"{session}.{place}" if place else session),
            agent=self.spec,
            agent_id=self.id,
            session=session,
            place=place,
            prompt=prompt.text,
            path=prompt.file,
            cwd=at if own is None else None,
            identity=identity,
            kept_as=kept_as,
        )
        turn = AgentTurn(
            record,
            self,
            self._around()[2],
            decode=decode,
            observer=run.observer if run is not None else None,
            listener=listener,
        )
        task = run.task if run is not None else ""
        engine = self._engine
        asked: tuple[Any, ...]
        if engine.converses:
            request = Request(
                prompt.text,
                record.item_id,
                record.path,
                task,
                at,
                conversation=conversation,
                place=place,
                begun=begun,
                known_as=known_as,
                schema=schema,
                stream=listener is not None,
                pursue=pursue,
            )
            asked = (request,)
        else:
            asked = Request.pieces(prompt.text, record.item_id, record.path, task, at)
        call, arguments = engine.call, (*engine.args, *asked)
        if own is not None:
            call, arguments = own.around(engine, asked, record.path)
        submit = partial(view.submit, call, *arguments)
        self._submit(turn, submit)
        return turn

    def _identify(self, prompt: Prompt, cwd: str | None, **settings: Any) -> str:
        if self._identities is None:
            self._identities = Identities(self.id, self.spec, self._engine.source)
        return self._identities.of(prompt, cwd, **settings)

    def _submit(self, turn: AgentTurn, submit: Callable[[], Turn]) -> None:
        """Hand a turn to the pool, which may ship it at once: before anybody knows whose it is."""
        here = threading.get_ident()
        before = self._early.get(here)
        early: list[tuple[Turn, object]] = []
        self._early[here] = early
        try:
            submitted = turn.submit(submit, self.stopped)
        finally:
            if before is None:
                del self._early[here]
            else:
                self._early[here] = before
        if submitted is not None:
            self._live[submitted] = turn
            for whose, event in early:
                if whose is submitted:
                    turn.heard(event)

    def forget(self, turn: Turn) -> None:
        """Take note that a turn has ended."""
        self._live.pop(turn, None)

    def _heard(self, turn: Turn, event: object) -> None:
        agent_turn = self._live.get(turn)
        if agent_turn is not None:
            agent_turn.heard(event)
        elif (early := self._early.get(threading.get_ident())) is not None:
            early.append((turn, event))

    def stop(self, reason: str) -> None:
        """Refuse turns from now on, and end those in flight, each on its own loop."""
        self.stopped = self.stopped or reason
        here = threading.get_ident()
        for turn in list(self._live.values()):
            if turn.home.thread == here:
                turn.stop(reason)
            else:
                turn.home.soon(partial(turn.stop, reason))

    def watch(self, callback: Callable[[TurnEvent], object]) -> Callable[[], None]:
        """Tell ``callback`` of every event until what this returns is called."""
        self._watchers.append(callback)

        def unwatch() -> None:
            if callback in self._watchers:
                self._watchers.remove(callback)

        return unwatch

    def tell(self, event: TurnEvent) -> None:
        """Tell everybody who watches."""
        for watcher in tuple(self._watchers):
            try:
                watcher(event)
            except Exception:
                log.exception("a watcher of agent %s raised on %s", self.id, event.kind)
