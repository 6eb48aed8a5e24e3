"""``--resume`` and ``--retry-failed``, from the command line."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import open_run
from tests.cli.processes import Done, Project
from tests.fakes.programs import fake_claude, fake_codex
from tests.worktrees.support import Repository

TOOL = '''
import os
from pathlib import Path

def counted(prompt, path=None):
    """Answer with the file or the prompt; each call is a line in a file of its own."""
    file = os.open(os.environ["COUNTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{path or prompt}\\n".encode())
    os.close(file)
    text = Path(path).read_text().strip() if path else prompt
    if "bad" in text:
        raise ValueError(text)
    return text.upper()
'''

FLOWS = """
import os, signal
from pathlib import Path
from hmz_mp.flows import Agent, flow

def cut_short():
    if not Path("go").exists():
        os.kill(os.getpid(), signal.SIGKILL)

@flow
async def talk(agents: tuple[Agent], task: str) -> None:
    session = agents[0].new()
    print(await session.aturn("say one"))
    cut_short()
    print(await session.aturn("history"))

@flow
async def sees(agents: tuple[Agent], task: str) -> None:
    import asyncio, sqlite3
    async def one(word):
        answer = await agents[0].aturn(word)
        (file,) = Path(".hmz-mp/runs").glob("*/run.db")
        connection = sqlite3.connect(file)
        query = "SELECT answer FROM turns WHERE state = 'ok' AND prompt = ?"
        assert connection.execute(query, [word]).fetchall() == [(answer,)]
        connection.close()
    for number in range(4):
        await one(f"alone{number}")
    await asyncio.gather(*(one(f"together{number}") for number in range(40)))

@flow
def plain(agents: tuple[Agent, Agent], task: str) -> None:
    one, two = agents
    print(one.batch(["a", "b"]))
    session = two.new()
    print(session("c"))
    cut_short()
    print(session("d"), one("a"), two("b"))

@flow
async def other(agents: tuple[Agent], task: str) -> None:
    words = Path("words").read_text().split()
    print(await agents[0].abatch(words))
    cut_short()

@flow(resumable=True)
async def keeps(agents: tuple[Agent], task: str, state: dict) -> None:
    for number in range(state.get("next", 0), 6):
        print(await agents[0].aturn(str(number)))
        state["next"] = number + 1
        if number == 3:
            # The state is looked at a few times a second.
            while not Path("go").exists():
                await agents[0].aturn("wait")
                kept = list(Path(".hmz-mp/runs").glob("*/run.db-wal"))
                if any(b'"next": 4' in file.read_bytes() for file in kept):
                    cut_short()
