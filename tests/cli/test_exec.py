"""``hmz-mp exec`` as a process on small trees: what it does, prints, and exits with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import Project
from tests.waiting import is_gone, until

TUTORIAL = '''
"""One agent, one turn per file, all of them going at once."""
import asyncio
from pathlib import Path
from hmz.agents import AgentBase
from hmz.flows import flow

@flow
async def run(agents: tuple[AgentBase], task: str) -> None:
    (agent,) = agents
    paths = sorted(str(p) for p in Path("src").rglob("*.py"))
    said = await agent.abatch([f"{task}\\n\\nThe file is {p}." for p in paths], at_once=8)
    print(f"{len(said)} files, {sum(1 for s in said if s)} answered")
'''

ODD_NAMES: list[bytes] = [
    b"--help",
    b"-0",
    b"[brackets] {path} %s.py",
    b"back\\slash",
    b"not-utf8-\xff\xfe",
    b"quotes'\".py",
    b"spaces in the  name",
    b"two\nlines.py",
    "\U0001f600 emoji.py".encode(),
]


# What it does


def test_one_turn_per_file(project: Project) -> None:
    project.files("a.py", "b/c.py", "d.txt")
    done = project.exec("-a", project.tool("upper"), "--include", "*.py", "shout")
    assert done.status == 0, done
    assert done.out == b"2 files, 2 answered with text\n"
    assert "2 turns in " in done.err
    assert ": 2 ok" in done.err
    assert "slowest:" in done.err
    assert "a.py" in done.err


def test_answers_on_standard_output_in_item_order(project: Project) -> None:
    project.files(*(f"{number:03}.py" for number in range(50)))
    done = project.exec("--print", "-a", project.tool("name"), "--at-once", "4")
    assert done.status == 0, done
    assert done.lines == [f"{number:03}.py" for number in range(50)]
    assert "50 files, 50 answered with text\n" in done.err


def test_one_json_object_per_item(project: Project) -> None:
    project.files("a", "b", "d")
    project.write("c", "bad\n")
    done = project.exec("--json", "-a", project.tool("picky"))
    assert done.status == 1, done
    assert [row["item_id"] for row in done.rows] == ["a", "b", "c", "d"]
    assert done.states == {"a": "ok", "b": "ok", "c": "failed", "d": "ok"}
    good, _, bad, _ = done.rows
    told = {"item_id", "status", "answer", "error", "seconds", "attempts", "worker", "usage"}
    assert set(good) == told
    assert good["usage"] == []
    assert (good["answer"], good["error"], good["attempts"]) == ("text\n", None, 1)
    assert good["seconds"] >= 0
    assert good["worker"] > 0
    assert (bad["answer"], "this is bad: bad" in bad["error"]) == (None, True)


def test_failures_are_listed_and_the_others_answered(project: Project) -> None:
    project.files("a.py", "e.py")
    for name in ("b.py", "c.py", "d.py"):
        project.write(name, "def broken(:\n")
    command = f"sh/{sys.executable} -m py_compile {{path}}"
    done = project.exec("-a", command, "--include", "*.py")
    assert done.status == 1, done
    assert "2 ok, 3 failed" in done.err
    failed = done.err[done.err.index("failed:\n") :]
    assert all(f"  {name}: " in failed for name in ("b.py", "c.py", "d.py"))
    assert "a.py" not in failed


def test_many_failures_say_where_the_rest_are(project: Project) -> None:
    for number in range(25):
        project.write(f"{number:02}", "bad")
    done = project.exec("-a", project.tool("picky"))
    assert done.status == 1
    failed = done.err[done.err.index("failed:\n") :].splitlines()
    assert [line.split(":")[0].strip() for line in failed[1:21]] == [f"{n:02}" for n in range(20)]
    assert "and 5 more: hmz-mp show " in failed[21]
    run_id = failed[21].split()[-1]
    shown = project.run("show", run_id, "24")
    assert "this is bad" in shown.out.decode()


@pytest.mark.parametrize("agent", ["tool", "sh"])
def test_names_of_any_bytes(project: Project, agent: str) -> None:
    project.files(*ODD_NAMES)
    spec = project.tool("upper") if agent == "tool" else "sh/cat -- {path}"
    done = project.exec("--json", "-a", spec)
    assert done.status == 0, done
    assert [os.fsencode(row["item_id"]) for row in done.rows] == sorted(ODD_NAMES)
    wanted = "TEXT\n" if agent == "tool" else "text"
    assert {row["answer"].rstrip("\n") for row in done.rows} == {wanted.rstrip("\n")}


def test_names_show_escaped(project: Project) -> None:
    for name in ODD_NAMES:
        project.write(name, "bad")
    project.write(b"red\x1b[31m", "bad")
    done = project.exec("-a", project.tool("picky"))
    assert done.status == 1
    assert "\x1b" not in done.err
    for shown in ("not-utf8-\\xff\\xfe", "two\\nlines.py", "[brackets] {path} %s.py", "red\\x1b"):
        assert f"  {shown}" in done.err


def test_records_of_a_list(project: Project) -> None:
    project.files("unused")
    done = project.exec("--json", "-a", project.tool("echo"), "--items", "-", stdin=b"one\ntwo\n")
    assert done.status == 0, done
    assert [row["answer"] for row in done.rows] == ["one", "two"]


def test_the_task_and_the_file_are_the_prompt(project: Project) -> None:
    project.files("a.py")
    with_task = project.exec("--print", "-a", project.tool("echo"), "say it")
    assert with_task.out == b"say it\n\nThe file is a.py.\n"
    without = project.exec("--print", "-a", project.tool("echo"))
    assert without.out == b"The file is a.py.\n"


def test_files_of_a_repository_that_changed(project: Project) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *who, *arguments], cwd=project.root, check=True, capture_output=True)

    git("init")
    project.files("old.py", "ignored.log")
    project.write(".gitignore", "*.log\n")
    git("add", "-A")
    git("commit", "-m", "first")
    project.files("new.py")
    done = project.exec("--json", "-a", project.tool("name"), "--changed-since", "HEAD")
    assert list(done.states) == ["new.py"]
    everything = project.exec("--json", "-a", project.tool("name"))
    assert list(everything.states) == [".gitignore", "new.py", "old.py"]


def test_binary_files_are_skipped_and_counted(project: Project) -> None:
    project.files("a.py")
    (project.root / "b.bin").write_bytes(b"\0\1")
    done = project.exec("-a", project.tool("name"))
    assert (done.status, done.out) == (0, b"1 file, 1 answered with text\n")
    assert "1 binary file skipped" in done.err


def test_a_worker_that_dies_fails_its_item(project: Project) -> None:
    project.files("a", "b")
    done = project.exec("--json", "-a", project.tool("dies"))
    assert done.status == 1
    assert done.states == {"a": "failed", "b": "failed"}
    assert "SIGKILL" in done.rows[0]["error"]


def test_retries_and_timeout_reach_the_turns(project: Project) -> None:
    project.write("a", "bad")
    done = project.exec("--json", "-a", project.tool("picky"), "--retries", "2")
    assert done.rows[0]["attempts"] == 3, done
    (project.root / "running").mkdir()
    hung = project.exec("--json", "-a", project.tool("hangs"), "--timeout", "0.3", "--include", "a")
    assert hung.status == 1
    assert "0.3 s" in hung.rows[0]["error"]
    assert hung.rows[0]["worker"] > 0  # which it was is known, though it was ended


def test_after_the_most_failures_nothing_new_begins(project: Project) -> None:
    for number in range(300):
        project.write(f"{number:03}", "bad")
    done = project.exec("--json", "-a", project.tool("picky"), "--max-failures", "3")
    assert done.status == 1, done
    states = list(done.states.values())
    assert len(states) == 300
    assert states[:3] == ["failed"] * 3
    assert states.count("not_run") > 200
    last = done.rows[-1]
    assert (last["item_id"], last["status"], last["answer"]) == ("299", "not_run", None)
    assert last["error"] == "3 failed, the most that was allowed"
    assert "not run: 3 failed, the most that was allowed" in done.err


def test_dry_run_lists_and_runs_nothing(project: Project) -> None:
    project.files("a.py", "b c.py", b"\xff.py")
    done = project.exec_here("--dry-run", "-a", project.tool("dies"))
    assert (done.status, done.out) == (0, b"a.py\nb c.py\n\xff.py\n")
    assert "3 items for fanout with tool/" in done.err
    assert "nothing was run" in done.err
    assert not (project.root / ".hmz-mp").exists()
    as_list = project.exec_here("--dry-run", "-0", "-a", project.tool("dies"))
    assert as_list.out == b"a.py\0b c.py\0\xff.py\0"
    again = project.exec(
        "--items", "-", "-0", "--json", "-a", project.tool("name"), stdin=as_list.out
    )
    assert [os.fsencode(row["item_id"]) for row in again.rows] == [b"a.py", b"b c.py", b"\xff.py"]
    as_json = project.exec_here("--dry-run", "--json", "-a", project.tool("dies"))
    assert as_json.rows[0] == {"item_id": "a.py"}


def test_quiet_says_only_what_went_wrong(project: Project) -> None:
    project.files("a")
    done = project.exec("--quiet", "-a", project.tool("picky"))
    assert (done.status, done.err) == (0, "")
    project.write("b", "bad")
    failed = project.exec("--quiet", "-a", project.tool("picky"))
    assert failed.status == 1
    assert failed.err.startswith("failed:\n  b: ")


# Flows


def flow_file(project: Project, name: str, source: str) -> Path:
    project.write(f".humanize/flows/{name}.py", source)
    return project.root / ".humanize" / "flows" / f"{name}.py"


def test_the_flow_of_the_tutorial(project: Project) -> None:
    flow_file(project, "fanout", TUTORIAL)
    project.files("src/a.py", "src/b/c.py", "src/notes.txt")
    done = project.exec("-f", "fanout", "-a", project.tool("echo"), "look")
    assert (done.status, done.out) == (0, b"2 files, 2 answered\n"), done
    rows = project.exec("-f", "fanout", "-a", project.tool("echo"), "--json", "look")
    assert [row["answer"] for row in rows.rows] == [
        "look\n\nThe file is src/a.py.",
        "look\n\nThe file is src/b/c.py.",
    ]
    assert "2 files, 2 answered" in rows.err


PLAIN = """
from hmz_mp.flows import flow, Agent

