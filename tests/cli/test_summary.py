from __future__ import annotations

from hmz_mp.cli.summary import Ending, summary
from hmz_mp.runs.tally import Tally
from hmz_mp_worker.backends.protocol import Usage
from tests.runs.fakes import record_of


def ended(tally: Tally, item_id: str, state: str, **fields: object) -> None:
    record = record_of(item_id, number=tally.submitted, state=state, **fields)
    tally.submitted += 1
    tally.end(record)
    tally.note_failure(record)


def test_a_run_that_went_well() -> None:
    tally = Tally()
    ended(tally, "a.py", "ok", seconds=0.5)
    ended(tally, "b\x1b.py", "ok", seconds=70.0)
    assert summary(tally, Ending("r1", 71.2, 2, skipped_binary=1_200)) == [
        "2 turns in 1:11, 2 at once: 2 ok",
        "1,200 binary files skipped",
        "slowest:",
        "     1:10  b\\x1b.py",
        "    0.5 s  a.py",
        "written down as run r1: hmz-mp show r1",
    ]
    assert summary(tally, Ending("r1", 71.2), quiet=True) == []


def test_the_widths_that_were_found() -> None:
    tally = Tally()
    for number in range(20):
        ended(tally, f"i{number}", "ok")
    lines = summary(tally, Ending("r1", 1.0, 16, widths={"claude": 16, "co\x1b": 20}))
    assert lines[0] == "20 turns in 1.0 s, 16 at once: 20 ok"
    assert [line for line in lines if "in the end" in line] == [
        "claude: at most 16 at once in the end"
    ]


def test_warnings_are_said_even_when_quiet() -> None:
    tally = Tally()
    ended(tally, "a", "ok")
    ending = Ending("r1", 1.0, 1, warnings=["no entry: 'x\x1b'"])
    assert summary(tally, ending, quiet=True) == ["warning: no entry: 'x\\x1b'"]


def test_failures_and_where_the_rest_are() -> None:
    tally = Tally()
    for number in range(23):
        ended(tally, f"i{number}", "failed", error="it broke [here]\x07" if number else "x" * 5000)
    ended(tally, "ok", "ok")
    lines = summary(tally, Ending("r1", 1.0, 1))
    assert lines[0] == "24 turns in 1.0 s, 1 at once: 1 ok, 23 failed"
    at = lines.index("failed:")
    assert len(lines[at + 1]) < 310
    assert lines[at + 2 : at + 4] == ["  i1: it broke [here]\\x07", "  i2: it broke [here]\\x07"]
    assert lines[-1] == "  and 3 more: hmz-mp show r1"
    assert summary(tally, Ending("r1", 1.0, 1), quiet=True) == lines[at:]


def test_what_is_to_be_reviewed() -> None:
    tally = Tally()
    for number in range(22):
        ended(tally, f"i{number}", "ok", failure="needs_review", error="look\x07")
    lines = summary(tally, Ending("r1", 1.0, 1), quiet=True)
    assert lines[:2] == ["to be reviewed:", "  i0: look\\x07"]
    assert lines[-1] == "  and 2 more: hmz-mp show r1"


def test_a_run_that_was_cut_short() -> None:
    tally = Tally()
    ended(tally, "a", "cancelled", error="interrupted")
    ended(tally, "b", "not_run", error="interrupted")
    assert summary(tally, Ending("r1", 1.0, 1, halted="interrupted")) == [
        "2 turns in 1.0 s, 1 at once: 1 stopped while running, 1 not run",
        "written down as run r1: hmz-mp show r1",
        "failed:",
        "  a: interrupted",
        "1 of 2 not run: interrupted (which ones: hmz-mp show r1)",
    ]


def test_a_run_without_turns() -> None:
    assert summary(Tally(), Ending("r1", 0.0))[0] == "0 turns in 0.0 s, 0 at once: no turns"


def test_what_models_were_used() -> None:
    tally = Tally()
    ended(tally, "a", "ok")
    tally.costs.add([Usage("opus\x1b", 1200, 30, 1000, 1.5)])
    line = "models: $1.50, 1,200 tokens read (1,000 from a cache), 30 written"
    assert line in summary(tally, Ending("r1", 1.0, 1))
    tally.costs.add([Usage("gpt", 10, 2)])
    lines = summary(tally, Ending("r1", 1.0, 1))
    at = lines.index("models: $1.50, 1,210 tokens read (1,000 from a cache), 32 written")
    assert lines[at + 1 : at + 3] == [
        "  opus\\x1b: $1.50, 1,200 tokens read (1,000 from a cache), 30 written",
        "  gpt: 10 tokens read, 2 written",
    ]
    assert summary(tally, Ending("r1", 1.0, 1), quiet=True) == []


def test_a_budget_that_was_exceeded() -> None:
    ending = Ending("r1", 1.0, 1, halted="$1.00 is spent", excess="$0.50 more than was allowed")
    tally = Tally()
    ended(tally, "a", "ok")
    ended(tally, "b", "not_run")
    assert summary(tally, ending, quiet=True) == [
        "1 of 2 not run: $1.00 is spent (which ones: hmz-mp show r1)",
        "$0.50 more than was allowed",
    ]


def test_a_run_that_is_not_all_written_down() -> None:
    lines = summary(Tally(), Ending("r1", 1.0, is_recorded=False))
    assert lines[-1] == "written down in part as run r1: hmz-mp show r1"
