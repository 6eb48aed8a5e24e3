from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import open_run
from hmz_mp.runs.patches import PatchJournal
from hmz_mp.runs.reading import PatchState
from hmz_mp.worktrees.applying import RecordedPatch
from hmz_mp.worktrees.checkout import Checkout
from hmz_mp.worktrees.patches import Change, Entry

from .support import new_ledger, turn

ODD = os.fsdecode(b"../od\x1bd /[b]\n\xff.py")
PLAN = [
    Change(b"x\xff\n", None, Entry("100644", "a" * 40)),
    Change(b"y", Entry("100755", "b" * 40), None),
]


def write_run(start: Path, *turns: dict[str, Any]) -> Path:
    with closing(new_ledger(runs_directory(start))) as ledger:
        for number, given in enumerate(turns):
            fields = {"item_id": f"item{number}", "state": "ok", "session": f"s{number}", **given}
            item_id = fields.pop("item_id")
            record = turn(number, item_id)
            for name, value in fields.items():
                setattr(record, name, value)
            ledger.put(record)
        ledger.finish("ok", 0, {})
        return ledger.directory


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[PatchJournal]:
    """That of a run of four turns, three of which changed something."""
    directory = write_run(
        tmp_path,
        {"patch": b"first"},
        {"patch": b""},
        {"patch": b"odd", "item_id": ODD},
        {"patch": b"half", "state": "failed"},
    )
    with PatchJournal(directory) as journal:
        yield journal


def test_the_patches_of_turns_that_were_ok(journal: PatchJournal) -> None:
    assert list(journal.patches()) == [
        RecordedPatch(0, "item0", None),
        RecordedPatch(2, ODD, None),
    ]
    assert journal.text(2) == b"odd"
    assert journal.unapplied() == ["item0", ODD]


def test_of_a_session_the_last_that_was_ok(tmp_path: Path) -> None:
    directory = write_run(
        tmp_path,
        {"patch": b"one", "session": "a", "place": 0},
        {"patch": b"other", "session": "b", "place": 0},
        {"patch": b"both", "session": "a", "place": 1},
        {"patch": b"half", "session": "a", "place": 2, "state": "failed"},
        {"patch": b"undone", "session": "c", "place": 0},
        {"patch": b"", "session": "c", "place": 1},
        # Two agents that were given one name have sessions of one name, a turn each.
        {"patch": b"x", "session": "x-1", "place": 0},
        {"patch": b"y", "session": "x-1", "place": 0},
    )
    with PatchJournal(directory) as journal:
        assert [patch.number for patch in journal.patches()] == [1, 2, 6, 7]


def test_what_becomes_of_them(journal: PatchJournal, tmp_path: Path) -> None:
    journal.applying(0, PLAN)
    (first, _) = journal.patches()
    assert (first.state, first.plan) == ("applying", PLAN)
    journal.withdrawn(0)
    assert next(journal.patches()) == RecordedPatch(0, "item0", None)
    journal.applying(0, PLAN)
    journal.applied(0)
    file = Path(journal.conflicted(2, "it does not fit"))
    assert file.read_bytes() == b"odd"
    assert file.name == "000002-od_d_b_.py.patch"
    assert [patch.state for patch in journal.patches()] == ["applied", "conflict"]
    assert journal.unapplied() == [ODD]
    with open_run(runs_directory(tmp_path), "last") as run:
        assert run.patches() == {
            0: PatchState("applied", None, None),
            2: PatchState("conflict", "it does not fit", str(file)),
        }
        assert [one.problem for one in run.patches().values()] == [None, "it does not fit"]


def test_where_they_come_from(journal: PatchJournal) -> None:
    assert journal.checkout() is None
    checkout = Checkout("/top\udcff", "/top\udcff/.git", "in side")
    journal.note_checkout(checkout, "c" * 40)
    assert journal.checkout() == (checkout, "c" * 40)


def test_a_ledger_that_cannot_be_written(journal: PatchJournal) -> None:
    journal.close()
    journal._connection = __import__("sqlite3").connect(
        f"file:{journal._directory / 'run.db'}?mode=ro", uri=True
    )
    with pytest.raises(OSError, match=r"the ledger in '.*' cannot be written"):
        journal.applied(0)


def test_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no ledger"):
        PatchJournal(tmp_path)


def test_states_in_words() -> None:
    assert PatchState("waiting", None, None).problem == "its patch is not applied yet"
    assert PatchState("applying", None, None).problem == "its patch is applied in part"
