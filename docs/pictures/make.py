"""Makes the pictures of the documentation: ``python docs/pictures/make.py``.

A run is made up, in a ledger as any other, and shown as users see it: by the bar of ``exec``, on
the full screen, and in a browser, for which there has to be a Chromium.
"""

from __future__ import annotations

import asyncio
import io
import random
import re
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hmz_mp.cli.pace import Pace  # noqa: E402  (after the path)
from hmz_mp.cli.progress import picture  # noqa: E402
from hmz_mp.core.ambient import TurnRecord  # noqa: E402
from hmz_mp.report.page import page_pieces  # noqa: E402
from hmz_mp.runs.ledger import Ledger  # noqa: E402
from hmz_mp.runs.reading import open_run  # noqa: E402
from hmz_mp.runs.tally import Tally  # noqa: E402
from hmz_mp.watching.screen import Abilities, WatchApp  # noqa: E402
from tests.report.browser import Browser, find_browser  # noqa: E402

PICTURES = Path(__file__).parent
REVIEWER, CHECKER = "claude/opus:high", "tool/checks.py:lint"
NOUNS = ("cart", "price", "order", "stock", "invoice", "refund", "basket", "ledger", "tax", "audit")
ITEMS = [f"shop/{folder}/{noun}.py" for folder in ("core", "api", "jobs", "web") for noun in NOUNS]
SAID = {
    "shop/jobs/price.py": [
        ("reasoning", "The discount is applied before the tax: is that meant?"),
        ("tool", "Read shop/jobs/price.py"),
        ("tool", "Grep 'round(' in shop/"),
        ("text", "`total()` rounds each line, then the sum. Of three lines of 0.335 that makes\n"
         "1.02, where the invoice says 1.01.\n"),
        ("tool", "Edit shop/jobs/price.py"),
        ("tool", "Bash python -m pytest tests/test_price.py"),
        ("text", "The tests pass. I look for other places that round twice."),
    ],
    "shop/jobs/order.py": [
        ("tool", "Read shop/jobs/order.py"),
        ("text", "`Order.cancel` may be called twice: the second refund is not refused."),
        ("told", "mind the orders that were paid in part"),
        ("tool", "Grep 'def refund' in shop/"),
        ("text", "Partial payments go through `refund_part`, which has the same hole."),
    ],
}  # fmt: skip


def turns(start: float) -> list[TurnRecord]:
    """Make up the turns of a run that began at ``start``."""
    chance = random.Random(7)
    free = [start + 0.1] * 6
    made: list[TurnRecord] = []
    for item in ITEMS:
        for agent in (CHECKER, REVIEWER):
            made.append(turn(chance, free, len(made), item, agent))
    return made


def turn(
    chance: random.Random, free: list[float], number: int, item: str, agent: str
) -> TurnRecord:
    """Make up one turn, in the worker that is free first."""
    worker = free.index(min(free))
    begin = free[worker]
    seconds = chance.lognormvariate(0.9 if agent == REVIEWER else -0.7, 0.6)
    free[worker] = begin + seconds + 0.05
    read, wrote = chance.randint(4000, 40000), chance.randint(200, 2500)
    cost = (read * 3 + wrote * 15) / 1e6
    record = TurnRecord(
        item_id=item, agent=agent, agent_id=agent, session=f"s{number}", place=0, number=number,
        prompt=f"find what is wrong with money here\nThe file is {item}.", state="ok",
        submitted_at=max(begin - chance.random() * 3, 0.0), began_at=begin, attempts=1,
        ended_at=begin + seconds, seconds=seconds, worker=40210 + worker,
        answer=f"{item}: {chance.randint(0, 4)} findings",
    )  # fmt: skip
    if agent == REVIEWER:
        record.input_tokens, record.output_tokens, record.cost_usd = read, wrote, cost
        record.usage = (
            f'[{{"model":"claude-opus-4","input_tokens":{read},"output_tokens":{wrote},'
            f'"cached_tokens":{read // 2},"cost_usd":{cost}}}]'
        )
    if chance.random() < 0.06:
        record.state, record.answer = "failed", None
        record.error = "TurnTimeout: took longer than 30 s"
    return record


def write_run(runs_dir: Path, *, over: bool) -> Ledger:
    """Write the run down: all of it, or up to where two conversations work."""
    start = time.time() - 33
    made = turns(start)
    ledger = Ledger.create(
        runs_dir,
        command=["hmz-mp", "exec", "-f", "review", "-a", REVIEWER, "-a", CHECKER, "--watch"],
        flow="review",
        agents=[REVIEWER, CHECKER],
        task="find what is wrong with money here",
        options={"at_once": 6},
    )
    for record in made:
        if not over and record.item_id in SAID and record.agent == REVIEWER:
            record.state, record.answer, record.error = "running", None, None
            record.ended_at = record.seconds = None
            for kind, text in SAID[record.item_id]:
                ledger.say(record.number, time.time(), kind, text)
        elif not over and record.number > 2 * ITEMS.index("shop/jobs/order.py") + 1:
            record.state, record.began_at, record.answer = "queued", None, None
            record.input_tokens = record.output_tokens = 0
            record.cost_usd = 0.0
        ledger.put(record)
    ledger.note("UPDATE runs SET started_at = ?", start)
    if over:
        ledger.finish("failed", 1, {})
    ledger.flush()
    return ledger


def without_fonts(svg: str) -> str:
    """Return a picture that loads nothing: fonts are the reader's own."""
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def draw_bar() -> None:
    """Draw what ``exec`` shows on a terminal."""
    tally = Tally(submitted=80)
    pace = Pace(0.0)
    for record in turns(0.0)[:50]:
        tally.begin(record)
        if record.number < 46:
            tally.end(record)
        else:
            record.began_at = 1000.0 - 3 * (record.number - 44)
            record.seconds = None
    pace.note(30.0, tally.ended)
    console = Console(record=True, width=84, file=io.StringIO(), force_terminal=True)
    console.print(picture(tally, pace, 1000.0, 84, 8))
    svg = console.export_svg(title="hmz-mp exec")
    (PICTURES / "exec.svg").write_text(without_fonts(svg), encoding="utf-8")


async def draw_screen(directory: Path) -> None:
    """Draw the full screen, on one conversation and on the next."""
    app = WatchApp(directory, Abilities(lambda: None, lambda *_: True, lambda: 80))

    async def until(words: str) -> str:
        for _ in range(100):
            drawn = app.export_screenshot(title="hmz-mp exec --watch")
            if words in drawn and "checks.py" in drawn:
                return drawn
            await asyncio.sleep(0.1)
        raise TimeoutError(words)

    async with app.run_test(size=(84, 22)) as pilot:
        one = await until("round")
        (PICTURES / "watch-1.svg").write_text(without_fonts(one), encoding="utf-8")
        await pilot.press("tab")
        two = await until("refund_part")
        (PICTURES / "watch-2.svg").write_text(without_fonts(two), encoding="utf-8")


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
    """Make all of them."""
    draw_bar()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(write_run(folder / "going", over=False)) as ledger:
            asyncio.run(draw_screen(ledger.directory))
        write_run(folder / "over", over=True).close()
        draw_page(folder / "over", folder)


if __name__ == "__main__":
    main()
