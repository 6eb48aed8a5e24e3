"""The table of `bench.faults`: what it says of executors, of those that are always there."""

from __future__ import annotations

import importlib.util
import subprocess
from typing import Any

import pytest

from bench.faults import __main__ as faults
from bench.faults.peers import MODULES, PEERS

SYSTEM_EXIT, TWO_ARGUMENTS = "a call raises SystemExit", "an exception with two arguments"
ALL_ANSWERED = "20 of 20 others are answered"
find_spec = importlib.util.find_spec


@pytest.fixture(autouse=True)
def _few_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: faults.FAULTS[name] for name in (SYSTEM_EXIT, TWO_ARGUMENTS)}
    monkeypatch.setattr(faults, "FAULTS", few)


@pytest.mark.slow
def test_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["bench.faults", "hmz_mp", "ProcessPoolExecutor"])
    faults.main()
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:3] == ["", SYSTEM_EXIT, f"hmz_mp the call: TurnFailed; {ALL_ANSWERED}"]
    assert lines[3] == f"ProcessPoolExecutor the call: SystemExit; {ALL_ANSWERED}"
    assert lines[5:7] == [TWO_ARGUMENTS, f"hmz_mp the call: TwoArguments; {ALL_ANSWERED}"]
    assert lines[7].startswith("ProcessPoolExecutor the call: BrokenProcessPool; ")
    assert lines[9:11] == [
        faults.KILLED,
        "hmz_mp after two seconds 0 of 2 workers live on",
    ]
    assert lines[11].startswith("ProcessPoolExecutor after two seconds ")
    assert lines[13].startswith("hmz_mp 0.")
    assert lines[14].startswith("ProcessPoolExecutor of Python 3.")


@pytest.mark.parametrize(
    ("script", "words"),
    [("exec sleep 60", "hangs"), ("exit 5", "the caller's process ends with 5")],
)
def test_one_that_hangs_or_ends_is_told_apart(
    script: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Instead(subprocess.Popen[bytes]):
        def __init__(self, _: Any, **options: Any) -> None:
            super().__init__(["sh", "-c", script], **options)

    monkeypatch.setattr(faults, "SECONDS", -5.5)  # half a second in all
    monkeypatch.setattr(subprocess, "Popen", Instead)
    assert faults._show("hmz_mp", SYSTEM_EXIT) == words


def test_the_words_for_endings() -> None:
    good = [str(number) for number in range(20)]
    assert faults._words(SYSTEM_EXIT, ["X", *good]) == f"the call: X; {ALL_ANSWERED}"
    words = faults._words(SYSTEM_EXIT, ["X", *good[:17], "Y", "Y", "Z"])
    assert words == "the call: X; 17 of 20 others are answered, 2: Y, 1: Z"
    words = faults._words("a call changes the directory", ["X", *["'/'"] * 4, *["'/home'"] * 16])
    assert words == "4 of 20 later calls are in the other directory"


def test_which_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> Any:
        return None if name in MODULES.values() else find_spec(name)

    monkeypatch.setattr(faults, "find_spec", find)
    assert faults._wanted([]) == [peer for peer in PEERS if peer not in MODULES]
    assert faults._wanted(["anyio"]) == ["anyio"]
    with pytest.raises(SystemExit, match="not installed: loky"):
        faults._wanted(["anyio", "loky"])
    with pytest.raises(SystemExit, match="there is no pool; there are hmz_mp, "):
        faults._wanted(["pool"])
