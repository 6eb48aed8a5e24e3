from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from hmz_mp_worker import kernel
from hmz_mp_worker.backends.tree import Tree, why_not_started
from tests.helpers import await_until, is_alive, run_python, written

LEADER = """
import os, subprocess, sys, time
tool = subprocess.Popen(["sleep", "1000"], start_new_session=True)
open(sys.argv[1], "w").write(f"{os.environ['HMZ_MP_PROGRAM']} {os.getpid()} {tool.pid}\\n")
time.sleep(1000)
"""


class Closing(asyncio.SubprocessProtocol):
    """Closes what is the loop's of a program when that has ended."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def process_exited(self) -> None:
        self.transport.close()


async def started(file: Path) -> tuple[Tree, list[str]]:
    tree = Tree()
    argv = [sys.executable, "-ISc", LEADER, str(file)]
    await tree.start(Closing, argv, cwd=None, environment=os.environ)
    await await_until(lambda: written(file))
    return tree, written(file).split()


def test_what_is_below_is_found_by_its_mark_when_its_parent_has_ended(tmp_path: Path) -> None:
    async def body() -> None:
        tree, (mark, leader, tool) = await started(tmp_path / "one")
        assert mark.startswith(f"{os.getpid()}.")
        tree.look()
        os.kill(int(leader), signal.SIGKILL)
        await tree.group_gone(10)
        assert not tree.signal(0)
        assert is_alive(int(tool))
        tree.kill()
        await tree.gone(10)
        assert not is_alive(int(tool))

    asyncio.run(body())


def test_trees_have_marks_of_their_own_and_leave_each_other_alone(tmp_path: Path) -> None:
    async def body() -> None:
        one, (mark, *pids) = await started(tmp_path / "one")
        other, (other_mark, *others) = await started(tmp_path / "other")
        assert mark != other_mark
        one.look()
        one.kill()
        await one.gone(10)
        await one.group_gone(10)
        await await_until(lambda: not any(is_alive(int(pid)) for pid in pids))
        assert all(is_alive(int(pid)) for pid in others)
        other.kill()
        await other.gone(10)
        await other.group_gone(10)

    asyncio.run(body())


def test_a_pid_that_is_another_process_by_now_is_left_alone(tmp_path: Path) -> None:
    async def body() -> None:
        tree, _ = await started(tmp_path / "one")
        tree._seen.add(os.getppid())
        tree.kill()
        await tree.gone(10)
        await tree.group_gone(10)

    asyncio.run(body())
    assert kernel.is_running(os.getppid())


def test_many_programs_need_no_limit_of_the_users_to_be_raised() -> None:
    code = (
        "import asyncio, os, resource, sys\n"
        "from hmz_mp_worker.backends.tree import Tree\n"
        "class Kept(asyncio.SubprocessProtocol):\n"
        "    def connection_made(self, transport): self.transport = transport\n"
        "async def main():\n"
        "    trees = [Tree() for _ in range(40)]\n"
        "    for tree in trees:\n"
        "        await tree.start(Kept, ['sleep', '1000'], cwd=None, environment=os.environ)\n"
        "    for tree in trees:\n"
        "        tree.kill()\n"
        "        await tree.group_gone(10)\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
        "asyncio.run(main())\n"
        "print('all of them')\n"
    )
    done = run_python(["-W", "ignore", "-c", code], cwd=Path.cwd())
    assert done.stdout == "all of them\n", done


@pytest.mark.parametrize(
    ("program", "cwd", "error", "says"),
    [
        ("x", "/no/such", FileNotFoundError(2, "no"), "/no/such is not a directory"),
        ("x", None, FileNotFoundError(2, "no"), "x: no such program was found"),
        ("x", "/", PermissionError(13, "Permission denied"), "x could not be run: Permission"),
        ("x", None, ValueError("embedded null byte"), "x could not be run: embedded null byte"),
    ],
)
def test_why_a_program_was_not_started(
    program: str, cwd: str | None, error: Exception, says: str
) -> None:
    assert says in why_not_started(program, cwd, error)
