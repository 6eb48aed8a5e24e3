"""Makes the pictures of the documentation: ``python docs/pictures/make.py``.

They are of one run, which is started here: ``hmz-mp exec``, on a terminal of its own, over files of
the standard library of this interpreter, in a git repository that is thrown away. What they show
has happened. Its bar is what the terminal was sent; the full screen is that of ``hmz-mp watch``,
which looks at it meanwhile; and its report is shown by a browser, for which there has to be a
Chromium. Of real agents there is nothing in it, as nobody's account is to be needed.
"""

from __future__ import annotations

import asyncio
import html
import io
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hmz_mp.report.page import page_pieces  # noqa: E402  (after the path)
from hmz_mp.runs import runs_directory  # noqa: E402
from hmz_mp.runs.finding import find_run, open_run  # noqa: E402
from hmz_mp.watching.screen import Abilities, WatchApp  # noqa: E402
from tests.cli.processes import OnTerminal, Project  # noqa: E402
from tests.report.browser import Browser, find_browser  # noqa: E402
from tests.waiting import until  # noqa: E402

PICTURES = Path(__file__).parent
WIDTH = 84
AT_ONCE = 3
LEAST_LINES = 8  # of a conversation, on a picture
# Of the standard library: packages, large modules, and files that are there as they are no Python.
FILES = (
    *("asyncio/*.py", "email/*.py", "http/*.py", "json/*.py", "test/tokenizedata/bad*.py"),
    *("_pydecimal.py", "argparse.py", "inspect.py", "tarfile.py", "turtle.py", "typing.py"),
)
COMMAND = (
    *("exec", "-f", "checks/review.py"),
    *("-a", "tool/hmz_mp.toolbox.python:outline", "-a", "tool/checks/twins.py:twins"),
    *("--include", "lib", "--at-once", f"{AT_ONCE}", "--timeout", "10", "what is written twice?"),
)
# What the terminal is sent before each picture of the bar: it goes up, and wipes line by line.
WIPE = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")


def make_repository(folder: Path) -> Project:
    """Return a git repository with the files, and with what is to look at them."""
    project = Project(folder)
    library = Path(sysconfig.get_path("stdlib"))
    for pattern in FILES:
        found = list(library.glob(pattern))
        if not found:
            raise SystemExit(f"the pictures need {pattern} of the standard library: not here")
        for file in found:
            copy = project.root / "lib" / file.relative_to(library)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    shutil.copytree(PICTURES / "checks", project.root / "checks")
    subprocess.run(["git", "init", "-q", project.root], check=True)
    subprocess.run(["git", "-C", project.root, "add", "."], check=True)
    return project


def without_fonts(svg: str) -> str:
    """Return a picture that loads nothing: fonts are the reader's own."""
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def save(name: str, svg: str) -> None:
    """Write a picture."""
    (PICTURES / name).write_text(without_fonts(svg), encoding="utf-8")


def draw_bar(sent: str) -> None:
    """Draw what ``exec`` had on its terminal at one moment, the first that shows everything."""
    pictures = [Text.from_ansi(one.strip()) for one in WIPE.split(sent.replace("\r\n", "\n"))]
    whole = [one for one in pictures if is_whole(one.plain)]
    if not whole:
        raise SystemExit("the bar never showed a failure and three items that run")
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(whole[0])
    save("exec.svg", console.export_svg(title="hmz-mp exec"))


def is_whole(words: str) -> bool:
    """Whether this is the bar, with all that it may show, and nothing that was printed before."""
    return (
        words.startswith("━") and " failed " in words and words.count(" functions  lib/") == AT_ONCE
    )


async def draw_screen(directory: Path, is_over: Callable[[], bool]) -> None:
    """Draw the full screen, on one conversation and on the next, while both work."""
    app = WatchApp(directory, Abilities(lambda: None))
    async with app.run_test(size=(WIDTH, 22)) as pilot:

        async def when(is_right: Callable[[str], bool], *keys: str) -> str:
            while not is_over():
                await pilot.press(*keys)
                await asyncio.sleep(0.2)
                drawn = app.export_screenshot(title="hmz-mp watch")
                if is_right(shown(drawn)):
                    return drawn
            raise SystemExit("the run was over before the screen showed what it should")

        one = await when(is_told)
        save("watch-1.svg", one)
        before = about(shown(one))
        two = await when(lambda words: is_told(words) and about(words) != before, "tab")
        save("watch-2.svg", two)


def shown(svg: str) -> str:
    """Return the words of a picture of a screen."""
    found = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    return "\n".join(html.unescape(one).replace("\xa0", " ") for one in found)


def is_told(words: str) -> bool:
    """Whether a conversation that works and says much is shown, and something has failed."""
    has_failed = re.search(r"\d failed", words) is not None
    lines = words.count("\n· ") >= LEAST_LINES and "twins:" in words
    return has_failed and about(words) != "" and lines


def about(words: str) -> str:
    """Return which item the conversation on the screen is about, if it works."""
    return "".join(re.findall(r"› (\S+)", words)[:1])


def draw_page(runs_dir: Path, folder: Path) -> None:
    """Draw the report, wide and light, and narrow and dark."""
    program = find_browser()
    if program is None:
        raise SystemExit("the pictures of the report need a Chromium, and there is none")
    page = folder / "report.html"
    with open_run(runs_dir, "last") as run:
        page.write_text("".join(page_pieces(run)), encoding="utf-8")
    with Browser(program, folder / "profile") as browser:
        for name, width, height, scheme in (
            ("report", 1100, 1250, "light"),
            ("report-narrow", 400, 1000, "dark"),
        ):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.do("Emulation.setEmulatedMedia", features=features)
            browser.size(width, height)
            browser.open(page)
            browser.shot(PICTURES / f"{name}.png")


def main() -> None:
    """Start the run, and make all of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = make_repository(folder)
        runs_dir = runs_directory(project.root)
        began = time.monotonic()
        terminal = OnTerminal(project, *COMMAND, columns=WIDTH, rows=24)
        try:
            until(lambda: any(runs_dir.glob("*/run.db")))
            directory = find_run(runs_dir, "last")
            asyncio.run(draw_screen(directory, lambda: terminal.process.poll() is not None))
        finally:
            terminal.wait()
        with open_run(runs_dir, "last") as run:
            failed = {kind for (kind,) in run.columns(["error_type"])}
        if not {"SyntaxError", "TurnTimeout"} <= failed:
            raise SystemExit(f"the run did not go as it should:\n{terminal.shown[-2000:]}")
        draw_bar(terminal.shown)
        draw_page(runs_dir, folder)
        print(f"of a run of {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
