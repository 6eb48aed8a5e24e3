"""`ProcessExecutor`: what users of `concurrent.futures` expect, from code without a loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib.util
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.errors import InitializerFailed, Unpicklable, WorkerDied
from hmz_mp.futures import ProcessExecutor
from tests.helpers import run_script, wait_until


def wait_for(path: str) -> str:
    Path(path + ".begun").touch()
    while not Path(path).exists():
        time.sleep(0.002)
    return "saw it"


def fail(text: str) -> None:
    raise ValueError(text)


def test_submit_and_map_answer_in_order() -> None:
    with ProcessExecutor(2) as executor:
        assert executor.submit(pow, 2, 5).result(20) == 32
        assert list(executor.map(lambda x, y: x * y, range(5), range(5))) == [0, 1, 4, 9, 16]
        assert list(executor.map(abs, range(1000), chunksize=7)) == list(range(1000))


def test_a_failure_is_raised_by_result_and_harms_no_other() -> None:
    with ProcessExecutor(1) as executor:
        bad = executor.submit(fail, "no good")
        dead = executor.submit(os._exit, 3)
        odd: concurrent.futures.Future[object] = executor.submit(abs, threading.Lock())  # type: ignore[arg-type]  # what this is about
        good = executor.submit(abs, -3)
        with pytest.raises(ValueError, match="no good"):
            bad.result(20)
        assert isinstance(dead.exception(20), WorkerDied)
        assert isinstance(odd.exception(20), Unpicklable)
        assert good.result(20) == 3
        with pytest.raises(TypeError, match="this is int"):
            executor.submit(3).result(20)  # type: ignore[arg-type]  # what this is about


def test_chunks_answer_in_order_and_fail_in_their_place() -> None:
    def divide(value: int) -> float:
        return 12 / value

    with ProcessExecutor(2) as executor:
        assert list(executor.map(pow, range(10), range(10), chunksize=3)) == [
            n**n for n in range(10)
        ]
        answers = executor.map(divide, [1, 2, 0, 3], chunksize=3)
        assert [next(answers), next(answers)] == [12.0, 6.0]
        with pytest.raises(ZeroDivisionError):
            next(answers)
        assert list(executor.map(abs, [], chunksize=3)) == []
        dying = executor.map(os._exit, [3, 4], chunksize=2)
        with pytest.raises(WorkerDied):
            next(dying)
        kept = executor.map(Path, ["a", "b"], chunksize=2)  # no plain answers
        assert list(kept) == [Path("a"), Path("b")]


def test_chunks_of_a_module_that_workers_cannot_import(tmp_path: Path) -> None:
    file = tmp_path / "by_path.py"
    file.write_text("def triple(value):\n    return 3 * value\n")
    spec = importlib.util.spec_from_file_location("loaded_by_path", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    try:
        with ProcessExecutor(1) as executor:
            assert list(executor.map(module.triple, range(4), chunksize=2)) == [0, 3, 6, 9]
    finally:
        del sys.modules[spec.name]


def test_coroutine_functions_run_on_a_loop_of_a_worker() -> None:
    async def double(value: int) -> Any:
        return 2 * value

    answers: Any  # of what is awaited there
    with ProcessExecutor(1) as executor:
        answers = executor.submit(double, 4).result(20)
        assert answers == 8
        answers = list(executor.map(double, range(3), chunksize=2))
        assert answers == [0, 2, 4]


def test_states_and_cancellation_of_what_has_not_begun(tmp_path: Path) -> None:
    with ProcessExecutor(1) as executor:
        running = executor.submit(wait_for, str(tmp_path / "go"))
        queued = executor.submit(abs, -1)
        wait_until(running.running)
        assert not running.cancel()
        assert queued.cancel()
        assert queued.cancelled()
        (tmp_path / "go").touch()
        assert running.result(20) == "saw it"


def test_wait_and_as_completed_take_its_futures(tmp_path: Path) -> None:
    with ProcessExecutor(2) as executor:
        slow: concurrent.futures.Future[object] = executor.submit(wait_for, str(tmp_path / "go"))
        fast: concurrent.futures.Future[object] = executor.submit(abs, -1)
        done, rest = concurrent.futures.wait(
            [slow, fast], return_when=concurrent.futures.FIRST_COMPLETED, timeout=20
        )
        assert (done, rest) == ({fast}, {slow})
        (tmp_path / "go").touch()
        assert set(concurrent.futures.as_completed([slow, fast], timeout=20)) == {slow, fast}


def test_run_in_executor_of_a_loop() -> None:
    with ProcessExecutor(1) as executor:

        async def main() -> int:
            return await asyncio.get_running_loop().run_in_executor(executor, abs, -4)

        assert asyncio.run(main()) == 4


def test_a_map_that_takes_too_long_says_so(tmp_path: Path) -> None:
    with ProcessExecutor(1) as executor:
        answers = executor.map(wait_for, [str(tmp_path / "go")], timeout=0.05)
        with pytest.raises(TimeoutError):
            next(answers)
        (tmp_path / "go").touch()


def test_shutdown_without_waiting_and_with_cancelling(tmp_path: Path) -> None:
    executor = ProcessExecutor(1)
    running = executor.submit(wait_for, str(tmp_path / "go"))
    queued = [executor.submit(abs, at) for at in range(5)]
    wait_until(running.running)
    executor.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)
    wait_until(lambda: all(future.cancelled() for future in queued))
    (tmp_path / "go").touch()
    assert running.result(20) == "saw it"
    executor.shutdown()


def test_an_executor_that_was_never_used_shuts_down() -> None:
    executor = ProcessExecutor()
    executor.shutdown()
    executor.shutdown()


def test_callbacks_may_submit_more() -> None:
    more: list[concurrent.futures.Future[int]] = []
    with ProcessExecutor(1) as executor:
        first = executor.submit(abs, -1)
        first.add_done_callback(lambda _: more.append(executor.submit(abs, -2)))
        assert first.result(20) == 1
        wait_until(lambda: more)
        assert more[0].result(20) == 2


def test_an_initializer_that_fails_is_said() -> None:
    with ProcessExecutor(1, initializer=fail, initargs=("not today",)) as executor:
        assert isinstance(executor.submit(abs, 1).exception(20), InitializerFailed)


def test_bad_options_are_said_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="max_workers"):
        ProcessExecutor(0)
    with pytest.raises(TypeError, match="initializer"):
        ProcessExecutor(initializer=3)  # type: ignore[arg-type]  # what this is about
    with pytest.raises(ValueError, match="retries"):
        ProcessExecutor(retries=-1)
    with ProcessExecutor(1) as executor, pytest.raises(ValueError, match="chunksize"):
        executor.map(abs, [1], chunksize=0)


def test_calls_are_done_before_the_interpreter_exits(tmp_path: Path) -> None:
    ran = run_script(
        tmp_path,
        """
from hmz_mp.futures import ProcessExecutor
import time
executor = ProcessExecutor(1)
executor.submit(time.sleep, 0.2)
executor.submit(abs, -7).add_done_callback(lambda future: print(future.result()))
""",
    )
    assert (ran.stdout, ran.returncode) == ("7\n", 0), ran.stderr
