from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from hmz_mp.toolbox.python import Class, Function, Outline, outline

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = '''"""What it is for.

More.
"""
import re


class Shape:
    def area(self, scale=1 if re else 2):
        if scale and self and re:
            return [x for x in y if x if y]

        def helper(z):
            while z:
                assert z
        return helper

    class Inner:
        async def go(self):
            async for a in b:
                try:
                    pass
                except (ValueError, TypeError):
                    pass
                except KeyError:
                    pass


def pick(value):
    match value:
        case 1 if value:
            return "a" if value else "b"
        case int():
            pass
        case _:
            pass


plain = lambda: 3
'''


def look(tmp_path: Path, source: str | bytes, name: str = "shapes.py") -> Outline:
    path = tmp_path / name
    path.write_bytes(source.encode() if isinstance(source, str) else source)
    return outline("look", str(path))


def test_says_what_a_file_holds(tmp_path: Path) -> None:
    found = look(tmp_path, SOURCE)
    assert found.path == str(tmp_path / "shapes.py")
    assert found.doc == "What it is for."
    assert found.lines == len(SOURCE.splitlines())
    assert found.classes == [Class("Shape", 8, 26), Class("Shape.Inner", 18, 26)]
    assert found.functions == [
        Function("Shape.area", 9, 16, complexity=6),
        Function("Shape.area.helper", 13, 15, complexity=3),
        Function("Shape.Inner.go", 19, 26, complexity=4),
        Function("pick", 29, 36, complexity=4),
    ]
    assert found.most_complex == found.functions[0]


def test_the_answer_is_json(tmp_path: Path) -> None:
    found = look(tmp_path, SOURCE)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Outline) == found


@pytest.mark.parametrize("source", ["", "\n", "# only a comment"])
def test_a_file_with_nothing_in_it(tmp_path: Path, source: str) -> None:
    found = look(tmp_path, source)
    assert (found.doc, found.classes, found.functions, found.most_complex) == ("", [], [], None)
    assert found.lines == len(source.splitlines())


def test_the_coding_line_is_honoured(tmp_path: Path) -> None:
    found = look(tmp_path, '# -*- coding: latin-1 -*-\n"""Caf\xe9."""\n'.encode("latin-1"))
    assert found.doc == "Café."


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    assert look(tmp_path, b'\xef\xbb\xbf"""Doc."""\n').doc == "Doc."


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"bad\xff.py")
    assert look(tmp_path, "x = 1\n", name).path.endswith("bad\udcff.py")


def test_invalid_escapes_do_not_warn(tmp_path: Path) -> None:
    assert look(tmp_path, 'x = "\\d"\n').lines == 1


def carried(error: Exception) -> object:
    """Pickle and load; not as libraries have it that change how all exceptions are pickled."""
    data = io.BytesIO()
    pickler = pickle.Pickler(data)
    pickler.dispatch_table = {}
    pickler.dump(error)
    return pickle.loads(data.getvalue())


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (b"x = 1\ndef broken(:\n", 2),
        (b"x = 1\ny = '\0'\n", 2),
        (b"x = 1\ny = '\xff'\n", None),  # which line is said differs by Python version
        (b"# coding: no-such-codec\n", None),
        (b"\x89PNG\r\n\x1a\n", None),
    ],
)
def test_what_is_not_python(tmp_path: Path, source: bytes, line: int | None) -> None:
    with pytest.raises(SyntaxError) as caught:
        look(tmp_path, source)
    assert caught.value.filename == str(tmp_path / "shapes.py")
    if line is not None:
        assert caught.value.lineno == line
        assert f"(shapes.py, line {line})" in str(caught.value)
    assert str(carried(caught.value)) == str(caught.value)


def test_nesting_beyond_the_parser(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        look(tmp_path, "x = " + "-" * 100_000 + "1\n")


def test_deep_nesting_that_parses(tmp_path: Path) -> None:
    chain = "x = 1" + " + 1" * 2000
    assert look(tmp_path, f"def f():\n    {chain}\n").functions[0].complexity == 1


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        outline("look", str(tmp_path / "none.py"))
    with pytest.raises(IsADirectoryError):
        outline("look", str(tmp_path))


def test_importing_it_is_light() -> None:
    code = (
        "import sys, hmz_mp.toolbox.python\n"
        "print([m for m in ('anyio', 'click', 'rich', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
