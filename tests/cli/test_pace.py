from __future__ import annotations

import pytest

from hmz_mp.cli.pace import Pace


def test_nothing_ended_yet() -> None:
    pace = Pace(began=0.0)
    assert pace.rate == 0
    pace.note(5.0, 0)
    assert pace.rate == 0
    assert pace.left(100) is None


def test_rate_of_the_last_half_minute() -> None:
    pace = Pace(began=0.0)
    for second in range(100):
        pace.note(float(second), second * 10 if second < 50 else 500 + (second - 50) * 2)
    assert pace.rate == pytest.approx(2.0)
    assert pace.left(20) == pytest.approx(10.0)


def test_slow_turns_count_over_the_whole_run() -> None:
    pace = Pace(began=0.0)
    pace.note(100.0, 4)
    pace.note(200.0, 4)
    pace.note(240.0, 4)
    assert pace.rate == pytest.approx(4 / 240)


def test_what_it_holds_is_bounded() -> None:
    pace = Pace(began=0.0)
    for step in range(100_000):
        pace.note(step / 8, step)
    assert len(pace._samples) < 300
