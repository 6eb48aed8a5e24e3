from __future__ import annotations

import logging

import msgspec
import pytest

from hmz_mp import Pool
from hmz_mp.core.events import log_here, read_event
from hmz_mp.core.turns import Logged, Progress, Said
from hmz_mp_worker import wire
from hmz_mp_worker.reporting import LogRecord
from hmz_mp_worker.reporting import Progress as WireProgress
from tests.core import functions

encode = msgspec.msgpack.encode


def test_what_a_worker_says_as_events() -> None:
    progress = wire.Said(1, "progress", encode(WireProgress(0.5, "half")))
    assert read_event(progress) == Progress(0.5, "half")
    assert read_event(wire.Said(1, "log", encode(LogRecord(30, "a.b", "text")))) == Logged(
        30, "a.b", "text"
    )
    assert read_event(wire.Said(1, "streamed", b"\xff")) == Said("streamed", b"\xff")


@pytest.mark.parametrize("kind", ["progress", "log"])
def test_what_is_not_ours_under_a_kind_of_ours(kind: str) -> None:
    assert read_event(wire.Said(1, kind, b"junk")) == Said(kind, b"junk")


def test_a_record_names_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    log_here(Logged(logging.WARNING, "some.where", "100% done"), 7, "item")
    (record,) = caplog.records
    assert (record.name, record.levelno, record.getMessage()) == ("some.where", 30, "100% done")
    assert (record.turn_id, record.item_id) == (7, "item")  # type: ignore[attr-defined]  # extra


def test_a_level_that_is_off_here(caplog: pytest.LogCaptureFixture) -> None:
    log_here(Logged(logging.DEBUG, "some.where", "quiet"), 7, None)
    assert caplog.records == []


@pytest.mark.anyio
async def test_logging_in_a_worker_reaches_the_callers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with Pool(1) as pool:
        turn = pool.options(item_id="thing").submit(functions.logs, logging.INFO, "from there")
        await turn
        await pool.run(functions.logs, logging.DEBUG, "not this")
    records = [one for one in caplog.records if one.name == "worker.side"]
    (record,) = records
    assert record.getMessage() == "from there"
    assert record.turn_id == turn.id  # type: ignore[attr-defined]  # extra
    assert record.item_id == "thing"  # type: ignore[attr-defined]  # extra


@pytest.mark.anyio
async def test_printing_is_the_turns_and_nobody_elses(capfd: pytest.CaptureFixture[str]) -> None:
    async with Pool(1) as pool:
        turn = pool.submit(functions.speak, "aloud")
        await turn
    assert turn.account is not None
    assert turn.account.output == "aloud\n"
    assert "aloud" not in capfd.readouterr().out
