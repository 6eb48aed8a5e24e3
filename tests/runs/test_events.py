import json
from contextlib import closing
from pathlib import Path

import pytest

from hmz_mp.runs import events as module
from hmz_mp.runs.database import Beginning
from hmz_mp.runs.events import event_file
from hmz_mp.runs.finding import open_run
from hmz_mp.runs.ledger import Ledger
from hmz_mp.runs.schema import VERSION

from .support import new_ledger, turn


def kinds_of(runs_dir: Path, number: int | None = None) -> list[tuple[int, str, str]]:
    with open_run(runs_dir, "last") as run:
        return [(event.number, event.kind, event.text) for event in run.events(number)]


def test_events_come_back_in_order(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.say(1, 1.0, "tool", "Edit a.py")
        ledger.say(0, 2.0, "log", "od\udcffd \ud800")
        ledger.say(1, 3.0, "attempt", "42")
        ledger.put(turn(0, state="ok"))
        ledger.put(turn(1, state="ok"))
    assert kinds_of(tmp_path) == [
        (0, "log", "od\udcffd \ud800"),
        (1, "tool", "Edit a.py"),
        (1, "attempt", "42"),
    ]
    assert kinds_of(tmp_path, 1) == [(1, "tool", "Edit a.py"), (1, "attempt", "42")]
    assert kinds_of(tmp_path, 2) == []


def test_pieces_of_a_text_are_put_together(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(turn(0))
        ledger.flush()  # the next is written a moment later, with what else is said by then
        for piece in ["a", "b", "c", "d"]:
            ledger.say(0, 1.0, "text", piece)
        ledger.say(0, 2.0, "tool", "t")
        ledger.say(0, 3.0, "text", "e")
    assert kinds_of(tmp_path)[-3:] == [(0, "text", "abcd"), (0, "tool", "t"), (0, "text", "e")]


@pytest.mark.parametrize("bound", ["MOST", "MOST_TEXT"])
def test_a_turn_that_says_too_much_is_whole_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(module, bound, 5)
    with closing(new_ledger(tmp_path)) as ledger:
        for number in range(12):
            ledger.say(0, float(number), "log", f"line\udcff {number}")
            if number % 4 == 3:
                ledger.flush()
        ledger.say(1, 1.0, "log", "quiet")
    kept = kinds_of(tmp_path, 0)
    assert kept[-1] == (0, "more", "")
    assert len(kept) <= 6
    lines = event_file(ledger.directory, 0).read_text().splitlines()
    said = [json.loads(line) for line in lines]
    assert [one["text"] for one in said] == [f"line\udcff {number}" for number in range(12)]
    assert said[3] == {"at": 3.0, "kind": "log", "text": "line\udcff 3"}
    assert kinds_of(tmp_path, 1) == [(1, "log", "quiet")]
    assert not event_file(ledger.directory, 1).exists()


def test_a_turn_that_runs_again_has_the_events_of_the_last_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    ledger = new_ledger(tmp_path)
    for number in range(4):
        ledger.say(0, 1.0, "log", f"first {number}")
    ledger.finish("failed", 1, {})
    ledger.close()
    assert event_file(ledger.directory, 0).exists()
    beginning = Beginning([], "fanout", [], "", {})
    again = Ledger.take_up(ledger.directory, beginning=beginning, oldest=VERSION)
    with closing(again):
        again.say(0, 2.0, "log", "second")
    assert kinds_of(tmp_path) == [(0, "log", "second")]
    assert not event_file(ledger.directory, 0).exists()


def retried(ledger: Ledger, words: str) -> None:
    """End a turn, and begin another that takes its place."""
    ledger.put(turn(0, state="failed"))
    ledger.flush()
    ledger.say(0, 2.0, "tried", words)


@pytest.mark.parametrize("most", [200, 4, 3])
def test_a_turn_that_takes_the_place_of_another_goes_on_with_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(module, "MOST", most)
    with closing(new_ledger(tmp_path)) as ledger:
        for number in range(4):
            ledger.say(0, 1.0, "log", f"first {number}")
        retried(ledger, "it broke")
        ledger.say(0, 3.0, "log", "second")
        retried(ledger, "again")
        ledger.say(0, 4.0, "log", "third")
    first = [(0, "log", f"first {number}") for number in range(4)]
    tries = [(0, "tried", "it broke"), (0, "log", "second"), (0, "tried", "again")]
    everything = [*first, *tries, (0, "log", "third")]
    if most == 200:
        assert kinds_of(tmp_path) == everything
        return
    kept = [*first[:most], tries[0], tries[2], (0, "more", "")]
    assert kinds_of(tmp_path) == kept
    lines = event_file(ledger.directory, 0).read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == [text for _, _, text in everything]


def test_tries_of_an_earlier_execution_give_way_to_those_of_the_last(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    ledger.say(0, 1.0, "log", "first")
    retried(ledger, "it broke")
    ledger.finish("failed", 1, {})
    ledger.close()
    beginning = Beginning([], "fanout", [], "", {})
    again = Ledger.take_up(ledger.directory, beginning=beginning, oldest=VERSION)
    with closing(again):
        retried(again, "it broke as well")
        retried(again, "and again")
    assert kinds_of(tmp_path) == [(0, "tried", "it broke as well"), (0, "tried", "and again")]
