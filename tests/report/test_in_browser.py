"""The page in a real browser; skipped where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.report.page import page_pieces
from hmz_mp.runs.finding import open_run

from .browser import Browser, find_browser
from .runs import NASTY_SHOWN, write_run

pytestmark = pytest.mark.browser
ITEMS = 450  # three pages of the list


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    start = tmp_path_factory.mktemp("page")
    write_run(start, ITEMS)
    file = start / "report.html"
    with open_run(start, "last") as run:
        file.write_text("".join(page_pieces(run)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium here (Debian has it as chromium-headless-shell)")
    with Browser(program, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def complaints(browser: Browser) -> list[dict[str, Any]]:
    """Return what went wrong, or tried to get out of the page."""
    logged = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
    bad = (*logged, "Page.javascriptDialogOpening")
    found = [one for one in browser.events if one.get("method") in bad]
    for one in browser.events:
        if one.get("method") == "Network.requestWillBeSent":
            found += [one] if not one["params"]["request"]["url"].startswith("file:") else []
    return found


def names(browser: Browser) -> list[str]:
    script = "[...document.querySelectorAll('#list .name')].map(one => one.textContent)"
    found: list[str] = browser.run(script)
    return found


def search(browser: Browser, words: str) -> None:
    """Type into the search box, and wait for what it finds."""
    browser.run(
        """words => new Promise(done => {
          const list = document.getElementById("list");
          new MutationObserver((_, watcher) => { watcher.disconnect(); done(); })
            .observe(list, {childList: true});
          const box = document.getElementById("search");
          box.value = words;
          box.dispatchEvent(new Event("input"));
        })""".join("()")
        + f"({words!r})"
    )


def click(browser: Browser, selector: str) -> None:
    browser.run(f"document.querySelector({selector!r}).click()")


def test_foreign_text_is_text_and_nothing_leaves_the_page(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    browser.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    assert complaints(browser) == []
    assert names(browser)[0] == NASTY_SHOWN
    assert browser.run("document.images.length") == 0
    assert browser.run("document.scripts.length") == 2
    assert "alert(2)</script>" in browser.run("document.querySelector('#list pre').textContent")
    added = browser.run("document.querySelector('#list .add').textContent")
    assert added in ("+++ b/x.py\n", "+<script>alert(4)</script>\n")


def test_items_are_searched_sorted_and_turned_over(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert len(names(browser)) == 200
    click(browser, "#next")
    click(browser, "#next")
    assert len(names(browser)) == ITEMS - 400
    assert browser.run("document.getElementById('next').disabled")
    click(browser, "[data-sort=seconds]")
    assert names(browser)[0] == "b.py"
    click(browser, "[data-sort=item_id]")
    assert names(browser)[0] == NASTY_SHOWN
    click(browser, "[data-sort=item_id]")
    assert names(browser)[0] == "file99.py"
    search(browser, "ANSWER 44 file")
    assert names(browser)[::-1] == sorted(f"file{n}.py" for n in range(ITEMS) if "44" in str(n))
    search(browser, "")
    script = "status => { status.value = 'failed'; status.dispatchEvent(new Event('change')); }"
    browser.run(f"({script})(document.getElementById('status'))")
    assert names(browser) == ["b.py"]
    assert complaints(browser) == []


@pytest.mark.parametrize("width", [320, 1280])
def test_nothing_is_wider_than_the_window(browser: Browser, page: Path, width: int) -> None:
    browser.size(width, 800)
    browser.open(page)
    assert browser.run("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(browser: Browser, page: Path, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.do("Emulation.setEmulatedMedia", features=features)
    browser.open(page)
    faint = browser.run(
        """(() => {
          const light = (colour) => {
            const [r, g, b] = colour.match(/[0-9.]+/g).map(v => v / 255)
              .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ground = light(getComputedStyle(document.body).backgroundColor);
          return [...document.querySelectorAll("h1, h2, dt, dd, .status, .name, .why, .label span")]
            .map(one => [one.className || one.tagName, light(getComputedStyle(one).color)])
            .filter(([, text]) =>
              (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05) < 4.5);
        })()"""
    )
    assert faint == []


def test_without_scripts_what_matters_is_there(browser: Browser, page: Path) -> None:
    browser.do("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        tree = browser.do("Accessibility.getFullAXTree")["nodes"]
    finally:
        browser.do("Emulation.setScriptExecutionDisabled", value=False)
    said = " ".join(str(one.get("name", {}).get("value", "")) for one in tree)
    for words in (
        "Workers over time",
        "How long turns ran",
        "The slowest",
        "the rest needs JavaSc",
    ):
        assert words in said
    assert NASTY_SHOWN in said
    assert "Search" not in said
