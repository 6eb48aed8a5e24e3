import re

import pytest

from hmz_mp.runs.words import age, counted, duration, iso_time, local_time, written_command


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59.9, "just now"),
        (60, "1m ago"),
        (3599, "59m ago"),
        (3600, "1h ago"),
        (86399, "23h ago"),
        (86400 * 400, "400d ago"),
    ],
)
def test_age(seconds: float, words: str) -> None:
    assert age(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (0.0123, "12 ms"),
        (0.84, "0.8 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1:00"),
        (185, "3:05"),
        (7800, "2:10:00"),
    ],
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_times() -> None:
    assert iso_time(1_700_000_000.25) == "2023-11-14T22:13:20.250000+00:00"
    assert iso_time(None) is None
    assert re.fullmatch(r"2023-11-1[45] \d\d:\d\d:20", local_time(1_700_000_000))


def test_counts_are_words_in_a_fixed_order() -> None:
    counts = {"not_run": 2, "ok": 1700, "failed": 0, "running": 1}
    assert counted(counts) == "1,700 ok, 2 not run, 1 running"
    assert counted({}) == "no turns"


@pytest.mark.parametrize(
    "program", ["hmz-mp", "/opt/venv/bin/hmz-mp", "/opt/lib/hmz_mp/__main__.py"]
)
def test_a_command_can_be_typed_again(program: str) -> None:
    assert written_command([program, "exec", "-a", "sh/wc {path}"]) == (
        "hmz-mp exec -a 'sh/wc {path}'"
    )
