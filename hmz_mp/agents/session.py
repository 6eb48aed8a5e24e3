"""A session: turns that never overlap, in the order in which they were asked.

A session is a few small values until it takes a turn; only then does the pool hear of it.
"""

from __future__ import annotations

import threading
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from hmz_mp import portal
from hmz_mp.agents.identity import asked
from hmz_mp.agents.pieces import Pieces
from hmz_mp.agents.prompts import Prompt, as_prompt
from hmz_mp.agents.turns import cancel_all
from hmz_mp.core.ambient import current_pool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hmz_mp.agents.placing import Place
    from hmz_mp.agents.submitter import Submitter
    from hmz_mp.agents.turns import AgentTurn
else:
    Submitter = Place = Any  # the one imports this module, the other is of no use to a struct

__all__ = ["Session"]


class Session(msgspec.Struct, gc=False, eq=False):
    """One sequence of turns of an agent, opened by `Agent.new` or `Agent.batch_new`.

    Turns of one session follow each other, whoever awaits them; turns of two sessions do not wait
    for each other. A plain ``tool/`` function finds what its session's earlier turns left in
    ``hmz_mp.session_state()``. With an agent that converses it is one conversation, which goes on
    where it was when the agent's program or its worker was lost.
    """

    # A struct that the garbage collector does not look at: people open a million of them.
    _submitter: Submitter
    _number: int
    _cwd: Place
    _place: int = 0
    _pool: Any = None
    _pooled: Any = None  # this session's own in that pool
    _talk: Any = None  # its `_Talk`, with an agent that converses
    _asked: str = ""  # what was asked last, and before it

    def __repr__(self) -> str:
        return f"<Session {self.id} {self._place} turns>"

    @property
    def id(self) -> str:
        """Its name, unique in the process."""
        return f"{self._submitter.id}-{self._number}"

    @property
    def cwd(self) -> str | None:
        """The absolute directory its turns run in; ``None`` for the workers' own, or a worktree."""
        return self._cwd if isinstance(self._cwd, str) else None

    async def aturn(
        self, prompt: str | Prompt, *, suppress: bool = False, schema: Any = None
    ) -> Any:
        """Give it a prompt and return the answer, once its earlier turns have ended."""
        if current_pool() is None:
            return await portal.on_a_pool(self.aturn, prompt, suppress=suppress, schema=schema)
        turn = self._begin(prompt, schema=schema)
        await turn.landed()
        return turn.value(suppress=suppress)

    def __call__(self, prompt: str | Prompt, *, suppress: bool = False, schema: Any = None) -> Any:
        """Do what `aturn` does, blocking."""
        return portal.call(self.aturn, prompt, suppress=suppress, schema=schema)

    def stream(self, prompt: str | Prompt) -> AsyncGenerator[str, None]:
        """Iterate over the answer in pieces, as they are written; together they are the answer.

        A failed turn raises `Failed` at the end. Leaving the loop cancels the turn.
        """
        return portal.each_on_a_pool(self._stream, prompt)

    def interject(self, text: str) -> None:
        """Say something to the turn that is running; its agent hears it before it goes on.

        May be called from any thread. Raises `RuntimeError` when no turn runs, for ``tool/`` and
        ``sh/``, as a Python function or a command cannot be spoken to, and for ``openai/`` and
        ``anthropic/``, as a request that was sent cannot be added to.
        """
        if not self._submitter.interjects:
            raise RuntimeError(
                f"{self._submitter.spec} cannot be told {text!r} in the middle of a turn"
            )
        turn = self._talk.running() if self._talk is not None else None
        if turn is None:
            raise RuntimeError(f"no turn of {self.id} is running, to be told {text!r}")
        if turn.home.thread == threading.get_ident():
            turn.interject(text)
        else:
            turn.home.soon(partial(turn.interject, text))

    def _begin(self, prompt: str | Prompt, **settings: Any) -> AgentTurn:
        pool, submitter, name = current_pool(), self._submitter, self.id
        if self._pool is not pool:
            self._pooled = submitter.view().session(name)
            self._pool = pool
        if submitter.converses and self._talk is None:
            self._talk = _Talk()
        talk: _Talk | None = self._talk
        place = self._place
        self._place += 1
        turn = submitter.begin(
            as_prompt(prompt),
            self._pooled,
            cwd=self._cwd,
            session=name,
            place=place,
            conversation=talk.id if talk is not None else "",
            begun=talk is not None and talk.has_begun(),
            known_as=talk.known_as() if talk is not None else "",
            after=self._asked,
            **settings,
        )
        self._asked = asked(turn.record.identity)
        if talk is not None:
            talk.add(turn)
        return turn

    async def _stream(self, prompt: str | Prompt) -> AsyncGenerator[str, None]:
        pieces = Pieces()
        turn = self._begin(prompt, listener=pieces)
        try:
            while (piece := await pieces.next()) is not None:
                yield piece
            if rest := pieces.rest(turn.value()):
                yield rest
        finally:
            await cancel_all([turn])


class _Talk:
    """The conversation that a session is: its id, and its turns that have not ended."""

    def __init__(self) -> None:
        self.id = str(uuid.uuid4())
        self._turns: list[AgentTurn] = []
        self._begun = False
        self._known_as: str | None = None

    def add(self, turn: AgentTurn) -> None:
        """Take note of a turn; what has ended is let go.

        One that an earlier execution of the run was answered has its conversation to go on with.
        """
        self.has_begun()
        self._turns = [one for one in self._turns if not one.done]
        self._turns.append(turn)
        if turn.recalled:
            self.id = turn.record.kept_as

    def has_begun(self) -> bool:
        """Whether a turn was answered, so that the conversation is there to be gone on with."""
        self._begun = self._begun or any(one.record.state == "ok" for one in self._turns)
        for one in self._turns:
            self._known_as = one.record.conversation or self._known_as
        return self._begun

    def known_as(self) -> str | None:
        """Return what the agent's program calls it: empty if no turn of it was heard of.

        ``None`` if one may be heard of yet.
        """
        self.has_begun()
        if self._known_as is None and all(one.done for one in self._turns):
            return ""
        return self._known_as

    def running(self) -> AgentTurn | None:
        """Return the turn that runs."""
        return next((one for one in self._turns if one.record.state == "running"), None)
