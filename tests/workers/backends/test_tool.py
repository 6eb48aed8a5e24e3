from __future__ import annotations

import asyncio
import functools
import json
import math
import operator
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pydantic
import pytest

from hmz_mp_worker.backends import Request, tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REQUEST = Request("look", item_id="src/a.py", path=b"src/a.py", task="the task")


def call(function: Callable[..., Any], request: Request = REQUEST) -> Any:
    return tool.Function(function, "f").call(request)


# What a function is given ----------------------------------------------------------------------


def only_prompt(text: str) -> Any:
    return text


def all_names(text: str, path: str, item_id: str, task: str, cwd: str | None) -> Any:
    return text, path, item_id, task, cwd


def only_path(path: str) -> Any:
    return path


def path_then_prompt(path: str, prompt: str) -> Any:
    return path, prompt


def path_then_text(path: str, text: str, depth: int = 3) -> Any:
    return path, text, depth


def path_with_default_after(path: str, depth: int = 3) -> Any:
    return path, depth


def keyword_only(*, prompt: str, item_id: str) -> Any:
    return prompt, item_id


def position_only(text: str, path: str, /) -> Any:
    return text, path


def first_has_default(text: str = "none") -> Any:
    return text


def starred(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def path_starred(path: str, *args: Any) -> Any:
    return path, args


def nothing() -> Any:
    return "called"


def as_path(path: Path) -> Any:
    return path


def as_path_or_none(path: Path | None) -> Any:
    return path


def as_bytes(path: bytes) -> Any:
    return path


def as_either(path: str | Path) -> Any:
    return path


def annotated_for_checkers(text: NoSuchName, path: pathlib.Path) -> Any:  # type: ignore[name-defined]  # noqa: F821
    return text, path


class Callable_:  # noqa: N801
    def __call__(self, text: str, task: str) -> Any:
        return text, task

    def method(self, text: str, item_id: str) -> Any:
        return text, item_id


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (only_prompt, "look"),
        (all_names, ("look", "src/a.py", "src/a.py", "the task", None)),
        (only_path, "src/a.py"),
        (path_then_prompt, ("src/a.py", "look")),
        (path_then_text, ("src/a.py", "look", 3)),
        (path_with_default_after, ("src/a.py", 3)),
        (keyword_only, ("look", "src/a.py")),
        (position_only, ("look", "src/a.py")),
        (first_has_default, "look"),
        (starred, (("look",), {})),
        (path_starred, ("src/a.py", ())),
        (nothing, "called"),
        (as_path, Path("src/a.py")),
        (as_path_or_none, Path("src/a.py")),
        (as_bytes, b"src/a.py"),
        (as_either, "src/a.py"),
        (annotated_for_checkers, ("look", Path("src/a.py"))),
        (Callable_(), ("look", "the task")),
        (Callable_().method, ("look", "src/a.py")),
        (functools.partial(path_then_text, depth=9), ("src/a.py", "look", 9)),
        (len, 4),
        (str.upper, "LOOK"),
        (operator.methodcaller("title"), "Look"),
        (lambda text: text * 2, "looklook"),
    ],
)
def test_what_a_function_is_given(function: Callable[..., Any], answer: object) -> None:
    assert call(function) == answer


def test_a_path_that_is_not_utf8_survives() -> None:
    request = Request("look", path=b"bad\xff\n.py")
    assert os.fsencode(call(only_path, request)) == b"bad\xff\n.py"
    assert os.fsencode(call(as_path, request)) == b"bad\xff\n.py"
    assert call(as_bytes, request) == b"bad\xff\n.py"


def test_a_turn_about_no_file() -> None:
    request = Request("look")
    assert call(as_path_or_none, request) is None
    assert call(only_prompt, request) == "look"
    with pytest.raises(TypeError, match="f takes a path, and this turn is about no file"):
        call(only_path, request)


def test_a_default_path_is_left_alone() -> None:
    def default(path: str = "here") -> str:
        return path

    assert call(default, Request("look")) == "here"
    assert call(default) == "src/a.py"


