from __future__ import annotations

import pickle
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import hmz_mp.agents
from hmz_mp.errors import BadInput
from hmz_mp.flows import calls
from hmz_mp.flows.loading import load_file, load_flow
from tests.flows.conftest import WriteFlow

HEAD = "from hmz_mp.flows import flow, Agent, calls\n"
PLAIN = HEAD + "@flow\ndef run(agents: tuple[Agent], task: str):\n    return task\n"


def refused(spec: str) -> str:
    with pytest.raises(BadInput) as caught:
        load_flow(spec)
    return str(caught.value)


def call(spec: str, *agents: Any, task: str = "task") -> Any:
    return load_flow(spec).call(agents or ("agent",), task)


# Which flow of a file


def test_the_only_flow_of_a_file(write_flow: WriteFlow) -> None:
    path = write_flow("plan.py", PLAIN)
    loaded = load_flow("plan")
    assert (loaded.name, loaded.path, loaded.is_async) == ("run", path, False)
    assert loaded.call(["agent"], "task") == "task"


SEVERAL = HEAD + (
    "@flow(name='gen-plan')\n"
    "def first(agents: tuple[Agent], task: str):\n    return 'planned'\n"
    "@flow\n"
    "async def review(agents: tuple[Agent, Agent], task: str):\n    return 'reviewed'\n"
)


def test_one_of_several(write_flow: WriteFlow) -> None:
    write_flow("plan.py", SEVERAL)
    assert call("plan:gen-plan") == "planned"
    assert load_flow(".humanize/flows/plan.py:review").is_async


def test_several_and_none_named(write_flow: WriteFlow) -> None:
    write_flow("plan.py", SEVERAL)
    assert "holds several flows (gen-plan, review): pick one with FILE:NAME" in refused("plan")
    assert "has no flow 'other'; it has: gen-plan, review" in refused("plan:other")


def test_two_flows_of_one_name(write_flow: WriteFlow) -> None:
    write_flow(
        "plan.py", PLAIN + PLAIN.replace("run(", "other(").replace("@flow", "@flow(name='run')")
    )
    assert "has two flows named 'run'" in refused("plan")


def test_a_file_without_a_flow(write_flow: WriteFlow) -> None:
    write_flow("plan.py", "def run(agents, task): ...\n")
    assert "plan.py holds no flow: mark a function with @flow" in refused("plan")


def test_imported_flows_count_only_when_a_file_defines_none(write_flow: WriteFlow) -> None:
    write_flow("pack/inner.py", PLAIN)
    write_flow("pack/__init__.py", "from .inner import run\n")
    write_flow("more.py", PLAIN)
    write_flow("plan.py", "from more import run as other\n" + PLAIN)
    assert call("pack") == "task"
    assert call("plan") == "task"


def test_the_signature_is_checked(write_flow: WriteFlow) -> None:
    write_flow("plan.py", PLAIN.replace("tuple[Agent]", "tuple[Agent, ...]"))
    assert "plan.py: run() is no flow: tuple[hmz_mp." in refused("plan")


# What loading a file does


def test_a_file_is_loaded_once_for_each_content(write_flow: WriteFlow) -> None:
    path = write_flow("plan.py", PLAIN)
    assert load_file(path) is load_file(path)
    before = load_flow("plan")
    write_flow("plan.py", PLAIN.replace("return task", "return 'changed'"))
    assert call("plan") == "changed"
    assert before.call(["agent"], "task") == "task"


def test_loading_writes_no_bytecode(project: Path, write_flow: WriteFlow) -> None:
    write_flow("helper.py", "")
    write_flow("plan.py", "import helper\n" + PLAIN)
    load_flow("plan")
    assert not list(project.rglob("__pycache__"))


