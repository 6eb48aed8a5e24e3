from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hmz_mp_worker.backends.acp.agent import AcpAgent, Refused
from hmz_mp_worker.backends.acp.choices import choices_of
from hmz_mp_worker.backends.acp.sessions import check_directory, new, reopened, set_up
from hmz_mp_worker.backends.program import ProgramFailed
from tests.workers.backends.acp.conftest import Made, Run


def test_a_session(run: Run, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        agent = await AcpAgent.start(made.settings)
        session, opened = await new(agent, str(tmp_path))
        settings = made.changed(model="large", effort="high")
        offered = await set_up(agent, session, settings, choices_of(opened))
        assert {name: one.current for name, one in offered.items()} == {
            "model": "large",
            "mode": "default",
            "thought_level": "high",
        }
        assert await set_up(agent, session, settings, offered) == offered
        await agent.request("session/prompt", {"sessionId": session, "prompt": [{"text": "x"}]})
        assert await reopened(agent, str(tmp_path), session) == {}
        with pytest.raises(Refused, match="no such session"):
            await reopened(agent, str(tmp_path), "none")
        await agent.end()

    run(body)


@pytest.mark.parametrize("said", [{}, {"sessionId": ""}, {"sessionId": 3}])
def test_a_session_without_an_id(
    run: Run, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    async def request(self: AcpAgent, method: str, params: Any) -> dict[str, Any]:
        return said

    async def body(made: Made) -> None:
        agent = await AcpAgent.start(made.settings)
        monkeypatch.setattr(AcpAgent, "request", request)
        with pytest.raises(Refused, match="without an id"):
            await new(agent, "/")
        await agent.end()

    run(body)


def test_directories(tmp_path: Path) -> None:
    check_directory(str(tmp_path))
    with pytest.raises(ProgramFailed, match="is not a directory"):
        check_directory(str(tmp_path / "none"))
    odd = tmp_path / "odd\udcff"
    odd.mkdir()
    with pytest.raises(ProgramFailed, match="no directory for the protocol"):
        check_directory(str(odd))
