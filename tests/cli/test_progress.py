from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from hmz_mp.cli.pace import Pace
from hmz_mp.cli.progress import (
    BarDisplay,
    Display,
    LineDisplay,
    NoDisplay,
    figures,
    make_display,
    picture,
)
from hmz_mp.core.turns import Progress
from hmz_mp.runs.tally import Tally
from tests.runs.fakes import record_of


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def tally_of(ok: int = 0, failed: int = 0, total: int = 0, running: tuple[str, ...] = ()) -> Tally:
    tally = Tally(submitted=total, ok=ok, failed=failed)
    for number, item_id in enumerate(running):
        tally.begin(record_of(item_id, number=number, began_at=100.0 + number))
    return tally


def drawn(tally: Tally, width: int, rows: int = 8) -> list[str]:
    pace = Pace(0.0)
    pace.note(0.0, 0)
    pace.note(10.0, tally.ended)
    file = io.StringIO()
    console = Console(file=file, width=width, height=20, markup=False, no_color=True)
    console.print(picture(tally, pace, 103.5, width, rows))
    return file.getvalue().splitlines()


def test_the_picture() -> None:
    tally = tally_of(ok=30, failed=2, total=1700, running=("src/a.py", "src/b.py"))
    bar, figures, *running = drawn(tally, 80)
    assert len(bar.rstrip()) <= 79
    assert figures.rstrip() == "32/1,700 done  2 failed  2 running  3.2/s  8:41 left"
    assert [line.rstrip() for line in running] == ["  3.5 s  src/a.py", "  2.5 s  src/b.py"]


def test_the_picture_on_40_columns() -> None:
    tally = tally_of(ok=30, failed=2, total=170_000, running=("src/" + "very/" * 20 + "deep.py",))
    lines = [line.rstrip() for line in drawn(tally, 40)]
    assert all(len(line) < 40 for line in lines)
    assert lines[1:3] == ["32/170,000 done  2 failed  1 running", "3.2/s  14:45:15 left"]
    assert lines[3].startswith("  3.5 s  …")
    assert lines[3].endswith("deep.py")


@pytest.mark.parametrize("width", [1, 2, 9, 10, 11])
def test_the_picture_on_hardly_any_columns(width: int) -> None:
    tally = tally_of(ok=1, total=2, running=("src/a.py",))
    assert all(len(line.rstrip()) <= width for line in drawn(tally, width))


def test_what_a_turn_says_of_itself() -> None:
    tally = tally_of(total=1, running=("src/a.py",))
    tally.note_progress(tally.running[0], Progress(0.4, "parsing\x07 " * 20))
    line = drawn(tally, 80)[2].rstrip()
    assert line.startswith("  3.5 s   40% parsing\\x07 pars")
    assert line.endswith("…  src/a.py")


def test_only_so_many_running_items() -> None:
    tally = tally_of(total=100, running=tuple(f"i{n}" for n in range(50)))
    assert len(drawn(tally, 80, rows=3)) == 2 + 3
    assert len(drawn(tally, 80, rows=0)) == 2


def test_names_are_no_markup_and_no_escape_codes() -> None:
    tally = tally_of(total=1, running=("a[red]\x1b[31m\n.py",))
    assert drawn(tally, 80)[2].rstrip() == "  3.5 s  a[red]\\x1b[31m\\n.py"


def test_an_empty_run() -> None:
    assert drawn(tally_of(), 80)[1].rstrip() == "0/0 done  0 running"


# Lines


def test_a_line_at_intervals() -> None:
    clock, lines = Clock(), list[str]()
    display = LineDisplay(lines.append, clock, interval=5.0)
    for step in range(120):
        clock.now = step / 10
        display.look(tally_of(ok=step, total=200, running=("a",)))
    display.close()
    assert lines == [
        "50/200 done, 1 running, 10.0/s, 15 s left",
        "100/200 done, 1 running, 10.0/s, 10 s left",
    ]


# The bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_console(file: io.StringIO) -> Console:
    return Console(file=file, force_terminal=True, width=80, height=10, markup=False)


def test_the_bar_leaves_the_terminal_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Terminal()
    clock = Clock()
    display = BarDisplay(terminal_console(file), clock, wall=lambda: 103.0)
    before = sys.stderr
    clock.now = 1.0
    display.look(tally_of(ok=1, total=3, running=("a.py",)))
    assert "1/3 done" in file.getvalue()
    display.close()
    display.close()
    assert file.getvalue().count("\x1b[?25h") >= 1  # the cursor is shown again
    assert file.getvalue().endswith("\x1b[2K")  # and the picture gone
    assert sys.stderr is not None
    assert before is not None


def test_the_bar_steps_aside() -> None:
    file = Terminal()
    display = BarDisplay(terminal_console(file), Clock())
    display.look(tally_of(ok=1, total=3))
    with display.aside():
        file.write("an answer\n")
    display.look(tally_of(ok=2, total=3))
    display.close()
    shown = file.getvalue()
    assert shown.index("1/3 done") < shown.index("an answer") < shown.index("2/3 done")


def test_nothing_is_shown_when_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    display = make_display(Clock(), quiet=True)
    assert isinstance(display, NoDisplay)
    display.look(tally_of(ok=1, total=3))
    with display.aside():
        pass
    display.close()
    assert capfd.readouterr() == ("", "")


def test_what_suits_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> Display:
        display = make_display(Clock(), quiet=False)
        display.close()
        return display

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(made(), LineDisplay)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(made(), BarDisplay)
    monkeypatch.setenv("NO_COLOR", "1")
    assert isinstance(made(), BarDisplay)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(made(), LineDisplay)


def test_those_that_wait_for_their_service() -> None:
    tally = tally_of(ok=1, total=9, running=("a", "b", "c"))
    tally.put_back(tally.running[next(iter(tally.running))])
    assert figures(tally, Pace(0.0))[1:3] == ["2 running", "1 waiting for their service"]


def test_the_widths_that_were_found() -> None:
    tally = tally_of(ok=1, total=9, running=("a", "b", "c"))
    found = {"claude /home/x A=b": 8, "\x1b": 1_000}
    assert figures(tally, Pace(0.0), found)[1:4] == [
        "3 running",
        "claude: at most 8",
        "\\x1b: at most 1,000",
    ]
    assert figures(tally_of(ok=6, total=9, running=("a", "b", "c")), Pace(0.0), found)[2:] == []