@flow
def run(agents: tuple[Agent, Agent], task: str) -> None:
    first, second = agents
    said = first.batch(["one", "two"])
    print(second(" and ".join(said)), flush=True)
"""


def test_a_plain_flow_with_two_agents(project: Project) -> None:
    flow_file(project, "plain", PLAIN)
    done = project.exec("-f", "plain", "-a", project.tool("echo"), "-a", "sh/cat")
    assert (done.status, done.out) == (0, b"one and two\n"), done
    assert "3 turns" in done.err


SETTINGS = """
import msgspec
from hmz_mp.flows import flow, Agent

class Config(msgspec.Struct):
    times: int
    word: str = "word"

@flow
async def run(agents: tuple[Agent], task: str, config: Config) -> None:
    (agent,) = agents
    print(await agent.aturn(config.word * config.times))
"""


def test_settings_of_a_flow(project: Project) -> None:
    flow_file(project, "settings", SETTINGS)
    project.write("s.toml", "times = 3\n")
    done = project.exec("-f", "settings", "-a", project.tool("echo"), "-c", "s.toml")
    assert (done.status, done.out) == (0, b"wordwordword\n"), done


RESUMABLE = """
from hmz_mp.flows import flow, Agent

@flow(resumable=True)
async def run(agents: tuple[Agent], task: str, state: dict) -> None:
    print(f"state {state}")