def test_a_parameter_that_no_turn_has() -> None:
    def needs_more(text: str, depth: int) -> None: ...

    with pytest.raises(
        tool.BadTarget, match="f needs 'depth', which no turn has; a tool is given pro"
    ):
        tool.Function(needs_more, "f")


# What becomes of its answer --------------------------------------------------------------------


class Point(msgspec.Struct):
    x: int


@dataclass
class Pair:
    a: int


class Model(pydantic.BaseModel):
    name: str


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("as it is\n", "as it is\n"),
        (Text("kept"), "kept"),
        ("", ""),
        ("\udcff", "\udcff"),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        ([1, (2,)], "[1,[2]]"),
        ({"a": {1}}, '{"a":[1]}'),
        (Point(1), '{"x":1}'),
        (Pair(1), '{"a":1}'),
        (Model(name="n"), '{"name":"n"}'),
        ([Path("a/b")], '["a/b"]'),
        (math.nan, "null"),
    ],
)
def test_an_answer_as_text(answer: object, text: str) -> None:
    assert tool.as_text(answer, "f") == text
    assert type(tool.as_text(answer, "f")) is str


@pytest.mark.parametrize("answer", [{"path": "bad\udcff"}, {"big": 2**70}])
def test_what_msgspec_refuses_and_json_holds(answer: object) -> None:
    assert json.loads(tool.as_text(answer, "f")) == answer


def _loop() -> list[object]:
    answer: list[object] = []
    answer.append(answer)
    return answer


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(object(), "object"), ([lambda: None], "list"), (_loop(), "list"), (1j, "complex")],
)
def test_what_json_cannot_hold(answer: object, kind: str) -> None:
    with pytest.raises(TypeError, match=f"f answered with a {kind} that JSON cannot hold"):
        tool.as_text(answer, "f")


# Finding the function --------------------------------------------------------------------------

