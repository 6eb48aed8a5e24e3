"""What a call changes of its process is put back before the next: cwd, environment, signals…

The functions that change such things are replaced, in the zygote and before users' modules are
imported, by ones that first note what was there. So a call that changes nothing pays nothing, and
putting back touches only what was changed. What C code changes by itself is not noticed.
Used by `calls`, `turns` and `running`; it knows nothing of calls and sessions.
"""

from __future__ import annotations

import _locale
import _signal  # type: ignore[import-not-found]  # typeshed has signal only
import contextlib
import functools
import os
import posix
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Changes", "changes"]

Key = tuple[str, Any]
_LAST_STANDARD = 2


class Changes:
    """What was changed since the last `put_back` or `accept`, and what was there before."""

    # The whole state: what was there before, by what it is; the import path that holds between
    # calls; the functions that were replaced, by name.
    def __init__(self) -> None:
        self.before: dict[Key, Any] = {}
        self._path = sys.path
        self._entries = list(sys.path)
        self._real: dict[str, Callable[..., Any]] = {}

    def watch(self) -> None:
        """Replace the functions that change things of the process. Done once, in a zygote."""
        self._replace("chdir", self._directory_key, posix, os)
        self._replace("fchdir", self._directory_key, posix, os)
        self._replace("putenv", self._environment_key, posix, os)
        self._replace("unsetenv", self._environment_key, posix, os)
        self._replace("umask", lambda *_: ("umask", None), posix, os)
        self._replace("setrecursionlimit", lambda _limit: ("recursion", None), sys)
        self._replace("close", self._descriptor_key, posix, os)
        self._replace("dup2", lambda _fd, fd2, *_: self._descriptor_key(fd2), posix, os)
        self._replace("closerange", self._descriptor_key, posix, os)
        # signal.signal() and pthread_sigmask() look these up each time they are called.
        self._replace("signal", lambda number, *_: ("signal", int(number)), _signal)
        self._replace("pthread_sigmask", self._mask_key, _signal)
        self._replace("setitimer", lambda which, *_: ("timer", which), _signal, signal)
        self._replace("alarm", lambda *_: ("timer", signal.ITIMER_REAL), _signal, signal)
        self._replace("setlocale", self._locale_key, _locale)
        loaded = sys.modules.get("locale")
        if loaded is not None:  # it has taken the function already
            loaded._setlocale = _locale.setlocale  # type: ignore[attr-defined]  # a private name

    def _replace(self, name: str, key_of: Callable[..., Key | None], *homes: Any) -> None:
        real = getattr(homes[0], name)
        self._real[name] = real

        @functools.wraps(real)
        def noting(*args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(Exception):  # bad arguments: the real one says so
                key = key_of(*args, **kwargs)
                if key is not None and key not in self.before:
                    self.before[key] = self._now(key)
            return real(*args, **kwargs)

        for home in homes:
            setattr(home, name, noting)

    @staticmethod
    def _directory_key(_path: Any) -> Key:
        return "directory", None

    @staticmethod
    def _environment_key(name: Any, _value: Any = None) -> Key:
        return "environment", os.fsencode(name)

    @staticmethod
    def _descriptor_key(fd: int, _above: int = 0) -> Key | None:
        return ("descriptors", None) if fd <= _LAST_STANDARD else None  # `stdio` puts them back

    @staticmethod
    def _mask_key(_how: Any, _mask: Any) -> Key | None:
        # Each thread has a mask of its own; a call's further threads go with them.
        return ("mask", None) if threading.current_thread() is threading.main_thread() else None

    @staticmethod
    def _locale_key(_category: Any, value: Any = None) -> Key | None:
        return ("locale", None) if value is not None else None

    # Between calls.

    def any(self) -> bool:
        """Whether anything is not as it was."""
        path = sys.path
        return bool(self.before) or path is not self._path or path != self._entries

    def expected(self) -> tuple[dict[Key, Any], list[str], list[str]]:
        """Return what `any` looks at, for who looks often: what was noted, the path, its entries.

        They hold until `put_back` or `accept`.
        """
        return self.before, self._path, self._entries

    def accept(self) -> None:
        """Take what is there now as what holds between calls."""
        self.before.clear()
        self._path = sys.path
        self._entries = list(sys.path)

    def put_back(self) -> dict[Key, Any]:
        """Make everything as it was; return what it was changed to."""
        changed: dict[Key, Any] = {}
        if sys.path is not self._path or sys.path != self._entries:
            changed["path", None] = list(sys.path)
            sys.path = self._path
            sys.path[:] = self._entries
        before, self.before = self.before, {}
        for key, value in before.items():
            with contextlib.suppress(Exception):  # gone meanwhile, like a directory
                changed[key] = self._now(key)
            with contextlib.suppress(Exception):
                self._set(key, value)
        self.before.clear()  # what was noted while it was put back
        return changed

    def bring(self, changed: dict[Key, Any]) -> None:
        """Make things as `put_back` found them; the next `put_back` undoes it."""
        for key, value in changed.items():
            with contextlib.suppress(Exception):
                if key[0] != "path":
                    self.before[key] = self._now(key)
                self._set(key, value)

    def _now(self, key: Key) -> Any:
        what, which = key
        if what == "descriptors":
            return None
        if what == "recursion":
            return sys.getrecursionlimit()
        if what == "directory":
            return os.getcwd()  # noqa: PTH109  # restored by the same spelling
        if what == "environment":
            return os.environb.get(which)
        if what == "umask":
            mask = self._real["umask"](0o077)
            self._real["umask"](mask)
            return mask
        if what == "signal":
            return _signal.getsignal(which)  # signal's own would make it an enum's member
        if what == "mask":
            return self._real["pthread_sigmask"](signal.SIG_BLOCK, ())
        if what == "timer":
            return signal.getitimer(which)
        return self._real["setlocale"](_locale.LC_ALL)

    def _set(self, key: Key, value: Any) -> None:
        what, which = key
        if what == "directory":
            self._real["chdir"](value)
        elif what == "environment":
            self._set_variable(which, value)
        elif what == "umask":
            self._real["umask"](value)
        elif what == "signal":
            self._real["signal"](which, value)
        elif what == "mask":
            self._real["pthread_sigmask"](signal.SIG_SETMASK, value)
        elif what == "timer":
            self._real["setitimer"](which, *value)
        elif what == "locale":
            self._real["setlocale"](_locale.LC_ALL, value)
        elif what == "recursion":
            self._real["setrecursionlimit"](value)
        elif what == "path":
            sys.path[:] = value

    def _set_variable(self, name: bytes, value: bytes | None) -> None:
        if value is not None:
            os.environb[name] = value
        else:
            os.environb.pop(name, None)
            self._real["unsetenv"](name)  # os.putenv() does not tell os.environ


changes = Changes()  # the process's, since what it is about is the process's too
