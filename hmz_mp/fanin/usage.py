"""What an item has used of models, whoever asked them: sub-runs, or agents that are watched.

Owns the context variable by which what is used finds its item. Imported by ``fanin``.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

from hmz_mp_worker.backends.protocol import Spent, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hmz_mp.agents import Agent, TurnEvent
    from hmz_mp.core.ambient import TurnRecord

__all__ = ["Used", "counting", "note_used", "watching"]


class Used(msgspec.Struct):
    """Tokens and money so far, and how often a model was asked, if that is known.

    ``input_tokens`` are all that was read, those from a cache too. ``cost_usd`` is what the
    agent says, or what the prices given to `run_subtask` make of it.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    turns: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, read and written."""
        return self.input_tokens + self.output_tokens

    def add(self, usage: Usage) -> None:
        """Add what was used since."""
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cost_usd += usage.cost_usd


# All who count in this context, from the outermost.
_counters: ContextVar[tuple[Used, ...]] = ContextVar("hmz_mp_used", default=())


@contextmanager
def counting() -> Iterator[Used]:
    """Count what is used of models in this context; `fan_out` does so for each item."""
    used = Used()
    token = _counters.set((*_counters.get(), used))
    try:
        yield used
    finally:
        _counters.reset(token)


def note_used(usage: Usage) -> None:
    """Count one more turn of a model, for all who count in this context."""
    for used in _counters.get():
        used.add(usage)
        used.turns += 1


@contextmanager
def watching(agent: Agent | None) -> Iterator[None]:
    """Count what an agent's turns use while this is open, each for the item that asked for it."""
    if agent is None:
        yield
        return
    # Whose turns they are, by the records' ids; the records too, so that an id stays its own.
    open_turns: dict[int, tuple[TurnRecord, tuple[Used, ...]]] = {}

    def heard(event: TurnEvent) -> None:
        key = id(event.record)
        if event.kind == "submitted":  # told in the context of who asks
            open_turns[key] = event.record, _counters.get()
        elif event.kind == "said" and key in open_turns and isinstance(event.event, Spent):
            for usage in event.event.usage:
                for used in open_turns[key][1]:
                    used.add(usage)
        elif event.kind == "ended" and (known := open_turns.pop(key, None)) is not None:
            for used in known[1]:
                used.turns += 1

    unwatch = agent.watch(heard)
    try:
        yield
    finally:
        unwatch()
