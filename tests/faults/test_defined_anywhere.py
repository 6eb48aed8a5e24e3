"""Functions and classes from wherever people define them: prompts, cells, modules of one name.

Scripts, ``-c`` and standard input are in `tests/test_main_scripts.py`; the same for executors is
in `tests/futures/test_scripts.py`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers import run_python, run_script

BOUND = 20.0

# What people type into a notebook, a cell each. Later cells define anew what earlier ones did.
CELLS = [
    """
from hmz_mp import Pool
from hmz_mp.futures import ProcessExecutor

BASE = 10

class Point:
    def __init__(self, x):
        self.x = x

class Wrong(Exception):
    pass

def move(point):
    return Point(point.x + BASE)

async def move_later(point):
    import asyncio
    await asyncio.sleep(0)
    return move(point)

def fail(number):
    raise Wrong(1 / number)

pool = Pool(1)
await pool.__aenter__()
""",
    "moved = await pool.run(move, Point(1)); print(type(moved) is Point, moved.x)",
    """
BASE = 20

class Point:
    def __init__(self, x):
        self.x = x
    new = True
""",
    "moved = await pool.run(move, Point(1)); print(type(moved) is Point, moved.x, moved.new)",
    "moved = await pool.run(move_later, Point(1)); print(type(moved) is Point, moved.x)",
    """
for number in (1, 0):
    try:
        await pool.run(fail, number)
    except Wrong as error:
        print("caught", error, "in fail" in str(error.__cause__))
    except ZeroDivisionError as error:
        print("divided", "in fail" in str(error.__cause__))
""",
    """
turn = pool.submit(print, "hello")
await turn
print(turn.account.output, [one async for one in pool.map(lambda n: n * BASE, range(3))])
await pool.__aexit__(None, None, None)
""",
    """
with ProcessExecutor(1) as executor:
    moved = executor.submit(move, Point(2)).result(20)
    print(type(moved) is Point, moved.x, list(executor.map(lambda n: n * BASE, [1, 2])))
""",
]
SAID = """\
True 11
True 21 True
True 21
caught 1.0 True
divided True
hello
 [0, 20, 40]
True 22 [20, 40]
"""

# Runs cells as IPython's kernel does: one loop, a ``__main__`` that is no script's and has no
# file, each cell compiled under a name of its own with ``await`` at its top.
KERNEL = """
import ast, asyncio, builtins, inspect, json, sys, types

main = sys.modules["__main__"] = types.ModuleType("__main__")
main.__builtins__ = builtins

