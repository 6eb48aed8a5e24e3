from __future__ import annotations

import typing
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.flows.checking import check_flow
from hmz_mp.flows.definition import Flow
from hmz_mp.flows.marking import flow

if TYPE_CHECKING:
    from nowhere import OnlyChecked  # type: ignore[import-not-found] # what a flow may do


class AgentLike:
    pass


class Goal:
    pass


class Pair(NamedTuple):
    writer: AgentLike
    reviewer: Annotated[AgentLike, Goal]


class Settings(NamedTuple):
    depth: int = 1


def check(function: Callable[..., Any], *, resumable: bool = False) -> Flow:
    return check_flow(flow(resumable=resumable)(function), Path("plan.py"))


def refused(function: Callable[..., Any], *, resumable: bool = False) -> str:
    with pytest.raises(BadInput) as caught:
        check(function, resumable=resumable)
    text = str(caught.value)
    assert text.startswith(f"plan.py: {function.__name__}() is no flow: ")
    return text.partition("is no flow: ")[2]


def test_a_tuple_says_how_many() -> None:
    def one(agents: tuple[AgentLike], task: str) -> None: ...
    def two(agents: tuple[AgentLike, Annotated[AgentLike, Goal]], task: str) -> None: ...
    def none(agents: tuple[()], task: str) -> None: ...
    def old(agents: typing.Tuple[AgentLike, AgentLike], task: str) -> None: ...  # noqa: UP006

    assert [len(check(each).places) for each in (one, two, none, old)] == [1, 2, 0, 2]


def test_a_named_tuple_says_how_many_and_what_for() -> None:
    def run(agents: Pair, task: str) -> str:
        return f"{agents.writer} {agents.reviewer}"

    checked = check(run)
    assert checked.places == ("writer", "reviewer")
    assert checked.call(["w", "r"], "task") == "w r"


def test_annotations_may_be_objects_instead_of_strings() -> None:
    def run(agents: Any, task: Any) -> None: ...

    run.__annotations__["agents"] = Annotated[tuple[AgentLike, AgentLike], "words"]
    assert len(check(run).places) == 2


def test_names_imported_for_the_type_checker_count() -> None:
    def run(agents: tuple[OnlyChecked, Annotated[OnlyChecked, Goal]], task: str) -> None: ...
    def either(agents: tuple[OnlyChecked | AgentLike], task: str) -> None: ...

    assert len(check(run).places) == 2
    assert len(check(either).places) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (1, "run() drives 2 agents (writer, reviewer), 1 given"),
        (3, "run() drives 2 agents (writer, reviewer), 3 given"),
    ],
)
def test_wrong_number_of_agents(given: int, said: str) -> None:
    def run(agents: Pair, task: str) -> None: ...

    with pytest.raises(BadInput) as caught:
        check(run).check_agents(given)
    assert str(caught.value) == said
    with pytest.raises(BadInput):
        check(run).call(["agent"] * given, "task")


def test_wrong_number_of_agents_of_a_plain_tuple() -> None:
    def run(agents: tuple[AgentLike], task: str) -> None: ...

    with pytest.raises(BadInput, match=r"^run\(\) drives 1 agent, 2 given$"):
        check(run).check_agents(2)


def test_agents_that_do_not_say_how_many() -> None:
    def missing(agents, task): ...  # type: ignore[no-untyped-def] # the case
    def any_number(agents: tuple[AgentLike, ...], task: str) -> None: ...
    def a_list(agents: list[AgentLike], task: str) -> None: ...
    def bare(agents: tuple, task: str) -> None: ...  # type: ignore[type-arg] # the case
    def unknown(agents: Unknown, task: str) -> None: ...  # type: ignore[name-defined] # noqa: F821
    def broken(agents: tuple[1 / 0], task: str) -> None: ...  # type: ignore[valid-type] # the case

    assert "does not say how many agents it drives; annotate it" in refused(missing)
    assert "tuple[AgentLike, ...] may be any number of agents" in refused(any_number)
    assert "annotated list[AgentLike], not a tuple" in refused(a_list)
    assert "annotated tuple, not a tuple" in refused(bare)
    assert "annotated Unknown, not a tuple" in refused(unknown)
    assert "annotation of agents cannot be read: ZeroDivisionError" in refused(broken)


