"""What a call changes of its process is as it was when the next one begins."""

from __future__ import annotations

import asyncio
import contextlib
import io
import locale
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hmz_mp import Pool, session_state
from tests.faults.shipped import pid

pytestmark = pytest.mark.anyio


def look() -> dict[str, Any]:
    """Return everything that is put back between calls."""
    umask = os.umask(0o022)
    os.umask(umask)
    return {
        "directory": os.getcwd(),
        "environment": dict(os.environ),
        "of the process": os.popen("env | grep FAULTS_ | sort").read(),
        "umask": umask,
        "signals": {one: str(signal.getsignal(one)) for one in signal.valid_signals()},
        "mask": str(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion": sys.getrecursionlimit(),
        "path": list(sys.path),
        "streams": (id(sys.stdin), id(sys.stdout), id(sys.stderr)),
    }


def change_directory() -> None:
    os.chdir("/")


def change_directory_by_descriptor() -> None:
    fd = os.open("/", os.O_RDONLY)
    os.fchdir(fd)
    os.close(fd)


def set_variables() -> None:
    os.environ["FAULTS_NEW"] = "x"
    os.environ["HOME"] = "/nowhere"
    os.environ.pop("PATH")
    os.putenv("FAULTS_HIDDEN", "y")
    os.environ.update({"FAULTS_ODD \udcff": "z"})


def clear_environment() -> None:
    os.environ.clear()


def change_umask() -> None:
    os.umask(0o777)


def handle_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})


def leave_an_alarm() -> None:
    signal.alarm(1)


def leave_a_timer() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)


def change_locale() -> None:
    locale.setlocale(locale.LC_ALL, "C")


def recurse_deeper() -> None:
    sys.setrecursionlimit(123_456)


def change_path() -> None:
    sys.path.insert(0, "/nowhere")


def replace_path() -> None:
    sys.path = ["/nowhere"]


def replace_streams() -> None:
    sys.stdout = sys.stderr = io.StringIO()
    sys.stdin = None


def change_and_raise() -> None:
    change_directory()
    set_variables()
    recurse_deeper()
    raise ValueError


CHANGES: list[Callable[[], None]] = [
    change_directory,
    change_directory_by_descriptor,
    set_variables,
    clear_environment,
    change_umask,
    handle_signals,
    block_signals,
    leave_an_alarm,
    leave_a_timer,
    change_locale,
    recurse_deeper,
    change_path,
    replace_path,
    replace_streams,
    change_and_raise,
]


@pytest.fixture(scope="module")
async def pool() -> Any:
    async with Pool(1) as pool:
        await pool.run(look)
        yield pool


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
async def test_everything_is_put_back(pool: Pool, change: Callable[[], None]) -> None:
    before, worker = await pool.run(look), await pool.run(pid)
    turn = pool.submit(change)
    behind = [pool.submit(look) for _ in range(3)]
    try:
        await turn
    except ValueError:
        assert change is change_and_raise
    for after in await asyncio.gather(*behind):
        assert after == before
    assert await pool.run(pid) == worker


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
async def test_a_call_does_see_its_own_changes(pool: Pool, change: Callable[[], None]) -> None:
    def change_and_look() -> tuple[Any, Any]:
        before = look()
        with contextlib.suppress(ValueError):
            change()
        os.environ.setdefault("PATH", "/usr/bin:/bin")
        return before, look()

    before, after = await pool.run(change_and_look)
    assert before != after


async def test_a_directory_that_was_removed(pool: Pool, tmp_path: Path) -> None:
    def enter_and_remove(path: str) -> None:
        os.mkdir(path)
        os.chdir(path)
        os.rmdir(path)

    before = await pool.run(os.getcwd)
    await pool.run(enter_and_remove, str(tmp_path / "gone"))
    assert await pool.run(os.getcwd) == before


