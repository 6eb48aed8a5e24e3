"""The coordinator's handle of its zygote: starting it, asking it to fork and kill, its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec

import hmz_mp_worker
from hmz_mp.core.loop import Driver
from hmz_mp.engines.connection import Connection
from hmz_mp_worker import wire
from hmz_mp_worker.framing import Frame
from hmz_mp_worker.page import anonymous_file
from hmz_mp_worker.stdio import output_file, tail

__all__ = ["ZygoteConfig", "ZygoteHandle", "authkey", "own_path"]

_CODE = (
    "import sys; sys.path.append(sys.argv[3]); "
    "from hmz_mp_worker.bootstrap import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)
_EXIT_GRACE = 5.0
_MULTIPROCESSING = "multiprocessing.process"


class ZygoteConfig(msgspec.Struct, frozen=True):
    """What a zygote is started with."""

    preload: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    niceness: int = 0
    sys_path: Sequence[str] = ()  # this process's, if there is none


class ZygoteHandle:
    """One zygote process, from its start to its end."""

    def __init__(
        self,
        driver: Driver,
        config: ZygoteConfig,
        on_message: Callable[[wire.FromZygote], None],
        on_end: Callable[[], None],
    ) -> None:
        self._on_message = on_message
        self._pid: int | None = None
        self._output = output_file(anonymous_file("hmz-mp-zygote"))
        try:
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    self._process = self._launch(theirs, config)
            except BaseException:
                ours.close()
                raise
        except BaseException:
            os.close(self._output)
            self._output = -1
            raise
        self.connection = Connection(driver, ours, self._take, on_end)
        preload = [*config.preload, *([_MULTIPROCESSING] if authkey() else [])]
        path = list(config.sys_path) or own_path()
        boot = wire.Boot(wire.VERSION, path, preload, config.niceness)
        self.connection.send(wire.encode(boot))

    def _launch(self, control: socket.socket, config: ZygoteConfig) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            _command(control.fileno()),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            pass_fds=[control.fileno()],
            env=None if config.env is None else {**os.environ, **config.env},
            cwd=config.cwd,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The zygote's process id; that of the process above it until it has booted."""
        return self._pid or self._process.pid

    def send(self, message: wire.ToZygote, fds: Sequence[int] = ()) -> None:
        """Send the zygote a message, with descriptors that are closed here once sent."""
        self.connection.send(wire.encode(message), fds=fds)

    @property
    def booted(self) -> bool:
        """Whether it has said that it is ready to fork."""
        return self._pid is not None

    def give_up(self) -> None:
        """End it if it has not booted: a module that it imports may hang, and it hears nothing."""
        if not self.booted:
            self._process.terminate()

    def said(self) -> str:
        """Return the end of what the zygote's interpreter printed."""
        return tail(self._output, 4096).decode("utf-8", "replace")

    def close(self) -> None:
        """Close its connection, upon which it ends all workers, and itself; reap it."""
        self.connection.close()
        # Asked by a signal, the reaper above it kills it, and all that is below; somebody may
        # have stopped it.
        for numbers in ((), (signal.SIGTERM, signal.SIGCONT), (signal.SIGKILL,)):
            for number in numbers:
                self._process.send_signal(number)
            try:
                self._process.wait(_EXIT_GRACE)
                break
            except subprocess.TimeoutExpired:
                continue
        if self._output >= 0:
            os.close(self._output)
            self._output = -1

    def __del__(self) -> None:  # where the loop was closed before the pool was left
        if getattr(self, "_output", -1) >= 0:
            os.close(self._output)

    def _take(self, frame: Frame) -> None:
        message = wire.decode_from_zygote(frame[0])
        if isinstance(message, wire.Booted):
            self._pid = message.pid
        self._on_message(message)


def authkey() -> bytes:
    """Return multiprocessing's key, by which its managers know their callers, or ``b""``."""
    process = sys.modules.get(_MULTIPROCESSING)  # not loaded: there are no managers to call
    return bytes(process.current_process().authkey) if process is not None else b""


def _command(control: int) -> list[str]:
    home = os.path.dirname(os.path.dirname(hmz_mp_worker.__file__))  # noqa: PTH120  # a slow import
    # As multiprocessing does, so that -W, -X, -O and the like hold in workers too.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # not in typeshed
    return [sys.executable, *flags, "-P", "-c", _CODE, str(control), str(os.getpid()), home]


def own_path() -> list[str]:
    """Return where this process imports from."""
    return [str(entry) for entry in sys.path]
