from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec
import pytest

from hmz_mp_worker import reporting, state
from hmz_mp_worker.reporting import LogRecord, Progress, progress, say
from tests.workers.test_state import Heard


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    heard = Heard()
    monkeypatch.setattr(state.process, "turn", state.RunningTurn(4, 0, {}, heard))
    return heard


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.handlers.clear()
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


def records(heard: Heard) -> list[LogRecord]:
    return [msgspec.msgpack.decode(data, type=LogRecord) for _, _, data in heard.said]


def test_outside_a_turn_nothing_is_said() -> None:
    progress(0.5, "words")
    say("kind", b"")


def test_progress(heard: Heard) -> None:
    progress(1, "all\udcff")
    ((ticket, kind, data),) = heard.said
    assert (ticket, kind) == (4, "progress")
    assert msgspec.msgpack.decode(data, type=Progress) == Progress(1.0, "all\\udcff")


def test_words_may_be_left_out_or_be_anything(heard: Heard) -> None:
    progress(0)
    progress(0, 3)  # type: ignore[arg-type]  # users pass what they have
    decoded = [msgspec.msgpack.decode(data, type=Progress).words for _, _, data in heard.said]
    assert decoded == ["", "3"]


def test_logging_is_said_at_its_level_and_above(heard: Heard, root: logging.Logger) -> None:
    reporting.ship_logging(logging.WARNING)
    logging.getLogger("a.b").warning("took %d s \udcff", 5)
    logging.getLogger("a.b").info("not this")
    assert records(heard) == [LogRecord(logging.WARNING, "a.b", "took 5 s \\udcff")]


def test_a_traceback_is_part_of_the_text(heard: Heard, root: logging.Logger) -> None:
    reporting.ship_logging(logging.INFO)
    try:
        raise KeyError("k")
    except KeyError:
        logging.getLogger("x").exception("failed")
    (record,) = records(heard)
    assert record.text.startswith("failed\nTraceback")


def test_a_record_that_cannot_be_formatted_harms_nothing(
    heard: Heard, root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    reporting.ship_logging(logging.INFO)
    logging.getLogger("x").info("%d", "not a number")
    assert heard.said == []