async def test_what_importing_a_module_changes_lasts(tmp_path: Path) -> None:
    """It is imported once; what it put on the path is needed by its later calls too."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "faults_inner_1.py").write_text("A = 1\n")
    (tmp_path / "inner" / "faults_inner_2.py").write_text("A = 2\n")
    (tmp_path / "faults_outer.py").write_text(
        "import os, sys\n"
        "sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'inner'))\n"
        "os.environ['FAULTS_OUTER'] = '1'\n"
        "def lazily(number):\n"
        "    return __import__(f'faults_inner_{number}').A, os.environ['FAULTS_OUTER']\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import faults_outer  # type: ignore[import-not-found]  # written above

        async with Pool(1) as pool:
            assert await pool.run(faults_outer.lazily, 1) == (1, "1")
            assert await pool.run(faults_outer.lazily, 2) == (2, "1")
    finally:
        for folder in (str(tmp_path), str(tmp_path / "inner")):
            if folder in sys.path:
                sys.path.remove(folder)
        os.environ.pop("FAULTS_OUTER", None)
        sys.modules.pop("faults_outer", None)


async def test_what_the_initializer_changes_lasts() -> None:
    def set_up() -> None:
        os.chdir("/")
        os.environ["FAULTS_SET_UP"] = "1"
        sys.setrecursionlimit(4321)
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)

    def spoil() -> None:
        os.chdir("/tmp")
        del os.environ["FAULTS_SET_UP"]
        sys.setrecursionlimit(1234)
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)

    def see() -> tuple[Any, ...]:
        return (
            os.getcwd(),
            os.environ.get("FAULTS_SET_UP"),
            sys.getrecursionlimit(),
            signal.getsignal(signal.SIGUSR2),
        )

    wanted = ("/", "1", 4321, signal.SIG_IGN)
    async with Pool(1, initializer=set_up) as pool:
        assert await pool.run(see) == wanted
        await pool.run(spoil)
        assert await pool.run(see) == wanted


async def test_a_directory_of_the_coordinator_is_followed_after_changes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Pool(1) as pool:
        await pool.run(change_directory)
        monkeypatch.chdir(tmp_path)
        assert await pool.run(lambda: os.getcwd()) == str(tmp_path)
        await pool.run(change_directory)
        assert await pool.run(lambda: os.getcwd()) == str(tmp_path)


async def test_a_session_may_keep_what_its_turns_change() -> None:
    async with Pool(1) as pool:
        before = await pool.run(look)
        one, other = pool.session(keep=True), pool.session(keep=True)
        forgetful = pool.session()
        await one.run(set_variables)
        await one.run(change_directory)
        await one.run(recurse_deeper)
        await other.run(change_path)
        await forgetful.run(change_directory)
        assert await pool.run(look) == before  # on the same worker, in between
        assert await forgetful.run(look) == before
        of_one, of_other = await one.run(look), await other.run(look)
        assert of_one["directory"] == "/"
        assert of_one["environment"]["HOME"] == "/nowhere"
        assert "PATH" not in of_one["environment"]
        assert of_one["recursion"] == 123_456
        assert of_one["path"] == before["path"]
        assert of_other == {**before, "path": ["/nowhere", *before["path"]]}
        await one.run(lambda: os.chdir("/tmp"))
        assert await one.run(os.getcwd) == "/tmp"
        assert await pool.run(look) == before


async def test_async_turns_share_a_process_which_is_as_before_once_none_runs() -> None:
    async def see() -> tuple[Any, ...]:
        return os.getcwd(), os.environ.get("FAULTS_NEW"), sys.getrecursionlimit(), os.getpid()

    async def change() -> None:
        change_directory()
        set_variables()
        recurse_deeper()

    async with Pool(1) as pool:
        before = await pool.run(see)
        await pool.run(change)
        assert await pool.run(see) == before


async def test_threads_that_a_call_left_change_nothing_for_good() -> None:
    def leave_thread() -> None:
        go = threading.Event()

        def change_later() -> None:
            go.wait(10)
            os.environ["FAULTS_LATE"] = "1"

        threading.Thread(target=change_later, daemon=True).start()
        session_state()["go"] = go

    def let_go() -> None:
        session_state()["go"].set()
        while "FAULTS_LATE" not in os.environ:
            time.sleep(0.001)

    async with Pool(1) as pool:
        session = pool.session()
        await session.run(leave_thread)
        await session.run(let_go)
        assert "FAULTS_LATE" not in await pool.run(lambda: dict(os.environ))


def test_a_call_that_changes_nothing_pays_next_to_nothing() -> None:
    from hmz_mp_worker.between import Changes

    changes = Changes()
    times = []
    for _ in range(50):
        began = time.perf_counter()
        for _ in range(1000):
            changes.any()
        times.append((time.perf_counter() - began) / 1000)
    assert min(times) < 2e-6