"""


def test_a_resumable_flow_is_handed_a_state(project: Project) -> None:
    flow_file(project, "resumable", RESUMABLE)
    done = project.exec("-f", "resumable", "-a", project.tool("echo"))
    assert (done.status, done.out) == (0, b"state {}\n"), done


RAISES = """
from hmz_mp.flows import flow, Agent

@flow
async def run(agents: tuple[Agent], task: str) -> None:
    (agent,) = agents
    await agent.aturn("one")
    raise LookupError("the flow's own")
"""


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_flow_that_raises(project: Project, kind: str) -> None:
    source = RAISES
    if kind == "plain":
        source = source.replace("async def", "def").replace("await agent.aturn", "agent")
    path = flow_file(project, "raises", source)
    done = project.exec("-f", "raises", "-a", project.tool("echo"))
    assert done.status == 3, done
    assert "LookupError: the flow's own" in done.err
    files = [line for line in done.err.splitlines() if line.startswith("  File ")]
    assert files == [f'  File "{path}", line 8, in run']
    assert "1 ok" in done.err


def test_a_failure_that_a_flow_does_not_suppress(project: Project) -> None:
    flow_file(project, "fails", RAISES.replace('"one"', '"{nothing}"'))
    done = project.exec("-f", "fails", "-a", project.tool("dies"))
    assert done.status == 3, done
    assert "Failed" in done.err
    assert "1 failed" in done.err


def test_a_flow_that_exits(project: Project) -> None:
    flow_file(
        project,
        "exits",
        RAISES.replace('raise LookupError("the flow\'s own")', "raise SystemExit(7)"),
    )
    done = project.exec("-f", "exits", "-a", project.tool("echo"))
    assert done.status == 3, done
    assert "SystemExit: 7" in done.err


SHIPS = """
import hmz_mp
import msgspec
from hmz_mp.flows import flow, Agent

