from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.cli.progress import NoDisplay
from hmz_mp.cli.view import View
from hmz_mp.runs.tally import Tally
from hmz_mp.watching import screen
from tests.runs.fakes import Watched

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Broken:
    """A screen that cannot be drawn."""

    def __init__(self, *_: Any) -> None:
        self.printed = [("printed before\n", False)]

    async def run_async(self) -> None:
        raise RuntimeError("no such terminal")

    def exit(self) -> None: ...


class Shown(NoDisplay):
    """Counts how often it was looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self, tally: Tally, widths: Any = None) -> None:
        self.looks += 1


async def test_a_screen_that_fails_is_replaced_by_the_usual_display(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(screen, "WatchApp", Broken)
    shown = Shown()
    view = View(tmp_path, lambda: shown)
    view.look(Tally())
    with view.aside():
        assert (view.is_open, shown.looks) == (False, 0)
    await view.run(Watched().run, lambda: None)
    assert not view.is_open
    said = capsys.readouterr()
    assert said.out == "printed before\n"
    assert said.err == "hmz-mp: the screen failed: RuntimeError('no such terminal')\n"
    view.look(Tally())
    assert shown.looks == 1
    with view.aside():
        pass
    await view.leave()
    view.look(Tally())
    assert shown.looks == 1
    view.close()
    assert sys.stdout is not None
