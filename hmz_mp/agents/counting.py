"""What is used of models on whose behalf: counted by context, whoever asks a model in it.

Owns the context variable. Turns of agents and sub-runs add to it; imports nothing of ours but the
events of backends.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hmz_mp_worker.backends.protocol import Usage

__all__ = ["Counters", "Used", "counters", "counting"]


class Used(msgspec.Struct):
    """Tokens and money so far, and how many turns of agents, or askings of sub-runs, there were.

    ``input_tokens`` are all that was read, those from a cache too. ``cost_usd`` is what the
    agent says, or what the prices given to ``run_subtask`` make of it.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    turns: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, read and written."""
        return self.input_tokens + self.output_tokens

    def add(self, usages: Iterable[Usage]) -> None:
        """Add what was used since."""
        for usage in usages:
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
            self.cost_usd += usage.cost_usd


Counters = tuple[Used, ...]  # of all who count in a context, from the outermost
_counters: ContextVar[Counters] = ContextVar("hmz_mp_counters", default=())

counters = _counters.get


@contextmanager
def counting() -> Iterator[Used]:
    """Count what is used of models by what is asked for in this context.

    As in ``with counting() as used:``. `hmz_mp.fanin.fan_out` does so for each of its items.
    """
    used = Used()
    token = _counters.set((*_counters.get(), used))
    try:
        yield used
    finally:
        _counters.reset(token)