FACTOR = 3

class Size(msgspec.Struct):
    size: int

def measure(number):
    return Size(number)

def times(number):
    return number * FACTOR

@flow
async def run(agents: tuple[Agent], task: str) -> None:
    pool = hmz_mp.current_pool()
    print([answer async for answer in pool.map(times, range(4))], await pool.run(lambda: FACTOR))
    answer = await pool.run(measure, 5)
    print(isinstance(answer, Size), answer)
"""


def test_functions_of_a_flow_run_in_workers(project: Project) -> None:
    flow_file(project, "ships", SHIPS)
    done = project.exec("-f", "ships", "-a", project.tool("echo"))
    assert (done.status, done.out) == (0, b"[0, 3, 6, 9] 3\nTrue Size(size=5)\n"), done


LEAVES = """
from hmz_mp.core.ambient import current_run
from hmz_mp.flows import flow, Agent
from hmz_mp.agents import Prompt

@flow
async def run(agents: tuple[Agent], task: str) -> None:
    (agent,) = agents
    items = current_run().items()
    await agent.aturn(Prompt("p", item_id=items[1].item_id))
"""


def test_items_that_a_flow_never_asked_about_are_not_run(project: Project) -> None:
    flow_file(project, "leaves", LEAVES)
    project.files("a", "b", "c")
    done = project.exec("-f", "leaves", "-a", project.tool("echo"), "--include", "?", "--json")
    assert done.status == 1, done
    assert done.states == {"b": "ok", "a": "not_run", "c": "not_run"}


# Bad input: an exit status of 2 and a line to correct, before any turn


BAD_FLOWS = {
    "empty": ("x = 1\n", "holds no flow"),
    "raises": ("raise LookupError('at import')\n", "LookupError: at import"),
    "missing": (PLAIN.replace("agents: tuple[Agent, Agent]", "agents"), "does not say how many"),
    "any": (PLAIN.replace("Agent, Agent", "Agent, ..."), "may be any number of agents"),
    "several": (PLAIN + PLAIN.replace("def run", "def other"), "holds several flows"),
    "two": (PLAIN, "run() drives 2 agents, 1 given"),
}


@pytest.mark.parametrize("name", BAD_FLOWS)
def test_a_flow_that_cannot_be_run(project: Project, name: str) -> None:
    source, said = BAD_FLOWS[name]
    flow_file(project, name, source)
    done = project.exec_here("-f", name, "-a", project.tool("echo"))
    assert (done.status, done.out) == (2, b""), done
    assert said in done.err
    assert "hmz_mp/" not in done.err
    assert not (project.root / ".hmz-mp").exists()


BAD_LINES = {
    "no such flow": (["-f", "nothing"], "no flow named 'nothing'"),
    "no such file": (["-f", "./nothing.py"], "no flow at ./nothing.py"),
    "no agent": ([], "run() drives 1 agent, 0 given"),
    "unknown backend": (["-a", "nobody/x"], "nobody"),
    "no model": (["-a", "tool/"], "has no model"),
    "no such module": (["-a", "tool/nowhere_at_all:f"], "nowhere_at_all"),
    "no such name": (["-a", "tool/json:nothing"], "nothing"),
    "not callable": (["-a", "tool/json:__name__"], "__name__"),
    "at once": (["-a", "sh/cat", "--at-once", "-1"], "-1 turns cannot run at once"),
    "at once in words": (["-a", "sh/cat", "--at-once", "many"], "neither a number nor auto"),
    "no workers": (["-a", "sh/cat", "--workers", "0"], "--workers"),
    "retries": (["-a", "sh/cat", "--retries", "-1"], "--retries"),
    "timeout": (["-a", "sh/cat", "--timeout", "nan"], "not a positive number of seconds"),
    "timeout of 0": (["-a", "sh/cat", "--timeout", "0"], "not a positive number of seconds"),
    "timeout in words": (["-a", "sh/cat", "--timeout", "soon"], "not a valid float"),
    "max failures": (["-a", "sh/cat", "--max-failures", "0"], "--max-failures"),
    "no repository": (["-a", "sh/cat", "--changed-since", "HEAD"], "--changed-since"),
    "unreadable items": (["-a", "sh/cat", "--items", "gone.txt"], "gone.txt"),
    "no items": (["-a", "sh/cat", "--include", "*.nothing"], "no items: searched"),
    "no settings taken": (["-a", "sh/cat", "-c", "s.yaml"], "takes no settings"),
    "two styles": (["-a", "sh/cat", "--print", "--json"], "cannot be used together"),
    "0 without a list": (["-a", "sh/cat", "-0"], "there is none"),
    "unknown option": (["-a", "sh/cat", "--resumed", "last"], "--resumed"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_line_to_correct(project: Project, case: str) -> None:
    arguments, said = BAD_LINES[case]
    project.files("a", "s.yaml")
    project.write("s.yaml", "x: 1\n")
    done = project.exec_here(*arguments)
    assert (done.status, done.out) == (2, b""), done
    assert said in done.err
    assert "Traceback" not in done.err
    assert not (project.root / ".hmz-mp").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("times: many\n", "s.yaml: times: Expected `int`, got `str`"),
        ("word: x\n", "missing required field `times`"),
        ("times: 1\nwords: x\n", "no setting is called words (did you mean word?)"),
    ],
)
def test_settings_that_do_not_fit(project: Project, text: str, said: str) -> None:
    flow_file(project, "settings", SETTINGS)
    project.write("s.yaml", text)
    done = project.exec_here("-f", "settings", "-a", project.tool("echo"), "-c", "s.yaml")
    assert done.status == 2, done
    assert said in done.err
    none = project.exec_here("-f", "settings", "-a", project.tool("echo"))
    assert (none.status, "needs settings" in none.err) == (2, True)


def test_an_unknown_ref(project: Project) -> None:
    subprocess.run(["git", "init"], cwd=project.root, check=True, capture_output=True)
    project.files("a")
    done = project.exec_here("-a", "sh/cat", "--changed-since", "nothing-like-it")
    assert done.status == 2, done
    assert "nothing-like-it" in done.err


def test_no_items_for_a_flow_of_the_users(project: Project) -> None:
    flow_file(project, "leaves", LEAVES)
    (project.root / ".gitignore").write_text("*\n")
    done = project.exec_here("-f", "leaves", "-a", "sh/cat")
    assert done.status == 2, done
    assert "no items" in done.err


# Interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_once(project: Project, number: signal.Signals) -> None:
    (project.root / "running").mkdir()
    project.files(*(f"{n}.py" for n in range(9)))
    process = project.start(
        "exec", "--json", "-a", project.tool("hangs"), "--at-once", "2", "--include", "*.py"
    )
    workers = project.await_running(2)
    process.send_signal(number)
    out, err = process.communicate(timeout=50)
    assert process.returncode == 130, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["status"] for row in rows] == ["failed"] * 2 + ["not_run"] * 7
    assert {row["error"] for row in rows} == {"interrupted"}
    assert b"2 stopped while running, 7 not run" in err
    assert all(is_gone(pid) for pid in workers)


STUBBORN = """
import asyncio, pathlib, time
from hmz_mp.flows import flow, Agent

