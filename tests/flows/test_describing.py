from __future__ import annotations

from pathlib import Path

import pytest

from hmz_mp.flows.describing import Described, describe, listed
from hmz_mp.flows.finding import BUILT_IN, flow_names, places
from hmz_mp.flows.loading import load_flow

from .conftest import WriteFlow


def test_what_a_file_marks() -> None:
    source = b'''
"""About all of them."""
import hmz_mp.flows as f
from hmz_mp.flows import Agent, flow

@flow
def one(agents: tuple[Agent], task): ...

@f.flow(name="second", resumable=True)
async def two(agents: "Pair", task, state):
    """The second.

    And more."""

@other
def three(agents, task): ...

@flow()
def four(agents, /, task): ...

def five(): ...
'''
    assert list(describe(source)) == [
        Described("one", "tuple[Agent]", "About all of them."),
        Described("second", "'Pair'", "The second."),
        Described("four", "", "About all of them."),
    ]


def test_the_built_in_ones_are_what_is_loaded() -> None:
    found = {one.name: one for one in listed(places(Path("/"), Path("/")))}
    assert set(found) == set(flow_names(places(Path("/"), Path("/"))[-1]))
    for name, one in found.items():
        assert one.path == load_flow(name).path
        assert one.path.parent == BUILT_IN
        assert [flow.name for flow in one.flows] == [load_flow(name).name]
        assert one.flows[0].summary
        assert not one.problem


def test_a_name_that_comes_first_hides_others(project: Path, write_flow: WriteFlow) -> None:
    mine = write_flow("fanout.py", "")
    first, *others = listed(places(project, Path.home()))
    assert (first.name, first.path, first.hidden, first.flows) == ("fanout", mine, False, ())
    assert [one.hidden for one in others if one.name == "fanout"] == [True]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def broken(:\n", "is no Python: "),
        ("x = '\0'", "is no Python: "),
        ("x = " + "(" * 5000 + ")" * 5000, "is no Python: "),
    ],
)
def test_a_file_that_is_no_python(
    project: Path, write_flow: WriteFlow, source: str, problem: str
) -> None:
    write_flow("odd.py", source)
    (found,) = (one for one in listed(places(project, Path.home())) if one.name == "odd")
    assert found.problem.startswith(problem)
    assert found.flows == ()


def test_a_file_that_cannot_be_read(project: Path, write_flow: WriteFlow) -> None:
    path = write_flow("gone.py", "")
    path.unlink()
    path.symlink_to(path)
    (found,) = (one for one in listed(places(project, Path.home())) if one.name == "gone")
    assert found.problem.startswith("cannot be read: ")
