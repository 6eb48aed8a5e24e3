from __future__ import annotations

import json
from typing import Any

import pytest

from hmz_mp_worker.backends.acp import agent as module
from hmz_mp_worker.backends.acp.agent import (
    AcpAgent,
    Ended,
    LoginFailed,
    Refused,
    _message,
)
from hmz_mp_worker.backends.program import ProgramFailed
from tests.workers.backends.acp.conftest import Made, Run


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": 1, "result": {}}', {"id": 1, "result": {}}),
        (b'{"id": null, "method": "m"}', {"method": "m"}),
        (b'{"id": 1, "error": "odd"}', {"id": 1, "error": {"message": "odd", "code": 0}}),
        (b'{"id": 1, "error": {"code": "x"}}', {"id": 1, "error": {"code": 0}}),
        (b'{"id": 1, "error": {"code": -3}}', {"id": 1, "error": {"code": -3}}),
        (b'{"id": [1], "result": {}}', None),
        (b"[1]", None),
        (b"Warning: \xff", None),
        (b"[" * 200_000, None),
    ],
)
def test_lines_that_the_sdk_can_take(line: bytes, message: Any) -> None:
    assert _message(line) == message


def test_a_program_and_what_it_says_of_itself(run: Run) -> None:
    async def body(made: Made) -> None:
        agent = await AcpAgent.start(made.settings)
        assert agent.alive
        assert agent.reopens == "session/load"
        assert agent.ways_in == "Run `fake login`"
        with pytest.raises(Refused) as caught:
            await agent.request("no/such/thing", {})
        assert (caught.value.code, caught.value.message) == (-32601, "Method not found")
        await agent.close()
        assert not agent.alive
        assert agent.status == 0
        with pytest.raises(Ended):
            await agent.request("session/new", {})
        await agent.cancel("s")
        await agent.forget("s")
        await agent.close()

    run(body)


@pytest.mark.parametrize(
    ("reopens", "method"), [("resume", "session/resume"), ("load", "session/load"), ("none", "")]
)
def test_how_it_goes_on_with_a_session(run: Run, reopens: str, method: str) -> None:
    async def body(made: Made) -> None:
        agent = await AcpAgent.start(made.changed(FAKE_REOPENS=reopens))
        assert agent.reopens == method
        await agent.end()

    run(body)


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("plain", "does not speak the Agent Client Protocol: .* status 1: usage: program"),
        ("version", "it speaks version 7 of it, not 1"),
        ("silent", "it said nothing of the Agent Client Protocol in 0.2 s"),
    ],
)
def test_programs_that_do_not_speak_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, start: str, says: str
) -> None:
    if start == "silent":
        monkeypatch.setattr(module, "_START_SECONDS", 0.2)

    async def body(made: Made) -> None:
        with pytest.raises(ProgramFailed, match=says):
            await AcpAgent.start(made.changed(FAKE_START=start))

    run(body)


def test_logging_in(run: Run) -> None:
    async def body(made: Made) -> None:
        agent = await AcpAgent.start(made.changed(FAKE_LOGIN=1, auth="key"))
        assert "sessionId" in await agent.request("session/new", {"cwd": "/", "mcpServers": []})
        await agent.end()
        with pytest.raises(LoginFailed, match="auth=other was refused: no such method; it has key"):
            await AcpAgent.start(made.changed(FAKE_LOGIN=1, auth="other"))

    run(body)


def test_there_is_no_such_program(run: Run) -> None:
    async def body(made: Made) -> None:
        with pytest.raises(ProgramFailed, match="no such program was found"):
            await AcpAgent.start(made.changed(command=("/no/such/program",)))

    run(body)


def test_what_it_is_told_that_we_can_do(run: Run) -> None:
    async def body(made: Made) -> None:
        from tests.workers.backends.acp.conftest import answer

        client = json.loads(await answer(made.new(), "settings"))["client"]
        assert client["protocolVersion"] == 1
        assert client["clientCapabilities"] == {
            "fs": {"readTextFile": False, "writeTextFile": True},
            "terminal": False,
        }

    run(body)
