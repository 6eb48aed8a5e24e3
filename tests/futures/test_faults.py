"""What goes wrong in calls, initializers and callbacks of an executor harms nothing else."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import threading
import time
import weakref
from concurrent.futures import BrokenExecutor, Future, as_completed, wait
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.errors import (
    InitializerFailed,
    TurnTimeout,
    Unpicklable,
    WorkerDied,
    WorkerStartFailed,
)
from hmz_mp.futures import ProcessExecutor
from hmz_mp.futures.line import Line
from tests.futures import functions as f
from tests.helpers import is_alive, wait_until

BOUND = 20.0


# Values that end whoever pickles or loads them.


@pytest.mark.parametrize(
    ("how", "kind"),
    [("raise", Unpicklable), ("sys.exit", Unpicklable)],
)
def test_an_argument_that_ends_this_process_when_pickled(how: str, kind: type) -> None:
    with ProcessExecutor(1) as executor:
        bad = executor.submit(id, f.EndsOnPickle(how))
        good = [executor.submit(abs, -n) for n in range(8)]
        assert isinstance(bad.exception(BOUND), kind)
        assert [one.result(BOUND) for one in good] == list(range(8))


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("raise", Unpicklable),
        ("sys.exit", Unpicklable),
        ("_exit", WorkerDied),
        ("abort", WorkerDied),
    ],
)
def test_an_argument_that_ends_the_worker_when_loaded(how: str, kind: type) -> None:
    with ProcessExecutor(1) as executor:
        bad = executor.submit(id, f.EndsOnLoad(how))
        good = [executor.submit(abs, -n) for n in range(8)]
        assert isinstance(bad.exception(BOUND), kind)
        assert [one.result(BOUND) for one in good] == list(range(8))


@pytest.mark.parametrize(
    ("how", "kind"), [("raise", Unpicklable), ("sys.exit", Unpicklable), ("_exit", WorkerDied)]
)
def test_an_answer_that_ends_the_worker_when_pickled(how: str, kind: type) -> None:
    with ProcessExecutor(1) as executor:
        bad = executor.submit(f.answer_pickled, how)
        good = [executor.submit(abs, -n) for n in range(8)]
        assert isinstance(bad.exception(BOUND), kind)
        assert [one.result(BOUND) for one in good] == list(range(8))


@pytest.mark.parametrize("how", ["raise", "sys.exit"])
def test_an_answer_that_ends_this_process_when_loaded(how: str) -> None:
    with ProcessExecutor(1) as executor:
        bad = executor.submit(f.answer_loaded, how)
        good = [executor.submit(abs, -n) for n in range(8)]
        assert isinstance(bad.exception(BOUND), Unpicklable)
        assert [one.result(BOUND) for one in good] == list(range(8))


def test_a_call_that_takes_too_long_is_stopped_alone() -> None:
    with ProcessExecutor(1, timeout=0.2) as executor:
        late = executor.submit(f.never)
        good = executor.submit(abs, -1)
        assert isinstance(late.exception(BOUND), TurnTimeout)
        assert good.result(BOUND) == 1


# Initializers.


def test_an_initializer_that_raises_is_said_once_to_all(caplog: pytest.LogCaptureFixture) -> None:
    with ProcessExecutor(2, initializer=f.fail, initargs=("not today",)) as executor:
        futures = [executor.submit(abs, n) for n in range(10)]
        for future in futures:
            error = future.exception(BOUND)
            assert isinstance(error, InitializerFailed)
            assert isinstance(error, BrokenExecutor)
            assert "ValueError: not today" in str(error)
        with pytest.raises(BrokenExecutor, match="not today"):
            executor.submit(abs, 1)
    said = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert len(said) == 1


@pytest.mark.parametrize(
    ("how", "kind"),
    [("sys.exit", InitializerFailed), ("_exit", WorkerStartFailed), ("abort", WorkerStartFailed)],
)
def test_an_initializer_that_exits_breaks_the_executor(how: str, kind: type) -> None:
    with ProcessExecutor(2, initializer=f.end, initargs=(how,)) as executor:
        future = executor.submit(abs, 1)
        assert isinstance(future.exception(BOUND), kind)


def test_an_initializer_that_hangs_is_given_up() -> None:
    with ProcessExecutor(1, initializer=f.never, start_timeout=0.3) as executor:
        futures = [executor.submit(abs, 1) for _ in range(5)]
        for one in futures:
            assert isinstance(one.exception(BOUND), InitializerFailed)
        with pytest.raises(BrokenExecutor, match=r"within 0\.3 s"):
            executor.submit(abs, 1)


def test_an_initializer_that_hangs_does_not_hang_a_shutdown_that_cancels() -> None:
    executor = ProcessExecutor(1, initializer=f.never)
    running = executor.submit(abs, 1)
    queued = [executor.submit(abs, 1) for _ in range(5)]
    with pytest.raises(TimeoutError):
        running.result(0.05)
    began = time.monotonic()
    executor.kill_workers()
    executor.shutdown()
    assert time.monotonic() - began < 10
    assert all(one.done() for one in [running, *queued])


def test_a_process_that_cannot_start_fails_every_call(tmp_path: Path) -> None:
    with ProcessExecutor(1, cwd=tmp_path / "gone") as executor:
        future = executor.submit(abs, 1)
        error = future.exception(BOUND)
        assert isinstance(error, WorkerStartFailed)
        assert "gone" in str(error)
        with pytest.raises(BrokenExecutor):
            executor.submit(abs, 1)


def test_a_thread_that_cannot_be_started_is_said_to_who_submits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with ProcessExecutor(1) as executor:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                executor.submit(abs, -1)
        assert executor.submit(abs, -2).result(BOUND) == 2


# Callbacks.


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_callback_that_raises_ends_nothing(error: type[BaseException]) -> None:
    def callback(future: Future[Any]) -> None:
        raise error("from a callback")

    with ProcessExecutor(1) as executor:
        first = executor.submit(time.sleep, 0.05)
        first.add_done_callback(callback)
        assert first.exception(BOUND) is None
        assert executor.submit(abs, -2).result(BOUND) == 2


def test_callbacks_submit_each_other() -> None:
    ended = threading.Event()
    with ProcessExecutor(1) as executor:

        def callback(future: Future[int]) -> None:
            left = future.result()
            if left:
                executor.submit(abs, 1 - left).add_done_callback(callback)
            else:
                ended.set()

        executor.submit(abs, 200).add_done_callback(callback)
        assert ended.wait(BOUND)


def test_a_callback_may_shut_down() -> None:
    executor = ProcessExecutor(1)
    future = executor.submit(time.sleep, 0.02)
    later = executor.submit(abs, -1)
    future.add_done_callback(lambda _: executor.shutdown(wait=True))
    assert later.result(BOUND) == 1
    wait_until(lambda: not executor._line._thread or not executor._line._thread.is_alive())
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)


def test_a_future_whose_result_somebody_set_ends_nothing() -> None:
    with ProcessExecutor(1) as executor:
        future = executor.submit(time.sleep, 0.05)
        future.set_result(None)
        assert executor.submit(abs, -2).result(BOUND) == 2


# Cancelling and shutting down.


def test_shutdown_without_waiting_inside_a_loop_over_as_completed(tmp_path: Path) -> None:
    executor = ProcessExecutor(2)
    futures: list[Future[Any]] = [executor.submit(abs, -1)]
    futures += [executor.submit(f.wait_for, str(tmp_path / "go")) for _ in range(2)]
    futures += [executor.submit(f.wait_for, str(tmp_path / "go")) for _ in range(50)]
    yielded: list[Future[Any]] = []
    for future in as_completed(futures, timeout=BOUND):
        if not yielded:
            executor.shutdown(wait=False, cancel_futures=True)
            (tmp_path / "go").touch()
        yielded.append(future)
    assert set(yielded) == set(futures)
    assert all(one.cancelled() or one.exception() is None for one in futures)
    assert sum(one.cancelled() for one in futures) >= 40
    executor.shutdown()


def test_cancelled_futures_are_said_to_those_who_wait(tmp_path: Path) -> None:
    with ProcessExecutor(1) as executor:
        running = executor.submit(f.wait_for, str(tmp_path / "go"))
        queued = [executor.submit(abs, n) for n in range(20)]
        waiting = threading.Thread(target=lambda: list(as_completed(queued, timeout=BOUND)))
        waiting.start()
        for one in queued:
            assert one.cancel()
            assert one.cancel()
        waiting.join(BOUND)
        assert not waiting.is_alive()
        assert wait(queued, timeout=BOUND).not_done == set()
        (tmp_path / "go").touch()
        assert running.result(BOUND) == "saw it"


@pytest.mark.parametrize("wait_for_it", [True, False])
def test_submit_cancel_and_shut_down_at_once(wait_for_it: bool) -> None:
    for _ in range(5):
        executor = ProcessExecutor(1)
        futures = [executor.submit(abs, -n) for n in range(3)]
        for one in futures:
            one.cancel()
        executor.shutdown(wait=wait_for_it, cancel_futures=True)
        assert wait(futures, timeout=BOUND).not_done == set()
        executor.shutdown()


@pytest.mark.parametrize("kill", [True, False])
def test_an_executor_that_ends_before_it_has_begun(
    monkeypatch: pytest.MonkeyPatch, kill: bool
) -> None:
    go = threading.Event()
    run = Line._run

    def run_later(line: Line, loop: Any) -> None:
        assert go.wait(BOUND)
        run(line, loop)

    monkeypatch.setattr(Line, "_run", run_later)
    executor = ProcessExecutor(1)
    futures = [executor.submit(abs, -n) for n in range(5)]
    futures[-1].cancel()
    if kill:
        executor.kill_workers()
    else:
        executor.shutdown(wait=False, cancel_futures=True)
    go.set()
    assert wait(futures, timeout=BOUND).not_done == set()
    executor.shutdown()


def test_cancelling_thousands_ends_each_once_and_kills_no_worker() -> None:
    with ProcessExecutor(2) as executor:
        before = {executor.submit(os.getpid).result(BOUND) for _ in range(4)}
        futures = [executor.submit(os.getpid) for _ in range(20_000)]
        ends: list[Future[Any]] = []
        for one in futures:
            one.add_done_callback(ends.append)
        cancelled = sum(one.cancel() for one in reversed(futures))
        assert wait(futures, timeout=BOUND).not_done == set()
        assert len(ends) == len(futures) == len(set(ends))
        assert sum(one.cancelled() for one in futures) == cancelled > 0
        pids = {one.result() for one in futures if not one.cancelled()}
        assert len(pids | before) <= 2


def test_what_was_cancelled_never_runs(tmp_path: Path) -> None:
    with ProcessExecutor(1) as executor:
        futures = [executor.submit(f.note, str(tmp_path / "ran")) for _ in range(500)]
        for one in reversed(futures):
            one.cancel()
        wait(futures, timeout=BOUND)
    ran = sum(not one.cancelled() for one in futures)
    written = tmp_path / "ran"
    assert ran == (written.stat().st_size if written.exists() else 0)


def test_threads_submit_while_another_shuts_down() -> None:
    executor = ProcessExecutor(2)
    executor.submit(abs, 1).result(BOUND)
    taken: list[Future[int]] = []
    refusals: list[str] = []

    def submit() -> None:
        try:
            while True:
                taken.append(executor.submit(abs, -1))
        except RuntimeError as error:
            refusals.append(str(error))

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for one in threads:
        one.start()
    wait_until(lambda: len(taken) > 200)
    executor.shutdown()
    for one in threads:
        one.join(BOUND)
    assert refusals == ["cannot schedule new futures after shutdown"] * 4
    assert {one.result(BOUND) for one in taken} == {1}


def test_many_threads_submit_at_once() -> None:
    start = threading.Barrier(16)
    answers: list[list[int]] = []

    def use(executor: ProcessExecutor, at: int) -> None:
        start.wait(BOUND)
        futures = [executor.submit(pow, at, 1) for _ in range(200)]
        answers.append([one.result(BOUND) for one in futures])

    with ProcessExecutor(2) as executor:
        threads = [threading.Thread(target=use, args=(executor, at)) for at in range(16)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(BOUND)
    assert sorted(answers) == [[at] * 200 for at in range(16)]


# Lives of executors and workers.


def test_a_dropped_executor_ends_when_its_calls_have(tmp_path: Path) -> None:
    executor = ProcessExecutor(1)
    pid = executor.submit(os.getpid).result(BOUND)
    running = executor.submit(f.wait_for, str(tmp_path / "go"))
    queued = executor.submit(abs, -1)
    thread, gone = executor._line._thread, weakref.ref(executor)
    assert thread is not None
    del executor
    gc.collect()
    assert gone() is None
    assert thread.is_alive()
    (tmp_path / "go").touch()
    assert (running.result(BOUND), queued.result(BOUND)) == ("saw it", 1)
    thread.join(BOUND)
    assert not thread.is_alive()
    assert not is_alive(pid)


def test_a_dropped_executor_in_a_cycle_ends_too() -> None:
    executor = ProcessExecutor(1)
    answers = executor.map(abs, range(-5, 5))
    thread = executor._line._thread
    assert thread is not None
    cycle = [executor]
    cycle.append(cycle)  # type: ignore[arg-type]  # a cycle is what it is about
    del executor, cycle
    gc.collect()
    assert list(answers) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
    thread.join(BOUND)
    assert not thread.is_alive()


def test_shutdown_without_waiting_leaves_nothing_in_the_end() -> None:
    executor = ProcessExecutor(3)
    answers = executor.map(abs, range(-5, 5))
    executor.shutdown(wait=False)
    assert list(answers) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
    thread = executor._line._thread
    assert thread is not None
    thread.join(BOUND)
    assert not thread.is_alive()


def test_workers_are_as_many_as_are_needed_and_are_replaced(tmp_path: Path) -> None:
    with ProcessExecutor(4) as executor:
        assert len({executor.submit(os.getpid).result(BOUND) for _ in range(5)}) == 1
    with ProcessExecutor(1, max_tasks_per_child=2) as executor:
        futures: list[Future[Any]] = [executor.submit(os.getpid) for _ in range(5)]
        futures[2:2] = [executor.submit(f.fail, "one that fails")]
        futures += [executor.submit(os.getpid) for _ in range(5)]
        pids = [one.result(BOUND) for one in futures if one.exception(BOUND) is None]
        assert max(pids.count(pid) for pid in pids) <= 2
        last = [executor.submit(os.getpid) for _ in range(10)]  # and leave while it recycles
    assert all(one.exception() is None for one in last)


@pytest.mark.parametrize(("count", "error"), [(0, ValueError), ("2", TypeError)])
def test_bad_counts_of_tasks_are_said(count: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="max_tasks_per_child"):
        ProcessExecutor(1, max_tasks_per_child=count)


def test_contexts_are_taken_but_for_fork() -> None:
    with ProcessExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        assert executor.submit(abs, -1).result(BOUND) == 1
    with pytest.raises(ValueError, match="inherit nothing"):
        ProcessExecutor(1, mp_context=multiprocessing.get_context("fork"))


def test_what_calls_print_appears_here(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with ProcessExecutor(1) as executor:
        executor.submit(f.shout, "hello").result(BOUND)
    assert sorted(capsys.readouterr().out.split()) == ["HELLO", "hello", "raw"]
    assert "logged hello" in caplog.text
    with ProcessExecutor(1, echo=False) as executor:
        executor.submit(f.shout, "hello").result(BOUND)
    assert capsys.readouterr().out == ""
