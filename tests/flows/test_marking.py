from __future__ import annotations

import pytest

from hmz_mp.flows.marking import Mark, flow, mark_of


def test_a_marked_function_stays_itself() -> None:
    def run(agents: tuple[object], task: str) -> str:
        return task

    assert flow(run) is run
    assert run((1,), "said") == "said"
    assert mark_of(run) == Mark("run", resumable=False)


def test_name_and_resumable_are_kept() -> None:
    @flow(name="gen-plan", resumable=True)
    async def run(agents: tuple[object], task: str, state: dict[str, object]) -> None: ...

    assert mark_of(run) == Mark("gen-plan", resumable=True)


def test_called_without_arguments() -> None:
    @flow()
    def plan(agents: tuple[object], task: str) -> None: ...

    assert mark_of(plan) == Mark("plan", resumable=False)


def test_only_functions_are_marked() -> None:
    with pytest.raises(TypeError, match="marks a function; 'plan' is not one"):
        flow("plan")  # type: ignore[call-overload] # what a wrong use looks like


@pytest.mark.parametrize("value", [None, 3, "run", int, print, object()])
def test_anything_else_has_no_mark(value: object) -> None:
    assert mark_of(value) is None
