from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from hmz_mp_worker import payload, wire
from hmz_mp_worker.arena import SLOTS
from hmz_mp_worker.page import read_page
from tests.helpers import wait_until
from tests.workers.raw import RawWorker, error_of, value_of


def wait_for(path: str) -> str:
    import os
    import time

    while not os.path.exists(path):
        time.sleep(0.001)
    return path


def wait_for_and_look(path: str) -> str:
    import os

    wait_for(path)
    return os.getcwd()


def add_to_state(value: int) -> list[int]:
    from hmz_mp_worker.state import session_state

    values: list[int] = session_state().setdefault("values", [])
    values.append(value)
    return values


def speak() -> str:
    from hmz_mp_worker.reporting import progress, say

    progress(0.25, "a quarter")
    say("kind", b"data")
    return "spoke"


def print_much() -> None:
    print("in the call")
    os.write(2, b"to the descriptor\n")


def raise_here() -> None:
    raise ValueError("here")


class Unloadable:
    def __reduce__(self) -> Any:
        return eval, ("1 / 0",)


class Undumpable:
    def __reduce__(self) -> Any:
        raise RuntimeError("not this one")


def test_answers_come_in_order(worker: RawWorker) -> None:
    worker.calls([(pow, (base, 2), {}) for base in range(50)])
    assert [value_of(worker.answer()) for _ in range(50)] == [base * base for base in range(50)]


def test_keyword_arguments(worker: RawWorker) -> None:
    assert worker.value(int, "ff", base=16) == 255


def test_a_function_sent_once_and_named(worker: RawWorker) -> None:
    function = wire.Function(5, cloudpickle.dumps(lambda a, b=0: a + b))
    arguments = pickle.dumps(((1,), {"b": 2}))
    worker.send(wire.Calls([function], [wire.Call(1, 5, arguments), wire.Call(2, 5, arguments)]))
    worker.send(wire.Calls([], [wire.Call(3, 5, arguments)]))
    assert [value_of(worker.answer()) for _ in range(3)] == [3, 3, 3]


def test_a_forgotten_function_is_not_known(worker: RawWorker) -> None:
    arguments = pickle.dumps((("abc",), {}))
    worker.send(wire.Calls([wire.Function(5, pickle.dumps(len))], [wire.Call(1, 5, arguments)]))
    assert value_of(worker.answer()) == 3
    worker.send(wire.Forget([5, 99], []))
    worker.send(wire.Calls([], [wire.Call(2, 5, arguments)]))
    assert isinstance(error_of(worker.answer()), KeyError)


def unloadable(answer: wire.Answer) -> tuple[str, str]:
    failure = wire.decode_failure(answer.data)
    return failure.unpicklable, failure.type_name


def test_a_function_that_cannot_be_loaded_fails_its_calls_only(worker: RawWorker) -> None:
    bad = wire.Function(5, pickle.dumps(Unloadable()))
    worker.send(wire.Calls([bad], [wire.Call(1, 5, pickle.dumps(((), {})))]))
    assert unloadable(worker.answer()) == ("the function", "ZeroDivisionError")
    assert worker.value(len, "ab") == 2


def test_arguments_that_cannot_be_loaded_fail_their_call_only(worker: RawWorker) -> None:
    worker.calls([(len, (Unloadable(),), {}), (len, ("abc",), {})])
    assert unloadable(worker.answer()) == ("the arguments of", "ZeroDivisionError")
    assert value_of(worker.answer()) == 3


def test_buffers_go_to_their_call(worker: RawWorker) -> None:
    large = [bytes([fill]) * 100_000 for fill in range(3)]
    pickles = [pickle.dumps((bytes.__len__, (one,), {})) for one in large]
    calls = [wire.Call(at + 1, 0, b"", 0, 1) for at in range(3)]
    calls.insert(1, wire.Call(9, 0, pickle.dumps((len, ("ab",), {}))))
    worker.send(wire.Calls([], calls), pickles)
    answers = [worker.answer() for _ in range(4)]
    assert [value_of(one) for one in answers] == [100_000, 2, 100_000, 100_000]
    assert [one.ticket for one in answers] == [1, 9, 2, 3]


def test_large_answers_travel_in_shared_memory_and_then_in_buffers(worker: RawWorker) -> None:
    sizes = [5, 300_000, *[200_000] * SLOTS, 6]
    worker.calls([(bytes, (size,), {}) for size in sizes])
    found: list[bytes] = []
    shared = 0
    while len(found) < len(sizes):
        message, buffers = worker.receive_with_buffers()
        for answer in message.answers:
            if answer.shared is not None:  # not released, so the last finds no slot
                shared += 1
                own = worker.arena.outbox.get(answer.shared)
            else:
                own, buffers = buffers[: answer.buffers], buffers[answer.buffers :]
            found.append(payload.load(answer.data, own))
    assert [len(one) for one in found] == sizes
    assert shared == SLOTS


