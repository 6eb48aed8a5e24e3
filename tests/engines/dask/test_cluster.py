from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

import msgspec

from hmz_mp import Pool
from hmz_mp.engines.dask import cluster, relay, site
from hmz_mp.errors import BadInput


def wrong_with(**changes: Any) -> str:
    theirs = msgspec.structs.replace(site.introduction("/"), **changes)
    return cluster._wrong_with("tcp://there:1", relay.encode(theirs), "/")


def test_a_worker_that_is_as_this_process() -> None:
    assert wrong_with() == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"python": "3.99"}, "has Python 3.99, this process 3."),
        ({"hmz_mp": "99"}, "has hmz-mp 99, this process "),
        ({"wire": 99}, "has hmz-mp's protocol 99, this process "),
        ({"cloudpickle": "99.1"}, "has cloudpickle 99, this process 3"),
        ({"sees": False}, "cannot see the working directory /"),
    ],
)
def test_what_differs_is_named_with_both_sides(changes: dict[str, Any], words: str) -> None:
    said = wrong_with(**changes)
    assert words in said
    assert "tcp://there:1" in said


def test_a_worker_without_hmz_mp() -> None:
    said = cluster._wrong_with("tcp://there:1", ModuleNotFoundError("No module 'hmz_mp'"), "/")
    assert "No module 'hmz_mp'" in said
    assert "install there" in said


def test_that_turns_wait_is_said_once_each_time(caplog: pytest.LogCaptureFixture) -> None:
    needed = False

    def ignore(*_: Any) -> Any:
        return None

    made = cluster.Cluster("there:1", ignore, ignore, ignore, lambda: needed)

    def said() -> list[str]:
        made._say_whether_turns_wait()
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return lines

    none = "no Dask worker at there:1 can be used now: turns wait for one"
    assert said() == []  # nothing waits
    needed = True
    assert said() == [none]
    assert said() == []
    made.used.add("one")
    assert said() == ["1 Dask worker is there: turns go on"]
    assert said() == []
    made.used.clear()
    assert said() == [none]
    made.used |= {"two", "three"}
    assert said() == ["2 Dask workers are there again: turns go on"]
    made.used.clear()
    needed = False
    assert said() == []


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE", 0.5)

    async def enter(address: str) -> None:
        async with Pool(1, engine=f"dask://{address}"):
            raise AssertionError

    with socket.socket() as listening:  # whoever connects is never answered
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(BadInput, match=address):
            asyncio.run(enter(address))
    with pytest.raises(BadInput, match="is it running"):
        asyncio.run(enter(address))
    assert time.monotonic() - began < 15
