"""What is sent with the turns of one run, and how each of them is wrapped for it.

Owns the run's declared files and its `Base`. Imported by agents, whose turns it wraps, and by who
carries out a run, which makes and closes it.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hmz_mp.errors import BadInput
from hmz_mp.shipping.base import Base, name_of
from hmz_mp.shipping.declaring import OPTION, below, code_names, named_by
from hmz_mp_worker.git import GitFailed
from hmz_mp_worker.shipping.parcels import Parcel, Setup, encode
from hmz_mp_worker.shipping.turns import CODE, aturn, turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hmz_mp.worktrees.trees import Opened
    from hmz_mp_worker.git import Git

__all__ = ["DECLARED_MOST", "Shipping"]

# Bytes of the files that go with every turn. Each worker keeps them in memory, beside the copies
# that it writes of them, one for each turn that runs.
DECLARED_MOST = 64 << 20


class Shipping:
    """Sends files with the turns of one run. Methods may be called from any thread.

    ``also`` are gitignore patterns of files that go with every turn, ``code`` the files that
    agents' code is in. ``elsewhere`` says that turns run where this machine's files are not.
    Raises `BadInput` when these cannot be sent.
    """

    # The whole state: the checkout's files, which of them go with every turn and as what, and the
    # names of sessions' copies.
    def __init__(
        self,
        opened: Opened,
        label: str,
        *,
        also: Sequence[str] = (),
        code: Iterable[str] = (),
        elsewhere: bool = False,
    ) -> None:
        self._top, self._inside = opened.checkout.top, opened.checkout.inside
        self._elsewhere = elsewhere
        self._lock = threading.Lock()
        self._sessions: dict[object, str] = {}
        try:
            self._base = Base(opened)
            try:
                files = self._declared(also, code)
                setup = self._setup(opened, label)
            except BaseException:
                self._base.close()
                raise
        except (GitFailed, OSError) as error:
            raise BadInput(f"--ship: the files to send cannot be read: {error}") from error
        self._code = {file.name for file in files.files}
        self._turn = partial(turn, encode(setup), encode(files))
        self._aturn = partial(aturn, *self._turn.args)

    def _setup(self, opened: Opened, label: str) -> Setup:
        return Setup(
            label=label,
            home="" if self._elsewhere else str(opened.home.path),
            inside=self._inside,
            excludes=_excludes(opened.checkout.git(), self._top),
            hashes="sha256" if len(opened.base) == 64 else "sha1",
        )

    def _declared(self, also: Sequence[str], code: Iterable[str]) -> Parcel:
        base, files, size = self._base, [], 0
        names = [*named_by(also, base, self._inside), *code_names(code, base, self._top)]
        wanted = dict.fromkeys(needed for name in names for needed in base.with_needed(name))
        for name in wanted:
            files.append(base.read(name))
            size += len(files[-1].content)
            if size > DECLARED_MOST:
                raise BadInput(
                    f"{OPTION}: {len(wanted):,} files go with every turn, which have more than "
                    f"{DECLARED_MOST >> 20} MB: name fewer, or have what is large be there already"
                )
        return Parcel(files)

    def name_for(self, session: object) -> str:
        """Return the name of a session's own copy."""
        with self._lock:
            return self._sessions.setdefault(session, f"s{len(self._sessions) + 1}")

    def wrap(self, *, waits: bool) -> Callable[..., Any]:
        """Return what is shipped in the place of a turn's call: it is given a parcel first."""
        return self._aturn if waits else self._turn

    def parcel(self, path: bytes | None) -> Callable[[], bytes]:
        """Return what reads a turn's own files when it is shipped: nothing, for no ``path``."""
        return partial(self._read, path)

    def _read(self, path: bytes | None) -> bytes:
        if path is None:
            return encode(Parcel())
        name, shown = name_of(self._inside, path), os.fsdecode(path)
        if name not in self._base:
            return encode(
                Parcel(
                    problem=f"{shown!r} is not among the files that the run began with: git "
                    "ignores it, or it came later"
                )
            )
        try:
            needed = dict.fromkeys(self._base.with_needed(name))
            return encode(Parcel([self._base.read(one) for one in needed]))
        except (GitFailed, OSError) as error:
            return encode(Parcel(problem=f"{shown!r} cannot be read to be sent: {error}"))

    def as_sent(self, arguments: Iterable[Any]) -> tuple[Any, ...]:
        """Return an agent's own arguments with paths of the checkout as they are where turns run.

        Those of functions look like ``/src/tools.py:check``, or are directories to import from.
        Raises `BadInput` for a file that is not there.
        """
        return tuple(
            self._sent(one) if isinstance(one, str) and one.startswith("/") else one
            for one in arguments
        )

    def _sent(self, argument: str) -> str:
        path, suffix, function = argument.partition(".py:")
        if not suffix:
            name = below(self._top, path)
            return argument if name is None else f"{CODE}/{os.fsdecode(name)}"
        name = below(self._top, f"{path}.py")
        if name in self._code:
            return f"{CODE}/{os.fsdecode(name)}:{function}"
        if self._elsewhere:
            raise BadInput(
                f"--ship: {path}.py is not sent, as it is outside the checkout or git ignores it; "
                "have it in the checkout, or install it there and name the module"
            )
        return argument

    def close(self) -> None:
        """End what reads files."""
        self._base.close()


def _excludes(git: Git, top: str) -> bytes:
    """Return what is ignored beside what ``.gitignore`` files say."""
    files = [Path(top, git.line("rev-parse", "--git-path", "info/exclude"))]
    asked = git.run("config", "--type=path", "-z", "core.excludesFile", statuses=(0, 1))
    if asked.returncode == 0:
        files.append(Path(os.fsdecode(asked.stdout.rstrip(b"\0"))))
    else:
        home = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
        files.append(Path(home, "git/ignore"))
    said = []
    for file in reversed(files):  # the repository's own has the last word
        try:
            said.append(file.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            continue
    return b"\n".join(said)
