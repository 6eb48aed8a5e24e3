from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from hmz_mp.cli.answering import Answers, stdout_is_broken


class Display:
    """Counts how often it was put aside."""

    def __init__(self) -> None:
        self.asides = 0

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.asides += 1
        yield


def record(state: str = "ok", answer: str | None = "an answer\x1b[31m") -> Any:
    return SimpleNamespace(item_id="a\nb", state=state, answer=answer)


def test_without_a_ledger_answers_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    display: Any = Display()
    ledger: Any = SimpleNamespace(error="the disk is full")
    answers = Answers(None, ledger, display, pytest.fail)
    for one in (record(), record("failed"), record(answer=None)):
        answers.add(one)
    answers.flush()
    answers.flush()
    assert display.asides == 1
    assert capsys.readouterr().err == "a\\nb: an answer\\x1b[31m\na\\nb: \n"


def test_with_a_ledger_they_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    display: Any = Display()
    ledger: Any = SimpleNamespace(error=None)
    answers = Answers(None, ledger, display, pytest.fail)
    answers.add(record())
    answers.flush()
    assert (display.asides, capsys.readouterr().err) == (0, "")


def test_a_reader_that_leaves_is_told_of() -> None:
    told: list[bool] = []
    some: Any = SimpleNamespace(error=None)
    answers = Answers(None, some, some, lambda: told.append(answers.reader_left))
    answers.leave()
    assert told == [True]


def test_whether_anybody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with open(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert not stdout_is_broken()
        os.close(reading)
        assert stdout_is_broken()
    monkeypatch.setattr(sys, "stdout", None)
    assert not stdout_is_broken()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not stdout_is_broken()
