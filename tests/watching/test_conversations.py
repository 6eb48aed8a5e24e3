import sqlite3
from contextlib import closing
from pathlib import Path

from hmz_mp.runs.events import event_file
from hmz_mp.watching.conversations import KEPT, LINES, Conversation, Kept, Line, read_conversation

from ..report.runs import NASTY_SHOWN, ran
from ..runs.support import new_ledger, turn
from .runs import going_on, say


def read(directory: Path, session: str) -> Conversation:
    found = read_conversation(directory, session)
    assert found is not None
    return found


def test_what_was_said_and_done(tmp_path: Path) -> None:
    with going_on(tmp_path, prompt="do it\nwell") as ledger:
        say(
            ledger,
            0,
            ("attempt", "70"),
            ("reasoning", "hm"),
            ("tool", "Read a.py"),
            ("waiting", "2.5"),
            ("attempt", "71"),
            ("log", "WARNING t: x"),
            ("progress", "0.50 half"),
            ("told", "hurry"),
            ("text", "one\ntwo\t\x1b[31m"),
            ("unheard", "of"),
        )
        found = read(ledger.directory, "s0")
    assert (found.item_id, found.state, found.number) == ("a.py", "running", 0)
    assert found.lines == (
        Line("prompt", "do it"),
        Line("prompt", "well"),
        Line("reasoning", "hm"),
        Line("tool", "Read a.py"),
        Line("note", "its service is too busy: it waits 2.5 s at least"),
        Line("note", "begins again, in worker 71"),
        Line("log", "WARNING t: x"),
        Line("progress", "0.50 half"),
        Line("told", "hurry"),
        Line("text", "one"),
        Line("text", "two    \\x1b[31m"),
        Line("note", "unheard: of"),
    )


def test_an_answer_that_was_not_said_comes_at_the_end(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        say(ledger, 3, ("text", "I try"))
        answered = read(ledger.directory, "s2").lines
        failed = read(ledger.directory, "s3").lines
        queued = read(ledger.directory, "s4").lines
    shown = "\n".join(line.text for line in answered)
    assert "\\x1b]0;title\\x07" in shown
    assert shown.replace("\n", "").isprintable()
    assert answered[-1] == Line("ok", "ok after 2.0 s")
    assert failed[-3:] == (
        Line("text", "I try"),
        Line("error", f"ValueError: {NASTY_SHOWN}"),
        Line("failed", "failed after 2.0 s"),
    )
    assert queued == (Line("prompt", "outline"),)


def test_all_turns_of_a_session_are_one_conversation(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(ran(0, session="s", answer="first"))
        ledger.put(ran(1, "other.py"))
        ledger.put(ran(2, session="s", place=1, answer="second"))
        ledger.finish("ok", 0, {})
    found = read(ledger.directory, "s")
    texts = [line.text for line in found.lines if line.kind == "text"]
    assert (texts, found.place, found.number) == (["first", "second"], 1, 2)


def test_no_more_lines_than_can_be_kept(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        prompt = "\n".join(map(str, range(50)))
        answer = "\n".join(map(str, range(5000)))
        ledger.put(ran(0, session="s", prompt=prompt, answer="x" * 9000))
        ledger.put(ran(1, session="s", place=1, answer=answer))
        ledger.flush()
        found = read(ledger.directory, "s").lines
        ledger.put(ran(1, session="s", place=1, answer="short"))
        ledger.flush()
        shorter = read(ledger.directory, "s").lines
    assert len(found) == LINES
    assert found[-2:] == (Line("text", "4999"), Line("ok", "ok after 2.0 s"))
    assert shorter[12] == Line("note", "… 38 lines more")
    assert shorter[13] == Line("text", "x" * 4000 + "…")


def test_what_was_too_much_for_the_ledger_is_read_from_its_file(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        say(ledger, 0, *(("tool", f"{number}") for number in range(20_000)))
        file = event_file(ledger.directory, 0)
        with file.open("ab") as opened:
            opened.write(b'not JSON\n[]\n{"kind": "text", "text": "last"}\n{"kind": "text", "te')
        found = read(ledger.directory, "s0").lines
        assert len(found) == LINES
        assert [line.text for line in found[-2:]] == ["19999", "last"]
        file.unlink()
        found = read(ledger.directory, "s0").lines
    assert 100 < len(found) < LINES
    assert found[1] == Line("tool", "0")


def test_there_is_no_such_conversation(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        assert read_conversation(ledger.directory, "nobody") is None


def test_a_ledger_without_events(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(turn(0, state="ok", answer="fine"))
        ledger.finish("ok", 0, {})
    with closing(sqlite3.connect(ledger.directory / "run.db")) as connection:
        connection.execute("DROP TABLE IF EXISTS events")
        connection.execute("PRAGMA user_version = 3")
        connection.commit()
    assert read(ledger.directory, "s0").lines[-2:] == (Line("text", "fine"), Line("ok", "ok"))


def test_the_last_eight_are_kept() -> None:
    kept = Kept()
    for number in range(12):
        kept.put(Conversation(f"s{number}", "", "", number, 0, "ok", None, ()))
        kept.put(Conversation("s0", "", "", 0, 0, "ok", None, ()))
    assert len(kept) == KEPT
    assert kept.get("s0") is not None
    assert kept.get("s11") is not None
    assert kept.get("s4") is None