"""


class Counted:
    """A project with a tool that counts its calls."""

    def __init__(self, project: Project) -> None:
        self.project = project
        folder = project.root.parent
        (folder / "counted.py").write_text(TOOL)
        (folder / "flows.py").write_text(FLOWS)
        self.counts = folder / "counts"
        self.counts.touch()
        project.environment["COUNTS"] = str(self.counts)
        self.agent = f"tool/{folder / 'counted.py'}:counted"
        self.flows = str(folder / "flows.py")

    def exec(self, *arguments: str, stdin: bytes = b"") -> Done:
        return self.project.exec(*arguments, stdin=stdin)

    def calls(self) -> Counter[str]:
        """Return how often the tool was called for what, since the last time."""
        found = Counter(self.counts.read_text().split())
        self.counts.write_text("")
        return found

    def go(self) -> None:
        self.project.write("go")


@pytest.fixture
def counted(project: Project) -> Counted:
    return Counted(project)


def last_turns(project: Project) -> list[tuple[str, str, str | None]]:
    with open_run(runs_directory(project.root), "last") as run:
        return [(turn.item_id, turn.state, turn.answer) for turn in run.turns()]


def test_only_what_is_not_answered_and_what_has_changed_runs_again(counted: Counted) -> None:
    project = counted.project
    for name, text in {"a": "one", "b": "bad", "c": "three", "d": "four"}.items():
        project.write(f"i/{name}", text)
    line = ["-a", counted.agent, "--include", "i/*", "--quiet"]
    assert counted.exec(*line).status == 1
    assert counted.calls() == {"i/a": 1, "i/b": 1, "i/c": 1, "i/d": 1}

    project.write("i/b", "two")
    project.write("i/c", "changed")
    done = counted.exec("--resume", "last", "--json")
    assert done.status == 0
    assert [row["answer"] for row in done.rows] == ["ONE", "TWO", "CHANGED", "FOUR"]
    assert counted.calls() == {"i/b": 1, "i/c": 1}
    assert "2 of them answered before" in done.err
    assert "1 answered before and run again" in done.err

    again = counted.exec("--resume", "last", "--print")  # there is nothing to run
    assert (again.status, again.lines) == (0, ["ONE", "TWO", "CHANGED", "FOUR"])
    assert not counted.calls()
    rows = [(f"i/{name}", "ok", text) for name, text in zip("abcd", again.lines, strict=True)]
    assert last_turns(project) == rows

    tools = Path(counted.agent.removeprefix("tool/").rpartition(":")[0])
    tools.write_text(TOOL.replace("upper", "title"))
    done = counted.exec("--resume", "last", "--print", "--exclude", "i/a", "--include", "i/*")
    assert done.lines == ["Two", "Changed", "Four"]
    assert "went another way" in done.err
    assert counted.calls() == {"i/b": 1, "i/c": 1, "i/d": 1}
    with closing(sqlite3.connect(next(project.root.rglob("run.db")))) as connection:
        found = connection.execute("SELECT count(*), max(execution) FROM executions").fetchone()
        assert found == (4, 4)


def test_only_what_failed_is_tried_again(counted: Counted) -> None:
    project = counted.project
    for name, text in {"a": "one", "b": "bad", "c": "bad"}.items():
        project.write(f"i/{name}", text)
    done = counted.exec("-a", counted.agent, "--include", "i/*", "--quiet")
    assert done.status == 1
    counted.calls()
    project.write("i/b", "two")
    project.write("i/new", "more")
    tools = Path(counted.agent.removeprefix("tool/").rpartition(":")[0])
    tools.write_text(TOOL + "\n# changed\n")
    done = counted.exec("--retry-failed", "last", "--json")
    assert (done.status, done.states) == (1, {"i/a": "ok", "i/b": "ok", "i/c": "failed"})
    assert counted.calls() == {"i/b": 1, "i/c": 1}
    assert [row[1] for row in last_turns(project)] == ["ok", "ok", "failed"]


@pytest.mark.parametrize("kind", ["claude", pytest.param("codex", marks=pytest.mark.slow)])
def test_a_conversation_goes_on_in_the_program_s_own_session(
    counted: Counted, tmp_path: Path, kind: str
) -> None:
    program = fake_claude(tmp_path) if kind == "claude" else fake_codex(tmp_path)
    agent = f"cli={kind},model=gpt-5,program={program}"
    line = ["-f", f"{counted.flows}:talk", "-a", agent, "--quiet"]
    assert counted.exec(*line).status == -signal.SIGKILL
    counted.go()
    done = counted.exec("--resume", "last", "--quiet")
    assert (done.status, done.lines) == (0, ["one", '["say one", "history"]']), done
    with open_run(runs_directory(counted.project.root), "last") as run:
        first, second = run.turns()
        assert first.conversation == second.conversation
        assert first.kept_as == second.kept_as != ""
        assert (first.execution, second.execution) == (1, 2)
        said = [event.text for event in run.events(1) if event.kind == "text"]
        assert "".join(said) == second.answer
        assert run.costs().tokens == sum(one.input_tokens + one.output_tokens
                                         for one in (first, second))  # fmt: skip


def test_what_a_flow_has_is_in_the_ledger(counted: Counted) -> None:
    line = ["-f", f"{counted.flows}:sees", "-a", counted.agent, "--quiet", "--at-once", "4"]
    done = counted.exec(*line)
    assert done.status == 0, done


@pytest.mark.slow
def test_a_plain_flow_with_sessions_and_two_agents(counted: Counted) -> None:
    line = ["-f", f"{counted.flows}:plain", "-a", counted.agent, "-a", counted.agent, "--quiet"]
    assert counted.exec(*line).status == -signal.SIGKILL
    assert counted.calls() == {"a": 1, "b": 1, "c": 1}
    counted.go()
    done = counted.exec("--resume", "last", "--quiet")
    assert (done.status, done.lines) == (0, ["['A', 'B']", "C", "D A B"])
    # What was asked twice was answered once, so the second asking runs.
    assert counted.calls() == {"d": 1, "a": 1, "b": 1}
    done = counted.exec("--resume", "last", "--quiet")
    assert (done.status, counted.calls()) == (0, {})


@pytest.mark.slow
def test_a_flow_that_goes_another_way_says_so(counted: Counted) -> None:
    counted.project.write("words", "a b c")
    line = ["-f", f"{counted.flows}:other", "-a", counted.agent, "--quiet"]
    assert counted.exec(*line).status == -signal.SIGKILL
    assert counted.calls() == {"a": 1, "b": 1, "c": 1}
    counted.project.write("words", "x a y b")
    counted.go()
    done = counted.exec("--resume", "last", "--quiet")
    assert (done.status, done.lines) == (0, ["['X', 'A', 'Y', 'B']"])
    assert counted.calls() == {"x": 1, "y": 1}
    assert "the flow went another way than before: 1 answer of before not asked for" in done.err


@pytest.mark.slow
def test_a_resumable_flow_gets_its_state_back(counted: Counted) -> None:
    line = ["-f", f"{counted.flows}:keeps", "-a", counted.agent, "--quiet"]
    assert counted.exec(*line).status == -signal.SIGKILL
    assert {word: count for word, count in counted.calls().items() if word != "wait"} == {
        str(number): 1 for number in range(4)
    }
    counted.go()
    done = counted.exec("--resume", "last", "--quiet")
    assert (done.status, done.lines) == (0, ["4", "5"]), done
    assert counted.calls() == {"4": 1, "5": 1}
    with open_run(runs_directory(counted.project.root), "last") as run:
        assert run.state() == {"next": 6}


def test_what_cannot_be_resumed_is_said_before_any_turn(counted: Counted) -> None:
    project = counted.project
    project.write("a", "one")
    done = project.exec_here("--resume", "last")
    assert (done.status, "there are no runs" in done.err) == (2, True)
    items = ["--items", "-", "-a", counted.agent, "--quiet"]
    assert counted.exec(*items, stdin=b"x\n").status == 0
    assert counted.calls() == {"x": 1}
    for arguments, said in (
        (["--resume", "nope"], "there is no run 'nope'"),
        (["--resume", "last", "--retry-failed", "last"], "cannot be used together"),
        (["--resume", "last"], "give them again, with --items -"),
    ):
        done = project.exec_here(*arguments)
        assert done.status == 2, done
        assert said in done.err
    done = counted.exec("--resume", "last", "--items", "-", "--json", stdin=b"x\ny\n")
    assert [row["answer"] for row in done.rows] == ["X", "Y"]
    assert counted.calls() == {"y": 1}
    ledger = next(project.root.rglob("run.db"))
    for change, said in (
        ("UPDATE runs SET ended_at = NULL, pid = %d, process_started = (%s)", "is going on"),
        ("PRAGMA user_version = 99", "reads versions up to"),
    ):
        with closing(sqlite3.connect(ledger)) as connection:
            if "pid" in change:
                import psutil

                change %= (os.getpid(), psutil.Process().create_time())
            connection.execute(change)
            connection.commit()
        done = project.exec_here("--resume", "last", "--items", str(project.root / "a"))
        assert (done.status, said in done.err) == (2, True), done
    assert not counted.calls()


@pytest.mark.slow
def test_options_are_those_of_the_run_unless_given(counted: Counted) -> None:
    project = counted.project
    project.files("a", "b")
    line = ["-a", counted.agent, "--include", "a", "--at-once", "3", "--timeout", "9", "--quiet"]
    assert counted.exec(*line, "do it").status == 0
    assert counted.exec("--resume", "last", "--timeout", "8", "--quiet").status == 0
    with open_run(runs_directory(project.root), "last") as run:
        summary = run.summary
    given = summary.options["given"]
    assert (given["at_once"], given["timeout"], given["include"]) == (3, 8.0, ["a"])
    assert (summary.task, summary.agents) == ("do it", (counted.agent,))
    assert summary.counts == {"ok": 1}
    assert project.exec_here("--resume", "last", "--dry-run").lines == ["a"]


@pytest.mark.slow
def test_what_was_spent_before_counts_for_a_budget(counted: Counted, tmp_path: Path) -> None:
    agent = f"cli=claude,model=opus,program={fake_claude(tmp_path)}"
    options = ["--items", "-", "--at-once", "1", "--quiet", "--max-tokens", "150"]
    done = counted.exec("-a", agent, *options, stdin=b"say 1\nsay 2\nsay 3\n")
    assert done.status == 1
    with open_run(runs_directory(counted.project.root), "last") as run:
        used = run.costs().tokens
    again = ["--resume", "last", "--items", "-", "--json", "--quiet"]
    done = counted.exec(*again, stdin=b"say 1\nsay 2\nsay 3\n")
    statuses = [row["status"] for row in done.rows]
    assert (done.status, statuses) == (1, ["ok", "ok", "not_run"]), done
    done = counted.exec(*again, "--max-tokens", "100000", stdin=b"say 1\nsay 2\nsay 3\n")
    assert (done.status, [row["answer"] for row in done.rows]) == (0, ["1", "2", "3"])
    with open_run(runs_directory(counted.project.root), "last") as run:
        assert run.costs().tokens == used // 2 * 3


@pytest.mark.slow
def test_answers_that_are_written_down_nowhere_are_shown(project: Project) -> None:
    project.write(".hmz-mp", "in the way")
    project.write("a", "some text")
    done = project.exec("-a", project.tool("upper"), "--include", "a", "--quiet")
    assert done.status == 0
    assert "not being recorded" in done.err
    assert "a: SOME TEXT" in done.err
    assert b"SOME TEXT" not in done.out
    shown = project.exec("-a", project.tool("upper"), "--include", "a", "--quiet", "--json")
    assert json.loads(shown.out)["answer"] == "SOME TEXT"
    assert "a: SOME TEXT" not in shown.err


WORKTREES = """
import os, signal
from pathlib import Path
from hmz_mp.flows import Agent, flow
from hmz_mp.worktrees import worktree

