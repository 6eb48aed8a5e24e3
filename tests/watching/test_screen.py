from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from rich.text import Text
from textual.widgets import Input, RichLog, Static

from hmz_mp.watching import screen
from hmz_mp.watching.screen import Abilities, WatchApp
from hmz_mp.watching.snapshot import Snapshot, look

from ..helpers import await_until
from ..report.runs import NASTY_SHOWN, ran
from ..runs.support import new_ledger, turn
from .runs import going_on, say

pytestmark = pytest.mark.anyio
QUICK = 0.2  # seconds between two looks


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # textual's


def watch(directory: Path, **abilities: Any) -> WatchApp:
    return WatchApp(directory, Abilities(**abilities), interval=QUICK)


def said(app: WatchApp, name: str) -> str:
    content = app.query_one(f"#{name}", Static).content
    return content.plain if isinstance(content, Text) else str(content)


def log(app: WatchApp) -> list[str]:
    return [line.text.rstrip() for line in app.query_one(RichLog).lines]


async def until(condition: Callable[[], object]) -> None:
    await await_until(condition)


async def test_a_run_that_goes_on(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        app = watch(ledger.directory, total=lambda: 9)
        async with app.run_test(size=(100, 30)):
            await until(lambda: log(app))
            assert "goes on" in said(app, "heading")
            assert "2 of 9 done  1 failed  2 of 4 at once  1 queued" in said(app, "figures")
            assert said(app, "agents") == "tool/x:y  ██░░░░░░░░░░  2 of 9, 1 failed"
            assert said(app, "title") == "‹1 of 2› a.py"
            assert log(app) == ["│ outline"]
            say(ledger, 0, ("text", "well [b]then[/b] :smile:"))
            await until(lambda: log(app)[1:] == ["well [b]then[/b] :smile:"])


async def test_tab_steps_between_those_that_work(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        app = watch(ledger.directory)
        async with app.run_test(size=(100, 30)) as pilot:
            await until(lambda: log(app))
            await pilot.press("tab")
            await until(lambda: said(app, "title") == "‹2 of 2› b.py")
            await pilot.press("tab")
            await until(lambda: said(app, "title") == "‹1 of 2› a.py")
            await pilot.press("shift+tab")
            await until(lambda: said(app, "title") == "‹2 of 2› b.py")
            # The chosen one stays when it has ended; tab goes on to one that works.
            ledger.put(turn(1, "b.py", state="ok", answer="at last", began_at=101.0, seconds=1.0))
            await until(lambda: log(app)[-1:] == ["ok after 1.0 s"])
            assert said(app, "title") == "b.py"
            await pilot.press("tab")
            await until(lambda: said(app, "title") == "‹1 of 1› a.py")


async def test_without_a_choice_it_follows_what_works(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        app = watch(ledger.directory)
        async with app.run_test(size=(100, 30)):
            await until(lambda: log(app))
            ledger.put(turn(0, "a.py", state="ok", answer="done", began_at=101.0))
            await until(lambda: said(app, "title") == "‹1 of 1› b.py")
            ledger.put(turn(1, "b.py", state="ok", answer="done", began_at=101.0))
            ledger.finish("ok", 0, {})
            await until(lambda: "  ok  " in said(app, "heading"))


async def test_failed_items(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        app = watch(ledger.directory)
        async with app.run_test(size=(100, 30)) as pilot:
            await until(lambda: log(app))
            await pilot.press("f")
            await until(lambda: said(app, "title") == "failed: 1")
            assert log(app) == [f"d.py: ValueError: {NASTY_SHOWN}"]
            await pilot.press("escape")
            await until(lambda: said(app, "title") == "‹1 of 2› a.py")


async def test_a_line_is_said_to_the_conversation_that_is_read(tmp_path: Path) -> None:
    heard: list[tuple[int, str]] = []

    def interject(number: int, text: str) -> bool:
        heard.append((number, text))
        return len(heard) == 1

    with going_on(tmp_path) as ledger:
        app = watch(ledger.directory, interject=interject)
        async with app.run_test(size=(100, 30)) as pilot:
            await until(lambda: log(app))
            await pilot.press("tab")
            await until(lambda: said(app, "title") == "‹2 of 2› b.py")
            await pilot.press("i", *"hi fq", "enter")
            await until(lambda: said(app, "keys") == "said")
            assert not app.query_one("#say", Input).display
            await pilot.press("i", "x", "enter")
            await until(lambda: said(app, "keys").startswith("nobody hears that"))
            await pilot.press("i", "enter")
            await pilot.press("i", "y", "escape")
            assert not app.query_one("#say", Input).display
    assert heard == [(1, "hi fq"), (1, "x")]


async def test_elsewhere_nothing_can_be_said(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        app = watch(ledger.directory)
        async with app.run_test(size=(100, 30)) as pilot:
            await until(lambda: log(app))
            assert "i say" not in said(app, "keys")
            await pilot.press("i")
            await until(lambda: said(app, "keys").startswith("only the process"))


async def test_ctrl_c_twice_stops_the_run(tmp_path: Path) -> None:
    stopped: list[None] = []
    with going_on(tmp_path) as ledger:
        app = watch(ledger.directory, stop=lambda: stopped.append(None))
        async with app.run_test(size=(100, 30)) as pilot:
            await until(lambda: log(app))
            await pilot.press("ctrl+c")
            assert (said(app, "keys"), stopped) == ("ctrl+c again stops the run", [])
            await pilot.press("ctrl+c")
            assert (said(app, "keys"), stopped) == ("stopping …", [None])
            await pilot.press("ctrl+c")
            assert stopped == [None]
            assert app.is_running


@pytest.mark.parametrize("key", ["q", "ctrl+q", "ctrl+c"])
async def test_leaving_a_run_that_is_over(tmp_path: Path, key: str) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(ran(0, answer="fine"))
        ledger.finish("ok", 0, {})
    app = watch(ledger.directory, stop=lambda: pytest.fail("it is over"))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(lambda: log(app))
        await pilot.press("tab")
        await until(lambda: said(app, "keys") == "no conversation works now")
        await pilot.press(key)
        await until(lambda: not app.is_running)


@pytest.mark.parametrize("width", [40, 20, 200])
async def test_any_width(tmp_path: Path, width: int) -> None:
    with going_on(tmp_path, item_id="a/" * 100) as ledger:
        say(ledger, 0, ("text", "word " * 50))
        app = watch(ledger.directory, stop=lambda: None, interject=lambda number, text: True)
        async with app.run_test(size=(100, 30)) as pilot:
            await until(lambda: log(app))
            await pilot.resize_terminal(width, 12)
            await until(lambda: app.size.width == width)
            await until(lambda: said(app, "title").endswith("a/"))
            await until(lambda: all(len(line) <= width for line in log(app)))
            for name in ("heading", "figures", "title"):
                assert max(map(len, said(app, name).splitlines())) <= width


async def test_nothing_is_colour_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with going_on(tmp_path) as ledger:
        app = watch(ledger.directory)
        async with app.run_test(size=(40, 12)):
            await until(lambda: log(app))
            assert app.no_color


async def test_what_is_printed_meanwhile_is_kept(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        app = watch(ledger.directory)
        async with app.run_test(size=(100, 30)):
            await until(lambda: log(app))
            print("a flow prints")
            await until(lambda: app.printed)
    assert "".join(text for text, _ in app.printed) == "a flow prints\n"


async def test_a_ledger_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.finish("ok", 0, {})
    (ledger.directory / "run.db").write_bytes(b"nonsense" * 999)
    app = watch(ledger.directory)
    async with app.run_test(size=(200, 30)) as pilot:
        await until(lambda: "file is not a database" in said(app, "keys"))
        await pilot.press("tab")
        await pilot.press("q")
        await until(lambda: not app.is_running)


async def test_ten_thousand_items(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        for number in range(10_000):
            ledger.put(ran(number, answer="x", state="failed" if number % 9 == 0 else "ok"))
        for number in range(10_000, 10_300):
            ledger.put(turn(number, state="running", began_at=101.0, agent=f"tool/{number}"))
        ledger.flush()
        app = watch(ledger.directory)
        async with app.run_test(size=(80, 24)) as pilot:
            await until(lambda: log(app))
            assert "10,000 of 10,300 done  1,112 failed" in said(app, "figures")
            assert said(app, "agents").splitlines()[-1] == "and 295 more agents"
            with anyio.fail_after(10):
                await pilot.press("shift+tab", "tab", "tab", "f")
            await until(lambda: said(app, "title") == "failed: 1,112, the last 200")


async def test_what_takes_long_is_looked_at_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    now = [0.0]

    def slow(directory: Path) -> Snapshot:
        looks.append(now[0])
        now[0] += 10.0
        return look(directory)

    with going_on(tmp_path) as ledger:
        monkeypatch.setattr(screen, "look", slow)
        app = WatchApp(ledger.directory, Abilities(), interval=0.01, clock=lambda: now[0])
        async with app.run_test(size=(80, 24)) as pilot:
            await until(lambda: looks == [0.0] and log(app))
            now[0] = 99.0
            await pilot.pause(0.1)
            assert looks == [0.0]
            now[0] = 100.0
            await until(lambda: looks == [0.0, 100.0])
