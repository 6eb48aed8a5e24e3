from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

WriteFlow = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project directory that is the working directory, beside a home directory."""
    folder = tmp_path / "project"
    folder.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def write_flow(project: Path) -> WriteFlow:
    """Write a file below the project, by default among its flows."""

    def write(name: str, source: str, *, into: Path | None = None) -> Path:
        path = (into or project / ".humanize" / "flows") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return path

    return write


@pytest.fixture(autouse=True)
def _modules_as_before() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if not name.startswith(("hmz_mp.", "hmz_mp_worker")):
            del sys.modules[name]
