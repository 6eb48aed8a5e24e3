"""A program that speaks Claude Code's protocol and does what its prompts say, for tests.

Standard library only; run by ``tests.fakes.programs``. The first word of a prompt is what to do,
the rest what to do it with: see `Turn`. Conversations are kept below ``$HOME/conversations``.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

STATUS_KINDS = {401: "authentication_failed", 429: "rate_limit"}


def emit(kind: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


class Program:
    """The process: its arguments, its conversation, its totals."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        self.model = self.option("--model") or "fake"
        self.schema = self.option("--json-schema")
        self.home = Path(os.environ["HOME"], "conversations")
        self.home.mkdir(parents=True, exist_ok=True)
        self.total = {"inputTokens": 0, "outputTokens": 0, "costUSD": 0.0}
        self.waiting: list[dict[str, Any]] = []
        self.part = b""
        self.tasks: list[str] = []
        self.id = self.open()

    def option(self, name: str) -> str | None:
        return self.argv[self.argv.index(name) + 1] if name in self.argv else None

    def open(self) -> str:
        given, resumed = self.option("--session-id"), self.option("--resume")
        if given and (self.home / given).exists():
            sys.exit(f"Error: Session ID {given} is already in use.")
        if resumed and not (self.home / resumed).exists():
            said = f"No conversation found with session ID: {resumed}"
            self.result(is_error=True, subtype="error_during_execution", errors=[said], result=None)
            sys.exit(said)
        return given or resumed or str(uuid.uuid4())

    def history(self) -> list[str]:
        file = self.home / self.id
        return json.loads(file.read_text()) if file.exists() else []

    def remember(self, text: str) -> None:
        history = self.history()
        (self.home / self.id).write_text(json.dumps([*history, text]))

    def message(self, timeout: float | None) -> dict[str, Any] | None:
        """Return the next message, waiting for it so long."""
        while not self.waiting:
            ready, _, _ = select.select([0], [], [], timeout)
            if not ready:
                return None
            data = os.read(0, 1 << 16)
            if not data:
                if os.environ.get("FAKE_STUBBORN"):
                    time.sleep(1000)
                sys.exit(0)
            *lines, self.part = (self.part + data).split(b"\n")
            self.waiting += [json.loads(line) for line in lines]
        return self.waiting.pop(0)

    def replay(self, message: dict[str, Any]) -> None:
        emit("user", message=message["message"], uuid=message["uuid"], isReplay=True)

    def result(self, **fields: Any) -> None:
        usage = {self.model: dict(self.total)} if self.total["inputTokens"] else {}
        emit(
            "result",
            **{
                "subtype": "success",
                "is_error": False,
                "result": "",
                "session_id": getattr(self, "id", ""),
                "modelUsage": usage,
                "permission_denials": [],
                "terminal_reason": "completed",
                **fields,
            },
        )

    def run(self) -> None:
        while True:
            message = self.message(None)
            if message is not None and message["type"] == "user":
                self.take(message)

    def take(self, message: dict[str, Any]) -> None:
        text = message["message"]["content"]
        if text == "/clear":
            if os.environ.get("FAKE_CLEAR") == "never":
                time.sleep(1000)
            if os.environ.get("FAKE_CLEAR") != "same":
                self.id = str(uuid.uuid4())
            self.total = {"inputTokens": 0, "outputTokens": 0, "costUSD": 0.0}
            emit("system", subtype="init", session_id=self.id)
            self.result(local_command="clear")
            return
        emit("system", subtype="init", session_id=self.id)
        self.replay(message)
        self.remember(text)
        Turn(self).run(text)


