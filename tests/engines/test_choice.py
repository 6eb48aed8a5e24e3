from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from hmz_mp import Pool
from hmz_mp.engines.choice import check_engine
from hmz_mp.errors import BadInput
from tests.helpers import run_python


@pytest.mark.parametrize(
    "name", ["local", "dask://10.0.0.1:8786", "dask://[::1]:80", "dask://h:1/"]
)
def test_what_names_an_engine(name: str) -> None:
    if name != "local":
        pytest.importorskip("distributed", reason="the extra dask is not installed")
    check_engine(name)


@pytest.mark.parametrize(
    "name",
    [
        "dask://",
        "dask://host",
        "dask://:8786",
        "dask://host:port",
        "dask://host:0",
        "dask://host:65536",
        "dask://a b:1",
        "dask://user@host:1",
        "dask://host:1/path",
        "dask://tcp://host:1",
    ],
)
def test_a_malformed_address(name: str) -> None:
    with pytest.raises(BadInput, match=r"write dask://HOST:PORT") as caught:
        Pool(1, engine=name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("name", ["", "ray://host:1", "Local", "dask:host:1"])
def test_no_engine_at_all(name: str) -> None:
    with pytest.raises(ValueError, match=r"'local' and 'dask://HOST:PORT'"):
        Pool(1, engine=name)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmz_mp.engines.choice.find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install 'hmz-mp\[dask\]'"):
        Pool(1, engine="dask://localhost:1")


def test_with_an_extra_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("hmz_mp.engines.dask")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "distributed", None)

    import asyncio

    async def enter() -> None:
        async with Pool(1, engine="dask://localhost:1"):
            raise AssertionError

    monkeypatch.setattr("hmz_mp.engines.choice.find_spec", lambda name: object())
    with pytest.raises(BadInput, match=r"cannot be used.*pip install 'hmz-mp\[dask\]'"):
        asyncio.run(enter())


def test_not_on_trio() -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")

    async def enter() -> None:
        async with Pool(1, engine="dask://localhost:1"):
            raise AssertionError

    with pytest.raises(BadInput, match="needs asyncio"):
        trio.run(enter)


def test_dask_is_imported_by_nobody_who_does_not_name_it(tmp_path: Path) -> None:
    ran = run_python(
        ["-c", "import sys, hmz_mp, hmz_mp.core.pool; print('distributed' in sys.modules)"],
        cwd=tmp_path,
    )
    assert ran.stdout == "False\n"
