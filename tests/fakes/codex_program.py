"""A program that speaks the protocol of Codex's app server, for tests.

Standard library only; run by ``tests.fakes.programs``. The first word of a prompt is what to do,
the rest what to do it with: see `Server`. Threads are kept below ``$HOME/threads``.
"""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any


def emit(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Refusal(Exception):
    """What a request is refused with."""


class Server:
    """The process: its threads, and the turns that wait to be told something."""

    def __init__(self) -> None:
        self.folder = Path(os.environ["HOME"], "threads")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.threads: dict[str, dict[str, Any]] = {}
        self.waiting: dict[str, tuple[str, str]] = {}  # by thread: its turn, and for what
        self.tools: dict[str, list[subprocess.Popen[bytes]]] = {}
        self.asked = 0

    def run(self) -> None:
        if os.environ.get("FAKE_START") == "silent":
            time.sleep(1000)
        if os.environ.get("FAKE_START") == "missing":
            sys.exit("error: unrecognized subcommand 'app-server'")
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message or "id" not in message:
                continue
            name = message["method"].replace("/", "_")
            try:
                result = getattr(self, f"on_{name}", self.unknown)(message["params"])
            except Refusal as refusal:
                emit(id=message["id"], error={"code": -32600, "message": str(refusal)})
                continue
            emit(id=message["id"], result=result)
            after = getattr(self, f"after_{name}", None)
            if after is not None:
                after(message["params"], result)
        if os.environ.get("FAKE_STUBBORN"):
            time.sleep(1000)

    def unknown(self, params: dict[str, Any]) -> Any:
        raise Refusal("unknown method")

    # Threads.

    def on_initialize(self, params: dict[str, Any]) -> Any:
        return {"userAgent": "fake"}

    def on_config_read(self, params: dict[str, Any]) -> Any:
        return {"config": {"model_provider": os.environ.get("FAKE_PROVIDER", "fake")}}

    def on_thread_start(self, params: dict[str, Any]) -> Any:
        if "config" in params and os.environ.get("FAKE_PROVIDER") == "reserved":
            raise Refusal("reserved providers cannot be changed")
        thread = str(uuid.uuid4())
        self.threads[thread] = {"history": [], "total": 0, "name": "", **params}
        return {"thread": {"id": thread}}

    def after_thread_start(self, params: dict[str, Any], result: Any) -> None:
        emit(method="thread/started", params={"thread": result["thread"]})
        emit(method="warning", params={"threadId": result["thread"]["id"], "message": "fake"})

    def on_thread_name_set(self, params: dict[str, Any]) -> Any:
        self.threads[params["threadId"]]["name"] = params["name"]
        self.store(params["threadId"])
        return {}

    def store(self, thread: str) -> None:
        if not self.threads[thread].get("ephemeral"):
            (self.folder / thread).write_text(json.dumps(self.threads[thread]))

    def on_thread_list(self, params: dict[str, Any]) -> Any:
        found = [
            {"id": file.name, "name": json.loads(file.read_text())["name"]}
            for file in self.folder.iterdir()
        ]
        return {"data": [one for one in found if params["searchTerm"] in one["name"]]}

    def on_thread_resume(self, params: dict[str, Any]) -> Any:
        thread = params["threadId"]
        if not (self.folder / thread).exists():
            raise Refusal(f"no rollout found for thread id {thread}")
        self.threads[thread] = json.loads((self.folder / thread).read_text())
        return {"thread": {"id": thread}}

    def after_thread_resume(self, params: dict[str, Any], result: Any) -> None:
        self.use(params["threadId"], "an earlier turn", 0)

    def on_thread_unsubscribe(self, params: dict[str, Any]) -> Any:
        return {"status": "unsubscribed"}

    def on_thread_backgroundTerminals_clean(self, params: dict[str, Any]) -> Any:  # noqa: N802
        if os.environ.get("FAKE_STUBBORN"):
            time.sleep(1000)
        for tool in self.tools.pop(params["threadId"], []):
            tool.kill()
            tool.wait()
        return {}

    # Turns.

    def on_turn_start(self, params: dict[str, Any]) -> Any:
        return {"turn": {"id": str(uuid.uuid4()), "status": "inProgress"}}

    def after_turn_start(self, params: dict[str, Any], result: Any) -> None:
        self.begin(params["threadId"], result["turn"]["id"], params)

    def on_thread_goal_set(self, params: dict[str, Any]) -> Any:
        return {"goal": {"status": params["status"]}}

    def after_thread_goal_set(self, params: dict[str, Any], result: Any) -> None:
        thread = params["threadId"]
        if params["status"] != "active":
            return
        self.goal(thread, "active")
        self.begin(thread, str(uuid.uuid4()), {"input": [{"text": "say the first step"}]})
        outcome = params["objective"].split()[0]
        self.goal(thread, outcome)
        self.begin(thread, str(uuid.uuid4()), {"input": [{"text": f"say {outcome}"}]})

    def goal(self, thread: str, status: str) -> None:
        emit(method="thread/goal/updated", params={"threadId": thread, "goal": {"status": status}})

    def begin(self, thread: str, turn: str, params: dict[str, Any]) -> None:
        text = params["input"][0]["text"]
        state = self.threads[thread]
        state["history"].append(text)
        self.store(thread)
        self.say(thread, turn, "turn/started", turn={"id": turn, "status": "inProgress"})
        word, rest = (*text.split(None, 1), "", "")[:2]
        method = getattr(self, f"do_{word.replace('-', '_')}", None)
        if method is None:
            self.answer(thread, turn, f"answer to {text}")
        else:
            method(thread, turn, rest, params)

    def say(self, thread: str, turn: str, method: str, /, **params: Any) -> None:
        emit(method=method, params={"threadId": thread, "turnId": turn, **params})

    def use(self, thread: str, turn: str, tokens: int) -> None:
        self.threads[thread]["total"] += tokens
        total = self.threads[thread]["total"]
        usage = {"total": counts(total), "last": counts(min(100, total))}
        self.say(thread, turn, "thread/tokenUsage/updated", tokenUsage=usage)

    def answer(self, thread: str, turn: str, text: str, status: str = "completed") -> None:
        for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
            self.say(thread, turn, "item/agentMessage/delta", delta=piece)
        item = {"type": "agentMessage", "id": "message", "text": text}
        self.say(thread, turn, "item/completed", item=item)
        self.use(thread, turn, 100)
        self.store(thread)
        self.complete(thread, turn, status)

    def complete(self, thread: str, turn: str, status: str, error: Any = None) -> None:
        whole = {"id": turn, "status": status, "error": error}
        emit(method="turn/completed", params={"threadId": thread, "turn": whole})

    def on_turn_steer(self, params: dict[str, Any]) -> Any:
        thread = params["threadId"]
        if thread not in self.waiting or self.waiting[thread][1] == "nothing":
            raise Refusal("no active turn to steer")
        return {"turnId": params["expectedTurnId"]}

    def after_turn_steer(self, params: dict[str, Any], result: Any) -> None:
        thread = params["threadId"]
        text = params["input"][0]["text"]
        self.threads[thread]["history"].append(text)
        turn, _ = self.waiting.pop(thread)
        self.answer(thread, turn, f"heard {text}")

    def on_turn_interrupt(self, params: dict[str, Any]) -> Any:
        if os.environ.get("FAKE_STUBBORN"):
            time.sleep(1000)
        return {}

    def after_turn_interrupt(self, params: dict[str, Any], result: Any) -> None:
        self.waiting.pop(params["threadId"], None)
        self.complete(params["threadId"], params["turnId"], "interrupted")

    # What it answers.

    def do_say(self, thread: str, turn: str, rest: str, params: Any) -> None:
        self.answer(thread, turn, rest)

    def do_history(self, thread: str, turn: str, rest: str, params: Any) -> None:
        self.answer(thread, turn, json.dumps(self.threads[thread]["history"]))

    def do_pid(self, thread: str, turn: str, rest: str, params: Any) -> None:
        self.answer(thread, turn, str(os.getpid()))

    def do_settings(self, thread: str, turn: str, rest: str, params: Any) -> None:
        self.answer(thread, turn, json.dumps({**self.threads[thread], "turn": params}))

    def do_tool(self, thread: str, turn: str, rest: str, params: Any) -> None:
        item = {"type": "commandExecution", "id": "c", "command": rest, "status": "inProgress"}
        self.say(thread, turn, "item/started", item=item)
        self.say(thread, turn, "item/completed", item={**item, "status": "completed"})
        self.answer(thread, turn, "used a tool")

    def do_value(self, thread: str, turn: str, rest: str, params: Any) -> None:
        """Give these values, one for each time it is asked."""
        history = self.threads[thread]["history"]
        asked = sum(one.startswith("Your answer cannot be used") for one in history)
        values = rest.split(" | ")
        self.answer(thread, turn, values[min(asked, len(values) - 1)])

    def do_Your(self, thread: str, turn: str, rest: str, params: Any) -> None:  # noqa: N802
        history = self.threads[thread]["history"]
        first = next(one for one in history if one.startswith("value "))
        self.do_value(thread, turn, first.partition(" ")[2], params)

    # How it fails.

    def do_deny(self, thread: str, turn: str, rest: str, params: Any) -> None:
        self.asked += 1
        item = {"type": "commandExecution", "id": "d", "command": rest}
        emit(
            method="item/commandExecution/requestApproval",
            id=self.asked,
            params={"threadId": thread, "turnId": turn, "itemId": "d"},
        )
        decision = json.loads(sys.stdin.readline())["result"]["decision"]
        status = "declined" if decision == "decline" else "completed"
        self.say(thread, turn, "item/completed", item={**item, "status": status})
        self.answer(thread, turn, "all done")

    def do_ask(self, thread: str, turn: str, rest: str, params: Any) -> None:
        """Ask something else, and say back the answer."""
        emit(method=rest, id="a", params={"threadId": thread, "turnId": turn})
        self.answer(thread, turn, json.dumps(json.loads(sys.stdin.readline())))

    def do_error(self, thread: str, turn: str, rest: str, params: Any) -> None:
        info, _, text = rest.partition(" ")
        error = {"message": text, "codexErrorInfo": info}
        self.say(thread, turn, "error", error=error, willRetry=False)
        self.complete(thread, turn, "failed", error)

    def do_retry(self, thread: str, turn: str, rest: str, params: Any) -> None:
        """Say that it will try again; wait to be interrupted."""
        status, _, text = rest.partition(" ")
        code = int(status) or None
        info = {"responseStreamDisconnected": {"httpStatusCode": code}}
        error = {"message": "Reconnecting", "codexErrorInfo": info, "additionalDetails": text}
        self.say(thread, turn, "error", error=error, willRetry=True)
        if code is None and "again" not in text:
            self.answer(thread, turn, "recovered")
        else:
            self.say(thread, turn, "error", error=error, willRetry=True)
            self.waiting[thread] = turn, "nothing"

    def do_quota(self, thread: str, turn: str, rest: str, params: Any) -> None:
        limits = {"primary": {"usedPercent": 100, "resetsAt": int(time.time()) + int(rest)}}
        emit(method="account/rateLimits/updated", params={"rateLimits": limits})
        self.do_error(thread, turn, "usageLimitExceeded used up", params)

    def do_exit(self, thread: str, turn: str, rest: str, params: Any) -> None:
        status, _, said = rest.partition(" ")
        sys.stderr.write(said + "\n")
        sys.stderr.flush()
        os._exit(int(status))

    def do_kill(self, thread: str, turn: str, rest: str, params: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_garbage(self, thread: str, turn: str, rest: str, params: Any) -> None:
        sys.stdout.buffer.write(b"Warning: \xff\xfe\n[1]\n3\n{}\n")
        sys.stdout.buffer.flush()
        emit(id=999, result=None)
        emit(id="odd", result={})
        emit(method="turn/completed", params=[1])
        emit(method="new/thing", params={"threadId": thread})
        self.answer(thread, turn, rest)

    def do_huge(self, thread: str, turn: str, rest: str, params: Any) -> None:
        for _ in range(int(rest) >> 16):
            sys.stdout.buffer.write(b"x" * (1 << 16))
        sys.stdout.buffer.flush()

    # What takes time, and what it starts.

    def do_begin(self, thread: str, turn: str, rest: str, params: Any) -> None:
        """Note the pid in a file, and wait to be told something."""
        self.waiting[thread] = turn, "anything"
        note(rest, os.getpid())

    def do_stall(self, thread: str, turn: str, rest: str, params: Any) -> None:
        self.waiting[thread] = turn, "anything"

    def do_late(self, thread: str, turn: str, rest: str, params: Any) -> None:
        """Answer once an interjection was refused, as if nothing had been said."""
        note(rest, os.getpid())
        message = json.loads(sys.stdin.readline())
        emit(id=message["id"], error={"code": -32600, "message": "no active turn to steer"})
        self.answer(thread, turn, "too early")

    def do_child(self, thread: str, turn: str, rest: str, params: Any) -> None:
        """Start a tool in a session of its own, and wait for it as for a command."""
        tool = self.tool(thread)
        item = {"type": "commandExecution", "id": "c", "command": "sleep"}
        self.say(thread, turn, "item/started", item=item)
        self.waiting[thread] = turn, "anything"
        note(rest, os.getpid(), tool.pid)

    def do_leave(self, thread: str, turn: str, rest: str, params: Any) -> None:
        """Leave a tool running."""
        note(rest, self.tool(thread).pid)
        self.answer(thread, turn, "left")

    def tool(self, thread: str) -> "subprocess.Popen[bytes]":
        tool = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        self.tools.setdefault(thread, []).append(tool)
        return tool


def counts(total: int) -> dict[str, int]:
    return {"inputTokens": total, "outputTokens": total // 10, "cachedInputTokens": 0}


def note(file: str, *pids: int) -> None:
    """Write pids to a file that is whole once it is there."""
    new = Path(f"{file}.new")
    new.write_text(" ".join(str(pid) for pid in pids) + "\n")
    new.rename(file)


class Exec:
    """One turn of ``codex exec --json``: a method for each first word of a prompt."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        folder = Path(os.environ["HOME"], "threads")
        folder.mkdir(parents=True, exist_ok=True)
        self.thread = argv[-2] if argv[1] == "resume" else str(uuid.uuid4())
        self.file = folder / self.thread
        self.history: list[str] = []
        if self.file.exists():
            self.history = json.loads(self.file.read_text())["history"]

    def run(self) -> None:
        text = sys.stdin.read()
        self.history.append(text)
        self.file.write_text(json.dumps({"history": self.history, "name": ""}))
        emit(type="thread.started", thread_id=self.thread)
        emit(type="turn.started")
        word, rest = (*text.split(None, 1), "", "")[:2]
        method = getattr(self, f"do_{word}", None)
        answer = method(rest) if method is not None else f"answer to {text}"
        emit(type="item.completed", item={"type": "agent_message", "text": answer})
        used = 100 * len(self.history)
        usage = {"input_tokens": used, "cached_input_tokens": 0, "output_tokens": used // 10}
        emit(type="turn.completed", usage=usage)

    def do_say(self, rest: str) -> str:
        return rest

    def do_history(self, rest: str) -> str:
        return json.dumps(self.history)

    def do_args(self, rest: str) -> str:
        return json.dumps(self.argv)

    def do_schema(self, rest: str) -> str:
        return Path(self.argv[self.argv.index("--output-schema") + 1]).read_text()

    def do_tool(self, rest: str) -> str:
        emit(type="item.started", item={"type": "command_execution", "command": rest})
        return "used a tool"

    def do_deny(self, rest: str) -> str:
        sys.stderr.write(f"ERROR error=patch rejected: {rest}\n")
        return "all done"

    def do_error(self, rest: str) -> str:
        emit(type="turn.failed", error={"message": rest})
        sys.exit(1)

    def do_exit(self, rest: str) -> str:
        sys.exit(rest)

    def do_status(self, rest: str) -> str:
        """Answer, and exit with a status all the same."""
        item = {"type": "agent_message", "text": "all done"}
        emit(type="item.completed", item=item)
        emit(type="turn.completed", usage={})
        sys.exit(int(rest))

    def do_stall(self, rest: str) -> str:
        time.sleep(1000)
        return ""

    def do_garbage(self, rest: str) -> str:
        sys.stdout.buffer.write(b"Warning: \xff\n[1]\n{}\n")
        sys.stdout.buffer.flush()
        return rest

    def do_child(self, rest: str) -> str:
        tool = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        note(rest, os.getpid(), tool.pid)
        tool.wait()
        return "the tool has ended"

    def do_wait(self, rest: str) -> str:
        """Note the pid in a file, and wait until there is another."""
        note(rest, os.getpid())
        while not Path(f"{rest}.go").exists():
            time.sleep(0.01)
        return "went on"


if __name__ == "__main__":
    if os.environ.get("FAKE_STUBBORN"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.argv[1] == "exec":
        Exec(sys.argv[1:]).run()
    else:
        Server().run()
