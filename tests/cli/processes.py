"""Starting ``hmz-mp`` as people do: as a process, in a directory, with or without a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from hmz_mp.cli.main import group
from tests.waiting import until

COMMAND = [sys.executable, "-m", "hmz_mp"]
SECONDS = 50

# Only the leader of a session can make a terminal its own, by which Ctrl-C reaches it.
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)

TOOLS = '''
import os, signal, time
from pathlib import Path

def upper(path):
    return Path(os.fsdecode(path)).read_text().upper()

def name(path, prompt):
    return os.path.basename(os.fsdecode(path))

def picky(path):
    text = Path(os.fsdecode(path)).read_text()
    if "bad" in text:
        raise ValueError(f"this is bad: {text.strip()}")
    return text

def echo(prompt):
    return prompt

def dies(prompt):
    os.kill(os.getpid(), signal.SIGKILL)

def hangs(path):
    """Say that it runs, and hang until told to go on."""
    name = os.path.basename(os.fsdecode(path))
    Path("running", name).write_text(str(os.getpid()) + "\\n")
    while not Path("go").exists():
        time.sleep(0.01)
    return name
'''


class Project:
    """A directory with files to work on, tools, and a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.root.mkdir()
        (folder / "home").mkdir()
        (folder / "tools.py").write_text(TOOLS)
        self.tools = folder / "tools.py"
        self.environment = {
            **{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")},
            "HOME": str(folder / "home"),
            "TERM": "xterm-256color",
        }

    def write(self, name: str | bytes, text: str = "text\n") -> None:
        path = os.path.join(os.fsencode(self.root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def files(self, *names: str | bytes) -> None:
        for name in names:
            self.write(name)

    def tool(self, name: str) -> str:
        return f"tool/{self.tools}:{name}"

    def start(
        self, *arguments: str, before: Sequence[str] = (), **options: Any
    ) -> subprocess.Popen[bytes]:
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        command = [*before, *COMMAND, *arguments]
        return subprocess.Popen(command, cwd=self.root, env=self.environment, **settings)

    def run(self, *arguments: str, stdin: bytes = b"") -> Done:
        process = self.start(*arguments, stdin=subprocess.PIPE)
        try:
            out, err = process.communicate(stdin, timeout=SECONDS)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return Done(process.returncode, out, err.decode(errors="surrogateescape"))

    def exec(self, *arguments: str, stdin: bytes = b"") -> Done:
        return self.run("exec", *arguments, stdin=stdin)

    def exec_here(self, *arguments: str) -> Done:
        """Run what starts no turn in this process, which is faster."""
        with contextlib.chdir(self.root):
            result = CliRunner().invoke(group, ["exec", *arguments], env=self.environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout_bytes, result.stderr)

    def await_running(self, count: int) -> list[int]:
        """Wait until so many turns of ``hangs`` run; return their workers."""
        folder = self.root / "running"
        until(lambda: len([one for one in folder.iterdir() if one.read_text()]) >= count)
        return [int(one.read_text()) for one in folder.iterdir()]


class Done:
    """A process that has ended."""

    def __init__(self, status: int, out: bytes, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"<status {self.status}\n{self.out.decode(errors='replace')}\n--\n{self.err}>"

    @property
    def lines(self) -> list[str]:
        return self.out.decode(errors="surrogateescape").splitlines()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def states(self) -> dict[str, str]:
        return {row["item_id"]: row["status"] for row in self.rows}


class OnTerminal:
    """A process whose three streams are one terminal; ``shown`` is all that it was sent."""

    def __init__(
        self, project: Project, *arguments: str, columns: int = 80, rows: int = 24
    ) -> None:
        self._controller, terminal = pty.openpty()
        self.resize(columns, rows)
        self.process = project.start(
            *arguments,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            before=[sys.executable, "-c", TAKE_TERMINAL],
        )
        os.close(terminal)
        self._shown = bytearray()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._controller, 65536)
            except OSError:  # the last process that had the terminal has closed it
                return
            if not data:
                return
            self._shown += data

    @property
    def shown(self) -> str:
        return self._shown.decode(errors="replace")

    def resize(self, columns: int, rows: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, size)

    def type(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def await_shown(self, text: str) -> None:
        until(lambda: text in self.shown)

    def wait(self) -> int:
        try:
            return self.process.wait(SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()
            self._reader.join(SECONDS)
            os.close(self._controller)