def test_a_file_that_raises_shows_its_own_traceback(write_flow: WriteFlow) -> None:
    write_flow("helper.py", "def fail():\n    raise LookupError('no such thing')\n")
    path = write_flow("plan.py", "import helper\nhelper.fail()\n")
    text = refused("plan")
    assert text.startswith(f"the flow {path} raised while it was loaded:\nTraceback (most recent")
    assert f'File "{path}", line 2, in <module>' in text
    assert text.endswith("LookupError: no such thing")
    files = [line for line in text.splitlines() if line.startswith("  File ")]
    assert len(files) == 2
    assert not any(name.startswith("hmz_mp_flow_plan") for name in sys.modules)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def run(:\n", "SyntaxError: invalid syntax"),
        ("import nowhere_at_all\n", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("import sys\nsys.exit('stop')\n", "SystemExit: stop"),
        ("from hmz.agents import Nothing\n", "cannot import name 'Nothing' from 'hmz.agents'"),
        ("import hmz.nothing\n", "hmz_mp has no 'hmz.nothing' for flows written for hmz"),
    ],
)
def test_a_file_that_cannot_be_loaded(write_flow: WriteFlow, source: str, said: str) -> None:
    write_flow("plan.py", source)
    text = refused("plan")
    assert said in text
    assert "hmz_mp/flows/loading.py" not in text
    assert "importlib" not in text


