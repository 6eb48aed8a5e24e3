import dataclasses
import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.agents.identity import Identities, asked, digest_of_files, identity_of
from hmz_mp.agents.prompts import Prompt


class One(msgspec.Struct):
    value: int


@dataclasses.dataclass
class Two:
    value: str


def identity(
    agent: tuple[str, ...] = ("agent1", "sh/cat"), prompt: Prompt | str = "go", **settings: Any
) -> str:
    prompt = Prompt(prompt) if isinstance(prompt, str) else prompt
    return Identities(*agent).of(prompt, settings.pop("cwd", None), **settings)


DIFFERENT = [
    identity(),
    identity(("agent2", "sh/cat")),
    identity(("agent1", "sh/tac")),
    identity(("agent1", "sh/cat", "source")),
    identity(("agent1", "cli=sh,model=cat,effort=low")),
    identity(prompt="go on"),
    identity(prompt=Prompt("go", item_id="a")),
    identity(prompt=Prompt("go", item_id="a", path="b")),
    identity(prompt=Prompt("go", item_id="b", path=b"a")),
    identity(prompt=Prompt("ago")),
    identity(cwd="/a"),
    identity(schema=One),
    identity(schema=Two),
    identity(pursue=True),
    identity(after=""),
    identity(after=asked(identity())),
]


def test_whatever_makes_a_difference_makes_one() -> None:
    for one, other in itertools.combinations(DIFFERENT, 2):
        assert one != other


def test_the_same_is_the_same() -> None:
    assert identity() == identity()
    assert identity(schema=One) == identity(schema=One)
    assert identity(("agent1", "cli=sh,model=cat")) == identity()
    for setting in ("timeout=5", "retries=2", "at_once=3", "stall=9"):
        assert identity(("agent1", f"cli=sh,model=cat,{setting}")) == identity()


def test_who_is_asked_is_told_apart_from_what() -> None:
    mine, other = identity(), identity(("agent1", "sh/tac"))
    assert asked(mine) == asked(other)
    assert mine != other
    assert identity_of(["a", "bc"], ["x"]) != identity_of(["ab", "c"], ["x"])


texts = st.text(st.characters(exclude_categories=[]), max_size=6)


@given(texts, texts, texts, texts)
def test_texts_do_not_run_into_each_other(one: str, two: str, three: str, four: str) -> None:
    first = identity(prompt=Prompt(one, item_id=two or None))
    second = identity(prompt=Prompt(three, item_id=four or None))
    assert (first == second) == ((one, two) == (three, four))


def test_a_schema_that_json_schemas_do_not_tell() -> None:
    class Odd:
        pass

    assert identity(schema=Odd) != identity()


@pytest.mark.parametrize("change", ["written", "gone"])
def test_files_that_change(tmp_path: Path, change: str) -> None:
    file = tmp_path / "a.py"
    file.write_text("one")
    before = digest_of_files(file, tmp_path / "b.py")
    assert digest_of_files(str(file)) == before
    file.write_text("two") if change == "written" else file.unlink()
    assert digest_of_files(file) != before
