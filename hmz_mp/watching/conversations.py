"""What was said in a conversation, as lines for a screen: read from the ledger, bounded, printable.

Imported by ``screen``; it knows nothing of terminals but that lines are shown on one.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from hmz_mp.runs.events import event_file
from hmz_mp.runs.reading import RecordedRun
from hmz_mp.runs.words import STATE_WORDS, duration
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hmz_mp.core.ambient import TurnRecord

__all__ = ["KEPT", "LINES", "Conversation", "Kept", "Line", "read_conversation"]

KEPT = 8  # conversations on screen
LINES = 2000  # of each
_TURNS = 20  # the last ones of a conversation
_PROMPT_LINES = 12
_TAIL = 1 << 19  # bytes of a file of events that are read
_LONGEST = 4000  # characters of a line


class Line(NamedTuple):
    """One line, and what sort it is: "prompt", "text", "tool", "error" and so on."""

    kind: str
    text: str


class Conversation(NamedTuple):
    """What there is of one conversation; ``number`` is of its last turn, and ``state`` too."""

    session: str
    item_id: str
    agent: str
    number: int
    place: int
    state: str
    seconds: float | None
    lines: tuple[Line, ...]


class Kept:
    """The last conversations that were looked at; the others are in the ledger."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, Conversation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def put(self, conversation: Conversation) -> None:
        """Keep one, as the last that was looked at."""
        self._found[conversation.session] = conversation
        self._found.move_to_end(conversation.session)
        while len(self._found) > KEPT:
            self._found.popitem(last=False)

    def get(self, session: str) -> Conversation | None:
        """Return one, if it is kept."""
        return self._found.get(session)


def read_conversation(directory: Path, session: str) -> Conversation | None:
    """Return a conversation with its last `LINES` lines, or ``None`` if there is none."""
    with RecordedRun(directory) as run:
        query = "SELECT number FROM turns WHERE session = ? ORDER BY number DESC LIMIT ?"
        numbers = [number for (number,) in run.rows(query, [session, _TURNS])][::-1]
        turns = [turn for number in numbers for turn in run.numbered(number)]
        if not turns:
            return None
        lines = [line for turn in turns for line in _turn_lines(run, turn, directory)]
    last = turns[-1]
    return Conversation(
        session,
        last.item_id,
        last.agent,
        last.number,
        last.place,
        last.state,
        last.seconds,
        tuple(lines[-LINES:]),
    )


def _turn_lines(run: RecordedRun, turn: TurnRecord, directory: Path) -> Iterator[Line]:
    prompt = list(_lines("prompt", turn.prompt))
    yield from prompt[:_PROMPT_LINES]
    if len(prompt) > _PROMPT_LINES:
        yield Line("note", f"… {len(prompt) - _PROMPT_LINES:,} lines more")
    said = False
    attempts = 0
    for kind, text in _events(run, turn.number, directory):
        said = said or kind == "text"
        attempts += kind == "attempt"
        yield from _event_lines(kind, text, attempts)
    yield from _end_lines(turn, said)


def _events(run: RecordedRun, number: int, directory: Path) -> Iterable[tuple[str, str]]:
    found = [(event.kind, event.text) for event in run.events(number)]
    if found and found[-1][0] == "more":
        found = list(_from_file(event_file(directory, number))) or found[:-1]
    yield from found


def _from_file(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the last events of a turn that had many; one that is being written is left out."""
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, 2)
            opened.seek(max(0, size - _TAIL))
            lines = opened.read().split(b"\n")
    except OSError:
        return
    for line in lines[1 if size > _TAIL else 0 :]:
        try:
            event: dict[str, Any] = json.loads(line)
            yield str(event["kind"]), str(event["text"])
        except (ValueError, KeyError, TypeError):
            continue


def _event_lines(kind: str, text: str, attempts: int) -> Iterator[Line]:
    match kind:
        case "attempt":
            if attempts > 1:
                yield Line("note", f"begins again, in worker {printable(text)}")
        case "waiting":
            yield Line("note", f"its service is too busy: it waits {_seconds(text)} at least")
        case "told":
            yield from _lines("told", text)
        case "tool" | "reasoning" | "text" | "log" | "progress":
            yield from _lines(kind, text)
        case _:
            yield from _lines("note", f"{kind}: {text}")


def _seconds(text: str) -> str:
    try:
        return duration(float(text))
    except (ValueError, OverflowError):
        return printable(text)


def _end_lines(turn: TurnRecord, said: bool) -> Iterator[Line]:
    if turn.state in ("queued", "running", "waiting"):
        return
    if turn.answer and not said:
        yield from _lines("text", turn.answer)
    if turn.error:
        yield from _lines("error", turn.error)
    took = f" after {duration(turn.seconds)}" if turn.seconds is not None else ""
    yield Line(turn.state, f"{STATE_WORDS[turn.state]}{took}")


def _lines(kind: str, text: str) -> Iterator[Line]:
    for line in text.rstrip("\n").splitlines()[-LINES:]:
        shown = printable(line[:_LONGEST].replace("\t", "    "))
        yield Line(kind, shown + ("…" if len(line) > _LONGEST else ""))
