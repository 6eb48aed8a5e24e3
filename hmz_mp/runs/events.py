"""What turns said and did, written beside their rows: bounded in the ledger, whole in a file.

Owns the table ``events`` and the files in ``events/``. Imported by the ledger, on whose thread it
runs; it knows nothing of where events come from.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from hmz_mp.runs.schema import EVENTS_OF_A_TURN, stored, unstored
from hmz_mp.runs.telling import TRIED

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from hmz_mp.runs.masking import Masks

__all__ = ["DIRECTORY", "EventLog", "TurnSaid", "event_file", "ids_of"]

DIRECTORY = "events"
MOST = 200  # rows of a turn
MOST_TEXT = 1 << 16  # characters of them
_PIECE = 4096  # characters: pieces of a text are put together up to this


class TurnSaid(NamedTuple):
    """One event of the turn ``number``."""

    number: int
    at: float
    kind: str
    text: str


class _Count:
    """How much of a turn there is in the ledger, and whether its events go to a file now."""

    __slots__ = ("in_file", "rows", "text")

    def __init__(self) -> None:
        self.rows = 0
        self.text = 0
        self.in_file = False


def event_file(directory: Path, number: int) -> Path:
    """Return where all events of a turn that had many are."""
    return directory / DIRECTORY / f"{number}.jsonl"


def ids_of(number: int) -> tuple[int, int]:
    """Return the first id of a turn's events, and the first of the next turn's."""
    return number * EVENTS_OF_A_TURN, (number + 1) * EVENTS_OF_A_TURN


class EventLog:
    """Writes the events of a run's turns.

    Its whole state: how many each open turn has; which turns this execution has written events of,
    if there may be some of an earlier one; and the ends of texts that are held back, since a secret
    may go on in the next piece.
    """

    def __init__(self, directory: Path, masks: Masks, *, again: bool) -> None:
        self._directory = directory
        self._masks = masks
        self._again = again  # there may be events of an earlier execution
        self._counts: dict[int, _Count] = {}
        self._begun: set[int] = set()
        self._held: dict[int, TurnSaid] = {}

    def write(self, connection: sqlite3.Connection, events: Iterable[TurnSaid]) -> None:
        """Write events, in the order in which they came."""
        self._write(connection, self._ready(_joined(events)))

    def end(self, connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
        """Take note that turns have ended, and write what was held back of them."""
        numbers = list(numbers)
        held = [self._held.pop(number) for number in numbers if number in self._held]
        self._write(connection, [self._masked(event) for event in held])
        for number in numbers:
            self._counts.pop(number, None)

    def _write(self, connection: sqlite3.Connection, events: Sequence[TurnSaid]) -> None:
        if not events:
            return
        rows: list[tuple[object, ...]] = []
        lines: dict[int, list[TurnSaid]] = {}
        for event in events:
            count = self._counts.get(event.number) or self._begin(connection, event)
            fits = count.rows < MOST and count.text < MOST_TEXT
            if not count.in_file and (fits or event.kind == TRIED):
                rows.append(_row(event, count))
                continue
            if event.kind == TRIED:  # is always in the ledger, before what says that there is more
                count.rows -= 1
                rows += [_row(event, count), _row(event._replace(kind="more", text=""), count)]
            if not count.in_file:
                rows.append(_row(event._replace(kind="more", text=""), count))
                count.in_file = True
            lines.setdefault(event.number, []).append(event)
        connection.executemany("INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?)", rows)
        for number, some in lines.items():
            self._append(connection, number, some)

    def _ready(self, events: Sequence[TurnSaid]) -> list[TurnSaid]:
        """Return what can be written, masked; the end of a text waits for what follows it."""
        if not self._masks:
            return list(events)
        ready: list[TurnSaid] = []
        for event in events:
            held = self._held.pop(event.number, None)
            if held is not None and event.kind == "text":
                event = held._replace(text=held.text + event.text)
            elif held is not None:
                ready.append(self._masked(held))
            if event.kind == "text":
                event, kept = self._divided(event)
                if kept.text:
                    self._held[event.number] = kept
            if event.text or event.kind != "text":
                ready.append(self._masked(event))
        return ready

    def _divided(self, event: TurnSaid) -> tuple[TurnSaid, TurnSaid]:
        text = event.text
        end = text.rfind("\n") + 1
        if len(text) - end > _PIECE:
            end = len(text) - self._masks.longest
        return event._replace(text=text[:end]), event._replace(text=text[end:])

    def _masked(self, event: TurnSaid) -> TurnSaid:
        return event._replace(text=self._masks.text(event.text)) if self._masks else event

    def _begin(self, connection: sqlite3.Connection, event: TurnSaid) -> _Count:
        """Return how much there is of a turn: what was said in tries before, none of it else."""
        number = event.number
        if self._again and number not in self._begun:
            connection.execute("DELETE FROM events WHERE id >= ? AND id < ?", ids_of(number))
            event_file(self._directory, number).unlink(missing_ok=True)
            self._begun.add(number)
        count = self._counts[number] = _Count()
        if event.kind == TRIED:
            query = "SELECT kind, length(text) FROM events WHERE id >= ? AND id < ? ORDER BY id"
            for kind, length in connection.execute(query, ids_of(number)):
                count.rows += 1
                count.text += length
                count.in_file = kind == "more"
        return count

    def _append(
        self, connection: sqlite3.Connection, number: int, events: Sequence[TurnSaid]
    ) -> None:
        path = event_file(self._directory, number)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            query = (
                "SELECT at, kind, text FROM events "
                "WHERE id >= ? AND id < ? AND kind != 'more' ORDER BY id"
            )
            rows = connection.execute(query, ids_of(number))
            before = [TurnSaid(number, *row) for row in rows]
            events = [*before, *events]
        with path.open("a", encoding="ascii") as file:
            for event in events:
                line = {"at": event.at, "kind": event.kind, "text": unstored(event.text)}
                file.write(json.dumps(line) + "\n")


def _row(event: TurnSaid, count: _Count) -> tuple[object, ...]:
    place = count.rows
    count.rows += 1
    count.text += len(event.text)
    first, _ = ids_of(event.number)
    return first + place, event.at, event.kind, stored(event.text)


def _joined(events: Iterable[TurnSaid]) -> list[TurnSaid]:
    """Put pieces of one text together."""
    joined: list[TurnSaid] = []
    last: dict[int, int] = {}
    for event in events:
        at = last.get(event.number)
        if at is not None and event.kind == "text" == joined[at].kind:
            before = joined[at]
            if len(before.text) < _PIECE:
                joined[at] = before._replace(text=before.text + event.text)
                continue
        last[event.number] = len(joined)
        joined.append(event)
    return joined
