"""An agent: every way to give it a prompt, awaited or blocking.

Owns the sessions it keeps. What its turns run comes from `kinds`, turns are begun by its
`Submitter`, and waiting for many at once is in `batches`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from hmz_mp import portal
from hmz_mp.agents import batches
from hmz_mp.agents.kinds import engine_for
from hmz_mp.agents.placing import absolute
from hmz_mp.agents.prompts import as_prompt
from hmz_mp.agents.session import Session
from hmz_mp.agents.spec import parse
from hmz_mp.agents.submitter import Submitter
from hmz_mp.core.limits import AUTO, check_at_once

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from hmz_mp.agents.kinds import Engine
    from hmz_mp.agents.placing import Directory, Place
    from hmz_mp.agents.prompts import Prompt
    from hmz_mp.agents.turns import TurnEvent
    from hmz_mp.agents.usage import Spent
    from hmz_mp.core.limits import AtOnce
    from hmz_mp.shipping.sending import Shipping

__all__ = ["Agent", "agent_from_spec"]

_numbers = itertools.count(1)  # tells apart the agents of this process


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

    def __init__(self, spec: str, engine: Engine, *, name: str | None = None) -> None:
        self.spec = spec
        self.id = name or f"agent{next(_numbers)}"
        self._engine = engine
        self._submitter = Submitter(spec, self.id, engine)
        self._sessions: list[Session] = []

    def __repr__(self) -> str:
        state = "stopped" if self.stopped else f"{self._submitter.in_flight} turns in flight"
        return f"<Agent {self.id} {self.spec} {state}>"

    @property
    def waits(self) -> bool:
        """Whether its turns wait more than they compute, so that many share a process."""
        return self._engine.waits

    @property
    def converses(self) -> bool:
        """Whether it is an agent that keeps conversations, with a service of its own."""
        return self._engine.converses

    @property
    def files(self) -> tuple[str, ...]:
        """The files that its code is in, where that is the user's own."""
        return self._engine.files

    def check_shipping(self, shipping: Shipping) -> None:
        """Raise `BadInput` where its code cannot be sent with its turns."""
        if self.files:
            shipping.as_sent(self._engine.args)

    @property
    def prices(self) -> bool:
        """Whether its turns say what they cost, if they cost anything."""
        return self._engine.prices or not self._engine.converses

    @property
    def stopped(self) -> bool:
        """Whether it was told to take no more turns."""
        return self._submitter.stopped is not None

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions opened by `new` and `batch_new`, in order; one-turn ones are not kept."""
        return tuple(self._sessions)

    @property
    def opened(self) -> int:
        """How many sessions were opened so far, the one-turn sessions included."""
        return self._submitter.opened

    @property
    def spent(self) -> Spent:
        """What its turns have cost so far."""
        return self._submitter.usages.spent

    def bound(self, at_once: AtOnce) -> None:
        """Have so many of its turns in flight at most, unless its spec says how many.

        For a run's ``--at-once``. Turns that were submitted keep to what was said before.
        """
        self._submitter.bound(_width(at_once))

    # One turn.

    async def aturn(
        self,
        prompt: str | Prompt,
        *,
        suppress: bool = False,
        schema: Any = None,
        cwd: Directory = None,
    ) -> Any:
        """Give one prompt to a session of its own and return the answer."""
        return await portal.on_a_pool(self._aturn, prompt, suppress, schema, absolute(cwd), False)

    def __call__(
        self,
        prompt: str | Prompt,
        *,
        suppress: bool = False,
        schema: Any = None,
        cwd: Directory = None,
    ) -> Any:
        """Do what `aturn` does, blocking."""
        return portal.call(self.aturn, prompt, suppress=suppress, schema=schema, cwd=cwd)

    async def apursue(
        self, objective: str | Prompt, *, suppress: bool = False, schema: Any = None
    ) -> Any:
        """Work towards an objective until it is reached.

        ``claude/`` does so by its goal command. For ``tool/``, ``sh/``, ``openai/`` and
        ``anthropic/`` that is one turn, with the objective as its prompt.
        """
        return await portal.on_a_pool(self._aturn, objective, suppress, schema, None, True)

    def pursue(self, objective: str | Prompt, *, suppress: bool = False, schema: Any = None) -> Any:
        """Do what `apursue` does, blocking."""
        return portal.call(self.apursue, objective, suppress=suppress, schema=schema)

    async def _aturn(
        self, prompt: str | Prompt, suppress: bool, schema: Any, cwd: Place, pursue: bool
    ) -> Any:
        submitter = self._submitter
        turn = submitter.begin(
            as_prompt(prompt), submitter.view(), schema=schema, cwd=cwd, pursue=pursue
        )
        await turn.landed()
        return turn.value(suppress=suppress)

    # Many turns, a session each.

    async def abatch(
        self,
        prompts: Iterable[str | Prompt],
        *,
        at_once: AtOnce = 0,
        schema: Any = None,
        suppress: bool = False,
        cwd: Directory = None,
    ) -> list[Any]:
        """Give each prompt to a session of its own and return the answers in the same order.

        At most ``at_once`` turns are in flight (0: no cap of its own; ``"auto"``: as many as the
        agent's service bears, which is found out). The first failure in prompt order is raised once
        every turn has ended. Cancelling the call cancels its turns.
        """
        return await portal.on_a_pool(
            batches.abatch,
            self._submitter,
            prompts,
            _width(at_once),
            schema,
            suppress,
            absolute(cwd),
        )

    def batch(
        self,
        prompts: Iterable[str | Prompt],
        *,
        at_once: AtOnce = 0,
        schema: Any = None,
        suppress: bool = False,
        cwd: Directory = None,
    ) -> list[Any]:
        """Do what `abatch` does, blocking."""
        return portal.call(
            self.abatch, prompts, at_once=at_once, schema=schema, suppress=suppress, cwd=cwd
        )

    def amap(
        self,
        prompts: Iterable[str | Prompt],
        *,
        at_once: AtOnce = 0,
        suppress: bool = False,
        schema: Any = None,
        cwd: Directory = None,
    ) -> AsyncGenerator[Any, None]:
        """Iterate over the answers in prompt order, as `abatch` gives them, as they come.

        Reads ahead a bounded number of prompts, so memory does not grow with how many there are.
        A failure is raised in its place; leaving the loop cancels what was begun.
        """
        return portal.each_on_a_pool(
            batches.amap,
            self._submitter,
            prompts,
            _width(at_once),
            schema,
            suppress,
            absolute(cwd),
        )

    # Sessions.

    def new(self, cwd: Directory = None) -> Session:
        """Open a session, whose turns run in ``cwd``. It costs nothing until it takes a turn.

        ``cwd`` is a directory, or `hmz_mp.worktrees.worktree()`.
        """
        (session,) = self.batch_new(1, cwd)
        return session

    def batch_new(self, n: int, cwd: Directory = None) -> list[Session]:
        """Open ``n`` sessions."""
        if n < 0:
            raise ValueError(f"there cannot be {n} sessions")
        at = absolute(cwd)
        submitter = self._submitter
        first = submitter.opened + 1
        submitter.opened += n
        sessions = [Session(submitter, number, at) for number in range(first, first + n)]
        self._sessions.extend(sessions)
        return sessions

    # Stopping and watching.

    def stop(self, reason: str = "the agent was stopped") -> None:
        """Take no more turns. Those in flight are ended; all of them raise `Stopped`.

        May be called from any thread, more than once.
        """
        self._submitter.stop(reason)

    def watch(self, callback: Callable[[TurnEvent], object]) -> Callable[[], None]:
        """Call ``callback(event)`` for all that happens to its turns; return what ends that.

        It is called on the turns' loop, and is not to block. What it raises is logged.
        """
        return self._submitter.watch(callback)


def _width(at_once: AtOnce) -> AtOnce:
    try:
        check_at_once(at_once)
    except ValueError:
        raise ValueError(
            f"at_once cannot be {at_once!r}: it is a number, 0 for no cap, or {AUTO!r}"
        ) from None
    return at_once
