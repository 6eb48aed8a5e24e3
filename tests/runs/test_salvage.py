import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.runs.finding import list_runs, open_run
from hmz_mp.runs.reading import RecordedRun
from hmz_mp.runs.salvage import is_damage

from .support import new_ledger, turn

PAGE = 4096
TURNS = 600
LONG = "a long answer\n" * 1000  # on pages of its own


def write(runs_dir: Path) -> Path:
    """Write a run whose ledger has a few hundred pages; returns its file."""
    with closing(new_ledger(runs_dir)) as ledger:
        for number in range(TURNS):
            answer = LONG if number % 10 == 0 else "short"
            ledger.put(turn(number, state="ok", answer=answer, seconds=1.0))
        ledger.finish("ok", 0, {})
    file = ledger.directory / "run.db"
    assert not file.with_name("run.db-wal").exists()
    return file


def overwrite(file: Path, pages: range) -> None:
    with file.open("r+b") as opened:
        for page in pages:
            opened.seek(page * PAGE)
            opened.write(b"\xa5" * PAGE)


def cut(file: Path, share: float) -> None:
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.truncate(int(size * share) // PAGE * PAGE + 17)


def overwrite_some(file: Path) -> None:
    overwrite(file, range(40, 60))


def cut_off_a_third(file: Path) -> None:
    cut(file, 0.66)


@pytest.mark.parametrize("damage", [overwrite_some, cut_off_a_third])
def test_what_is_not_damaged_is_read(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    damage(write(tmp_path))
    with open_run(tmp_path, "last") as run:
        found = list(run.turns())
        assert run.summary.problem is not None
        assert run.summary.problem.startswith("the ledger is damaged: ")
        assert run.slowest(3)
        assert run.costs().models == []
    numbers = [one.number for one in found]
    assert numbers == sorted(set(numbers))
    assert TURNS // 3 < len(numbers) <= TURNS
    assert {one.item_id for one in found} <= {f"file{n}.py" for n in range(TURNS)}
    whole = [one for one in found if one.answer is not None]
    assert {one.answer for one in whole} <= {LONG, "short"}
    (listed,) = list_runs(tmp_path)
    assert listed.status == "ok"


def test_a_row_whose_answer_is_lost_keeps_the_rest(tmp_path: Path) -> None:
    file = write(tmp_path)
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT pageno FROM dbstat WHERE name = 'turns' AND pagetype = 'overflow'"
        try:
            pages = [page for (page,) in connection.execute(query)]
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no dbstat")
    for page in pages[:20]:
        overwrite(file, range(page - 1, page))
    with open_run(tmp_path, "last") as run:
        found = list(run.turns())
        assert run.summary.problem is not None
        assert re.search(r": 600 turns could be read, \d+ of them in part", run.summary.problem)
    assert [one.number for one in found] == list(range(TURNS))
    lost = [one for one in found if one.answer is None]
    assert 3 <= len(lost) <= 20
    assert all(one.state == "ok" and one.item_id for one in lost)


def test_damage_that_shows_only_on_the_way_is_passed(tmp_path: Path) -> None:
    file = write(tmp_path)
    with open_run(tmp_path, "last") as run:
        rows = run.turns()
        first = [next(rows).number for _ in range(5)]
        overwrite(file, range(30, file.stat().st_size // PAGE))
        run._connection.execute("PRAGMA shrink_memory")
        rest = [one.number for one in rows]
    numbers = first + rest
    assert numbers == sorted(set(numbers))


def test_where_nothing_is_left_it_is_said(tmp_path: Path) -> None:
    file = write(tmp_path)
    overwrite(file, range(1, file.stat().st_size // PAGE))
    (listed,) = list_runs(tmp_path)
    assert listed.status == "unreadable"
    with pytest.raises(BadInput, match=r"cannot be read|has nothing in it"):
        open_run(tmp_path, "last")


@pytest.mark.parametrize("length", [0, 17, 200, PAGE + 1])
def test_a_stump_is_unreadable(tmp_path: Path, length: int) -> None:
    file = write(tmp_path)
    with file.open("r+b") as opened:
        opened.truncate(length)
    (listed,) = list_runs(tmp_path)
    assert listed.status == "unreadable"
    assert listed.problem


def test_a_locked_file_is_not_damaged(tmp_path: Path) -> None:
    file = write(tmp_path)
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as one:
        one.execute("PRAGMA locking_mode = EXCLUSIVE")
        one.execute("BEGIN EXCLUSIVE")
        with (
            closing(sqlite3.connect(file, timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError) as caught,
        ):
            other.execute("SELECT * FROM turns").fetchone()
        assert not is_damage(caught.value)
    assert not is_damage(sqlite3.ProgrammingError("closed"))


def test_an_old_ledger_that_is_damaged(tmp_path: Path) -> None:
    file = write(tmp_path)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE patches")
        connection.execute("ALTER TABLE turns DROP COLUMN usage")
        connection.execute("PRAGMA user_version = 2")
        connection.commit()
    cut_off_a_third(file)
    with RecordedRun(file.parent) as run:
        assert run.patches() == {}
        assert len(list(run.turns())) > TURNS // 4