@flow
async def run(agents: tuple[Agent], task: str) -> None:
    pathlib.Path("running/flow").write_text("1\\n")
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pathlib.Path("cancelled").touch()
            raise
"""


def test_interrupted_twice(project: Project) -> None:
    (project.root / "running").mkdir()
    flow_file(project, "stubborn", STUBBORN)
    process = project.start("exec", "-f", "stubborn", "-a", project.tool("echo"))
    project.await_running(1)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert b"interrupted: ending" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=50)
    assert process.returncode == 130, err
    assert (project.root / "cancelled").exists()


def test_interrupted_in_a_plain_flow_that_does_not_end(project: Project) -> None:
    (project.root / "running").mkdir()
    source = STUBBORN.replace("async def", "def").replace("await asyncio", "time")
    flow_file(project, "stubborn", source)
    process = project.start("exec", "-f", "stubborn", "-a", project.tool("echo"))
    project.await_running(1)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=50)
    assert process.returncode == 130, err
    assert b"no turns" in err


def test_a_job_in_the_background_is_not_interrupted(project: Project) -> None:
    (project.root / "running").mkdir()
    project.files("a.py")
    process = project.start(
        *("exec", "-a", project.tool("hangs"), "--include", "*.py"),
        before=["sh", "-c", "trap '' INT; exec \"$@\"", "sh"],
    )
    project.await_running(1)
    process.send_signal(signal.SIGINT)
    project.files("go")
    _, err = process.communicate(timeout=50)
    assert (process.returncode, b"interrupted" in err) == (0, False), err


# Standard output whose reader goes away


def test_a_reader_that_goes_away(project: Project) -> None:
    names = [f"{number:04}{'x' * 100}" for number in range(2000)]  # more than a pipe holds
    project.files(*names)
    process = project.start("exec", "--print", "-a", project.tool("name"))
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == names[0].encode() + b"\n"
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(50) == 141
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err
    assert b"turns in" not in err


PRINTS = """
from hmz_mp.flows import flow, Agent