def test_parameters_that_are_not_a_flows() -> None:
    def none() -> None: ...
    def one(agents: tuple[AgentLike]) -> None: ...
    def by_name(agents: tuple[AgentLike], *, task: str) -> None: ...
    def star(agents: tuple[AgentLike], task: str, *more: str) -> None: ...
    def stars(agents: tuple[AgentLike], task: str, **more: str) -> None: ...
    def many(agents: tuple[AgentLike], task: str, a: int, b: int) -> None: ...

    for function in (none, one, by_name):
        assert "it must take agents and task, in that order" in refused(function)
    assert "*more: 'str' is none of them" in refused(star)
    assert "**more: 'str' is none of them" in refused(stars)
    assert "but also a, b" in refused(many)


def test_what_yields_is_no_flow() -> None:
    def generator(agents: tuple[AgentLike], task: str) -> Any:
        yield

    async def async_generator(agents: tuple[AgentLike], task: str) -> AsyncIterator[None]:
        yield

    assert "it yields" in refused(generator)
    assert "it yields" in refused(async_generator)


def test_state_and_resumable_belong_together() -> None:
    def without(agents: tuple[AgentLike], task: str) -> None: ...
    def with_state(agents: tuple[AgentLike], task: str, state: dict[str, Any]) -> None: ...

    assert "must take a state: dict" in refused(without, resumable=True)
    assert "must be marked @flow(resumable=True)" in refused(with_state)
    assert check(with_state, resumable=True).resumable


def test_a_resumable_flow_is_handed_its_state() -> None:
    def run(
        agents: tuple[AgentLike], task: str, config: dict[str, int], state: dict[str, Any]
    ) -> None:
        state["seen"] = config

    kept: dict[str, Any] = {}
    check(run, resumable=True).call(["a"], "task", {"depth": 1}, kept)
    assert kept == {"seen": {"depth": 1}}
    check(run, resumable=True).call(["a"], "task", {"depth": 1})  # a fresh one when none is kept


def test_settings_of_a_flow() -> None:
    def required(agents: tuple[AgentLike], task: str, config: Settings) -> Settings:
        return config

    def optional(
        agents: tuple[AgentLike], task: str, config: dict[str, int] | None = None
    ) -> dict[str, int] | None:
        return config

    settings = check(required).settings
    assert settings is not None
    assert (settings.name, settings.type, settings.optional) == ("config", Settings, False)
    assert check(optional).fit_settings(None) is None
    assert check(optional).call(["a"], "task") is None
    fitted = check(optional).fit_settings({"depth": 2})
    assert check(optional).call(["a"], "task", fitted) == {"depth": 2}


def test_settings_whose_type_is_written_in_other_ways() -> None:
    def quoted(agents: tuple[AgentLike], task: str, config: Required | None = None) -> None: ...
    def inside(agents: tuple[AgentLike], task: str, config: Any = None) -> None: ...
    def untyped(agents: tuple[AgentLike], task: str, config=None) -> None: ...  # type: ignore[no-untyped-def] # the case

    inside.__annotations__["config"] = typing.Optional["Required"]
    for function in (quoted, inside):
        settings = check(function).settings
        assert settings is not None
        assert settings.type is Required
    assert check(untyped).fit_settings({"any": 1}) == {"any": 1}


def test_settings_only_where_they_are_taken() -> None:
    def plain(agents: tuple[AgentLike], task: str) -> None: ...
    def required(agents: tuple[AgentLike], task: str, config: Required) -> None: ...

    with pytest.raises(BadInput, match=r"^the flow plain takes no settings, s\.yaml given$"):
        check(plain).fit_settings({}, "s.yaml")
    with pytest.raises(BadInput, match=r"required needs settings, none given: .*depth"):
        check(required).fit_settings(None)
    assert check(plain).fit_settings(None) is None


class Required(typing.TypedDict):
    depth: int


def test_settings_of_an_unknown_type() -> None:
    def run(agents: tuple[AgentLike], task: str, config: OnlyChecked) -> None: ...

    assert "annotation of config cannot be read: NameError" in refused(run)