FILE = """
import os, asyncio
from dataclasses import dataclass
from helper_beside import WORD

class Odd(Exception):
    pass

@dataclass
class Found:
    word: str

loaded = []
loaded.append(1)

def count(text):
    return len(loaded)

def find(text):
    return Found(WORD)

def fail(text):
    raise Odd(text)

def where(text, cwd):
    return os.getcwd()

async def later(text):
    await asyncio.sleep(0)
    return [text]

def wrapped(text):
    return later(text)

class Group:
    @staticmethod
    def inner(text):
        return text + "!"

constant = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    before = list(sys.path)
    path = tmp_path / "my tools.v2.py"
    path.write_text(FILE)
    (tmp_path / "helper_beside.py").write_text("WORD = 'beside'\n")
    yield path
    sys.path[:] = before
    tool.load.cache_clear()
    sys.modules.pop("helper_beside", None)


def test_a_file_by_its_path(file: Path) -> None:
    directory = str(file.parent)
    assert tool.run(f"{file}:find", directory, REQUEST) == '{"word":"beside"}'
    assert tool.run(f"{file}:Group.inner", directory, REQUEST) == "look!"
    assert tool.run(f"{file}:count", directory, REQUEST) == "1"
    assert tool.run(f"{file}:count", directory, REQUEST) == "1"  # executed once
    assert sys.path[-1] == directory


def test_an_exception_of_the_file_unpickles(file: Path) -> None:
    with pytest.raises(Exception, match="look") as caught:
        tool.run(f"{file}:fail", str(file.parent), REQUEST)
    assert type(pickle.loads(pickle.dumps(caught.value))) is caught.type


def test_a_module_by_name() -> None:
    assert tool.run("json:dumps", "", REQUEST) == '"look"'
    assert tool.run("os:path.basename", "", Request("a/b")) == "b"


def test_a_module_of_the_directory_never_shadows(tmp_path: Path, file: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit")
    code = (
        "import sys; from hmz_mp_worker.backends import tool\n"
        f"print(tool.load('json.tool:main', {str(tmp_path)!r}).name)\n"
        f"print(tool.load('helper_beside:WORD.upper', {str(tmp_path)!r}).name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
    assert done.stdout.split() == ["main", "WORD.upper"], done.stderr


@pytest.mark.parametrize(
    ("target", "error", "text"),
    [
        ("no_such_module_x:f", ModuleNotFoundError, "no_such_module_x"),
        ("json:no_such", tool.BadTarget, "json has no 'no_such'$"),
        ("json:dump_s", tool.BadTarget, r"did you mean dumps or dump\?"),
        ("json:decoder.nope", tool.BadTarget, "json has no 'decoder.nope'"),
        ("json:__name__", tool.BadTarget, "'__name__' of json is a str, not a function"),
    ],
)
def test_a_target_that_is_not_there(target: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        tool.load(target)


def test_a_file_that_raises_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "raises.py"
    path.write_text("1 / 0\n")
    before = set(sys.modules)
    with pytest.raises(ZeroDivisionError):
        tool.load(f"{path}:f")
    assert set(sys.modules) == before
    with pytest.raises(FileNotFoundError):
        tool.load(f"{tmp_path}/none.py:f")


# Running a turn --------------------------------------------------------------------------------


def test_a_plain_function_runs_in_its_directory(tmp_path: Path, file: Path) -> None:
    (tmp_path / "in").mkdir()
    here = Path.cwd()
    request = Request("look", cwd=str(tmp_path / "in"))
    assert tool.run(f"{file}:where", str(file.parent), request) == os.path.realpath(tmp_path / "in")
    assert Path.cwd() == here
    with pytest.raises(Exception, match="look"):
        tool.run(f"{file}:fail", str(file.parent), request)
    assert Path.cwd() == here
    with pytest.raises(FileNotFoundError):
        tool.run(f"{file}:where", str(file.parent), Request("look", cwd=str(tmp_path / "none")))


def test_a_coroutine_function(file: Path) -> None:
    answer = asyncio.run(tool.arun(f"{file}:later", str(file.parent), REQUEST))
    assert answer == '["look"]'


@pytest.mark.parametrize(("path", "given"), [(b"a.py", "/in/a.py"), (b"/a.py", "/a.py")])
def test_a_coroutine_function_is_told_where_its_file_is(path: bytes, given: str) -> None:
    request = Request("look", path=path, cwd="/in")
    answer = asyncio.run(tool.arun(f"{__name__}:awaited_path", "", request))
    assert answer == f"{given} in /in"


async def awaited_path(path: str, cwd: str) -> str:
    return f"{path} in {cwd}"


def test_a_plain_function_that_wraps_a_coroutine_function(file: Path) -> None:
    assert tool.run(f"{file}:wrapped", str(file.parent), REQUEST) == '["look"]'


async def _coroutine(text: str) -> str:
    return text


class _AsyncCallable:
    async def __call__(self, text: str) -> str:
        return text


class _Decorated:
    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        return self.__wrapped__(*args)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "waits"),
    [
        (_coroutine, True),
        (functools.partial(functools.partial(_coroutine)), True),
        (_AsyncCallable(), True),
        (_Decorated(_coroutine), True),
        (_Decorated(only_prompt), False),
        (only_prompt, False),
        (Callable_(), False),
        (Callable_, False),
        (len, False),
    ],
)
def test_which_functions_wait(function: Callable[..., Any], waits: bool) -> None:
    assert tool.is_async(function) is waits


@pytest.mark.parametrize("path", [None, b"a.py", b"\xff\x80 \n", "\u00fc.py".encode()])
def test_a_request_in_pieces_is_the_same_request(path: bytes | None) -> None:
    request = Request("look\udcff", "an item", path, "task", "/tmp")
    pieces = Request.pieces("look\udcff", "an item", path, "task", "/tmp")
    assert {type(piece) for piece in pieces} <= {str, type(None)}
    assert Request.of(*pieces) == request


def test_it_is_called_with_the_pieces() -> None:
    pieces = Request.pieces("a/b", "", None, "", None)
    assert tool.turn("os:path.basename", "", *pieces) == "b"
    answer = asyncio.run(tool.aturn(f"{__name__}:awaited", "", *pieces))
    assert answer == "a/b!"


async def awaited(prompt: str) -> str:
    return f"{prompt}!"
