import logging

import pytest

from hmz_mp.core.turns import Logged, Progress, PutBack, Said, Shipped
from hmz_mp.runs.telling import told_of
from hmz_mp_worker.backends.protocol import Did, Opened, Spent

from .support import turn

EVENTS: list[tuple[object, tuple[str, str] | None]] = [
    (Did("Edit a.py"), ("tool", "Edit a.py")),
    (Said("text", b"a\xff"), ("text", "a\udcff")),
    (Said("reasoning", b"hm"), ("reasoning", "hm")),
    (Said("of a user", b"x"), None),
    (Progress(0.5, "half"), ("progress", "0.50 half")),
    (Progress(1.0, ""), ("progress", "1.00")),
    (Logged(logging.WARNING, "a.b", "mind"), ("log", "WARNING a.b: mind")),
    (PutBack(1.5), ("waiting", "1.500")),
    (Shipped(42), ("attempt", "42")),
    (Opened("id"), None),
    (Spent(()), None),
]


@pytest.mark.parametrize(("event", "told"), EVENTS)
def test_what_is_written_down(event: object, told: tuple[str, str] | None) -> None:
    assert told_of(turn(0, conversation="c"), event) == told


def test_what_a_command_writes_is_its_answer() -> None:
    assert told_of(turn(0), Said("text", b"out")) is None
