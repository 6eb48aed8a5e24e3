from __future__ import annotations

from pathlib import Path

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.flows.finding import BUILT_IN, find_flow, flow_names, places
from tests.flows.conftest import WriteFlow


def home() -> Path:
    return Path.home() / ".humanize" / "flows"


def test_a_name_is_a_file_of_the_project(write_flow: WriteFlow) -> None:
    path = write_flow("plan.py", "")
    assert find_flow("plan").path == path
    assert find_flow("plan").name is None


def test_a_name_is_a_package_of_the_project(write_flow: WriteFlow) -> None:
    path = write_flow("plan/__init__.py", "")
    assert find_flow("plan").path == path


def test_a_name_is_a_file_of_the_home(write_flow: WriteFlow) -> None:
    path = write_flow("plan.py", "", into=home())
    assert find_flow("plan").path == path


def test_a_name_is_built_in(project: Path) -> None:
    assert find_flow("fanout").path == BUILT_IN / "fanout.py"


def test_project_then_home_then_built_in(write_flow: WriteFlow) -> None:
    in_home = write_flow("fanout.py", "", into=home())
    assert find_flow("fanout").path == in_home
    in_project = write_flow("fanout.py", "")
    assert find_flow("fanout").path == in_project


def test_parents_are_searched_up_to_the_top_of_the_repository(
    project: Path, write_flow: WriteFlow
) -> None:
    write_flow("outside.py", "", into=project.parent / ".humanize" / "flows")
    top = write_flow("plan.py", "")
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    below = project / "a" / "b"
    below.mkdir(parents=True)
    assert find_flow("plan", start=below).path == top
    nearer = write_flow("plan.py", "", into=project / "a" / ".humanize" / "flows")
    assert find_flow("plan", start=below).path == nearer
    with pytest.raises(BadInput):
        find_flow("outside", start=below)


def test_a_linked_worktree_is_a_repository_too(project: Path, write_flow: WriteFlow) -> None:
    top = write_flow("plan.py", "")
    (project / ".git").write_text("gitdir: elsewhere\n")
    below = project / "a"
    below.mkdir()
    assert find_flow("plan", start=below).path == top


def test_without_a_repository_parents_are_not_searched(
    project: Path, write_flow: WriteFlow
) -> None:
    write_flow("plan.py", "")
    (project / ".git").mkdir()  # that git would not take for a repository
    below = project / "a"
    below.mkdir()
    with pytest.raises(BadInput, match="no flow named 'plan'"):
        find_flow("plan", start=below)


def test_started_in_the_home_its_flows_are_searched_once(project: Path) -> None:
    folders = [place.folder for place in places(Path.home(), Path.home())]
    assert folders == [home(), BUILT_IN]


@pytest.mark.parametrize("spec", ["mine.py", "./mine.py", "sub/../mine.py", "./mine"])
def test_a_path(project: Path, write_flow: WriteFlow, spec: str) -> None:
    (project / "sub").mkdir()
    path = write_flow("mine.py", "", into=project)
    assert find_flow(spec).path.resolve() == path


def test_a_path_of_a_folder(project: Path, write_flow: WriteFlow) -> None:
    path = write_flow("mine/__init__.py", "", into=project)
    assert find_flow("./mine").path == path


def test_a_path_below_the_home(write_flow: WriteFlow) -> None:
    path = write_flow("mine.py", "", into=Path.home())
    assert find_flow("~/mine.py").path == path


@pytest.mark.parametrize("spec", ["plan:review", ".humanize/flows/plan.py:review"])
def test_one_of_several(write_flow: WriteFlow, spec: str) -> None:
    path = write_flow("plan.py", "")
    found = find_flow(spec)
    assert (found.path, found.name) == (path, "review")


def test_a_colon_in_a_path_is_part_of_it(project: Path, write_flow: WriteFlow) -> None:
    path = write_flow("a:b.py", "", into=project)
    assert find_flow("./a:b.py").path == path
    assert find_flow("./a:b.py:run").name == "run"


def test_no_such_name_says_where_it_looked(write_flow: WriteFlow) -> None:
    write_flow("plan.py", "")
    with pytest.raises(BadInput) as caught:
        find_flow("fan-out")
    text = str(caught.value)
    assert text.startswith("no flow named 'fan-out' (did you mean 'fanout'?); looked in:")
    assert ".humanize/flows: plan\n" in text
    assert f"{home()}: none\n" in text
    assert "built in: fanout" in text


@pytest.mark.parametrize("spec", ["./gone.py", "gone/flow", "gone.py:run", "./"])
def test_no_such_path(project: Path, spec: str) -> None:
    with pytest.raises(BadInput, match="no flow at "):
        find_flow(spec)


@pytest.mark.parametrize("spec", ["", ":", "a" * 5000, "plan\x1b[31m", "x\ny"])
def test_odd_names_are_no_flow_and_show_escaped(project: Path, spec: str) -> None:
    with pytest.raises(BadInput, match="no flow named") as caught:
        find_flow(spec)
    assert "\x1b" not in str(caught.value)


def test_names_of_a_folder(write_flow: WriteFlow) -> None:
    write_flow("b.py", "")
    write_flow("__init__.py", "")
    write_flow("notes.txt", "")
    place = places(Path.cwd(), Path.home())[0]
    write_flow("a/__init__.py", "")
    assert flow_names(place) == ["a", "b"]