class Turn:
    """One turn: a method for each first word of a prompt."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.fields: dict[str, Any] = {}

    def run(self, text: str) -> None:
        word, rest = (*text.split(None, 1), "", "")[:2]
        method = getattr(self, f"do_{word.replace('-', '_').lstrip('/')}", None)
        answer = method(rest) if method is not None else self.plainly(text.strip())
        self.finish(answer or "")

    def plainly(self, text: str) -> str:
        """Say back what was asked; give some value, of a schema that has one."""
        schema = json.loads(self.program.schema or "{}")
        if "properties" in schema:
            types = {name: one.get("type") for name, one in schema["properties"].items()}
            self.fields["structured_output"] = {
                name: 1 if kind == "integer" else "text" for name, kind in types.items()
            }
        return f"answer to {text}"

    def finish(self, answer: str) -> None:
        total = self.program.total
        total["inputTokens"] += 100
        total["outputTokens"] += 7
        total["costUSD"] += 0.5
        self.say(answer)
        self.program.result(**{"result": answer, **self.fields})

    def say(self, text: str) -> None:
        if "--include-partial-messages" in self.program.argv:
            for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
                delta = {"type": "text_delta", "text": piece}
                emit("stream_event", event={"type": "content_block_delta", "delta": delta})
        content = [{"type": "text", "text": text}]
        emit("assistant", message={"role": "assistant", "content": content})

    # What it answers.

    def do_say(self, text: str) -> str:
        return text

    def do_history(self, _: str) -> str:
        return json.dumps(self.program.history())

    def do_pid(self, _: str) -> str:
        return str(os.getpid())

    def do_cwd(self, _: str) -> str:
        return str(Path.cwd())

    def do_args(self, _: str) -> str:
        return json.dumps(self.program.argv)

    def do_env(self, name: str) -> str:
        return os.environ.get(name, "(none)")

    def do_goal(self, text: str) -> str:
        return f"pursued {text}"

    def do_value(self, text: str) -> str:
        """Give these values, one for each time it is asked."""
        values = text.split(" | ")
        asked = sum(one.startswith("Your answer cannot be used") for one in self.program.history())
        self.fields["structured_output"] = json.loads(values[min(asked, len(values) - 1)])
        return text

    def do_your(self, _: str) -> str:
        first = next(one for one in self.program.history() if one.startswith("value "))
        return self.do_value(first.partition(" ")[2])

    do_Your = do_your  # noqa: N815  # as the prompt begins

    def do_tool(self, words: str) -> str:
        block = {"type": "tool_use", "name": "Bash", "input": {"command": words}}
        emit("assistant", message={"role": "assistant", "content": [block]})
        return "used a tool"

    def do_look(self, words: str) -> str:
        """Say what it is about to do, and do it."""
        self.say("Let me look.")
        self.do_tool(words)
        return "looked"

    def do_write(self, rest: str) -> str:
        """Write a file of its directory."""
        name, _, text = rest.partition(" ")
        Path(name).write_text(text)
        return f"wrote {name}"

    # How it fails.

    def do_deny(self, tool: str) -> str:
        self.fields["permission_denials"] = [{"tool_name": tool.split()[0], "tool_input": {}}]
        return "all done"

    def do_error(self, rest: str) -> str:
        status, _, text = rest.partition(" ")
        self.fields |= {
            "is_error": True,
            "api_error_status": int(status) or None,
            "terminal_reason": "api_error",
        }
        return text

    def do_busy(self, rest: str) -> str:
        """Note in a file that it was asked; refuse the first of so many times."""
        name, times, *_ = rest.split()
        with Path(name).open("a") as file:
            file.write("asked\n")
        if len(Path(name).read_text().splitlines()) > int(times):
            return "served"
        return self.do_error("529 too busy")

    def do_too_long(self, text: str) -> str:
        self.fields |= {"is_error": True, "terminal_reason": "prompt_too_long"}
        return text or "Prompt is too long"

    def do_refuse(self, text: str) -> str:
        self.fields["stop_reason"] = "refusal"
        return text

    def do_retry(self, rest: str) -> str:
        """Say that the service refused; wait, or end the turn when it is interrupted."""
        status, _, delay = rest.partition(" ")
        emit(
            "system",
            subtype="api_retry",
            error_status=int(status) or None,
            retry_delay_ms=float(delay or 1) * 1000,
            error=STATUS_KINDS.get(int(status), "server_error"),
        )
        if os.environ.get("FAKE_STUBBORN"):
            time.sleep(1000)
        while True:
            message = self.program.message(None) or {}
            if message.get("request", {}).get("subtype") == "interrupt":
                self.fields |= {"is_error": True, "terminal_reason": "aborted_streaming"}
                return ""

    def do_exit(self, rest: str) -> str:
        status, _, said = rest.partition(" ")
        sys.stderr.write(said + "\n")
        sys.stderr.flush()
        os._exit(int(status))

    def do_leave(self, _: str) -> None:
        """Answer, and exit."""
        self.finish("good bye")
        os._exit(0)

    def do_kill(self, _: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_stall(self, _: str) -> None:
        time.sleep(1000)

    def do_partial(self, _: str) -> None:
        sys.stdout.write('{"type": "result", "is_er')
        sys.stdout.flush()
        os._exit(0)

    def do_garbage(self, text: str) -> str:
        sys.stdout.buffer.write(b"Warning: \xff\xfe not JSON\n[1, 2]\n\n{}\n\x00\x1b[31m\n")
        sys.stdout.buffer.write(b'{"type": "user", "message": "\\ud83d lone", "uuid": 7}\n')
        sys.stdout.buffer.write(b'{"type": 3}\n{"type": "new kind", "message": 4}\n')
        sys.stdout.buffer.flush()
        return text

    def do_huge(self, size: str) -> None:
        """Write one line of so many bytes, without an end."""
        block = b"x" * (1 << 16)
        for _ in range(int(size) >> 16):
            sys.stdout.buffer.write(block)
        sys.stdout.buffer.flush()
        time.sleep(1000)

    def do_long(self, size: str) -> str:
        return "y" * int(size)

    # What takes time, and what it starts.

    def do_sleep(self, seconds: str) -> str:
        """Wait, until it is told something."""
        message = self.program.message(float(seconds))
        heard = []
        if message is not None:
            heard.append(message["message"]["content"])
            self.program.replay(message)
            self.program.remember(heard[-1])
        return f"heard {heard}"

    def do_begin(self, file: str) -> str:
        """Note the pid in a file, and wait to be told something."""
        note(file, os.getpid())
        return self.do_sleep("1000")

    def do_late(self, file: str) -> str:
        """Answer as if nothing had been said meanwhile; take that up in a turn of its own."""
        note(file, os.getpid())
        message = self.program.message(None)
        assert message is not None
        self.program.waiting.insert(0, message)
        return "too early"

    def do_child(self, file: str) -> str:
        """Start a tool in a session of its own, and wait for it as for a command."""
        child = start_tool()
        note(file, os.getpid(), child.pid)
        child.wait()
        return "the tool has ended"

    def do_orphan(self, file: str) -> str:
        """Leave something running whose parent has ended, in a session of its own."""
        code = (
            "import os, subprocess, sys, time\n"
            "if os.fork(): os._exit(0)\n"
            "os.setsid()\n"
            "child = subprocess.Popen(['sleep', '1000'])\n"
            "open(sys.argv[1] + '.new', 'w').write(f'{os.getpid()} {child.pid}\\n')\n"
            "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
            "child.wait()\n"
        )
        subprocess.run([sys.executable, "-ISc", code, file], check=True)
        while not Path(file).exists():
            time.sleep(0.005)
        return "left something"

    def do_background(self, file: str) -> str:
        """Leave a tool running, and say so."""
        note(file, os.getpid(), start_tool().pid)
        emit("system", subtype="background_tasks_changed", tasks=[{"task_id": "one"}])
        return "in the background"


def start_tool() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "1000"], start_new_session=True)


def note(file: str, *pids: int) -> None:
    """Write pids to a file that is whole once it is there."""
    new = Path(f"{file}.new")
    new.write_text(" ".join(str(pid) for pid in pids) + "\n")
    new.rename(file)


if __name__ == "__main__":
    if os.environ.get("FAKE_STUBBORN"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Program(sys.argv[1:]).run()
