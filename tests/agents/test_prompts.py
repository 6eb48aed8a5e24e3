from __future__ import annotations

from pathlib import Path

import pytest

from hmz_mp.agents.prompts import Prompt, as_prompt, each_prompt


@pytest.mark.parametrize("path", ["a/b.py", b"a/b.py", Path("a/b.py")])
def test_a_path_is_kept_as_bytes_and_names_the_item(path: str | bytes | Path) -> None:
    prompt = Prompt("look", path=path)
    assert (prompt.file, prompt.item_id) == (b"a/b.py", "a/b.py")


def test_an_item_id_that_is_given_is_kept() -> None:
    assert Prompt("look", item_id="x", path=b"bad\xff").item_id == "x"
    assert Prompt("look", path=b"bad\xff").item_id == "bad\udcff"
    assert Prompt("look").item_id is None


def test_a_text_is_a_prompt() -> None:
    assert as_prompt("look") == Prompt("look")
    prompt = Prompt("look", item_id="x")
    assert as_prompt(prompt) is prompt


@pytest.mark.parametrize("wrong", [None, 3, b"bytes"])
def test_what_is_no_prompt(wrong: object) -> None:
    with pytest.raises(TypeError, match="a prompt is a str or a Prompt"):
        as_prompt(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text is a str"):
        Prompt(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["one text", Prompt("one")])
def test_one_prompt_is_no_batch(wrong: str | Prompt) -> None:
    with pytest.raises(TypeError, match="a list of prompts, not one"):
        each_prompt(wrong)  # type: ignore[arg-type]
