from __future__ import annotations

from pathlib import Path

import pytest

from hmz_mp.agents.kinds import Engine, engine_for
from hmz_mp.agents.spec import parse
from hmz_mp.errors import BadInput


def engine(text: str) -> Engine:
    return engine_for(parse(text))


def wrong(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        engine(text)
    assert repr(text) in str(caught.value)
    return str(caught.value)


async def waits(text: str) -> str:
    return text


def test_a_plain_function_does_not_wait() -> None:
    assert engine("tool/json:dumps").waits is False


def test_a_coroutine_function_waits() -> None:
    assert engine(f"tool/{__name__}:waits").waits is True


def test_a_command_waits_and_is_split_as_a_shell_would() -> None:
    made = engine("sh/cat -n 'a b' {path}")
    assert made.waits is True
    assert made.command == ["cat", "-n", "a b", "{path}"]


@pytest.mark.parametrize("backend", ["nonsense", "claud"])
def test_a_kind_that_is_not_there(backend: str) -> None:
    said = wrong(f"{backend}/model")
    assert f"this version has no {backend}/; it has tool/, sh/" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tool/json", "names no function"),
        ("tool/json:", "names no function"),
        ("tool/:dumps", "names no function"),
        ("tool/no_such_module_x:f", "there is no module 'no_such_module_x'"),
        ("tool/json.nope:f", "there is no module 'json.nope'"),
        ("tool/json:dump_s", "did you mean dumps or dump?"),
        ("tool/json:__name__", "is a str, not a function"),
        ("tool/no/such/file.py:f", "there is no file"),
        ("tool/bisect:insort", "needs 'x', which no turn has"),
        ("sh/cat 'open", "cannot be split into words: No closing quotation"),
        ("sh/''", "no program"),
        ("sh/no-such-program-x {path}", "there is no program 'no-such-program-x' on PATH"),
        ("cli=sh,model=cat,effort=high", "sh/ has no setting 'effort'; it has timeout"),
        ("cli=sh,model=cat,timeout=soon", "timeout='soon' is not a number"),
        ("cli=sh,model=cat,timeout=0", "timeout=0 is out of range"),
        ("cli=sh,model=cat,timeout=nan", "out of range"),
        ("cli=sh,model=cat,at_once=-1", "out of range"),
        ("cli=sh,model=cat,retries=1.5", "not a number"),
    ],
)
def test_what_the_user_has_to_correct(text: str, says: str) -> None:
    assert says in wrong(text)


def test_settings() -> None:
    made = engine("cli=sh,model=cat,timeout=1.5,retries=2,at_once=3")
    assert made.options == {"timeout": 1.5, "retries": 2, "at_once": 3}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 / 0\n", "ZeroDivisionError"),
        ("import no_such_module_y\n", "No module named 'no_such_module_y'"),
        ("import sys; sys.exit(3)\n", "SystemExit"),
        ("def f(:\n", "SyntaxError"),
        ("import os; os.no_such_name\n", "AttributeError"),
    ],
)
def test_a_file_that_raises_is_shown_with_its_traceback(
    tmp_path: Path, source: str, says: str
) -> None:
    file = tmp_path / "raises.py"
    file.write_text(source)
    said = wrong(f"tool/{file}:f")
    assert f"importing {file} raised:\nTraceback" in said
    assert says in said
    assert str(file) in said.partition("Traceback")[2]


def test_a_relative_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("def f(text):\n    return text\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # undoes what loading appends
    assert engine("tool/mine.py:f").waits is False
    assert engine("tool/./mine.py:f").waits is False


def test_a_module_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_beside_x.py").write_text("def f(text):\n    return text\n")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    assert engine("tool/module_beside_x:f").waits is False