def test_an_interrupt_while_loading_goes_through(write_flow: WriteFlow) -> None:
    write_flow("plan.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_flow("plan")
    assert not any(name.startswith("hmz_mp_flow_plan") for name in sys.modules)


def test_a_file_that_may_not_be_read(
    write_flow: WriteFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_flow("plan.py", PLAIN)

    def refuse(path: Path) -> bytes:  # root, who may run the tests, reads everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert "cannot be read: Permission denied" in refused("plan")


def test_a_folder_in_the_place_of_a_file(write_flow: WriteFlow, project: Path) -> None:
    (project / "plan.py").mkdir()
    assert "no flow at plan.py" in refused("plan.py")


# Modules beside a flow


def test_modules_beside_it_are_importable_at_load_and_later(write_flow: WriteFlow) -> None:
    write_flow("helper.py", "word = 'helped'\n")
    write_flow("later.py", "word = 'later'\n")
    write_flow(
        "plan.py",
        "import helper\n"
        + PLAIN.replace("return task", "import later; return helper.word, later.word"),
    )
    path = list(sys.path)
    loaded = load_flow("plan")
    with pytest.raises(ModuleNotFoundError):
        import later  # type: ignore[import-not-found] # noqa: F401 - only flows see it
    assert loaded.call(["agent"], "task") == ("helped", "later")
    assert sys.path == path


def test_a_package_imports_its_own_modules(write_flow: WriteFlow) -> None:
    write_flow("plan/words.py", "word = 'relative'\n")
    write_flow("plan/deep/__init__.py", "from ..words import word\n")
    write_flow("plan/__init__.py", "from .deep import word\nimport words\n" + PLAIN)
    module = load_file(Path(".humanize/flows/plan/__init__.py").absolute())
    assert (module.word, module.words.word) == ("relative", "relative")


def test_a_name_of_the_standard_library_is_never_the_one_beside(write_flow: WriteFlow) -> None:
    write_flow("colorsys.py", "raise LookupError\n")
    write_flow("plan.py", "import colorsys\nuse = colorsys.rgb_to_hsv\n" + PLAIN)
    assert call("plan") == "task"


def test_two_flows_each_have_their_own_helper(project: Path, write_flow: WriteFlow) -> None:
    source = PLAIN.replace("return task", "import helper; return helper.word, word")
    for folder in ("a", "b"):
        write_flow("helper.py", f"word = '{folder}'\n", into=project / folder)
        write_flow("plan.py", "from helper import word\n" + source, into=project / folder)
    first, second = load_flow("a/plan.py"), load_flow("b/plan.py")
    assert second.call(["agent"], "task") == ("b", "b")
    assert first.call(["agent"], "task") == ("a", "a")


# hmz


FOR_HMZ = """
    from __future__ import annotations
    from typing import Annotated, NamedTuple
    import hmz.agents
    from hmz.agents import AgentBase, Goal
    from hmz.flows import flow
    from hmz.runner import calls

    class Agents(NamedTuple):
        worker: Annotated[AgentBase, Goal]
        reviewer: AgentBase

    @flow
    def run(agents: Agents, task: str):
        from hmz.agents import AgentBase as Later
        from hmz.flows import Agent
        assert hmz.agents.AgentBase is Later is Agent
        return Later, agents.reviewer
"""


def test_a_flow_written_for_hmz(write_flow: WriteFlow) -> None:
    write_flow("plan.py", FOR_HMZ)
    assert call("plan", "w", "r") == (hmz_mp.agents.AgentBase, "r")
    assert not any(name.partition(".")[0] == "hmz" for name in sys.modules)


def test_an_installed_hmz_is_left_as_it_was(
    write_flow: WriteFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = types.ModuleType("hmz")
    below = types.ModuleType("hmz.other")
    monkeypatch.setitem(sys.modules, "hmz", theirs)
    monkeypatch.setitem(sys.modules, "hmz.other", below)
    write_flow("plan.py", FOR_HMZ)
    assert call("plan", "w", "r") == (hmz_mp.agents.AgentBase, "r")
    assert sys.modules["hmz"] is theirs
    assert sys.modules["hmz.other"] is below
    assert "hmz.agents" not in sys.modules


def test_an_installed_hmz_is_left_as_it_was_after_a_failure(
    write_flow: WriteFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = types.ModuleType("hmz")
    monkeypatch.setitem(sys.modules, "hmz", theirs)
    write_flow("plan.py", "import hmz\nassert hmz.flows\nraise LookupError\n")
    assert "LookupError" in refused("plan")
    assert sys.modules["hmz"] is theirs


def test_hmz_in_modules_beside_and_by_import_module(write_flow: WriteFlow) -> None:
    write_flow(
        "helper.py",
        "import importlib\nfrom hmz.flows import *\n"
        "loaded = importlib.import_module('hmz.agents')\n"
        "def later():\n    import hmz.flows\n    return hmz.flows.flow\n",
    )
    write_flow(
        "plan.py",
        "from helper import flow, Agent, later, loaded\n"
        "@flow\ndef run(agents: tuple[Agent], task: str):\n    return later(), loaded.AgentBase\n",
    )
    assert call("plan") == (hmz_mp.flows.flow, hmz_mp.agents.AgentBase)


# Functions of a flow file in another process


IN_A_WORKER = """
    from dataclasses import dataclass
    from helper import double
    from hmz_mp.flows import flow, Agent

    @dataclass
    class Box:
        size: int

    def work(size):
        import json  # an import of a function that travels is the worker's own
        return Box(double(size)), json.dumps(size)

    @flow
    def run(agents: tuple[Agent], task: str):
        return work
"""


def test_functions_go_to_other_processes_by_value(write_flow: WriteFlow, tmp_path: Path) -> None:
    write_flow("helper.py", "def double(size):\n    return 2 * size\n")
    write_flow("plan.py", IN_A_WORKER)
    work = call("plan")
    (tmp_path / "work").write_bytes(cloudpickle.dumps(work))
    script = (
        "import pickle, sys\n"
        "box, text = pickle.load(open('work', 'rb'))(4)\n"
        "print(type(box).__name__, box.size, text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "Box 8 4\n"
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(lambda: work)


# calls


def test_a_flow_calls_another(write_flow: WriteFlow) -> None:
    write_flow("inner.py", PLAIN)
    write_flow(
        "outer.py", PLAIN.replace("return task", "return calls('inner')(agents, task + '!')")
    )
    assert call("outer") == "task!"


def test_an_async_flow_is_awaited(write_flow: WriteFlow) -> None:
    write_flow("inner.py", PLAIN.replace("def run", "async def run"))
    coroutine = calls("inner")(("agent",), "task")
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    assert ended.value.value == "task"


def test_calling_what_is_not_there(write_flow: WriteFlow) -> None:
    write_flow("inner.py", PLAIN)
    with pytest.raises(BadInput, match="no flow named 'nothing'"):
        calls("nothing")
    with pytest.raises(BadInput, match="drives 1 agent, 2 given"):
        calls("inner")(("a", "b"), "task")
