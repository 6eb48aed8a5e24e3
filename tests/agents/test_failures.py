from __future__ import annotations

import pickle
import subprocess

import pytest

from hmz_mp.agents.failures import Failed, detail_of, failed_by, type_of, worth_retrying
from hmz_mp.errors import MemoryExceeded, RemoteTraceback, TurnFailed, TurnTimeout, WorkerDied
from hmz_mp_worker.backends.protocol import FAILURES, AgentFailed
from hmz_mp_worker.backends.sh import CommandFailed


def made(error: BaseException) -> Failed:
    return failed_by(error, cmd="tool/x:f", item_id="src/a.py")


@pytest.mark.parametrize(
    ("error", "reason", "returncode", "stderr"),
    [
        (ValueError("bad\nmore"), "ValueError: bad", 1, "bad\nmore"),
        (ValueError(), "ValueError", 1, ""),
        (CommandFailed(3, "x exited", "out", "err\nlast"), "x exited: last", 3, "err\nlast"),
        (CommandFailed(-9, "x was ended by SIGKILL"), "x was ended by SIGKILL", -9, ""),
        (WorkerDied(7, signal=11, stderr_tail="tail"), "worker 7 was ended by", -11, "tail"),
        (WorkerDied(7, exitcode=5), "worker 7 exited with status 5", 5, ""),
        (WorkerDied(7), "worker 7 was lost", 1, ""),
        (TurnTimeout(2), "the turn was not done 2 s after", 124, None),
        (MemoryExceeded(1, 2), "the turn held", 137, None),
        (TurnFailed("Odd", "text", "Traceback"), "Odd: text", 1, "Odd: text"),
    ],
)
def test_what_failed_a_turn(
    error: BaseException, reason: str, returncode: int, stderr: str | None
) -> None:
    failed = made(error)
    assert isinstance(failed, subprocess.CalledProcessError)
    assert failed.reason.startswith(reason)
    assert "\n" not in failed.reason
    assert failed.returncode == returncode
    assert failed.cmd == "tool/x:f"
    assert failed.item_id == "src/a.py"
    assert failed.cause is failed.__cause__ is error
    assert stderr is None or failed.stderr == stderr
    assert str(failed) == f"src/a.py: {failed.reason}"


def test_the_output_of_a_program() -> None:
    failed = made(CommandFailed(1, "x", "out", ""))
    assert failed.output == failed.stdout == "out"


def test_the_type() -> None:
    assert type_of(ValueError()) == "ValueError"
    assert type_of(TurnFailed("mod.Odd", "")) == "mod.Odd"


def test_the_detail() -> None:
    assert detail_of(CommandFailed(1, "x", "out", "err")) == "err"
    assert detail_of(CommandFailed(1, "x", "out", " \n")) == "out"
    assert detail_of(WorkerDied(7, stderr_tail="tail")) == "tail"
    assert detail_of(TurnFailed("Odd", "text", "Traceback x")) == "Traceback x"
    error = ValueError("x")
    assert detail_of(error) == "ValueError: x\n"
    error.__cause__ = RemoteTraceback("Traceback there")
    assert detail_of(error) == "Traceback there"


def test_it_survives_pickling() -> None:
    failed = made(CommandFailed(3, "x exited", "out", "err"))
    again = pickle.loads(pickle.dumps(failed))
    assert type(again) is Failed
    assert str(again) == str(failed)
    for name in ("reason", "returncode", "cmd", "output", "stderr", "item_id"):
        assert getattr(again, name) == getattr(failed, name)
    assert isinstance(again.cause, CommandFailed)


def test_what_another_try_may_not_meet_again() -> None:
    passing = [kind for kind in FAILURES if worth_retrying(AgentFailed(kind, "x"))]
    assert sorted(passing) == ["died", "limited", "overloaded", "stalled"]
    assert all(map(worth_retrying, (ValueError(), CommandFailed(1, "x", "", ""), WorkerDied(7))))
