from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hmz_mp_worker.backends.chat.history import History
from hmz_mp_worker.backends.protocol import AgentFailed, Usage
from hmz_mp_worker.chat import Call, Reply, User


def said(history: History) -> str:
    return " ".join(one.text for one in history.messages if isinstance(one, (User, Reply)))


def turn(history: History, place: int, *texts: str) -> None:
    history.begin(place)
    for text in texts:
        history.add(User(text), Reply(text.upper()))
    history.end()


def again(file: Path) -> History:
    history = History(file)
    assert history.load()
    return history


def test_a_conversation_that_is_not_kept() -> None:
    history = History()
    turn(history, 0, "a", "b")
    assert said(history) == "a A b B"


def test_another_worker_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "one.jsonl"
    first = History(file)
    assert first.load() is False
    turn(first, 0, "a", "b")
    second = again(file)
    turn(second, 1, "c")
    assert said(again(file)) == said(second) == "a A b B c C"


def test_whole_replies_are_kept(tmp_path: Path) -> None:
    reply = Reply(
        "é\u2028",
        (Call("1", "look", "{"),),
        "stop",
        Usage("m", 1, 2),
        None,
        [{"type": "text", "text": "é\u2028"}],
    )
    history = History(tmp_path / "one.jsonl")
    history.add(User("x"), reply)
    history.end()
    assert again(tmp_path / "one.jsonl").messages == [User("x"), reply]


@pytest.mark.parametrize("lost", ["worker", "answer"])
def test_a_turn_that_is_tried_again_is_said_once(tmp_path: Path, lost: str) -> None:
    file = tmp_path / "one.jsonl"
    history = History(file)
    turn(history, 0, "a")
    turn(history, 1, "b", "b2")
    if lost == "worker":
        history = again(file)
    turn(history, 1, "c")
    turn(history, 2, "d")
    assert said(history) == said(again(file)) == "a A c C d D"


def test_a_turn_that_failed_leaves_nothing(tmp_path: Path) -> None:
    history = History(tmp_path / "one.jsonl")
    turn(history, 0, "a")
    history.begin(1)
    history.add(User("x"), Reply("an answer that did not fit"))
    assert "did not fit" in said(history)
    turn(history, 2, "b")
    assert said(history) == said(again(tmp_path / "one.jsonl")) == "a A b B"


def torn(file: Path) -> None:
    history = History(file)
    turn(history, 0, "a")
    turn(history, 1, "b")
    file.write_bytes(file.read_bytes()[:-5])


def test_a_line_that_a_killed_worker_did_not_end(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    torn(file)
    assert said(again(file)) == "a A"


def test_it_goes_on_after_such_a_line(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    torn(file)
    turn(again(file), 1, "c")
    assert said(again(file)) == "a A c C"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    file.write_text("nonsense\n")
    with pytest.raises(AgentFailed, match="cannot be read"):
        History(file).load()


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "one.jsonl"
    turn(History(file), 0, "a")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_cannot_be_written_is_not_half_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "one.jsonl"
    history = History(file)
    turn(history, 0, "a")
    file.unlink()
    file.symlink_to(tmp_path)  # a folder is not written into
    with caplog.at_level(logging.WARNING, "hmz_mp"):
        turn(history, 1, "b")
    turn(history, 2, "c")
    assert said(history) == "a A b B c C"
    assert "memory only" in caplog.text
    assert not file.is_symlink()
