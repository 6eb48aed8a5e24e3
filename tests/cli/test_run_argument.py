import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("command", ["show", "report", "trace", "export", "rm"])
def test_runs_are_offered(tmp_path: Path, command: str) -> None:
    ids = [write_run(tmp_path) for _ in range(2)]
    assert completed(tmp_path, f"hmz-mp {command} ", position=2) == ["last", *ids[::-1]]
    assert completed(tmp_path, f"hmz-mp {command} {ids[0]}", position=2) == ids[:1]


def test_options_are_offered(tmp_path: Path) -> None:
    assert completed(tmp_path, "hmz-mp --v", position=1) == ["--version"]
