from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import sys
from pathlib import Path

import psutil
import pytest

from hmz_mp_worker.backends import Request, sh
from tests.helpers import await_until, is_alive, wait_until, written

PYTHON = sys.executable


def run(words: list[str], prompt: str = "look", **settings: object) -> str:
    request = Request(prompt, **settings)  # type: ignore[arg-type]
    return asyncio.run(sh.arun(words, request))


def python(code: str, *words: str) -> list[str]:
    return [PYTHON, "-c", code, *words]


def fails(words: list[str], prompt: str = "look", **settings: object) -> sh.CommandFailed:
    with pytest.raises(sh.CommandFailed) as caught:
        run(words, prompt, **settings)
    return caught.value


# Placeholders ----------------------------------------------------------------------------------

HOSTILE = [
    b"with space.py",
    b"new\nline.py",
    b"quo'te\".py",
    b"[brackets].py",
    b"$(touch pwned);`x`.py",
    b"{prompt}.py",
    "emoji \N{PILE OF POO}.py".encode(),
    b"bad\xff.py",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_placeholder_is_one_argument(name: bytes) -> None:
    code = "import os, sys; sys.stdout.write(repr([os.fsencode(w) for w in sys.argv[1:]]))"
    said = run(python(code, "{path}", "--in={path}", "end"), path=name)
    assert said == repr([name, b"--in=" + name, b"end"])


def test_every_placeholder_and_other_braces() -> None:
    words = ["{prompt}|{item_id}|{task}", "{print $1}", "{{path}}", "{}", "{other}", "{path"]
    request = Request("look", item_id="a b", path=b"p", task="the {path}")
    assert sh.arguments(words, request) == [
        "look|a b|the {path}",
        "{print $1}",
        "{p}",
        "{}",
        "{other}",
        "{path",
    ]


def test_a_path_is_never_an_option() -> None:
    request = Request("-x", path=b"-rf")
    assert sh.arguments(["{path}", "{prompt}"], request) == ["./-rf", "-x"]


def test_a_command_that_wants_a_path_and_has_none() -> None:
    error = fails(["cat", "{path}"])
    assert "{path}" in str(error)
    assert "no file" in str(error)


# Input and output ------------------------------------------------------------------------------


def test_the_prompt_is_on_stdin_and_the_answer_is_stdout() -> None:
    assert run(["cat"], "one\ntwo \N{SNOWMAN}") == "one\ntwo \N{SNOWMAN}"


@pytest.mark.parametrize(
    ("written", "answer"),
    [("a\n", "a"), ("a\n\n", "a\n"), ("a\r\n", "a"), ("a", "a"), ("", ""), ("\n", "")],
)
def test_one_newline_at_the_end_is_taken_off(written: str, answer: str) -> None:
    assert run(["cat"], written) == answer


def test_bytes_that_are_not_utf8_survive() -> None:
    code = r"import sys; sys.stdout.buffer.write(b'a\xffb')"
    assert os.fsencode(run(python(code))) == b"a\xffb"
    assert run(["cat"], "a\udcffb") == "a\udcffb"


def test_stderr_is_no_part_of_the_answer() -> None:
    assert run(python("import sys; print('noise', file=sys.stderr); print('answer')")) == "answer"


def test_a_program_that_does_not_read_its_stdin() -> None:
    assert run(["true"], "x" * 1_000_000) == ""
    assert run(["head", "-c", "3"], "x" * 1_000_000) == "xxx"


def test_a_large_prompt_and_a_large_answer() -> None:
    text = "line of text\n" * 400_000
    assert run(["cat"], text) == text[:-1]


def test_the_directory(tmp_path: Path) -> None:
    assert run(["pwd", "-P"], cwd=str(tmp_path)) == os.path.realpath(tmp_path)


def test_what_a_program_leaves_behind_holding_stdout_does_not_hang_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sh, "GRACE", 0.05)
    said = run(["sh", "-c", "sleep 1000 & echo $!"])
    pid = int(said)
    wait_until(lambda: not is_alive(pid))


# Failures --------------------------------------------------------------------------------------


def test_an_exit_status_and_the_end_of_stderr() -> None:
    code = (
        "import sys; print('part'); sys.stderr.write('x' * 10_000 + '\\nlast words\\n')\n"
        "sys.exit(3)"
    )
    error = fails(python(code))
    assert error.returncode == 3
    assert error.output == "part\n"
    assert len(error.stderr) == sh.STDERR_TAIL
    assert error.stderr.endswith("x\nlast words\n")
    assert str(error) == f"{Path(PYTHON).name} exited with status 3: last words"


