"""The worktrees of one run, as the run and its agents see them.

Owns when they begin to be: with the first turn that wants one, if not every turn does. Imported
by agents, which ask for them, and by who carries out a run, which ends them.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

from hmz_mp.errors import BadInput
from hmz_mp.worktrees.checkout import Checkout
from hmz_mp.worktrees.home import Home
from hmz_mp_worker.git import GitFailed
from hmz_mp_worker.worktrees.staging import TooMuch
from hmz_mp_worker.worktrees.worktree import Setup

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hmz_mp.shipping.sending import Shipping

__all__ = ["Opened", "Worktrees", "current_worktrees", "worktrees_variable"]


class Opened:
    """The checkout that worktrees are of, the commit they begin with, and where they are."""

    __slots__ = ("base", "checkout", "home")

    def __init__(self, checkout: Checkout, base: str, home: Home) -> None:
        self.checkout = checkout
        self.base = base
        self.home = home


class Worktrees:
    """The worktrees of the run ``name``, which was started in ``start``.

    ``every_turn``: not only those turns that ask for one. ``on_open`` is told of the checkout and
    the commit before there is any worktree. ``shipping``, once there is one, has turns run in
    copies instead. Methods may be called from any thread.
    """

    # The whole state: what was opened, if anything was, and the names of sessions' worktrees.
    def __init__(
        self,
        start: Path,
        name: str,
        *,
        every_turn: bool = False,
        who: str = "worktrees need",
        on_open: Callable[[Checkout, str], object] = lambda *_: None,
    ) -> None:
        self.every_turn = every_turn
        self.opened: Opened | None = None
        self.shipping: Shipping | None = None
        self._start = start
        self._name = name
        self._who = who
        self._on_open = on_open
        self._lock = threading.Lock()
        self._sessions: dict[object, str] = {}

    def __repr__(self) -> str:
        return f"<Worktrees of {self._name} {'open' if self.opened else 'not begun'}>"

    def open(self) -> Opened:
        """Return what worktrees are made of; the first call looks at the checkout.

        Raises `BadInput` when there can be none.
        """
        with self._lock:
            if self.opened is None:
                self.opened = self._open()
            return self.opened

    def _open(self) -> Opened:
        checkout = Checkout.find(self._start, self._who)
        home = Home(self._start, self._name, checkout)
        try:
            base = checkout.snapshot(str(home.path / "snapshot.index"))
            self._on_open(checkout, base)
        except BaseException as error:
            home.remove()
            if isinstance(error, TooMuch):
                raise BadInput(
                    f"there are {error}: worktrees would begin with a copy of all of them; have "
                    f"git ignore what is not needed, or commit it, in {checkout.top!r}"
                ) from error
            if isinstance(error, (GitFailed, OSError)):
                raise BadInput(
                    f"what is not committed in {checkout.top!r} could not be read: {error}"
                ) from error
            raise
        return Opened(checkout, base, home)

    def setup(self) -> Setup:
        """Return what workers make worktrees from."""
        opened = self.open()
        checkout = opened.checkout
        return Setup(
            home=str(opened.home.path),
            top=checkout.top,
            git_dir=checkout.git_dir,
            base=opened.base,
            inside=checkout.inside,
            label=self._name,
        )

    def name_for(self, session: object) -> str:
        """Return the name of a session's own worktree."""
        with self._lock:
            return self._sessions.setdefault(session, f"s{len(self._sessions) + 1}")

    def close(self) -> list[str]:
        """Remove all of them; returns what could not be removed, as lines."""
        with self._lock:
            opened, self.opened = self.opened, None
            shipping, self.shipping = self.shipping, None
        if shipping is not None:
            shipping.close()
        return opened.home.remove() if opened is not None else []


worktrees_variable: ContextVar[Worktrees | None] = ContextVar("hmz_mp_worktrees", default=None)


def current_worktrees() -> Worktrees | None:
    """Return those of the run in progress, or ``None`` outside one."""
    return worktrees_variable.get()
