"""A session: turns that never overlap, in the order in which they were asked.

A session is three numbers until it takes a turn; only then does the pool hear of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hmz_mp import portal
from hmz_mp.agents.pieces import Pieces
from hmz_mp.agents.prompts import Prompt, as_prompt
from hmz_mp.agents.turns import cancel_all
from hmz_mp.core.ambient import current_pool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hmz_mp.agents.submitter import Submitter
    from hmz_mp.agents.turns import AgentTurn
else:
    Submitter = Any  # it imports this module

__all__ = ["Session"]


class Session(msgspec.Struct, gc=False, eq=False):
    """One sequence of turns of an agent, opened by `Agent.new` or `Agent.batch_new`.

    Turns of one session follow each other, whoever awaits them; turns of two sessions do not wait
    for each other. A plain ``tool/`` function finds what its session's earlier turns left in
    ``hmz_mp.session_state()``.
    """

    # A struct that the garbage collector does not look at: people open a million of them.
    _submitter: Submitter
    _number: int
    _cwd: str | None
    _place: int = 0
    _pool: Any = None
    _pooled: Any = None  # this session's own in that pool

    def __repr__(self) -> str:
        return f"<Session {self.id} {self._place} turns>"

    @property
    def id(self) -> str:
        """Its name, unique in the process."""
        return f"{self._submitter.id}-{self._number}"

    @property
    def cwd(self) -> str | None:
        """The absolute directory its turns run in; ``None`` for the workers' own."""
        return self._cwd

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
        """Say something to the turn that is running. Raises `RuntimeError`.

        A Python function or a program cannot be spoken to; agents that can are still to come.
        """
        raise RuntimeError(
            f"{self._submitter.spec} cannot be told {text!r} in the middle of a turn"
        )

    def _begin(self, prompt: str | Prompt, **settings: Any) -> AgentTurn:
        pool = current_pool()
        if self._pool is not pool:
            self._pooled = self._submitter.view().session(self.id)
            self._pool = pool
        place = self._place
        self._place += 1
        return self._submitter.begin(
            as_prompt(prompt),
            self._pooled,
            cwd=self._cwd,
            session=self.id,
            place=place,
            **settings,
        )

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
