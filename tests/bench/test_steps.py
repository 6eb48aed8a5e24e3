from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from hmz_mp_bench import steps
from hmz_mp_worker import wire


def test_every_step_is_measured_and_nothing_stays_watched() -> None:
    decode = wire.decode_from_worker
    taken = steps.measure(400, runs=1)
    assert wire.decode_from_worker is decode
    assert set(taken) == {*steps.STEPS, "coordinator", "elapsed"}
    in_workers = {"run"}  # asked of the system, which counts in hundredths of a second
    assert all(taken[step] > 0 for step in set(taken) - in_workers - {"loop"})
    own = sum(taken[step] for step in steps.STEPS if step != "run")
    assert own == pytest.approx(taken["coordinator"], rel=0.2)


def test_steps_inside_each_other_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0, 3.0, 6.0])
    monkeypatch.setattr(steps, "thread_time", lambda: next(times))
    clock = steps._Clock()
    inner = clock.step("inner", lambda: None)
    clock.step("outer", inner)()
    assert dict(clock.seconds) == {"inner": 2.0, "outer": 4.0}


def test_the_command() -> None:
    ran = CliRunner().invoke(steps.main, ["--calls", "200", "--runs", "1"])
    assert ran.exit_code == 0, ran.output
    assert [line.split()[0] for line in ran.output.splitlines()] == [*steps.STEPS, "together"]
    ran = CliRunner().invoke(steps.main, ["--calls", "200", "--runs", "1", "--json"])
    assert json.loads(ran.output)["submit"] > 0
