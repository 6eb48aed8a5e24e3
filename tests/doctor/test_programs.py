from __future__ import annotations

import os
from pathlib import Path

import pytest

from hmz_mp.doctor.programs import Found, Known, find_packages, find_programs
from tests.helpers import is_alive, wait_until

CLAUDE = Known("claude", "claude/", 200 << 20)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return programs


def write(folder: Path, name: str, script: str, mode: int = 0o755) -> str:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(mode)
    return str(program)


def look(seconds: float = 20.0) -> Found:
    (found,) = find_programs((CLAUDE,), seconds=seconds)
    return found


def test_a_program_that_is_not_there(folder: Path) -> None:
    assert look() == Found(CLAUDE)
    assert not look().works


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("2.1.332 (Claude Code)", "2.1.332"),
        ("codex-cli 0.171.0", "0.171.0"),
        ("v1.18.0-beta+3", "1.18.0-beta+3"),
    ],
)
def test_a_version(folder: Path, said: str, version: str) -> None:
    path = write(folder, "claude", f'[ "$1" = --version ] && echo "{said}"')
    assert look() == Found(CLAUDE, path, version)
    assert look().works


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'needs node 22' >&2; exit 1", "--version ended with status 1: needs node 22"),
        ("exit 3", "--version ended with status 3"),
        ("echo hello", "it printed no version"),
    ],
)
def test_a_program_that_does_not_say(folder: Path, script: str, problem: str) -> None:
    path = write(folder, "claude", script)
    assert look() == Found(CLAUDE, path, problem=problem)


def test_a_program_that_cannot_be_run(folder: Path) -> None:
    program = folder / "claude"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    assert (look().problem or "").startswith("it cannot be run")


def test_a_program_that_hangs_is_ended_with_what_it_started(folder: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    sleep = "/bin/sleep 100"
    write(folder, "claude", f"{sleep} & echo $! $$ > {pids}; wait")
    found = look(seconds=0.5)
    assert found.problem == "it did not say its version in 0.5 s"
    started = [int(pid) for pid in pids.read_text().split()]
    wait_until(lambda: not any(map(is_alive, started)))


def test_it_reads_nothing_and_is_told_to_keep_off_the_network(folder: Path) -> None:
    script = 'read line && echo "read $line"; echo "1.0$DISABLE_AUTOUPDATER"'
    write(folder, "claude", script)
    assert look().version == "1.01"


def test_packages() -> None:
    found = find_packages((Known("click", "x/"), Known("no-such-package-at-all", "y/")))
    assert [one.works for one in found] == [True, False]
    assert os.path.isabs(found[0].path or "/")
