from __future__ import annotations

from pathlib import Path

import pytest

from hmz_mp_bench.runner import Measured, run_fresh, run_start
from tests.helpers import is_alive, wait_until, written

GATHERED = "hmz_mp_bench.procedures.throughput:gathered"


def run(contender: str, timeout: float = 20.0) -> Measured:
    return run_fresh(f"tests.bench.fakes:{contender}", GATHERED, 100, 2, timeout)


def test_figures_come_back() -> None:
    measured = run_fresh("hmz_mp_bench.contenders.standard:Serial", GATHERED, 100, 2, 20.0)
    assert measured.problem is None
    assert measured.figures["calls"] == 100
    assert measured.figures["call"] == pytest.approx(measured.figures["all"] / 100)


def test_a_wrong_answer_is_a_failure() -> None:
    assert run("Wrong").problem == "wrong answer: the warm-up"


def test_an_exception_is_told_by_its_name() -> None:
    assert run("Raising").problem == "ValueError: a \x1b[31mreason"


def test_a_process_that_exits_is_told_with_its_last_words() -> None:
    assert run("Exiting").problem == "exit status 3: it is all \x1b[31mover"


def test_a_process_that_is_killed_is_told_by_the_signal() -> None:
    assert run("Killed").problem == "killed by SIGKILL"


def test_it_works_where_ends_have_to_be_polled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.pidfd_open", raising=False)
    measured = run_start("process-pool", 2, 30.0)
    assert measured.problem is None
    assert 0 < measured.figures["answers"] < measured.figures["whole"]


def test_one_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "note"
    monkeypatch.setenv("FAKE_NOTE", str(note))
    assert run("Hanging", 1.0).problem == "no answer in 1 s"
    if text := written(note):  # else it was ended before it came to fork
        wait_until(lambda: not is_alive(int(text)))


def test_one_that_answers_and_does_not_end_has_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmz_mp_bench.runner._LEAVING", 0.3)
    measured = run("NotToEnd")
    assert measured.problem is None
    assert measured.figures["calls"] == 100


def test_a_class_that_is_not_there_is_a_failure() -> None:
    assert "has no attribute 'Nobody'" in (run("Nobody").problem or "")


@pytest.mark.parametrize("name", ["hmz-mp", "process-pool"])
def test_a_whole_process_is_timed_to_its_answers_and_to_its_end(name: str) -> None:
    measured = run_start(name, 2, 30.0)
    assert measured.problem is None
    assert 0 < measured.figures["answers"] < measured.figures["whole"]


def test_a_start_that_nobody_knows_is_a_failure() -> None:
    assert "KeyError: 'nobody'" in (run_start("nobody", 2, 20.0).problem or "")
