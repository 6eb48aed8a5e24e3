from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hmz_mp import Pool
from hmz_mp.core.gates import Gate
from hmz_mp.core.limits import Limit, LimitTable, adapted, check_width
from hmz_mp.core.width import START
from tests.core import functions
from tests.helpers import await_until


def test_a_limit_is_made_once() -> None:
    table = LimitTable()
    limit = table.get("api", 4, 60)
    assert table.get("api", 4, 60) is table.get("api", 0, 0) is table.named("api") is limit
    assert (limit.name, limit.at_once, limit.per_minute) == ("api", 4, 60)
    assert repr(limit) == "<Limit 'api' at_once=4 per_minute=60>"
    assert list(table) == [limit]


def test_a_limit_that_exists_with_other_bounds() -> None:
    table = LimitTable()
    table.get("api", 4, 0)
    with pytest.raises(ValueError, match="'api' has at_once=4, per_minute=0; it cannot have"):
        table.get("api", 5, 0)


def test_a_limit_itself_needs_no_table() -> None:
    limit = LimitTable().get("x", 1, 0)
    assert LimitTable().named(limit) is limit


def test_a_name_that_is_not_known() -> None:
    table = LimitTable()
    with pytest.raises(ValueError, match=r"no limit 'api' \(known: none\)"):
        table.named("api")
    table.get("disk", 1, 0)
    with pytest.raises(ValueError, match=r"known: 'disk'"):
        table.named("api")


@pytest.mark.parametrize("value", [-1, -100])
def test_a_negative_width(value: int) -> None:
    with pytest.raises(ValueError, match=f"at_once is 0 for no bound, or more, not {value}"):
        check_width("at_once", value)


@pytest.mark.parametrize("value", [1.5, "3", None, True, 2.0])
def test_a_width_that_is_no_whole_number(value: Any) -> None:
    with pytest.raises(TypeError, match="at_once is a whole number"):
        check_width("at_once", value)


@pytest.mark.parametrize("value", [0, 1, 10**9])
def test_widths(value: int) -> None:
    assert check_width("at_once", value) == value


@pytest.mark.anyio
async def test_a_limit_holds_over_everything_that_names_it(tmp_path: Any) -> None:
    """Observed in the workers: async turns, plain calls and sessions share two places."""
    async with Pool(2) as pool:
        limit = pool.limit("shared", at_once=2)
        by_object = pool.options(limit=limit)
        by_name = pool.options(limit="shared", at_once=5)
        where = str(tmp_path)
        turns = [by_object.submit(functions.overlap_async, where) for _ in range(6)]
        turns += [by_name.submit(functions.overlap, where) for _ in range(6)]
        turns += [by_name.session().submit(functions.overlap, where) for _ in range(4)]
        widest = [await turn for turn in turns]
        assert max(widest) <= 2
        limits = pool.statistics().limits["shared"]
        assert (limits.at_once, limits.used, limits.widest, limits.waiting) == (2, 0, 2, 0)


@pytest.mark.anyio
async def test_statistics_of_those_that_wait(tmp_path: Any) -> None:
    async with Pool(2) as pool:
        limited = pool.options(limit=pool.limit("one", at_once=1))
        go = str(tmp_path / "go")
        first = limited.submit(functions.wait_for_async, go)
        await await_until(first.running)
        rest = [limited.submit(os.getpid) for _ in range(3)]
        await pool.run(len, "by now they wait")
        limits = pool.statistics().limits["one"]
        assert (limits.used, limits.waiting) == (1, 3)
        Path(go).touch()
        for turn in rest:
            await turn


@pytest.mark.anyio
async def test_per_minute_holds_back_what_is_over_it() -> None:
    async with Pool(1) as pool:
        limited = pool.options(limit=pool.limit("rate", per_minute=2))
        turns = [limited.submit(len, "ab") for _ in range(3)]
        assert [await turns[0], await turns[1]] == [2, 2]
        await pool.run(len, "others go on")
        assert not turns[2].running()
        assert pool.statistics().limits["rate"].waiting == 1
        assert turns[2].cancel()


@pytest.mark.anyio
async def test_limits_of_a_pool_by_name() -> None:
    async with Pool(1) as pool:
        with pytest.raises(ValueError, match="no limit 'nowhere'"):
            pool.options(limit="nowhere")
        with pytest.raises(ValueError, match="per_minute"):
            pool.limit("bad", per_minute=-1)
        assert isinstance(pool.limit("free"), Limit)
        assert await pool.options(limit="free").run(len, "abc") == 3


def test_a_limit_that_finds_its_width() -> None:
    table = LimitTable()
    usual = table.get("a", 4, 0)
    assert (usual.adapts, usual.width, table.widths()) == (False, 0, {})
    assert table.get("a", "auto", 0) is usual
    assert (usual.adapts, usual.at_once, table.widths()) == (True, 4, {"a": START})
    assert table.get("a", 4, 0) is usual


def test_whatever_has_no_limit_gets_one_to_adapt() -> None:
    plain = Gate("plain", 3)
    gates = adapted((plain,))
    assert [gate.adapts for gate in gates] == [False, True]
    assert adapted(gates) == gates
