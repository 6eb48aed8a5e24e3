from __future__ import annotations

import os
from pathlib import Path

import pytest

from hmz_mp_worker.holding import Place, State, lock_of


def place(home: Path, session: str | None = None, inside: str = "") -> Place:
    name, lock = lock_of(str(home), session)
    return Place(str(home), name, inside, lock, State())


def test_the_first_that_nobody_has(tmp_path: Path) -> None:
    first, second = place(tmp_path), place(tmp_path, inside="in/side")
    assert (first.directory, first.cwd) == (f"{tmp_path}/0", f"{tmp_path}/0")
    assert (second.directory, second.cwd) == (f"{tmp_path}/1", f"{tmp_path}/1/in/side")
    assert repr(first) == f"<Place '{tmp_path}/0'>"
    first.give_back()
    third = place(tmp_path)
    assert third.directory == first.directory
    third.give_back()
    second.give_back()


def test_a_session_has_its_own(tmp_path: Path) -> None:
    held = place(tmp_path, "s1")
    assert held.directory == f"{tmp_path}/s1"
    other = place(tmp_path)
    assert other.directory == f"{tmp_path}/0"
    held.give_back()
    other.give_back()


def test_what_is_written_is_found_again(tmp_path: Path) -> None:
    held = place(tmp_path)
    held._state.generation, held._state.busy = 3, True
    held._write()
    assert held.directory == f"{tmp_path}/0.3"
    held._let_go()  # as a process that dies does
    found = place(tmp_path)
    assert (found.directory, found._state.busy) == (f"{tmp_path}/0.3", True)
    found.give_back()
    found = place(tmp_path)
    assert not found._state.busy
    found.give_back()


@pytest.mark.parametrize("data", [b'{"generation": 1, "bu', b'{"who": "knows"}', b"[]"])
def test_a_file_that_was_cut_off_is_of_one_that_was_in_use(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "0.lock").write_bytes(data)
    found = place(tmp_path)
    assert found._state.busy
    found.give_back()
    assert os.path.getsize(tmp_path / "0.lock") > 0