@flow
async def edits(agents: tuple[Agent], task: str) -> None:
    session = agents[0].new(worktree())
    await session.aturn("echo one >> one")
    await session.aturn("echo more >> one")
    if not Path("go").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    await session.aturn("echo two >> two; ls")
    await agents[0].aturn("echo three >> three", cwd=worktree())
"""


@pytest.mark.slow
@pytest.mark.parametrize("cleared", [False, True])
def test_what_a_session_changed_in_its_worktree_is_not_lost(
    project: Project, cleared: bool
) -> None:
    flow = project.root.parent / "edits.py"
    flow.write_text(WORKTREES)
    project.write("one", "")
    project.write(".gitignore", "go\n")
    Repository(project.root).commit()
    assert project.exec("-f", str(flow), "-a", "sh/sh", "--quiet").status == -signal.SIGKILL
    if cleared:
        assert project.run("gc").status == 0
    project.write("go")
    done = project.exec("--resume", "last", "--quiet")
    assert done.status == 0, done
    texts = {name: (project.root / name).read_text() for name in ("one", "two", "three")}
    assert texts == {"one": "one\nmore\n", "two": "two\n", "three": "three\n"}


@pytest.mark.slow
def test_what_a_turn_changed_itself_is_no_change(counted: Counted) -> None:
    project = counted.project
    for name in "ab":
        project.write(f"i/{name}", "colour\n")
    agent = f"sh/sh -c 'echo x >> {counted.counts}; sed -i s/colour/color/ {{path}}'"
    assert counted.exec("-a", agent, "--include", "i/*", "--quiet").status == 0
    assert counted.calls() == {"x": 2}
    assert (project.root / "i/a").read_text() == "color\n"
    (project.root / "i/b").touch()
    assert counted.exec("--resume", "last", "--quiet").status == 0
    assert not counted.calls()
    project.write("i/b", "colour, again\n")
    assert counted.exec("--resume", "last", "--quiet").status == 0
    assert counted.calls() == {"x": 1}


@pytest.mark.slow
def test_a_secret_in_a_patch_reaches_the_checkout_and_not_the_ledger(project: Project) -> None:
    project.write("a", "key\n")
    Repository(project.root).commit()
    project.environment["SOME_API_KEY"] = "sesame-opens"
    agent = "sh/sh -c 'echo $SOME_API_KEY >> a; echo $SOME_API_KEY'"
    done = project.exec("--worktree", "-a", agent, "--include", "a", "--print", "--quiet")
    assert (done.status, done.lines) == (0, ["sesame-opens"]), done
    assert (project.root / "a").read_text() == "key\nsesame-opens\n"
    files = [file for file in (project.root / ".hmz-mp").rglob("*") if file.is_file()]
    assert files
    assert not any(b"sesame-opens" in file.read_bytes() for file in files)