async def run(cells):
    for at, cell in enumerate(cells):
        name = f"/nowhere/ipykernel_7/{at}.py"
        code = compile(cell, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        done = eval(code, vars(main))
        if inspect.iscoroutine(done):
            await done

asyncio.run(run(json.load(sys.stdin)))
"""
REAL_KERNEL = """
import json, sys
from jupyter_client.manager import start_new_kernel

def show(message):
    content = message["content"]
    print(content.get("text") or content.get("traceback") or "", end="")

manager, client = start_new_kernel()
try:
    for cell in json.load(sys.stdin):
        client.execute_interactive(cell, timeout=30, output_hook=show)
finally:
    client.stop_channels()
    manager.shutdown_kernel()
"""


def test_cells_of_a_notebook(tmp_path: Path) -> None:
    ran = run_python(["-c", KERNEL], cwd=tmp_path, stdin=json.dumps(CELLS))
    assert (ran.stdout, ran.stderr, ran.returncode) == (SAID, "", 0)


@pytest.mark.slow
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("ipykernel", "jupyter_client"))),
    reason="ipykernel and jupyter_client are not installed",
)
def test_cells_of_a_kernel_of_jupyters(tmp_path: Path) -> None:
    ran = run_python(["-c", REAL_KERNEL], cwd=tmp_path, stdin=json.dumps(CELLS))
    assert (ran.stdout, ran.returncode) == (SAID, 0)


@pytest.mark.parametrize("flags", [[], ["-m", "asyncio"]], ids=["python", "asyncio"])
def test_a_prompt(flags: list[str], tmp_path: Path) -> None:
    """As people type it; with ``python -m asyncio`` also with ``await`` at the top."""
    lines = ["import asyncio", "from hmz_mp import Pool", "def triple(x): return 3 * x", ""]
    if flags:
        lines += ["pool = Pool(1); await pool.__aenter__()", "await pool.run(triple, 14)"]
        lines += ["await pool.__aexit__(None, None, None)"]
    else:
        lines += ["async def main():", " async with Pool(1) as pool:"]
        lines += ["  return await pool.run(triple, 14)", "", "asyncio.run(main())"]
    said = _type(flags or ["-q"], lines, wait_for=b"42", cwd=tmp_path)
    assert b"Error" not in said


def _type(flags: list[str], lines: list[str], *, wait_for: bytes, cwd: Path) -> bytes:
    """Type lines at a Python prompt on a terminal; return what it said, ``wait_for`` with it."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHON_BASIC_REPL": "1", "PYTHON_HISTORY": os.devnull, "TERM": "dumb"}
    process = subprocess.Popen(
        [sys.executable, *flags], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd,
        env=env, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        said = _until(ours, b">>> ")
        for line in lines:
            os.write(ours, line.encode() + b"\n")
        said += _until(ours, wait_for)
        os.write(ours, b"exit()\n")
        assert process.wait(BOUND) == 0, said
        return said
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _until(fd: int, text: bytes) -> bytes:
    """Read a terminal until ``text`` has come."""
    said = b""
    deadline = time.monotonic() + BOUND
    while text not in said:
        ready, _, _ = select.select([fd], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"waited in vain for {text!r}: {said!r}"
        said += os.read(fd, 4096)
    return said


def test_a_script_from_another_directory_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "real" / "beside_it.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "elsewhere" / "link.py").symlink_to(tmp_path / "real" / "script.py")
    (tmp_path / "real" / "script.py").write_text(
        "import anyio, beside_it\n"
        "from hmz_mp import Pool\n"
        "def quadruple(x):\n"
        "    return beside_it.double(beside_it.double(x))\n"
        "async def main():\n"
        "    async with Pool(1) as pool:\n"
        "        print(await pool.run(beside_it.double, 4), await pool.run(quadruple, 4))\n"
        "anyio.run(main)\n"
    )
    ran = run_python([str(tmp_path / "elsewhere" / "link.py")], cwd=Path("/"))
    assert (ran.stdout, ran.stderr) == ("8 16\n", "")


ONE_NAME = """
import asyncio, sys
from pathlib import Path
from hmz_mp import Pool

SOURCE = '''
class Box:
    who = {who!r}

def who():
    return {who!r}

def make():
    return Box()

def see(box):
    return type(box) is Box, box.who
'''

def load(who):
    folder = Path(who)
    folder.mkdir()
    (folder / "of_one_name.py").write_text(SOURCE.format(who=who))
    sys.modules.pop("of_one_name", None)
    sys.path.insert(0, str(folder.resolve()))
    import of_one_name
    return of_one_name

async def use(pool, module, who):
    assert await pool.run(module.who) == who
    made = await pool.run(module.make)
    assert type(made) is module.Box and made.who == who, (made, made.who)
    assert await pool.run(module.see, module.Box()) == (True, who)

async def main(before):
    async with Pool(1) as pool:
        first = load("first")
        if before:
            await use(pool, first, "first")
        second = load("second")
        for _ in range(2):
            await use(pool, second, "second")
            await use(pool, first, "first")
    async with Pool(1) as pool:  # where neither is loaded
        await use(pool, first, "first")
        await use(pool, second, "second")

asyncio.run(main("before" in sys.argv))
print("each its own")
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_two_modules_of_one_name(when: str, tmp_path: Path) -> None:
    """A worker that has imported the one is not made to run it for the other."""
    ran = run_script(tmp_path, ONE_NAME, when)
    assert (ran.stdout, ran.stderr) == ("each its own\n", "")
