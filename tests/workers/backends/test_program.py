from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hmz_mp_worker import kernel, state
from hmz_mp_worker.backends import program as module
from hmz_mp_worker.backends.program import LINE_CEILING, TAIL, Program, ProgramFailed
from tests.helpers import await_until, is_alive, written

PATIENCE = 20.0


def run(body: Callable[[], Awaitable[object]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(40):
            await body()

    asyncio.run(bounded())


async def start(code: str, *words: str) -> Program:
    argv = [sys.executable, "-IS", "-c", code, *words]
    return await Program.start(argv, cwd=None, environment=dict(os.environ))


async def all_lines(program: Program) -> list[bytes]:
    lines = []
    while (line := await program.line(PATIENCE)) is not None:
        lines.append(line)
    return lines


def pids(file: Path) -> list[int]:
    return [int(word) for word in written(file).split()]


async def noted(file: Path) -> list[int]:
    """Return the pids that a program has written to a file, once it has."""
    await await_until(lambda: written(file))
    return pids(file)


# Lines -----------------------------------------------------------------------------------------


def test_lines_as_they_come_and_the_last_without_an_end() -> None:
    code = (
        "import os, time\n"
        "os.write(1, b'one\\ntw')\n"
        "os.write(1, b'o\\n\\n  \\nthree \\xff\\x00\\r\\nfour')\n"
    )

    async def body() -> None:
        program = await start(code)
        assert await all_lines(program) == [b"one", b"two", b"three \xff\x00\r", b"four"]
        assert await program.line(PATIENCE) is None
        await program.close()
        assert program.status == 0

    run(body)


def test_what_it_is_told() -> None:
    code = "import sys\nfor line in sys.stdin: print(line.strip()[::-1], flush=True)"

    async def body() -> None:
        program = await start(code)
        for word in (b"abc", b"def"):
            program.write(word)
            assert await program.line(PATIENCE) == word[::-1]
        assert program.alive
        await program.close()
        assert not program.alive
        assert program.status == 0  # its stdin was closed: nobody had to tell it

    run(body)


def test_writing_to_a_program_that_does_not_read_is_no_error() -> None:
    async def body() -> None:
        program = await start("import os; os.close(0); print('closed', flush=True); os.read(2, 1)")
        assert await program.line(PATIENCE) == b"closed"
        for _ in range(3):
            program.write(b"x" * 100_000)
            await asyncio.sleep(0)
        await program.end()

    run(body)


def test_silence_has_a_bound_and_the_next_line_still_comes() -> None:
    async def body() -> None:
        program = await start("import sys; sys.stdin.readline(); print('now', flush=True)")
        with pytest.raises(TimeoutError):
            await program.line(0.05)
        program.write(b"go")
        assert await program.line(PATIENCE) == b"now"
        await program.close()

    run(body)


def test_an_endless_line_is_given_up_and_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LINE_CEILING == 1 << 24
    monkeypatch.setattr(module, "LINE_CEILING", 1 << 16)
    code = "import os\nos.write(1, b'first\\n')\nwhile True: os.write(1, b'x' * 4096)"

    async def body() -> None:
        program = await start(code)
        assert await program.line(PATIENCE) == b"first"
        with pytest.raises(ProgramFailed, match="a line of more than 65536 bytes"):
            await program.line(PATIENCE)
        assert len(program._part) <= 1 << 16
        await program.end()

    run(body)


def test_a_long_line_below_the_ceiling_is_whole() -> None:
    async def body() -> None:
        program = await start("print('x' * 3_000_000)")
        line = await program.line(PATIENCE)
        assert line == b"x" * 3_000_000
        await program.close()

    run(body)


def test_a_flood_of_lines_waits_in_the_pipe() -> None:
    code = "import os\nline = b'x' * 999 + b'\\n'\nfor n in range(20000): os.write(1, line)"

    async def body() -> None:
        program = await start(code)
        await await_until(lambda: program._paused)
        held = program._waiting
        assert held < (1 << 22) + (1 << 20)
        assert len(await all_lines(program)) == 20000
        await program.close()
        assert program.status == 0

    run(body)


def test_lines_that_nobody_wants_are_dropped() -> None:
    async def body() -> None:
        program = await start("import sys\nprint('old', flush=True)\nprint(sys.stdin.readline())")
        await await_until(lambda: program._lines)
        program.drop_lines()
        program.write(b"new")
        assert await program.line(PATIENCE) == b"new"
        await program.close()

    run(body)


def test_the_tail_of_stderr_and_of_what_was_noted() -> None:
    async def body() -> None:
        program = await start("import sys; sys.stderr.write('e' * 9000 + 'last \\udcff\\n')")
        assert await all_lines(program) == []
        program.note(b"odd line\n")
        assert len(program.tail) <= TAIL + 8
        assert program.tail.endswith("odd line\n")
        await program.close()

    run(body)


def test_output_that_a_child_holds_open_does_not_hold_up_the_end() -> None:
    code = (
        "import subprocess, sys\n"
        "print('done', flush=True)\n"
        "subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    )

    async def body() -> None:
        program = await start(code)
        assert await all_lines(program) == [b"done"]
        await program.end()

    run(body)


# Starting --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "cwd", "says"),
    [
        ("/no/such/program", None, "no such program was found"),
        ("/etc/passwd", None, "could not be run: Permission denied"),
        (sys.executable, "/no/such/folder", "/no/such/folder is not a directory"),
        ("bad\0name", None, "could not be run"),
    ],
)
def test_a_program_that_cannot_be_started(program: str, cwd: str | None, says: str) -> None:
    async def body() -> None:
        with pytest.raises(ProgramFailed, match=says):
            await Program.start([program], cwd=cwd, environment={})

    run(body)


def test_cancelling_a_start_leaves_nothing() -> None:
    async def body() -> None:
        before = kernel.children(os.getpid())
        starting = asyncio.ensure_future(start("import time; time.sleep(1000)"))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert kernel.children(os.getpid()) == before
        assert not state.process.resources

    run(body)


# Ending ----------------------------------------------------------------------------------------

TOOL = (
    "import os, signal, subprocess, sys, time\n"
    "if 'stubborn' in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "tool = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    "open(sys.argv[1], 'w').write(f'{os.getpid()} {tool.pid}\\n')\n"
    "time.sleep(1000)\n"
)


@pytest.mark.parametrize("words", [(), ("stubborn",)])
def test_the_end_takes_what_is_in_sessions_of_its_own(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TERM_GRACE", 0.3)
    file = tmp_path / "pids"

    async def body() -> None:
        program = await start(TOOL, str(file), *words)
        started = await noted(file)
        await program.end()
        assert not any(is_alive(pid) for pid in started)
        assert program.status == (-9 if words else -15)
        await program.end()  # once more is nothing

    run(body)


def test_a_program_has_time_to_end_its_tools_itself(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time\n"
        "def leave(*_):\n"
        "    open(sys.argv[1] + '.left', 'w').write('in order\\n')\n"
        "    sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "open(sys.argv[1], 'w').write(f'{os.getpid()}\\n')\n"
        "time.sleep(1000)\n"
    )
    file = tmp_path / "pid"

    async def body() -> None:
        program = await start(code, str(file))
        await noted(file)
        await program.end()
        assert program.status == 3
        assert written(tmp_path / "pid.left") == "in order\n"

    run(body)


def test_a_program_that_does_not_leave_when_its_input_ends_is_told_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CLOSE_GRACE", 0.1)

    async def body() -> None:
        program = await start("import time; print('on', flush=True); time.sleep(1000)")
        assert await program.line(PATIENCE) == b"on"
        await program.close()
        assert program.status == -15

    run(body)


def test_cancelling_the_end_still_kills(tmp_path: Path) -> None:
    file = tmp_path / "pids"

    async def body() -> None:
        program = await start(TOOL, str(file), "stubborn")
        started = await noted(file)
        ending = asyncio.ensure_future(program.end())
        await asyncio.sleep(0.05)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        await await_until(lambda: not any(is_alive(pid) for pid in started))

    run(body)


def test_a_worker_closes_what_it_holds() -> None:
    async def body() -> None:
        program = await start("import sys; sys.stdin.read()")
        assert list(state.process.resources) == [program]
        await state.close_resources()
        assert program.status == 0
        assert not state.process.resources

    run(body)


def test_its_repr_is_the_truth() -> None:
    async def body() -> None:
        program = await start("pass")
        await program.close()
        assert repr(program).endswith("exited=0>")

    run(body)
