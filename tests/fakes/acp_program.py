"""A program that speaks the Agent Client Protocol, for tests.

Standard library only; run by ``tests.fakes.programs``. The first word of a prompt is what to do,
the rest what to do it with: see `Agent`. Sessions are kept below ``$HOME/sessions``. What it can do
is set by variables: ``FAKE_REOPENS`` (load, resume, none), ``FAKE_OPTIONS`` (new, old, none),
``FAKE_START`` (silent, plain, version), ``FAKE_LOGIN``, ``FAKE_STUBBORN``.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODELS = ["small", "large"]
MODES = ["build", "default", "plan", "auto"]
REOPENS = os.environ.get("FAKE_REOPENS", "load")
OPTIONS = os.environ.get("FAKE_OPTIONS", "new")


def emit(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(file: str, *pids: int) -> None:
    """Write pids to a file that is whole once it is there."""
    new = Path(f"{file}.new")
    new.write_text(" ".join(str(pid) for pid in pids) + "\n")
    new.rename(file)


class Refusal(Exception):
    """What a request is refused with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Agent:
    """The process: its sessions, and the turns that wait for something."""

    def __init__(self) -> None:
        self.folder = Path(os.environ["HOME"], "sessions")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sessions: dict[str, dict[str, Any]] = {}
        self.prompts: dict[str, Any] = {}  # by session: the request that waits for its turn's end
        self.questions: dict[int, Callable[[Any], None]] = {}
        self.paused: dict[str, str] = {}  # by session: the file that is waited for
        self.tools: dict[str, subprocess.Popen[bytes]] = {}
        self.client: Any = {}
        self.login = "required" if os.environ.get("FAKE_LOGIN") else ""
        self.asked = 0

    def run(self) -> None:
        if os.environ.get("FAKE_START") == "silent":
            time.sleep(1000)
        if os.environ.get("FAKE_START") == "plain":
            sys.exit("usage: program [OPTIONS]")
        rest = b""
        while True:
            if not select.select([0], [], [], 0.01 if self.paused else None)[0]:
                self.look_for_files()
                continue
            data = os.read(0, 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self.take(json.loads(line))
        if os.environ.get("FAKE_STUBBORN"):
            time.sleep(1000)

    def take(self, message: Any) -> None:
        if "method" not in message:
            self.questions.pop(message["id"])(message)
            return
        name = message["method"].replace("/", "_")
        try:
            result = getattr(self, f"on_{name}", self.unknown)(message.get("params"), message)
        except Refusal as refusal:
            error = {"code": refusal.code, "message": str(refusal), "data": refusal.data}
            emit(id=message["id"], error=error)
            return
        if result is not None and "id" in message:
            emit(id=message["id"], result=result)

    def unknown(self, params: Any, message: Any) -> Any:
        raise Refusal(-32601, "Method not found")

    # Sessions.

    def on_initialize(self, params: Any, message: Any) -> Any:
        self.client = params
        of_sessions: Any = {"close": {}}
        if REOPENS == "resume":
            of_sessions["resume"] = {}
        abilities = {"loadSession": REOPENS == "load", "sessionCapabilities": of_sessions}
        return {
            "protocolVersion": 7 if os.environ.get("FAKE_START") == "version" else 1,
            "agentCapabilities": abilities,
            "authMethods": [{"id": "key", "name": "A key", "description": "Run `fake login`"}],
        }

    def on_authenticate(self, params: Any, message: Any) -> Any:
        if params["methodId"] != "key":
            raise Refusal(-32602, "no such method")
        self.login = ""
        return {}

    def on_session_new(self, params: Any, message: Any) -> Any:
        if self.login:
            raise Refusal(-32000, "Authentication required")
        session = str(uuid.uuid4())
        chosen = {"model": "small", "mode": "build", "effort": "low"}
        self.sessions[session] = {"history": [], **params, **chosen}
        self.news(session, "available_commands_update", availableCommands=[])
        return {"sessionId": session, **self.offers(session)}

    def offers(self, session: str) -> Any:
        now = self.sessions[session]
        if OPTIONS == "none":
            return {}
        if OPTIONS == "old":
            models = [{"modelId": one, "name": one} for one in MODELS]
            modes = [{"id": one, "name": one} for one in MODES]
            return {
                "models": {"currentModelId": now["model"], "availableModels": models},
                "modes": {"currentModeId": now["mode"], "availableModes": modes},
            }
        grouped = [{"group": "all", "options": [{"value": one} for one in MODELS]}]
        return {
            "configOptions": [
                option("model", "model", now["model"], grouped),
                option("mode", "mode", now["mode"], [{"value": one} for one in MODES]),
                option("effort", "thought_level", now["effort"], [{"value": "low"}]),
            ]
        }

    def on_session_set_config_option(self, params: Any, message: Any) -> Any:
        if params["value"] not in [*MODELS, *MODES, "low", "high"]:
            raise Refusal(-32602, "Invalid params")
        self.sessions[params["sessionId"]][params["configId"]] = params["value"]
        self.sessions[params["sessionId"]].setdefault("changed", []).append(params["configId"])
        return self.offers(params["sessionId"])

    def on_session_set_model(self, params: Any, message: Any) -> Any:
        self.sessions[params["sessionId"]]["model"] = params["modelId"]
        return {}

    def on_session_set_mode(self, params: Any, message: Any) -> Any:
        self.sessions[params["sessionId"]]["mode"] = params["modeId"]
        return {}

    def store(self, session: str) -> None:
        (self.folder / session).write_text(json.dumps(self.sessions[session]))

    def on_session_load(self, params: Any, message: Any) -> Any:
        session = params["sessionId"]
        if Path(os.environ["HOME"], "die").exists():
            os._exit(9)
        if not (self.folder / session).exists():
            raise Refusal(-32603, "Internal error: no such session")
        kept = json.loads((self.folder / session).read_text())
        self.sessions[session] = {**kept, **params, "changed": []}
        if REOPENS == "load":
            for text in self.sessions[session]["history"]:
                self.say(session, f"answer to {text}, said again")
        return {}

    on_session_resume = on_session_load

    def on_session_close(self, params: Any, message: Any) -> Any:
        del self.sessions[params["sessionId"]]
        return {}

    # Turns.

    def on_session_prompt(self, params: Any, message: Any) -> Any:
        session, text = params["sessionId"], params["prompt"][0]["text"]
        self.prompts[session] = message["id"]
        self.sessions[session]["history"].append(text)
        self.store(session)
        word, rest = (*text.split(None, 1), "", "")[:2]
        method = getattr(self, f"do_{word.replace('-', '_')}", None)
        if method is None:
            self.answer(session, f"answer to {text}")
        else:
            method(session, rest)

    def news(self, session: str, news: str, /, **more: Any) -> None:
        update = {"sessionUpdate": news, **more}
        emit(method="session/update", params={"sessionId": session, "update": update})

    def say(self, session: str, text: str, **more: Any) -> None:
        content = {"type": "text", "text": text}
        self.news(session, "agent_message_chunk", content=content, **more)

    def tool(self, session: str, kind: str, title: str, *states: str, path: str = "") -> None:
        said: Any = {"toolCallId": title, "kind": kind, "title": title, "status": states[0]}
        said["locations"] = [{"path": path}] if path else []
        self.news(session, "tool_call", **said)
        for state in states[1:]:
            self.news(session, "tool_call_update", toolCallId=title, status=state)

    def answer(self, session: str, text: str) -> None:
        for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
            self.say(session, piece)
        used = {"inputTokens": 80, "outputTokens": 10, "cachedReadTokens": 20, "totalTokens": 110}
        self.stop(session, "end_turn", usage=used)

    def stop(self, session: str, reason: str, **more: Any) -> None:
        emit(id=self.prompts.pop(session), result={"stopReason": reason, **more})

    def ask(self, session: str, method: str, then: Callable[[Any], None], **params: Any) -> None:
        self.asked += 1
        self.questions[self.asked] = then
        emit(id=self.asked, method=method, params={"sessionId": session, **params})

    def look_for_files(self) -> None:
        for session, file in list(self.paused.items()):
            if Path(f"{file}.go").exists():
                del self.paused[session]
                self.answer(session, "went on")

    def on_session_cancel(self, params: Any, message: Any) -> Any:
        if os.environ.get("FAKE_STUBBORN"):
            time.sleep(1000)
        session = params["sessionId"]
        self.paused.pop(session, None)
        if session in self.tools:
            tool = self.tools.pop(session)
            tool.kill()
            tool.wait()
        if session in self.prompts:
            self.stop(session, "cancelled")

    # What it answers.

    def do_say(self, session: str, rest: str) -> None:
        self.answer(session, rest)

    def do_history(self, session: str, rest: str) -> None:
        self.answer(session, json.dumps(self.sessions[session]["history"]))

    def do_pid(self, session: str, rest: str) -> None:
        self.answer(session, str(os.getpid()))

    def do_settings(self, session: str, rest: str) -> None:
        found = {**self.sessions[session], "client": self.client, "argv": sys.argv[1:]}
        self.answer(session, json.dumps(found))

    def do_tool(self, session: str, rest: str) -> None:
        """Say something, use a tool, and say something else."""
        self.say(session, "Let me see.")
        self.tool(session, "execute", rest, "pending", "in_progress", "completed")
        self.news(session, "nothing_known", text="?")
        self.answer(session, "used a tool")

    def do_messages(self, session: str, rest: str) -> None:
        """Say several messages, without a tool between them."""
        for number, text in enumerate(rest.split()):
            self.say(session, text, messageId=str(number))
        self.stop(session, "end_turn")

    def do_count(self, session: str, rest: str) -> None:
        """Say of each request what it used, and nothing at the end."""
        for _ in range(2):
            used = {"inputTokens": 100, "outputTokens": 5, "cachedReadTokens": 20}
            self.say(session, "", _meta={"usage": {**used, "totalTokens": 105}})
        self.say(session, "counted")
        self.stop(session, "end_turn")

    def do_value(self, session: str, rest: str) -> None:
        """Give these values, one for each time it is asked."""
        history = self.sessions[session]["history"]
        asked = sum(one.startswith("Your answer cannot be used") for one in history)
        values = rest.partition("\n")[0].split(" | ")
        self.answer(session, values[min(asked, len(values) - 1)])

    def do_Your(self, session: str, rest: str) -> None:  # noqa: N802  # how it is asked again
        history = self.sessions[session]["history"]
        first = next(one for one in history if one.startswith("value "))
        self.do_value(session, first.partition(" ")[2])

    def do_ask(self, session: str, rest: str) -> None:
        """Ask whether a tool of this kind may be used on these files, and write to the first."""
        kind, *paths = rest.partition("\n")[0].split()
        title = "pytest -q" if kind == "execute" else "Change"
        call: Any = {"toolCallId": "asked", "status": "pending"}
        self.news(session, "tool_call", kind=kind, title=title, **call)
        options = [{"optionId": f"the {one}", "name": one, "kind": one} for one in OFFERED]

        def go_on(answer: Any) -> None:
            outcome = answer["result"]["outcome"]
            permitted = outcome.get("optionId") == "the allow_once"
            if permitted and paths:
                Path(self.sessions[session]["cwd"], paths[0]).write_text("changed\n")
            status = "completed" if permitted else "failed"
            self.news(session, "tool_call_update", toolCallId="asked", status=status)
            self.answer(session, json.dumps(outcome))

        locations = [{"path": path} for path in paths]
        call |= {"locations": locations}
        self.ask(session, "session/request_permission", go_on, toolCall=call, options=options)

    def do_unasked(self, session: str, rest: str) -> None:
        """Use a tool of this kind on a file without a question."""
        kind, _, path = rest.partition(" ")
        self.tool(session, kind, "Change", "in_progress", "completed", path=path)
        self.answer(session, "done")

    def do_write(self, session: str, rest: str) -> None:
        self.ask(session, "fs/write_text_file", self.passed_on(session), **json.loads(rest))

    def do_want(self, session: str, rest: str) -> None:
        self.ask(session, rest, self.passed_on(session))

    def passed_on(self, session: str) -> Callable[[Any], None]:
        """Return what answers a turn with what the client said."""
        return lambda said: self.answer(
            session, json.dumps({key: said[key] for key in ("result", "error") if key in said})
        )

    def do_drain(self, session: str, rest: str) -> None:
        """Note the pid, wait for a file, and ask what was said meanwhile."""
        note(rest, os.getpid())
        while not Path(f"{rest}.go").exists():
            time.sleep(0.005)
        self.ask(session, "craft/drainMidTurnQueue", self.passed_on(session))

    def do_garbage(self, session: str, rest: str) -> None:
        for line in ("Warning: \x1b[31m?", "[1]", '{"id": [1]}', '{"id": 99, "error": "odd"}', "{"):
            sys.stdout.write(line + "\n")
        emit(method="session/update", params=3)
        self.answer(session, rest)

    # How it fails.

    def do_error(self, session: str, rest: str) -> None:
        """Refuse with a code and a message, which may be followed by data as JSON."""
        code, _, said = rest.partition(" ")
        message, _, data = said.partition(" with ")
        self.prompts.pop(session)
        raise Refusal(int(code), message, json.loads(data) if data else None)

    def do_stop(self, session: str, rest: str) -> None:
        self.say(session, "half of it")
        self.stop(session, rest)

    def do_exit(self, session: str, rest: str) -> None:
        status, _, words = rest.partition(" ")
        sys.stderr.write(f"{words}\n")
        sys.stderr.flush()
        os._exit(int(status))

    def do_kill(self, session: str, rest: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_stall(self, session: str, rest: str) -> None:
        """Say nothing more of this turn."""

    def do_pause(self, session: str, rest: str) -> None:
        """Note the pid in a file, and go on once there is another."""
        note(rest, os.getpid())
        self.paused[session] = rest

    def do_child(self, session: str, rest: str) -> None:
        """Start a tool in a session of its own, and wait for it."""
        tool = self.tools[session] = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        note(rest, os.getpid(), tool.pid)

    def do_leave(self, session: str, rest: str) -> None:
        """Leave a tool running."""
        tool = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        note(rest, os.getpid(), tool.pid)
        self.answer(session, "left")


OFFERED = os.environ.get("FAKE_OFFERED", "allow_always allow_once reject_once").split()


def option(id: str, category: str, current: str, options: Any) -> Any:  # noqa: A002  # its name there
    about = {"id": id, "name": id, "category": category, "type": "select"}
    return {**about, "currentValue": current, "options": options}


if __name__ == "__main__":
    if os.environ.get("FAKE_STUBBORN"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Agent().run()
