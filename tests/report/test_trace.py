import json
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.core.ambient import TurnRecord
from hmz_mp.report.trace import trace_pieces
from hmz_mp.runs.finding import open_run

from ..runs.support import new_ledger, turn

NASTY = "[bold]x<img src=x onerror=alert(1)>\x1b[2J\udcff.py"


def trace(runs_dir: Path, *turns: TurnRecord) -> list[dict[str, Any]]:
    with closing(new_ledger(runs_dir)) as ledger:
        for one in turns:
            ledger.put(one)
        ledger.finish("ok", 0, {})
    return read(runs_dir)


def read(runs_dir: Path) -> list[dict[str, Any]]:
    with open_run(runs_dir, "last") as run:
        text = "".join(trace_pieces(run))
    text.encode()  # there is no lone surrogate in it
    whole = json.loads(text)
    assert whole["displayTimeUnit"] == "ms"
    events: list[dict[str, Any]] = whole["traceEvents"]
    check_nesting(events)
    return events


def check_nesting(events: list[dict[str, Any]]) -> None:
    """Check that slices of a thread are inside each other or apart, and in order."""
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert len({tid for _, tid in tracks}) == len(tracks)
    for slices in tracks.values():
        open_ends: list[int] = []
        for begin, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


def named(events: list[dict[str, Any]], kind: str) -> dict[int, str]:
    key = "pid" if kind == "process_name" else "tid"
    return {one[key]: one["args"]["name"] for one in events if one["name"] == kind}


def slices(events: list[dict[str, Any]], category: str) -> list[dict[str, Any]]:
    return [one for one in events if one.get("cat") == category]


def ran(number: int, begin: float, end: float, **fields: Any) -> TurnRecord:
    given: dict[str, Any] = {"submitted_at": begin, "began_at": begin, "ended_at": end}
    given |= {"state": "ok", "worker": 70, "attempts": 1, "seconds": end - begin}
    return turn(number, **(given | fields))


def test_a_track_for_each_worker_and_turn_at_once(tmp_path: Path) -> None:
    events = trace(
        tmp_path, ran(0, 2e9, 2e9 + 2), ran(1, 2e9 + 1, 2e9 + 3), ran(2, 2e9, 2e9 + 1, worker=71)
    )
    processes, threads = named(events, "process_name"), named(events, "thread_name")
    assert {70: "worker 70", 71: "worker 71"}.items() <= processes.items()
    found = [(one["pid"], threads[one["tid"]], one["name"]) for one in slices(events, "turn")]
    assert sorted(found) == [
        (70, "at once 1", "file0.py"),
        (70, "at once 2", "file1.py"),
        (71, "at once 1", "file2.py"),
    ]
    assert slices(events, "session") == slices(events, "waiting") == slices(events, "attempt") == []


def test_attempts_are_inside_the_turn(tmp_path: Path) -> None:
    events = trace(tmp_path, ran(0, 2e9, 2e9 + 10, attempts=3, seconds=4.0))
    before, last = slices(events, "attempt")
    assert (before["name"], before["dur"]) == ("2 attempts before", 6_000_000)
    assert (last["name"], last["dur"]) == ("attempt 3", 4_000_000)


