from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.shipping.base import Base
from hmz_mp.shipping.declaring import below, code_names, named_by
from hmz_mp.worktrees.trees import Opened
from tests.worktrees.support import Repository


@pytest.fixture
def base(opened: Opened) -> Iterator[Base]:
    made = Base(opened)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("patterns", "inside", "names"),
    [
        ([], "", []),
        (["*.csv"], "", [b"pkg/table.csv"]),
        (["/pkg"], "", [b"pkg/__init__.py", b"pkg/sub/__init__.py", b"pkg/sub/tool.py",
                        b"pkg/table.csv"]),
        (["pkg/*", "!*.py", "!pkg/sub/"], "", [b"pkg/table.csv"]),
        (["c.txt"], "deep", [b"deep/er/c.txt"]),
        (["new.txt"], "", [b"new.txt"]),
    ],
)  # fmt: skip
def test_patterns_name_files(
    base: Base, patterns: list[str], inside: str, names: list[bytes]
) -> None:
    assert list(named_by(patterns, base, inside)) == names


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("*.nothing", "--ship-also '*.nothing' names no file here"),
        ("x.ignored", "names no file here that git knows or does not ignore"),
        ("#", "is not a gitignore pattern that can match a file"),
    ],
)
def test_a_pattern_that_names_nothing(base: Base, pattern: str, said: str) -> None:
    with pytest.raises(BadInput, match=said.replace("*", r"\*")):
        list(named_by(["*.csv", pattern], base, ""))


def test_code_is_its_file_or_its_package(repository: Repository, base: Base) -> None:
    top = str(repository.top)

    def found(*files: str) -> list[bytes]:
        return list(dict.fromkeys(code_names([f"{top}/{one}" for one in files], base, top)))

    assert found("tools.py") == [b"tools.py"]
    package = {b"pkg/__init__.py", b"pkg/sub/__init__.py", b"pkg/sub/tool.py", b"pkg/table.csv"}
    assert set(found("pkg/sub/tool.py")) == package
    assert found("x.ignored", "no/such/file.py", "../outside.py", ".") == []
    assert list(code_names(["/usr/lib/x.py"], base, top)) == []


def test_where_a_path_is(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(top)
    assert below(str(top), f"{top}/deep/x") == b"deep/x"
    assert below(str(top), f"{tmp_path}/link/deep/x") == b"deep/x"
    assert below(str(tmp_path / "link"), f"{top}/deep") == b"deep"
    assert below(str(top), str(top)) == b""
    assert below(str(top), str(tmp_path)) is None
    assert below(str(top), f"{tmp_path}/topmost") is None
    assert below(str(top), f"{top}/..x") == b"..x"
