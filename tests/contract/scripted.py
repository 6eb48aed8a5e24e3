"""What the fake engine does in place of functions that hang, end or look at their process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec

from hmz_mp_worker.reporting import LogRecord, progress, say
from tests.contract import calls
from tests.core import functions
from tests.fakes.engine import FOREVER, Death, FakeCall, Script

_Steps = Generator[float, None, Any]
_LOOK = 0.001  # seconds


def _note_and_hang(call: FakeCall, path: str) -> _Steps:
    functions.note(path, str(call.pid))
    yield FOREVER


def _note_and_hang_async(call: FakeCall, path: str) -> _Steps:
    functions.note(path, str(call.pid))
    try:
        yield FOREVER
    except asyncio.CancelledError:
        functions.note(path, "cancelled")
        raise


def _hold(call: FakeCall, path: str, size: int) -> _Steps:
    call.memory = size
    yield from _note_and_hang(call, path)


def _die(call: FakeCall, path: str = "") -> _Steps:
    if path:
        functions.note(path, str(call.pid))
    yield _LOOK
    raise Death(signal=signal.SIGKILL, said="last words\n")


def _die_the_first_time(call: FakeCall, path: str) -> Any:
    return "lived" if Path(path).exists() else _die(call, path)


def _overlap(call: FakeCall, where: str) -> _Steps:
    mine = Path(where) / str(call.ticket)
    mine.touch(exist_ok=False)
    seen = 0
    for _ in range(5):
        seen = max(seen, len(os.listdir(where)))
        yield _LOOK
    mine.unlink()
    return seen


def _wait_for(call: FakeCall, path: str, answer: Any = None) -> _Steps:
    while not Path(path).exists():
        yield _LOOK
    return answer


def _meet(call: FakeCall, mine: str, theirs: str) -> _Steps:
    Path(mine).touch()
    yield from _wait_for(call, theirs)
    return call.pid


def _note_or_wait(call: FakeCall, path: str, text: str, until: str) -> _Steps:
    functions.note(path, text)
    yield 1e-5
    if until:
        yield from _wait_for(call, until)


def _speak(call: FakeCall, text: str) -> int:
    print(text)
    record = LogRecord(30, "worker.side", f"logged {text}")
    say("log", msgspec.msgpack.encode(record))
    progress(0.5, text)
    say("kind", text.encode())
    return call.pid


SCRIPT: Script = {
    functions.note_and_hang: _note_and_hang,
    functions.note_and_hang_async: _note_and_hang_async,
    functions.die: _die,
    functions.die_the_first_time: _die_the_first_time,
    functions.overlap: _overlap,
    functions.overlap_async: _overlap,
    functions.wait_for: _wait_for,
    functions.speak: _speak,
    os.getpid: lambda call: call.pid,
    calls.hold: _hold,
    calls.meet: _meet,
    calls.note_or_wait: _note_or_wait,
    calls.speak_async: _speak,
}
