"""A run to be watched: two conversations that work, one that failed, many that ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hmz_mp.runs.events import event_file
from hmz_mp.runs.ledger import Ledger
from hmz_mp.runs.reading import RecordedRun

from ..helpers import wait_until
from ..report.runs import NASTY, NASTY_ANSWER, ran
from ..runs.support import new_ledger, turn


def say(ledger: Ledger, number: int, *events: tuple[str, str]) -> None:
    """Write down what a turn said, and wait until it is."""
    for kind, text in events:
        ledger.say(number, 100.0, kind, text)
    last = events[-1][1]
    file = event_file(ledger.directory, number)

    def is_written() -> bool:
        with RecordedRun(ledger.directory) as run:
            told = list(run.events(number))
        if not told or told[-1].kind != "more":
            return bool(told) and told[-1].text.endswith(last)
        return file.exists() and json.dumps(last).encode() in file.read_bytes()[-1000:]

    wait_until(is_written)


@contextmanager
def going_on(runs_dir: Path, **more: Any) -> Iterator[Ledger]:
    """Give a run that goes on, with what ``more`` says of its first turn."""
    with closing(new_ledger(runs_dir)) as ledger:
        first: dict[str, Any] = {"item_id": "a.py", "state": "running", "began_at": 101.0} | more
        ledger.put(turn(0, **first))
        ledger.put(turn(1, "b.py", state="running", began_at=101.0))
        ledger.put(ran(2, NASTY, answer=NASTY_ANSWER, input_tokens=9, cost_usd=0.25))
        ledger.put(ran(3, "d.py", state="failed", error=f"ValueError: {NASTY}"))
        ledger.put(turn(4, "e.py"))
        ledger.flush()
        yield ledger
