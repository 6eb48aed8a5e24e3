import json
from contextlib import closing
from pathlib import Path

import pytest

from hmz_mp.runs import runs_directory

from ..runs.support import new_ledger, turn
from .support import ODD_ITEM, hmz_mp, write_run


@pytest.fixture(autouse=True)
def _start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def test_a_run_is_shown_with_what_went_wrong(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    done = hmz_mp("show", "last")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"run {run_id}: failed"
    assert lines[1:5] == [
        "  command   hmz-mp exec -a tool/x:y",
        "  flow      fanout",
        "  task      outline",
        "  agents    tool/x:y",
    ]
    assert lines[5].startswith("  started   20")
    assert lines[5].endswith("(just now)")
    assert lines[6].startswith("  took      ")
    assert lines[7:] == [
        "  turns     5: 3 ok, 1 failed, 1 not run",
        "slowest:",
        "     1:10  b.py",
        "    1.5 s  a.py",
        "    0.5 s  a.py",
        "    0.2 s  od\\x1bd [b]\\n\\xff.py",
        "failed:",
        "  od\\x1bd [b]\\n\\xff.py: ValueError: no [red]\\x1b",
        "not run:",
        "  c.py: stopped after 1 failed",
    ]


def test_every_failed_item_is_named(tmp_path: Path) -> None:
    with closing(new_ledger(runs_directory(tmp_path))) as ledger:
        for number in range(200):
            ledger.put(turn(number, state="failed", error_type="OSError"))
        ledger.put(turn(200, "quiet.py", state="failed"))
        ledger.finish("failed", 1, {})
    lines = hmz_mp("show", "last").stdout.splitlines()
    assert [line for line in lines if line.endswith(": OSError")] == [
        f"  file{number}.py: OSError" for number in range(200)
    ]
    assert lines[-1] == "  quiet.py"


def test_a_run_in_progress(tmp_path: Path) -> None:
    with closing(new_ledger(runs_directory(tmp_path))) as ledger:
        ledger.put(turn(0, state="running"))
        ledger.flush()
        done = hmz_mp("show", "last")
    assert done.stdout.startswith(f"run {ledger.run_id}: running\n")
    assert "turns     1: 1 running" in done.stdout


def test_an_item_is_shown_whole(tmp_path: Path) -> None:
    write_run(tmp_path)
    done = hmz_mp("show", "last", "a.py")
    assert (done.exit_code, done.stderr) == (0, "")
    first, second = done.stdout.split("\n\n")
    assert first.splitlines()[:3] == [
        "a.py: ok",
        "  agent     tool/x:y",
        "  session   s0, turn 1 of it",
    ]
    assert first.splitlines()[4:] == [
        "  waited    2.0 s",
        "  ran       1.5 s",
        "  worker    4242",
        "  attempts  1",
        "answer:",
        "first line",
        "\\x1b[31msecond [red]",
        "output:",
        "printed",
        "prompt:",
        "outline",
    ]
    assert "  session   s4, turn 2 of it\n  in        /tmp\n" in second


def test_long_answers_are_neither_wrapped_nor_cut(tmp_path: Path) -> None:
    answer = "word " * 5000
    with closing(new_ledger(runs_directory(tmp_path))) as ledger:
        ledger.put(turn(0, "a.py", state="ok", answer=answer))
        ledger.finish("ok", 0, {})
    assert f"answer:\n{answer}\n" in hmz_mp("show", "last", "a.py").stdout


@pytest.mark.parametrize("item", [ODD_ITEM, "od\\x1bd [b]\\n\\xff.py"])
def test_an_item_may_be_given_as_it_is_or_as_it_was_shown(tmp_path: Path, item: str) -> None:
    write_run(tmp_path)
    lines = hmz_mp("show", "last", item).stdout.splitlines()
    assert lines[0] == "od\\x1bd [b]\\n\\xff.py: failed"
    assert lines[-6:] == [
        "error:",
        "ValueError: no [red]\\x1b",
        "detail:",
        "Traceback",
        "prompt:",
        "outline",
    ]


def test_an_item_that_did_not_run(tmp_path: Path) -> None:
    write_run(tmp_path)
    lines = hmz_mp("show", "last", "c.py").stdout.splitlines()
    assert lines[0] == "c.py: not run"
    assert lines[-4:] == ["error:", "stopped after 1 failed", "prompt:", "outline"]
    assert not any(line.startswith(("  waited", "  ran", "  worker")) for line in lines)


def test_an_item_that_begins_with_a_dash(tmp_path: Path) -> None:
    with closing(new_ledger(runs_directory(tmp_path))) as ledger:
        ledger.put(turn(0, "--odd", state="ok"))
        ledger.finish("ok", 0, {})
    assert hmz_mp("show", "last", "--", "--odd").stdout.startswith("--odd: ok\n")


def test_a_run_as_json_is_one_object(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    done = hmz_mp("show", "last", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    run = json.loads(done.stdout)
    (listed,) = map(json.loads, hmz_mp("runs", "--json").stdout.splitlines())
    items = run.pop("items")
    assert run.pop("usage") == []
    assert run == listed
    assert run["run_id"] == run_id
    assert [item["item_id"] for item in items] == ["a.py", "b.py", ODD_ITEM, "c.py", "a.py"]
    assert [item["status"] for item in items] == ["ok", "ok", "failed", "not_run", "ok"]
    assert items[0] == {
        "item_id": "a.py",
        "status": "ok",
        "answer": "first line\n\x1b[31msecond [red]\n",
        "error": None,
        "seconds": 1.5,
        "attempts": 1,
        "worker": 4242,
        "usage": [],
    }


def test_a_run_without_turns(tmp_path: Path) -> None:
    with closing(new_ledger(runs_directory(tmp_path))) as ledger:
        ledger.finish("ok", 0, {})
    assert json.loads(hmz_mp("show", "last", "--json").stdout)["items"] == []
    assert hmz_mp("show", "last").stdout.endswith("  turns     0: no turns\n")
    done = hmz_mp("show", "last", "a.py")
    assert done.stderr == f"hmz-mp: error: run {ledger.run_id} has no items\n"


def test_an_item_as_json_is_one_object_per_turn(tmp_path: Path) -> None:
    write_run(tmp_path)
    done = hmz_mp("show", "last", ODD_ITEM, "--json")
    (one,) = map(json.loads, done.stdout.splitlines())
    assert one == {
        "item_id": ODD_ITEM,
        "status": "failed",
        "answer": None,
        "error": "ValueError: no [red]\x1b",
        "seconds": 0.25,
        "attempts": 1,
        "worker": 4242,
        "usage": [],
        "state": "failed",
        "error_type": "ValueError",
        "detail": "Traceback",
        "output": "",
        "patch": None,
        "patch_state": None,
        "patch_file": None,
        "prompt": "outline",
        "agent": "tool/x:y",
        "session": "s2",
        "place": 0,
        "cwd": None,
        "submitted_at": "2001-09-09T01:46:40.000000+00:00",
        "began_at": "2001-09-09T01:46:42.000000+00:00",
        "ended_at": "2001-09-09T01:46:43.500000+00:00",
    }
    assert len(hmz_mp("show", "last", "a.py", "--json").stdout.splitlines()) == 2


def test_an_unknown_item_lists_what_there_is(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)

    def said(item: str) -> str:
        done = hmz_mp("show", "last", item)
        assert (done.exit_code, done.stdout) == (2, "")
        return done.stderr.removeprefix(f"hmz-mp: error: run {run_id} has no item ").rstrip()

    everything = "'a.py', 'b.py', 'od\\x1bd [b]\\n\\udcff.py', 'c.py'"
    assert said("nosuch") == f"'nosuch'; there are: {everything}"
    assert said("") == f"''; there are: {everything}"
    assert said("B.") == "'B.'; similar ones are: 'b.py'"


def test_a_long_list_of_items_is_cut(tmp_path: Path) -> None:
    with closing(new_ledger(runs_directory(tmp_path))) as ledger:
        for number in range(1500):
            ledger.put(turn(number))
    assert "'file9.py' and 1,490 more\n" in hmz_mp("show", "last", "nosuch").stderr


def test_an_unknown_run_and_none_at_all(tmp_path: Path) -> None:
    done = hmz_mp("show", "last")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"hmz-mp: error: there are no runs in '{runs_directory(tmp_path)}'\n"
    run_id = write_run(tmp_path)
    done = hmz_mp("show", "nosuch")
    assert done.exit_code == 2
    assert done.stderr == f"hmz-mp: error: there is no run 'nosuch'; there are: {run_id}\n"


def test_what_a_run_has_used_of_models(tmp_path: Path) -> None:
    opus = {"model": "opus", "input_tokens": 100, "output_tokens": 7, "cached_tokens": 40}
    haiku = {"model": "hai\x1bku", "input_tokens": 5, "output_tokens": 1, "cached_tokens": 0}
    opus["cost_usd"], haiku["cost_usd"] = 1.25, 0.0
    with closing(new_ledger(runs_directory(tmp_path))) as ledger:
        ledger.put(turn(0, "a", state="ok", usage=json.dumps([opus])))
        ledger.put(turn(1, "b", state="failed", usage=json.dumps([opus, haiku])))
        ledger.put(turn(2, "c", state="ok"))
        ledger.finish("failed", 1, {})
    shown = hmz_mp("show", "last").stdout
    assert "  models    $2.50, 205 tokens read (80 from a cache), 15 written\n" in shown
    assert (
        "by model:\n"
        "  opus: $2.50, 200 tokens read (80 from a cache), 14 written\n"
        "  hai\\x1bku: 5 tokens read, 1 written\n"
    ) in shown
    one = hmz_mp("show", "last", "b").stdout
    assert "  models    opus: $1.25, 100 tokens read (40 from a cache), 7 written; hai" in one
    assert "models" not in hmz_mp("show", "last", "c").stdout
    run = json.loads(hmz_mp("show", "last", "--json").stdout)
    assert run["usage"][0] == opus | {
        "input_tokens": 200,
        "output_tokens": 14,
        "cached_tokens": 80,
        "cost_usd": 2.5,
    }
    assert [item["usage"] for item in run["items"]] == [[opus], [opus, haiku], []]
