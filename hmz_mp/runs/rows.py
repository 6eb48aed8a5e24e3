"""What of a run is put into its ledger: its turns, who they are of, what they say, a flow's state.

Owns the numbers of turns, and which rows of before give way. Imported by ``runs.run``; it knows
nothing of how a ledger writes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from hmz_mp.core.ambient import TurnRecord
from hmz_mp.runs.schema import replace_statements
from hmz_mp.runs.telling import told_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hmz_mp.core.ambient import Item
    from hmz_mp.runs.replay import Replay

__all__ = ["RecordSink", "Rows", "never_submitted"]


class RecordSink(Protocol):
    """What a run needs of its ledger."""

    @property
    def run_id(self) -> str:
        """The run's name."""

    @property
    def directory(self) -> Path | None:
        """Where its files are."""

    def masked(self, text: str) -> str:
        """Return a text without secrets."""

    def put(self, record: TurnRecord, *, alone: bool) -> int:
        """Write the record as it is now; returns at once, with how many puts there were.

        0 if there is nothing to wait for. ``alone``: no other turn is under way.
        """

    def say(self, number: int, at: float, kind: str, text: str) -> None:
        """Write down what a turn said or did."""

    def note(self, statement: str, *values: Any) -> None:
        """Write another row."""


class Rows:
    """The rows of one execution of a run.

    Its whole state: the next number; the agents and sessions that are written down; and what a
    resumable flow keeps, as it was written last.
    """

    def __init__(
        self,
        ledger: RecordSink,
        replay: Replay | None,
        state: dict[str, Any] | None,
        now: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._replay = replay
        self._state = state
        self._now = now
        self._next_number = 0 if replay is None else replay.next_number
        self._noted: set[str] = set()
        self._kept = "{}"

    def __repr__(self) -> str:
        return f"<Rows of {self._ledger.run_id}, the next is {self._next_number}>"

    def number(self, record: TurnRecord) -> None:
        """Give a record its number, unless it has taken over a row."""
        if record.number < 0:
            record.number = self._next_number
            self._next_number += 1

    def put(self, record: TurnRecord, *, alone: bool) -> int:
        """Write a record as it is; an answer of before only gives way to an ending that says more.

        Else who interrupts a run whose tool has changed would lose what is there.
        """
        if self._is_in_the_place_of_an_answer(record) and record.state not in ("ok", "failed"):
            return 0
        return self._ledger.put(record, alone=alone)

    def _is_in_the_place_of_an_answer(self, record: TurnRecord) -> bool:
        return self._replay is not None and record.number in self._replay.changed

    def introduce(self, record: TurnRecord) -> None:
        """Write down the agent and the session of a turn, once each."""
        if record.agent_id not in self._noted:
            self._noted.add(record.agent_id)
            self._ledger.note(
                "INSERT OR REPLACE INTO agents VALUES (?, ?)", record.agent_id, record.agent
            )
        if record.kept_as and record.session not in self._noted:
            self._noted.add(record.session)
            self._ledger.note(
                "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?)",
                *(record.session, record.agent_id, record.kept_as, record.cwd, self._now()),
            )

    def selected(self, items: int) -> None:
        """Write down how many items there are, for those who want to know how far the run is."""
        self._ledger.note("UPDATE runs SET items = ?", items)

    def say(self, record: TurnRecord, event: object) -> None:
        """Write down what a turn said or did."""
        told = told_of(record, event)
        if told is not None:
            self._ledger.say(record.number, self._now(), *told)

    def ended(self, record: TurnRecord) -> None:
        """Forget what became of the patch of an answer that a turn replaces."""
        if self._is_in_the_place_of_an_answer(record):
            self._ledger.note("DELETE FROM patches WHERE number = ?", record.number)

    def keep_state(self) -> None:
        """Write down what a resumable flow keeps, if it has changed.

        Raises `TypeError` or `ValueError` for what JSON cannot hold.
        """
        if self._state is None:
            return
        try:
            kept = json.dumps(self._state)
        except RuntimeError:  # the flow's thread is changing it; there is a next time
            return
        if kept != self._kept:
            self._kept = kept
            self._ledger.note("UPDATE runs SET state = ?", kept)

    def drop_replaced(self) -> None:
        """Take out rows of before whose items the flow, which has ended, asked otherwise about."""
        for number in self._replay.replaced() if self._replay is not None else ():
            self.drop(number)

    def drop(self, number: int) -> None:
        """Take a row out of the turns; it is kept for what it has cost."""
        for statement in replace_statements():
            self._ledger.note(statement, number)


def never_submitted(item: Item, reason: str, now: float) -> TurnRecord:
    """Return the record of an item that was announced, and that no turn was about."""
    return TurnRecord(
        item_id=item.item_id,
        agent="",
        agent_id="",
        session="",
        place=0,
        prompt="",
        path=item.path,
        state="not_run",
        error=reason,
        submitted_at=now,
        ended_at=now,
    )