def test_more_answers_than_the_page_holds(worker: RawWorker) -> None:
    worker.calls([(bytes, (20_000,), {})] * 20)
    assert [len(value_of(worker.answer())) for _ in range(20)] == [20_000] * 20


@pytest.mark.parametrize("code", ["1 / 0", "exit(3)", "(_ for _ in ()).throw(KeyboardInterrupt)"])
def test_whatever_is_raised_is_the_calls_ending(worker: RawWorker, code: str) -> None:
    worker.calls([(eval, (code,), {}), (len, ("a",), {})])
    failure = wire.decode_failure(worker.answer().data)
    assert failure.type_name in ("ZeroDivisionError", "SystemExit", "KeyboardInterrupt")
    assert value_of(worker.answer()) == 1


def test_the_traceback_begins_in_the_users_code(worker: RawWorker) -> None:
    worker.call(raise_here)
    failure = wire.decode_failure(worker.answer().data)
    lines = failure.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "in raise_here" in lines[1]
    assert "hmz_mp_worker" not in failure.traceback


def test_a_result_that_cannot_be_pickled(worker: RawWorker) -> None:
    worker.calls([(Undumpable, (), {}), (len, ("a",), {})])
    failure = wire.decode_failure(worker.answer().data)
    assert failure.unpicklable == f"the result, of type {__name__}.Undumpable,"
    assert (failure.type_name, failure.text) == ("RuntimeError", "not this one")
    assert value_of(worker.answer()) == 1


def test_what_a_call_prints_comes_with_its_answer(worker: RawWorker) -> None:
    worker.calls([(print_much, (), {}), (len, ("a",), {}), (print, ("again",), {})])
    outputs = [worker.answer().output for _ in range(3)]
    assert outputs == [b"in the call\nto the descriptor\n", b"", b"again\n"]


def test_printing_goes_on_after_a_call_closed_stdout(worker: RawWorker) -> None:
    worker.calls(
        [(eval, ("__import__('sys').stdout.close()",), {}), (print, ("still",), {"flush": True})]
    )
    assert [worker.answer().output for _ in range(2)] == [b"", b"still\n"]


def test_times(worker: RawWorker) -> None:
    before = time.monotonic()
    worker.call(time.sleep, 0.05)
    answer = worker.answer()
    assert before <= answer.began <= time.monotonic() - 0.05
    assert 0.05 <= answer.seconds < 5


def test_what_a_call_says_comes_before_its_answer(worker: RawWorker) -> None:
    ticket = worker.call(speak)
    said = [worker.receive(), worker.receive()]
    assert [(one.ticket, one.kind) for one in said] == [(ticket, "progress"), (ticket, "kind")]
    assert value_of(worker.answer()) == "spoke"


def test_sessions_have_their_own_state(worker: RawWorker) -> None:
    # One after the other, as the coordinator sends a session's turns.
    assert worker.value(add_to_state, 10, session=1) == [10]
    assert worker.value(add_to_state, 20, session=2) == [20]
    assert worker.value(add_to_state, 11, session=1) == [10, 11]
    worker.send(wire.Forget([], [1, 77]))
    worker.call(add_to_state, 12, session=1)
    assert value_of(worker.answer()) == [12]


def test_no_state_without_a_session(worker: RawWorker) -> None:
    worker.call(add_to_state, 1)
    assert isinstance(error_of(worker.answer()), RuntimeError)


def test_retiring_finishes_what_was_sent(worker: RawWorker) -> None:
    worker.calls([(pow, (2, at), {}) for at in range(5)])
    worker.send(wire.Retire())
    assert [value_of(worker.answer()) for _ in range(5)] == [1, 2, 4, 8, 16]
    assert worker.at_end()


def test_a_heavy_call_gives_back_what_is_behind_it(worker: RawWorker, tmp_path: Path) -> None:
    go = str(tmp_path / "go")
    calls: list[Any] = [
        (len, ("a",), {}),
        (wait_for, (go,), {}),
        (len, ("b",), {}),
        (len, ("c",), {}),
    ]
    short, heavy, *behind = worker.calls(calls)
    assert worker.answer().ticket == short, "an answer waits for no heavy call behind it"
    assert worker.receive() == wire.GaveBack(behind, heavy)
    Path(go).touch()
    assert worker.answer().ticket == heavy
    assert worker.value(len, "abc") == 3


