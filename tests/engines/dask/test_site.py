from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

from hmz_mp.engines.dask import relay, site


def localized(sys_path: list[str], prefixes: list[str]) -> list[str]:
    opening = relay.Opening(
        [], [os.fsencode(one) for one in prefixes], b"", [], {}, 0, b"", 30, workers=1
    )
    made: Any = site._Site.__new__(site._Site)
    made._opening = opening
    found, cwd = made._localized([os.fsencode(one) for one in sys_path], b"/work\xff")
    assert os.fsencode(cwd) == b"/work\xff"
    assert isinstance(found, list)
    return found


def test_paths_of_the_same_python_come_first_as_they_are(tmp_path: Path) -> None:
    found = localized([str(tmp_path), *sys.path], [sys.prefix, sys.base_prefix])
    assert found == list(dict.fromkeys([str(tmp_path), *sys.path]))


def test_what_is_not_there_or_of_another_python_is_left_out(tmp_path: Path) -> None:
    theirs = tmp_path / "python" / "lib"
    theirs.mkdir(parents=True)
    found = localized(
        [str(tmp_path), str(theirs), str(tmp_path / "nowhere")], [str(tmp_path / "python")]
    )
    assert found == list(dict.fromkeys([str(tmp_path), *sys.path]))


def test_an_introduction_installs_what_serves() -> None:
    worker: Any = SimpleNamespace(handlers={}, local_directory="/no/such/place")
    said = relay.decode_introduction(site.introduce(b"/no/such/place", worker))
    assert set(worker.handlers) == {site.OPERATION}
    (handler,) = worker.handlers.values()
    assert list(inspect.signature(handler).parameters) == ["comm", "opening"]  # as Dask calls it
    assert not said.sees
    assert said.python == ".".join(map(str, sys.version_info[:2]))
