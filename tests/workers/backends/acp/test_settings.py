from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hmz_mp_worker.backends.acp.settings import (
    PERMISSIONS,
    Permission,
    Settings,
    environment,
    modes_of,
)


def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "here")
    home = tmp_path / "new" / "home"
    settings = Settings(("agent",), environment=(("A", "1"),), home=str(home))
    found = environment(settings)
    assert (found["MINE"], found["A"], found["HOME"]) == ("here", "1", str(home))
    assert home.stat().st_mode & 0o777 == 0o700
    assert environment(Settings(("agent",), environment=(("MINE", "other"),)))["MINE"] == "other"


@pytest.mark.parametrize("rung", PERMISSIONS)
def test_modes(rung: Permission) -> None:
    settings = Settings(("agent",), permission=rung)
    assert modes_of(settings)
    assert modes_of(msgspec.structs.replace(settings, mode="own")) == ("own",)


def test_what_agents_have_to_have_in_common_to_share_a_program() -> None:
    one = Settings(("agent",), model="small", permission="bypass", stall=3.0)
    assert one.program == Settings(("agent",)).program
    for other in (
        Settings(("agent", "--acp")),
        Settings(("agent",), home="/h"),
        Settings(("agent",), environment=(("A", "1"),)),
        Settings(("agent",), auth="key"),
    ):
        assert other.program != one.program
