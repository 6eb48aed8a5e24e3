from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import cloudpickle
import msgspec
import pytest

from hmz_mp_worker import wire
from hmz_mp_worker.framing import frame_parts, send_all
from hmz_mp_worker.stdio import tail
from tests.workers.raw import RawWorker, RawZygote, value_of


def exit_status(zygote: RawZygote) -> int:
    message = zygote.receive()
    assert isinstance(message, wire.Exited)
    return os.waitstatus_to_exitcode(message.status)


def test_the_hello(zygote: RawZygote) -> None:
    worker = zygote.fork()
    assert worker.welcome() == wire.Ready(wire.VERSION, worker.pid)


def test_another_version_is_refused(zygote: RawZygote) -> None:
    answer = zygote.fork().welcome(version=wire.VERSION + 1)
    assert isinstance(answer, wire.StartFailed)
    assert not answer.initializer
    assert f"version {wire.VERSION + 1}" in answer.failure.text
    assert exit_status(zygote) == 0


@pytest.mark.parametrize("host", [False, True])
def test_the_initializer_runs_first(zygote: RawZygote, host: bool) -> None:
    worker = zygote.fork(host=host)
    code = "import sys; print('set up by the initializer')"
    ready = worker.welcome(initializer=cloudpickle.dumps((exec, (code,))))
    assert isinstance(ready, wire.Ready)
    assert tail(worker.output, 100) == b"set up by the initializer\n"


@pytest.mark.parametrize("code", ["1 / 0", "(_ for _ in ()).throw(SystemExit(3))", "nonsense ("])
def test_an_initializer_that_raises(zygote: RawZygote, code: str) -> None:
    answer = zygote.fork().welcome(initializer=cloudpickle.dumps((eval, (code,))))
    assert isinstance(answer, wire.StartFailed)
    assert answer.initializer
    assert answer.failure.type_name in ("ZeroDivisionError", "SystemExit", "SyntaxError")
    assert exit_status(zygote) == 0


def test_an_initializer_that_cannot_be_loaded(zygote: RawZygote) -> None:
    answer = zygote.fork().welcome(initializer=b"not a pickle")
    assert isinstance(answer, wire.StartFailed)
    assert answer.failure.type_name == "_pickle.UnpicklingError"


def test_a_working_directory_that_is_gone(zygote: RawZygote, tmp_path: Path) -> None:
    worker = zygote.fork()
    ready = worker.welcome(cwd=str(tmp_path / "gone"))
    assert isinstance(ready, wire.Ready)
    assert worker.value(len, "ab") == 2


def test_it_works_where_the_coordinator_works(zygote: RawZygote, tmp_path: Path) -> None:
    worker = zygote.fork()
    worker.welcome(cwd=str(tmp_path))
    assert worker.value(os.getcwd) == str(tmp_path)
    worker.send(wire.Paths([*sys.path, "/nowhere"], "/"))
    assert worker.value(os.getcwd) == "/"
    assert worker.value(eval, "__import__('sys').path[-1]") == "/nowhere"


@pytest.mark.parametrize(
    "body",
    [
        msgspec.msgpack.encode([99]),
        msgspec.msgpack.encode([2, "x"]),
        b"",
        b"junk",
        wire.encode(wire.Boot(1, ["a"], ["b"], 0)),
    ],
)
@pytest.mark.parametrize("host", [False, True])
def test_what_is_no_message_ends_the_worker(zygote: RawZygote, body: bytes, host: bool) -> None:
    worker = zygote.ready(host=host)
    send_all(worker.sock, frame_parts(body))
    assert exit_status(zygote) == 1
    assert b"Error" in tail(worker.output, 5000)


def test_a_first_message_that_is_no_welcome(zygote: RawZygote) -> None:
    worker = zygote.fork()
    worker.send(wire.Retire())
    assert exit_status(zygote) == 1
    assert b"the first message is Retire, not Welcome" in tail(worker.output, 5000)


def test_a_welcome_that_comes_in_pieces_with_calls_behind_it(zygote: RawZygote) -> None:
    worker = zygote.fork()
    hello = wire.Welcome(wire.VERSION, 1, sys.path, os.getcwd(), 30, b"")
    calls = wire.Calls([], [wire.Call(1, 0, cloudpickle.dumps((len, ("abc",), {})))])
    stream = b"".join(
        bytes(part) for one in (hello, calls) for part in frame_parts(wire.encode(one))
    )
    for at in range(0, len(stream), 7):
        worker.sock.sendall(stream[at : at + 7])
    assert isinstance(worker.receive(), wire.Ready)
    assert value_of(worker.answer()) == 3


def test_signals_are_pythons_own(worker: RawWorker) -> None:
    handlers = [worker.value(signal.getsignal, one) for one in (signal.SIGTERM, signal.SIGCHLD)]
    assert handlers == [signal.SIG_DFL, signal.SIG_DFL]
    assert worker.value(signal.getsignal, signal.SIGINT) == signal.SIG_IGN


def test_random_numbers_differ_between_workers(zygote: RawZygote) -> None:
    code = "__import__('random').random()"
    assert zygote.ready().value(eval, code) != zygote.ready().value(eval, code)


def register_exit(path: str) -> None:
    import atexit
    import pathlib
    import threading
    import time

    atexit.register(pathlib.Path(path).write_text, "left\n")
    threading.Thread(target=time.sleep, args=(60,)).start()


def test_leaving_runs_what_was_registered_and_waits_for_no_thread(
    zygote: RawZygote, worker: RawWorker, tmp_path: Path
) -> None:
    worker.value(register_exit, str(tmp_path / "exit"))
    worker.send(wire.Retire())
    assert exit_status(zygote) == 0
    assert (tmp_path / "exit").read_text() == "left\n"


def test_its_descriptors_stand_out_of_the_way(worker: RawWorker) -> None:
    worker.value(os.closerange, 10, 200)
    assert worker.value(len, "abc") == 3