def test_what_an_agent_did_and_how_it_waited_are_inside_the_turn(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(ran(0, 2e9, 2e9 + 10, attempts=2, seconds=4.0))
        ledger.put(ran(1, 2e9, 2e9 + 10, attempts=1, worker=71))
        for number in (0, 1):
            ledger.say(number, 2e9 + 1, "tool", f"Read {NASTY}")
            ledger.say(number, 2e9 + 2, "text", "so")
        ledger.say(0, 2e9 + 3, "waiting", "2")
        ledger.say(0, 2e9 + 6, "attempt", "70")
        ledger.say(0, 2e9 + 7, "tool", "Edit b")
        ledger.finish("ok", 0, {})
    events = read(tmp_path)
    first = {one["name"]: one["dur"] for one in events if one["ph"] == "X" and one["pid"] == 70}
    shown = "Read [bold]x<img src=x onerror=alert(1)>\\x1b[2J\\xff.py"
    assert first == {
        "file0.py": 10_000_000,
        "attempt 1": 3_000_000,
        shown: 1_000_000,
        "waits for its service": 3_000_000,
        "attempt 2": 4_000_000,
        "Edit b": 3_000_000,
    }
    other = [one["name"] for one in events if one["ph"] == "X" and one["pid"] == 71]
    assert other == ["file1.py", shown]


def test_turns_that_were_shipped_ahead_begin_after_those_before(tmp_path: Path) -> None:
    events = trace(
        tmp_path,
        ran(0, 2e9, 2e9 + 1.01, seconds=1.0, session="s"),
        ran(1, 2e9 + 0.2, 2e9 + 2.01, seconds=1.003, session="s", place=1),
        ran(2, 2e9 + 1, 2e9 + 3.01, seconds=1.005),
    )
    threads = named(events, "thread_name")
    turns = [one for one in slices(events, "turn") if one["pid"] == 70]
    assert {threads[one["tid"]] for one in turns} == {"at once 1"}
    assert [round(one["dur"], -4) for one in turns] == [1_000_000] * 3


def test_a_session_has_its_turns_inside(tmp_path: Path) -> None:
    events = trace(
        tmp_path,
        ran(0, 2e9, 2e9 + 1, session="s"),
        ran(1, 2e9 + 2, 2e9 + 3, session="s", place=1),
        ran(2, 2e9 + 1, 2e9 + 2, session="other"),
    )
    (session,) = slices(events, "session")
    assert (session["name"], session["dur"]) == ("tool/x:y s", 3_000_000)
    assert named(events, "process_name")[session["pid"]] == "sessions"
    inside = [one for one in slices(events, "turn") if one["pid"] == session["pid"]]
    assert [one["args"]["turn of its session"] for one in inside] == [1, 2]


def test_waiting_is_visible(tmp_path: Path) -> None:
    events = trace(
        tmp_path,
        ran(0, 2e9, 2e9 + 1),
        ran(1, 2e9 + 1, 2e9 + 2, submitted_at=2e9),
        turn(2, state="not_run", submitted_at=2e9, ended_at=2e9 + 5),
    )
    waited = {one["name"]: one["dur"] for one in slices(events, "waiting")}
    assert waited == {"file1.py": 1_000_000, "file2.py": 5_000_000}
    levels = [one["args"] for one in events if one["ph"] == "C"]
    assert {"waiting": 2} in levels
    assert {"running": 1} in levels
    assert levels[-1] == {"waiting": 0}


def test_of_many_that_wait_a_hundred_are_shown_and_all_counted(tmp_path: Path) -> None:
    many = [ran(n, 2e9 + 1 + n, 2e9 + 2 + n, submitted_at=2e9) for n in range(1500)]
    events = trace(tmp_path, *many)
    assert len(slices(events, "turn")) == 1500
    assert len(slices(events, "waiting")) == 100
    counters = [one for one in events if one["ph"] == "C"]
    assert len(counters) < 5000


def test_foreign_text_is_printable(tmp_path: Path) -> None:
    events = trace(tmp_path, ran(0, 2e9, 2e9 + 1, item_id=NASTY, state="failed", error=NASTY * 50))
    (one,) = slices(events, "turn")
    shown = "[bold]x<img src=x onerror=alert(1)>\\x1b[2J\\xff.py"
    assert one["name"] == one["args"]["item"] == shown
    assert one["args"]["error"].startswith(shown)
    assert len(one["args"]["error"]) < 1000


@pytest.mark.parametrize("turns", [(), (turn(0, state="not_run", ended_at=100.0),)])
def test_a_run_in_which_nothing_ran(tmp_path: Path, turns: tuple[TurnRecord, ...]) -> None:
    events = trace(tmp_path, *turns)
    assert slices(events, "turn") == []


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(turn(0, state="running", began_at=101.0, worker=7, attempts=1))
        ledger.put(turn(1))
        ledger.flush()
        events = read(tmp_path)
    (one,) = slices(events, "turn")
    assert (one["args"]["state"], one["dur"] > 1e9) == ("running", True)
