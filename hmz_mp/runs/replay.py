"""Which turns of a run that goes on were answered before, and which rows the others take over.

Owns the matching of what a flow asks now with what the ledger has. Imported by who carries out a
run. It reads a ledger and writes nothing; it knows nothing of pools or terminals.

A turn is known by what it was asked, and of whom; turns that stand alone are taken in order, those
of a session keep to the session that their first one was found in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hmz_mp.agents.identity import asked
from hmz_mp.runs.costs import Costs
from hmz_mp.runs.fingerprints import is_as_before, place_in, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hmz_mp.core.ambient import TurnRecord
    from hmz_mp.runs.reading import RecordedRun

__all__ = ["Replay"]

_FAILED = frozenset(("failed", "cancelled", "running", "waiting"))


class _Row(NamedTuple):
    """What of a recorded turn is needed to find it."""

    number: int
    state: str
    place: int
    identity: str
    agent_id: str
    session: str
    item_id: str
    kept_as: str

    @property
    def is_named(self) -> bool:
        """Whether its item has a name of its own, and not that of its session."""
        return self.item_id != _name(self.session, self.place)


_FILE = ("path", "cwd", "fingerprint", "began_at", "ended_at")
_COLUMNS = (*_Row._fields, *_FILE)


class Replay:
    """The turns of the earlier executions of a run, each to be asked for once more.

    ``execution`` is the one that begins. With ``retry`` only failed turns run again: whether a
    file, a tool or an agent has changed is not looked at.

    Its whole state: the rows that nobody has asked for yet, by number; where to look for them (what
    is first to be taken is last in a list); how each file was left; the sessions that were found,
    by the name they have now; how many items were asked for by rows that are new; and ``changed``,
    the answers of before that had to be asked for again.
    """

    def __init__(self, run: RecordedRun, execution: int, *, retry: bool = False) -> None:
        self.changed: set[int] = set()
        self.costs: Costs = run.costs()
        self._run = run
        self._execution = execution
        self._retry = retry
        self._left: dict[int, _Row] = {}
        self._first: dict[str, list[_Row]] = {}
        self._in_session: dict[tuple[str, int], _Row] = {}
        self._of_item: dict[tuple[str, str], list[_Row]] = {}
        self._files: dict[bytes, tuple[float, str]] = {}
        self._sessions: dict[str, str] = {}
        self._renewed: dict[tuple[str, str], int] = {}
        self._trusting = any(
            patch.state in ("applied", "applying") for patch in run.patches().values()
        )
        for number, state, place, *values in run.columns(_COLUMNS):
            texts = (text or "" for text in values[: -len(_FILE)])
            row = _Row(number, state, place, *texts)
            self._add(row)
            self._note_file(row, *values[-len(_FILE) :])
        for found in self._first.values():
            found.sort(key=lambda row: (row.state == "ok", -row.number))
        self.next_number = run.next_number()
        rows = self._left.values()
        self._names = {row.item_id for row in rows} | {row.session for row in rows}
        self._known = len(self._left)

    def __repr__(self) -> str:
        return f"<Replay of {self._known - len(self._left)} of {self._known} turns>"

    def _add(self, row: _Row) -> None:
        self._left[row.number] = row
        if row.kept_as:
            self._in_session[row.session, row.place] = row
        if row.identity and row.place == 0:
            self._first.setdefault(self._key(row.identity, bool(row.kept_as)), []).append(row)
        if row.is_named and not row.kept_as:
            self._of_item.setdefault((row.agent_id, row.item_id), []).append(row)

    def _note_file(
        self,
        row: _Row,
        path: bytes | None,
        cwd: str | None,
        fingerprint: str | None,
        began_at: float | None,
        ended_at: float | None,
    ) -> None:
        """Keep how the last turn about a file left it; empty if that was stopped in the middle.

        An earlier one may have left it otherwise, and is no less answered.
        """
        place = place_in(cwd, path)
        if place is None or began_at is None:
            return
        at = ended_at or began_at
        if at >= self._files.get(place, (0.0, ""))[0]:
            self._files[place] = at, (fingerprint or "") if row.state == "ok" else ""

    @staticmethod
    def _key(identity: str, kept: bool) -> str:
        return f"{asked(identity)} {kept}"

    # What is to be run.

    def chosen(self, item_ids: Iterable[str]) -> list[bool]:
        """Tell which items are to be asked about: with ``retry``, those that ran and ended."""
        if not self._retry:
            return [True for _ in item_ids]
        ran = {row.item_id for row in self._left.values() if row.state in {"ok", *_FAILED}}
        return [item_id in ran for item_id in item_ids]

    def has_row(self, item_id: str) -> bool:
        """Whether the ledger has anything about an item."""
        return item_id in self._names

    # What was asked before.

    def recall(self, record: TurnRecord) -> TurnRecord | None:
        """Return the record of the same turn if it was answered; then that is the turn's.

        Else the record is given the number of the row that it takes over, if there is one, with
        what that had cost, and its session's name of before.
        """
        row = self._find(record)
        self._rename(record, row)
        record.execution = self._execution
        if row is None:
            if _is_named(record):
                slot = record.agent_id, record.item_id
                self._renewed[slot] = self._renewed.get(slot, 0) + 1
            return None
        del self._left[row.number]
        if row.state == "ok" and self._holds(row, record):
            return self._run.turn(row.number)
        if row.state == "ok":
            self.changed.add(row.number)
        self._take_over(record, row)
        return None

    def rename(self, record: TurnRecord) -> None:
        """Give a turn that is asked in a later try of something a name that no row has."""
        self._rename(record, None)
        record.execution = self._execution

    def _take_over(self, record: TurnRecord, row: _Row) -> None:
        before = self._run.turn(row.number)
        record.number = row.number
        record.input_tokens = before.input_tokens
        record.output_tokens = before.output_tokens
        record.cost_usd = before.cost_usd
        record.usage = before.usage

    def _find(self, record: TurnRecord) -> _Row | None:
        session = self._sessions.get(record.session)
        if record.kept_as and (record.place or session is not None):
            return self._find_in_session(record, session)
        found = self._find_asked(record)
        if found is None and not record.kept_as and _is_named(record):
            found = self._find_unanswered(record)
        return found

    def _find_in_session(self, record: TurnRecord, session: str | None) -> _Row | None:
        if session is None:
            return None
        row = self._in_session.get((session, record.place))
        if row is None or row.number not in self._left:
            return None
        same = asked(row.identity) == asked(record.identity)
        return row if same or row.state != "ok" else None

    def _find_asked(self, record: TurnRecord) -> _Row | None:
        if record.kept_as:  # of sessions that began alike, the one that has the same name
            row = self._find_in_session(record, record.session)
            if row is not None and asked(row.identity) == asked(record.identity):
                return row
        rows = self._first.get(self._key(record.identity, bool(record.kept_as)), [])
        while rows and rows[-1].number not in self._left:
            rows.pop()
        return rows[-1] if rows else None

    def _find_unanswered(self, record: TurnRecord) -> _Row | None:
        """Return a row about the same item that is of no use to anybody else."""
        rows = self._of_item.get((record.agent_id, record.item_id), ())
        for row in rows:
            if row.number in self._left:
                if row.state != "ok":
                    return row
                if self._retry and not row.identity:  # an older version had none
                    return row
        return None

    def _holds(self, row: _Row, record: TurnRecord) -> bool:
        """Whether a row's answer is what the turn would be answered now."""
        if self._retry:
            return True
        if row.identity != record.identity:
            return False
        path = place_of(record)
        if path is None or self._trusting:
            return True
        _, fingerprint = self._files.get(path, (0.0, ""))
        return not fingerprint or is_as_before(path, fingerprint)

    def _rename(self, record: TurnRecord, row: _Row | None) -> None:
        """Give a turn the names that its row has, or names that no row has."""
        named = _is_named(record)
        session = self._sessions.get(record.session)
        if row is not None:
            if record.kept_as:
                self._sessions[record.session] = row.session
            session = row.session
        elif session is None and record.session in self._names:
            session = f"{record.session}+{self._execution}"
            if record.kept_as:
                self._sessions[record.session] = session
        if session is not None:
            record.session = session
        if not named:
            record.item_id = row.item_id if row is not None else _name(
                record.session, record.place
            )  # fmt: skip

    # How it went.

    @property
    def unasked(self) -> int:
        """How many answers of before nobody has asked for."""
        return sum(row.state == "ok" for row in self._left.values())

    def replaced(self) -> Iterator[int]:
        """Yield the rows that others have taken the place of, as the flow asks otherwise now."""
        for slot, count in self._renewed.items():
            rows = (row for row in self._of_item.get(slot, ()) if row.number in self._left)
            for row, _ in zip(rows, range(count), strict=False):
                yield row.number


def _name(session: str, place: int) -> str:
    """Return what an item is called that has no name of its own."""
    return f"{session}.{place}" if place else session


def _is_named(record: TurnRecord) -> bool:
    return record.item_id != _name(record.session, record.place)
