"""Random patches: what comes into the checkout is what git makes of them, one after the other."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from hmz_mp.worktrees.patches import text_of
from tests.worktrees.support import Repository
from tests.worktrees.test_applying import Bench

ITEMS = 14
FILES = [f"dir{number % 3}/file{number}" for number in range(6)]


def edit_at_random(chance: random.Random, number: int, deletable: list[str]) -> object:
    steps = [chance.choice(["line", "line", "line", "new", "rename", "mode", "delete", "append"])]
    steps += [chance.choice(["line", "new"])] if chance.random() < 0.4 else []

    def edit(top: Path) -> None:
        for step in steps:
            _one_step(top, step, chance, number, deletable)

    return edit


def _one_step(
    top: Path, step: str, chance: random.Random, number: int, deletable: list[str]
) -> None:
    there = [top / name for name in FILES if (top / name).exists()]
    file = chance.choice(there)
    lines = file.read_text().splitlines(keepends=True)
    if step == "line":
        lines[chance.randrange(len(lines))] = f"by {number}\n"
        file.write_text("".join(lines))
    elif step == "append":
        file.write_text("".join([*lines, f"at the end by {number}\n"]))
    elif step == "new":
        (top / f"new{number}").write_text(f"{number}\n")
    elif step == "mode":
        file.chmod(0o755)
    elif step == "delete" and deletable:
        gone = top / deletable.pop()
        gone.unlink(missing_ok=True)
    elif step == "rename" and deletable:
        moved = top / deletable.pop()
        if moved.exists():
            moved.rename(top / f"renamed{number}")


def by_git(repository: Repository, patches: list[bytes]) -> list[int]:
    """Apply patches with git alone, each whole or not at all; return those that do not fit."""
    refused = []
    for number, patch in enumerate(patches):
        if not text_of(patch):
            continue
        done = subprocess.run(
            ["git", "apply", "--3way", "--whitespace=nowarn", "-"],
            input=text_of(patch),
            cwd=repository.top,
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            repository.commit(str(number))
        else:
            refused.append(number)
            repository.git("reset", "--quiet", "--hard")
            repository.git("clean", "--quiet", "-fdx")
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_it_is_what_git_makes_of_them(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    repository = Repository(tmp_path / "project")
    for name in FILES:
        repository.write(name, "".join(f"{name} {line}\n" for line in range(12)))
    repository.commit()
    repository.git("clone", "--quiet", ".", str(tmp_path / "twin"))
    bench = Bench(repository, tmp_path)
    deletable = chance.sample(FILES, len(FILES))
    for number in range(ITEMS):
        edit = edit_at_random(chance, number, deletable)
        assert callable(edit)
        bench.edit(f"item{number}", edit)
    done = bench.apply()
    twin = Repository(tmp_path / "twin")
    refused = by_git(twin, bench.journal.texts)
    assert [one.number for one in done.refused] == refused
    tree = twin.git("rev-parse", "HEAD^{tree}")
    repository.commit()
    assert repository.git("rev-parse", "HEAD^{tree}") == tree