def test_what_is_sent_behind_a_heavy_call_comes_back_too(worker: RawWorker, tmp_path: Path) -> None:
    go = str(tmp_path / "go")
    assert worker.value(len, "a") == 1
    heavy = worker.call(wait_for, go)
    wait_until(lambda: read_page(worker.page).running == heavy)
    late, later = worker.calls([(len, ("b",), {}), (len, ("c",), {})])
    assert worker.receive() == wire.GaveBack([late, later], heavy)
    Path(go).touch()
    assert worker.answer().ticket == heavy


def test_nothing_changes_under_a_running_call(worker: RawWorker, tmp_path: Path) -> None:
    """What comes behind a call, and is no call, waits for its end and comes before the next."""
    go = str(tmp_path / "go")
    before = worker.value(os.getcwd)
    heavy = worker.call(wait_for_and_look, go)
    wait_until(lambda: read_page(worker.page).running == heavy)
    worker.send(wire.Paths(sys.path, "/"))
    late = worker.call(os.getcwd)
    assert worker.receive() == wire.GaveBack([late], heavy)
    Path(go).touch()
    assert value_of(worker.answer()) == before
    assert worker.value(os.getcwd) == "/"
    heavy = worker.call(wait_for, str(tmp_path / "again"))
    wait_until(lambda: read_page(worker.page).running == heavy)
    late = worker.call(len, "abc")
    worker.send(wire.Retire())
    assert worker.receive() == wire.GaveBack([late], heavy)
    (tmp_path / "again").touch()
    assert worker.answer().ticket == heavy
    assert worker.at_end()


def test_large_calls_behind_a_heavy_one_come_back(worker: RawWorker, tmp_path: Path) -> None:
    """A frame that is cut between the two threads that read stays whole."""
    go = str(tmp_path / "go")
    assert worker.value(len, "a") == 1
    heavy = worker.call(wait_for, go)
    wait_until(lambda: read_page(worker.page).running == heavy)
    large = pickle.dumps((len, (bytes(3_000_000),), {}))
    worker.send(wire.Calls([], [wire.Call(77, 0, b"", 0, 1)]), [large])
    assert worker.receive() == wire.GaveBack([77], heavy)
    worker.send(wire.Calls([], [wire.Call(78, 0, b"", 0, 1)]), [large])
    Path(go).touch()
    heard: list[Any] = []
    while len(heard) < 2:
        message = worker.receive()
        if isinstance(message, wire.GaveBack):
            heard += message.tickets
        else:
            heard += [one.ticket for one in message.answers]
    assert sorted(heard) == [heavy, 78]


def test_given_back_calls_can_be_sent_again(worker: RawWorker, tmp_path: Path) -> None:
    for at in range(3):
        go = str(tmp_path / f"go{at}")
        heavy, behind = worker.calls([(wait_for, (go,), {}), (len, ("b",), {})])
        assert worker.receive() == wire.GaveBack([behind], heavy)
        Path(go).touch()
        assert worker.answer().ticket == heavy


def test_the_page_names_what_a_killed_worker_ran(worker: RawWorker, tmp_path: Path) -> None:
    first, fatal, behind = worker.calls(
        [(len, ("a",), {}), (os.kill, (worker.pid, signal.SIGKILL), {}), (len, ("b",), {})]
    )
    answered: list[int] = []
    try:
        while True:
            answered.append(worker.answer().ticket)
    except (EOFError, ConnectionResetError):
        pass
    page = read_page(worker.page)
    kept = wire.decode_from_worker(wire.answers_prefix(page.answer_count) + page.answers)
    assert isinstance(kept, wire.Answers)
    assert [*answered, *(one.ticket for one in kept.answers)] == [first]
    assert page.running == fatal
    assert behind not in answered


def test_fork_in_a_call_harms_nothing(worker: RawWorker) -> None:
    code = "(lambda os: os._exit(0) if (pid := os.fork()) == 0 else os.waitpid(pid, 0)[1])"
    assert worker.value(eval(f"lambda: {code}(__import__('os'))")) == 0
    assert worker.value(len, "abc") == 3


def test_threads_of_a_call_may_speak(worker: RawWorker) -> None:
    def in_threads() -> int:
        import threading

        from hmz_mp_worker.reporting import say

        threads = [threading.Thread(target=say, args=("kind", b"x" * 1000)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(threads)

    worker.call(in_threads)
    said = [worker.receive() for _ in range(20)]
    assert {(one.kind, one.data) for one in said} == {("kind", b"x" * 1000)}
    assert value_of(worker.answer()) == 20


def test_recursion_that_is_too_deep_fails_its_call_only(worker: RawWorker) -> None:
    def deep() -> Any:
        return deep()

    worker.call(deep)
    assert isinstance(error_of(worker.answer()), RecursionError)
    assert worker.value(sys.getrecursionlimit) == sys.getrecursionlimit()
