import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hmz_mp.cli.main import group

from .support import write_run

ROOT = Path(__file__).parents[2]


def completed(start: Path, words: str, *, position: int) -> list[str]:
    """Return what a shell is offered after ``words``."""
    asked = {"_HMZ_MP_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **asked}
    command = [sys.executable, "-m", "hmz_mp"]
    done = subprocess.run(command, cwd=start, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.removeprefix("plain,") for line in done.stdout.splitlines()]


def test_commands_are_offered(tmp_path: Path) -> None:
    assert completed(tmp_path, "hmz-mp ex", position=1) == ["exec", "export"]


def test_runs_are_offered(tmp_path: Path) -> None:
    ids = [write_run(tmp_path) for _ in range(2)]
    assert completed(tmp_path, "hmz-mp show ", position=2) == ["last", *ids[::-1]]


@pytest.mark.parametrize("name", ["show", "watch", "apply", "report", "trace", "export", "rm"])
def test_commands_take_runs(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [write_run(tmp_path) for _ in range(2)]
    monkeypatch.chdir(tmp_path)
    command = group.get_command(click.Context(group), name)
    assert command is not None
    offered = command.params[0].shell_complete(click.Context(command), ids[0])
    assert [(one.value, one.help) for one in offered] == [
        (ids[0], "failed, 3 ok, 1 failed, 1 not run")
    ]


def test_options_are_offered(tmp_path: Path) -> None:
    assert completed(tmp_path, "hmz-mp --v", position=1) == ["--version"]
