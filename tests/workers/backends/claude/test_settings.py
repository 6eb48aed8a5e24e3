from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hmz_mp_worker.backends.claude.settings import (
    PERMISSIONS,
    Permission,
    Settings,
    arguments,
    environment,
)
from hmz_mp_worker.backends.protocol import Ask

PLAIN = Settings("/bin/claude", "opus")


def words(settings: Settings, ask: Ask | None = None, *, kept: bool = False) -> list[str]:
    return arguments(settings, ask or Ask("go"), (), kept=kept)


def after(name: str, found: list[str]) -> str:
    return found[found.index(name) + 1]


def test_the_prompt_is_no_argument_and_input_is_lines() -> None:
    found = words(PLAIN)
    assert found[:2] == ["/bin/claude", "-p"]
    assert after("--input-format", found) == "stream-json"
    assert after("--output-format", found) == "stream-json"
    assert after("--model", found) == "opus"
    assert "go" not in found
    assert "--effort" not in found
    assert "--json-schema" not in found


def test_every_setting_is_an_argument() -> None:
    settings = msgspec.structs.replace(
        PLAIN,
        effort="high",
        allow=("Bash(git log *)", "Read"),
        deny=("WebFetch",),
        arguments=("--add-dir", "../x y"),
    )
    found = arguments(settings, Ask("go", schema="{}"), ("--resume", "id"), kept=True)
    assert after("--effort", found) == "high"
    assert after("--allowedTools", found) == "Bash(git log *),Read"
    assert after("--disallowedTools", found) == "WebFetch"
    assert after("--json-schema", found) == "{}"
    assert after("--resume", found) == "id"
    assert "--include-partial-messages" in found
    assert found[-2:] == ["--add-dir", "../x y"]


@pytest.mark.parametrize(
    ("rung", "mode"),
    [
        ("read-only", "dontAsk"),
        ("workspace-write", "acceptEdits"),
        ("auto", "auto"),
        ("bypass", "bypassPermissions"),
    ],
)
def test_permissions(rung: Permission, mode: str) -> None:
    found = words(msgspec.structs.replace(PLAIN, permission=rung))
    assert after("--permission-mode", found) == mode
    assert ("--disallowedTools" in found) is (rung == "read-only")


def test_every_rung_is_there() -> None:
    assert list(PERMISSIONS) == ["read-only", "workspace-write", "auto", "bypass"]
    denied = words(msgspec.structs.replace(PLAIN, permission="read-only", deny=("Bash",)))
    assert after("--disallowedTools", denied) == "Edit,Write,NotebookEdit,Bash"


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "mine")
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "10")
    monkeypatch.setenv("DISABLE_AUTOUPDATER", "0")
    monkeypatch.setenv("HOME", "/home/me")
    found = environment(PLAIN, "id")
    assert found["ANTHROPIC_API_KEY"] == "mine"
    assert found["CLAUDE_CODE_MAX_RETRIES"] == "1"
    assert found["DISABLE_AUTOUPDATER"] == "0"
    assert found["HOME"] == "/home/me"
    set_here = msgspec.structs.replace(PLAIN, environment=(("CLAUDE_CODE_MAX_RETRIES", "3"),))
    assert environment(set_here, "id")["CLAUDE_CODE_MAX_RETRIES"] == "3"


def test_homes(tmp_path: Path) -> None:
    one = msgspec.structs.replace(PLAIN, home=str(tmp_path / "h"))
    assert environment(one, "id")["HOME"] == str(tmp_path / "h")
    assert (tmp_path / "h").is_dir()
    each = msgspec.structs.replace(one, homes=True)
    home = Path(environment(each, "id")["HOME"])
    assert home == tmp_path / "h" / "id"
    assert home.stat().st_mode & 0o777 == 0o700
