"""What both kinds of worker share: their set-up, their functions, and packing an answer."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from pickle import dumps
from time import monotonic
from types import FrameType
from typing import Any, NoReturn

from hmz_mp_worker import payload, reporting, wire
from hmz_mp_worker.arena import Region
from hmz_mp_worker.between import changes
from hmz_mp_worker.framing import Buffer
from hmz_mp_worker.link import Link
from hmz_mp_worker.proving import prove

__all__ = [
    "Functions",
    "Unloadable",
    "failure_of",
    "follow_paths",
    "leave_fork",
    "pack_answer",
    "pack_error",
    "set_up",
]


_WITHOUT_BUFFERS = payload.PLAIN - {bytes}


class Unloadable(Exception):
    """Raised when a call's function or arguments cannot be loaded in this process.

    Its text is what comes before the function's name; its cause says why.
    """


class Functions:
    """The functions this worker was sent, loaded on first use."""

    __slots__ = ("_inbox", "_loaded", "_pickles")

    def __init__(self, inbox: Region) -> None:
        self._inbox = inbox
        self._loaded: dict[int, Any] = {}
        self._pickles: dict[int, bytes] = {}

    def add(self, function: wire.Function) -> None:
        """Keep a function's pickle; it is loaded by the first call that names it."""
        self._pickles[function.id] = function.data

    def give_back(self, call: wire.Call) -> None:
        """Let go of a call that will run elsewhere."""
        if call.shared is not None:
            self._inbox.release(call.shared)

    def forget(self, ids: list[int]) -> None:
        """Drop functions that no call will name again."""
        for one in ids:
            self._loaded.pop(one, None)
            self._pickles.pop(one, None)

    def resolve(self, call: wire.Call, buffers: Sequence[Buffer]) -> tuple[Any, Any, Any]:
        """Return the function, the arguments and the keyword arguments of a call."""
        try:
            value = self._arguments(call, buffers)
        except BaseException as error:  # loading runs the user's code
            raise Unloadable("the arguments of") from error
        if call.plain:
            return self.get(call.function), value, {}
        if not call.function:
            return value  # type: ignore[no-any-return]  # the coordinator packs three
        return self.get(call.function), value[0], value[1]

    def get(self, function_id: int) -> Any:
        """Return a function. Raises `Unloadable`."""
        return self._loaded.get(function_id) or self._load(function_id)

    def _arguments(self, call: wire.Call, buffers: Sequence[Buffer]) -> Any:
        if call.shared is None:
            return payload.load(call.data, buffers)
        try:
            return payload.load(call.data, self._inbox.get(call.shared))
        finally:
            self._inbox.release(call.shared)

    def _load(self, function_id: int) -> Any:
        data = self._pickles[function_id]
        try:
            function = payload.load(data)
        except BaseException as error:
            raise Unloadable("the function") from error
        self._loaded[function_id] = function
        changes.accept()  # a module does it once, when it is imported: that has to last
        return function


def set_up(welcome: wire.Welcome, link: Link) -> bool:
    """Set this process up as the coordinator asks; say Ready, or what failed."""
    reporting.ship_logging(welcome.log_level)
    follow_paths(welcome)
    if welcome.authkey:
        _adopt_authkey(welcome.authkey)
    if welcome.version != wire.VERSION:
        error = RuntimeError(
            f"the coordinator speaks version {welcome.version} of the protocol, "
            f"this worker {wire.VERSION}"
        )
        link.send(wire.StartFailed(failure_of(error), initializer=False))
        return False
    try:
        if welcome.initializer:
            initializer, initargs = payload.load(welcome.initializer)
            initializer(*initargs)
    except BaseException as error:  # said to the coordinator, whatever it is
        link.send(wire.StartFailed(failure_of(error), initializer=True))
        return False
    changes.accept()
    link.send(wire.Ready(wire.VERSION, os.getpid()))
    return True


def _adopt_authkey(key: bytes) -> None:
    """Be known to the managers of multiprocessing that the coordinator started."""
    from multiprocessing import process

    process.current_process().authkey = key


def follow_paths(message: wire.Welcome | wire.Paths) -> None:
    """Import from where the coordinator imports, in its working directory."""
    if sys.path != message.sys_path:
        sys.path[:] = message.sys_path
    try:
        os.chdir(message.cwd)
    except OSError as error:
        logging.getLogger("hmz_mp").warning(
            "a worker cannot enter the working directory %s: %s", message.cwd, error
        )
    changes.accept()


def failure_of(error: BaseException) -> wire.Failure:
    """Return an exception as it travels."""
    return wire.decode_failure(payload.pack_failure(error))


def pack_answer(
    ticket: int, value: Any, began: float, seconds: float, output: bytes
) -> tuple[wire.Answer, tuple[Buffer, ...]]:
    """Return a call's answer, which is a failure when its value cannot be pickled."""
    if type(value) in _WITHOUT_BUFFERS:
        data = dumps(value, 5)
        if len(data) <= payload.INLINE_CEILING:
            return wire.Answer(ticket, True, data, began, seconds, output), ()
    try:
        dumped = payload.dump_back(value)
        prove(dumped)
        data, buffers = payload.split(dumped)
    except BaseException as error:  # dumping runs the user's code
        what = f"the result, of type {type(value).__module__}.{type(value).__qualname__},"
        failure = payload.pack_failure(error, unpicklable=what)
        return wire.Answer(ticket, False, failure, began, seconds, output), ()
    return wire.Answer(ticket, True, data, began, seconds, output, len(buffers)), buffers


def pack_error(
    ticket: int, error: BaseException, began: float, output: bytes, frame: FrameType | None
) -> wire.Answer:
    """Return the answer of a call that raised; ``frame`` is our own, left out of its traceback."""
    if isinstance(error, Unloadable) and error.__cause__ is not None:
        failure = payload.pack_failure(error.__cause__, unpicklable=str(error))
    else:
        failure = payload.pack_failure(error, skip=frame)
    return wire.Answer(ticket, False, failure, began, monotonic() - began, output)


def leave_fork(error: BaseException | None) -> NoReturn:
    """End a process that a call has forked and let come back here, as a script would end."""
    status: object = 0
    if isinstance(error, SystemExit):
        status = error.code or 0
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    if not isinstance(status, int):
        os.write(2, f"{status}\n".encode("utf-8", "backslashreplace"))  # as sys.exit("text") says
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status & 0xFF)
