from contextlib import closing
from pathlib import Path

import pytest

from hmz_mp.report import cards as module
from hmz_mp.report.cards import Card, read_cards
from hmz_mp.report.spans import Clock
from hmz_mp.runs.finding import open_run
from hmz_mp.runs.patches import PatchJournal

from ..runs.support import new_ledger, turn
from .runs import NASTY_SHOWN, ran, write_run


def cards(runs_dir: Path) -> list[Card]:
    with open_run(runs_dir, "last") as run:
        return read_cards(run, Clock(run))


def test_every_text_is_printable(tmp_path: Path) -> None:
    write_run(tmp_path)
    first, second, *_ = cards(tmp_path)
    assert first.item_id == first.output == NASTY_SHOWN
    assert second.detail == f"Traceback\n{NASTY_SHOWN}"
    assert first.answer is not None
    assert "\\x1b]0;title\\x07" in first.answer
    assert "\\u202eabc \\xff \\ud800" in first.answer
    for card in (first, second):
        for text in card:
            assert not isinstance(text, str) or text.replace("\n", "").isprintable()


def test_times_are_since_the_run_began(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(ran(0))
        ledger.put(turn(1, state="running", began_at=3e9, submitted_at=3e9))
        ledger.put(ran(2, submitted_at=2e9 + 9))
        ledger.finish("ok", 0, {})
    with open_run(tmp_path, "last") as run:
        start = run.summary.started_at
    first, second, third = cards(tmp_path)
    assert (first.began, first.ended) == pytest.approx((2e9 - start, 2e9 + 2 - start))
    assert first.waited == 0.5
    assert second.status == "cancelled"
    assert second.ended == pytest.approx(3e9 - start)
    assert third.waited == 0


def test_a_patch_that_did_not_fit_needs_review(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    with PatchJournal(tmp_path / run_id):
        pass
    card = cards(tmp_path)[2]
    assert (card.status, card.error) == ("needs_review", "its patch is not applied yet")
    assert card.diff is not None
    assert card.diff.startswith("diff --git")


def test_long_texts_are_cut_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST", 10)
    monkeypatch.setattr(module, "_SHORTEST", 10)
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(ran(0, answer="0123456789"))
        ledger.put(ran(1, answer="0123456789" * 200))
        ledger.finish("ok", 0, {})
    first, second = cards(tmp_path)
    assert first.answer == "0123456789"
    said = "0123456789\n… and 1,990 characters more, which `hmz-mp show` shows"
    assert second.answer == said


def test_a_finding_to_be_reviewed(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(ran(0, failure="needs_review", error="unsure", answer="{}"))
        ledger.finish("failed", 1, {})
    (card,) = cards(tmp_path)
    assert (card.status, card.error, card.answer) == ("needs_review", "unsure", "{}")


def test_a_turn_that_was_shipped_ahead_waited_until_it_ran(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(ran(0, seconds=0.5))
        ledger.put(ran(1, seconds=0.5, attempts=2))
        ledger.finish("ok", 0, {})
    first, second = cards(tmp_path)
    assert first.began is not None
    assert first.ended - first.began == pytest.approx(0.5)
    assert first.waited == pytest.approx(2.0)
    assert second.waited == pytest.approx(0.5)