def test_a_signal_is_named() -> None:
    error = fails(python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    assert error.returncode == -signal.SIGKILL
    assert "was ended by SIGKILL" in str(error)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    error = fails(["no-such-program-x", "a"])
    assert error.returncode == 127
    assert str(error) == "no-such-program-x: no such program was found"


def test_a_file_that_may_not_be_run(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    error = fails([str(tmp_path / "data")])
    assert error.returncode == 126
    assert "Permission denied" in str(error)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    error = fails(["true"], cwd=str(tmp_path / "none"))
    assert error.returncode == 126
    assert f"{tmp_path}/none is not a directory" in str(error)


def test_a_null_byte_in_an_argument() -> None:
    with pytest.raises(ValueError, match="null byte"):
        run(["echo", "{prompt}"], "a\0b")


def test_the_failure_survives_pickling() -> None:
    error = sh.CommandFailed(3, "x exited with status 3", "out", "err\n")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "x exited with status 3: err"
    assert (again.returncode, again.output, again.stderr) == (3, "out", "err\n")


# Cancellation ----------------------------------------------------------------------------------


async def _cancel_once_started(words: list[str], started: Path) -> None:
    task = asyncio.create_task(sh.arun(words, Request("look")))
    await await_until(lambda: written(started))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelling_ends_the_whole_group(tmp_path: Path) -> None:
    started = tmp_path / "started"
    script = f"sleep 1000 & sleep 1000 & echo $$ $! > {started}; wait"
    asyncio.run(_cancel_once_started(["sh", "-c", script], started))
    leader, child = map(int, started.read_text().split())
    with pytest.raises(ProcessLookupError):  # reaped, not only ended
        os.kill(leader, 0)
    wait_until(lambda: not is_alive(child))


def test_cancelling_ends_what_is_in_sessions_of_its_own(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, subprocess, sys, time\n"
        "tool = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "pathlib.Path(sys.argv[1]).write_text(f'{os.getpid()} {tool.pid}\\n')\n"
        "time.sleep(1000)\n"
    )

    async def cancelled() -> None:
        turn = asyncio.ensure_future(sh.arun(python(code, str(tmp_path / "on")), Request("x")))
        await await_until(lambda: written(tmp_path / "on"))
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(cancelled())
    wait_until(lambda: not any(is_alive(int(pid)) for pid in written(tmp_path / "on").split()))


def test_cancelling_lets_a_program_clean_up(tmp_path: Path) -> None:
    started = tmp_path / "started"
    script = f"trap 'echo > {tmp_path}/clean; exit 0' TERM; echo $$ > {started}; sleep 1000 & wait"
    asyncio.run(_cancel_once_started(["sh", "-c", script], started))
    assert (tmp_path / "clean").exists()


def test_cancelling_a_program_that_ignores_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sh, "GRACE", 0.1)
    started = tmp_path / "started"
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(started)!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(1000)"
    )
    asyncio.run(_cancel_once_started(python(code), started))
    wait_until(lambda: not is_alive(int(started.read_text())))


def test_cancelling_twice_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    started = tmp_path / "started"
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(started)!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(1000)"
    )

    async def main() -> None:
        task = asyncio.create_task(sh.arun(python(code), Request("look")))
        await await_until(lambda: written(started))
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    wait_until(lambda: not is_alive(int(started.read_text())))


@pytest.mark.parametrize("steps", range(8))
def test_cancelling_at_any_step_of_the_start(steps: int) -> None:
    mark = f"100{steps}.{os.getpid()}"

    async def main() -> None:
        task = asyncio.create_task(sh.arun(["sleep", mark], Request("look")))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    left = [one.pid for one in psutil.Process().children(recursive=True) if mark in one.cmdline()]
    assert left == []


def test_cancelling_a_start_that_fails() -> None:
    async def main() -> None:
        task = asyncio.create_task(sh.arun(["no-such-program-x"], Request("look")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_many_at_once_leave_no_descriptor_behind() -> None:
    async def main() -> list[str]:
        turns = [sh.arun(["cat"], Request(str(number))) for number in range(50)]
        return await asyncio.gather(*turns)

    before = len(os.listdir("/proc/self/fd"))
    assert asyncio.run(main()) == [str(number) for number in range(50)]
    assert len(os.listdir("/proc/self/fd")) <= before
    with contextlib.suppress(ChildProcessError):
        assert os.waitpid(-1, os.WNOHANG) == (0, 0)
