import json
import re
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.report import page as module
from hmz_mp.report.page import page_pieces
from hmz_mp.runs.finding import open_run

from ..runs.support import new_ledger, turn
from .runs import NASTY_SHOWN, ran, write_run


class Page(HTMLParser):
    """What a page has: elements by name, what is said, and whether they are closed in order."""

    VOID = ("meta", "input", "br", "link", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.words += f"{data} "


def written(runs_dir: Path) -> str:
    with open_run(runs_dir, "last") as run:
        return "".join(page_pieces(run, 2e9))


def data(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    values: dict[str, Any] = json.loads(found[1])
    return values


def test_it_says_what_a_run_was(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    text = written(tmp_path)
    page = Page(text)
    words = " ".join(page.words.split())
    assert f"Run {run_id} failed" in words
    assert "2 ok 1 failed 1 needs review 1 not run" in words
    assert "command hmz-mp exec -a tool/x:y" in words
    assert "options at_once 4" in words
    assert "Workers over time" in words
    assert "What did not go well: 3" in words
    assert "ValueError: " + NASTY_SHOWN in words
    assert "<i>m</i> 900 0 100 $1.50" in words
    assert "Items: 5 turns" in words
    cards = data(text)["cards"]
    assert [card[1] for card in cards] == [NASTY_SHOWN, "b.py", "c.py", "d.py", "e.py"]


def test_foreign_text_makes_no_element_and_no_attribute(tmp_path: Path) -> None:
    write_run(tmp_path)
    text = written(tmp_path)
    page = Page(text)
    kinds = {name for name, _ in page.elements}
    assert kinds.isdisjoint({"img", "i", "iframe", "object", "embed", "link", "a", "base"})
    assert [name for name, _ in page.elements].count("script") == 2
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert not {"src", "href", "style"} & attributes.keys()
    assert "{{ 7*7 }}" in page.words  # no template inside a template
    assert "\x1b" not in text
    assert "\u202e" not in text
    text.encode()  # no lone surrogates


def test_only_its_own_script_may_run(tmp_path: Path) -> None:
    write_run(tmp_path)
    text = written(tmp_path)
    policy = next(it["content"] for _, it in Page(text).elements if "http-equiv" in it)
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert module._hash(script) in policy
    assert module._hash(style) in policy


def test_long_lists_are_cut_but_for_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FAILED_SHOWN", "_ITEMS_SHOWN", "_SLOWEST_SHOWN"):
        monkeypatch.setattr(module, name, 3)
    with closing(new_ledger(tmp_path)) as ledger:
        for number in range(20):
            ledger.put(ran(number, state="failed", error=f"no\n{number}"))
        ledger.finish("failed", 1, {})
    text = written(tmp_path)
    page = Page(text)
    assert [name for name, _ in page.elements].count("details") == 9
    assert "20 × no" in " ".join(page.words.split())
    assert "The first 3 are shown" in page.words
    assert len(data(text)["cards"]) == 20


def test_long_texts_are_brief_but_in_the_data(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(ran(0, answer="x" * 9000))
        ledger.finish("ok", 0, {})
    text = written(tmp_path)
    assert "… and more, in the list of items below" in Page(text).words
    assert "x" * 9000 in text


def test_a_run_without_turns(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.finish("ok", 0, {})
    page = Page(written(tmp_path))
    assert "no turns" in page.words
    assert [one for one in page.elements if one[0] == "section"] == []


def test_a_run_in_which_nothing_ran(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(turn(0, state="not_run", error="halted"))
        ledger.finish("interrupted", 130, {})
    page = Page(written(tmp_path))
    assert "The run was interrupted before its end." in " ".join(page.words.split())
    assert "Workers over time" not in page.words


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(turn(0, state="running", began_at=101.0, worker=7))
        ledger.put(turn(1))
        ledger.flush()
        words = " ".join(Page(written(tmp_path)).words.split())
    assert "The run goes on: this is how it stood at" in words
    assert "1 running 1 queued" in words


def test_collections_go_on_afterwards(tmp_path: Path) -> None:
    import gc

    write_run(tmp_path)
    written(tmp_path)
    assert gc.isenabled()
    gc.disable()
    try:
        written(tmp_path)
        assert not gc.isenabled()
    finally:
        gc.enable()
