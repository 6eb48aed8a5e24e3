"""The reaper: the process above the zygote, which ends what is left when the zygote is gone.

The zygote is the reaper of orphans for all that calls start; if it is killed itself, workers go
with it, but a program in a session of its own would be nobody's. So another reaper of orphans
stands above it. It does nothing else, and imports next to nothing; it knows no messages.
"""

from __future__ import annotations

import os
import signal
import sys

from hmz_mp_worker import kernel

__all__ = ["stand_above"]

_WAKES = {signal.SIGCHLD, signal.SIGTERM}
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def stand_above(*inherited: int) -> None:
    """Return in a child process; this one stays above it, without the descriptors it inherited.

    Where orphans cannot be adopted (macOS), there is only one process, and this returns in it.
    """
    if sys.platform != "linux":
        return
    kernel.adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited, it may be ignored
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WAKES)
    child = os.fork()
    if child:
        status = 1
        try:
            status = _stay(child, inherited)
        finally:
            os._exit(status)
    os.setsid()  # whoever kills the group of the one does not kill the other
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _stay(child: int, inherited: tuple[int, ...]) -> int:
    """Wait until ``child`` has ended, or this process is asked to end; then end what is below.

    Returns the child's exit status, or 1.
    """
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for fd in inherited:
        os.close(fd)
    status = None
    while status is None and signal.sigwait(_WAKES) == signal.SIGCHLD:
        status = _status_of(child)
    kernel.end_descendants()
    return os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else 1


def _status_of(child: int) -> int | None:
    """Reap what has ended; return the status of ``child`` if it is among it."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in (0, child):
            return status if pid else None