@flow
def run(agents: tuple[Agent], task: str) -> None:
    while True:
        print("line " * 1000, flush=True)
"""


def test_a_reader_of_a_flow_that_goes_away(project: Project) -> None:
    flow_file(project, "prints", PRINTS)
    process = project.start("exec", "-f", "prints", "-a", project.tool("name"))
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(50) == 141
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err


@pytest.mark.parametrize(
    ("closed", "style", "status"),
    [
        (">&-", "--quiet", 0),
        ("2>&-", "--json", 0),
        (">&- 2>&-", "--quiet", 0),
        (">&-", "--json", 2),
    ],
)
def test_streams_that_are_closed(project: Project, closed: str, style: str, status: int) -> None:
    project.files("a")
    process = project.start(
        *("exec", "-a", project.tool("name"), style),
        before=["sh", "-c", f'exec "$@" {closed}', "sh"],
    )
    out, err = process.communicate(timeout=50)
    assert process.returncode == status, err
    assert b"Traceback" not in err
    assert len(out.splitlines()) == (style == "--json" and status == 0)


# What is left


def test_nothing_is_left_but_the_run(project: Project) -> None:
    project.files("a", "b")
    before = {path.name for path in project.root.iterdir()}
    done = project.exec("-a", project.tool("name"))
    assert done.status == 0
    assert {path.name for path in project.root.iterdir()} - before == {".hmz-mp"}
    listed = project.run("runs")
    assert "fanout" in listed.out.decode()


def test_a_runs_directory_that_cannot_be_made_does_not_stop_the_run(project: Project) -> None:
    project.files("a", ".hmz-mp")
    done = project.exec("--json", "-a", project.tool("name"), "--include", "a")
    assert (done.status, done.states) == (0, {"a": "ok"}), done
    assert "not being recorded" in done.err


def test_children_of_turns_are_ended(project: Project) -> None:
    (project.root / "running").mkdir()
    project.files("a")
    command = "sh/sh -c 'echo $$ > running/child; exec sleep 1000'"
    process = project.start("exec", "-a", command, "--include", "a")
    child = project.await_running(1)[0]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=50)
    assert process.returncode == 130
    until(lambda: is_gone(child))
