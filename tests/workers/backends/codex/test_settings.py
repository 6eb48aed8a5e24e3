from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hmz_mp_worker.backends.codex.settings import (
    PERMISSIONS,
    Permission,
    Settings,
    arguments,
    environment,
    thread_settings,
)

PLAIN = Settings("/bin/codex", "gpt-5")


def test_arguments() -> None:
    assert arguments(PLAIN) == ["/bin/codex", "app-server"]
    more = msgspec.structs.replace(PLAIN, arguments=("-c", "web_search='off'"))
    assert arguments(more)[2:] == ["-c", "web_search='off'"]


def test_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.setenv("HOME", "/home/me")
    assert environment(PLAIN)["OPENAI_API_KEY"] == "mine"
    assert environment(PLAIN)["HOME"] == "/home/me"
    changed = msgspec.structs.replace(
        PLAIN, home=str(tmp_path / "h"), environment=(("OPENAI_API_KEY", "other"),)
    )
    assert environment(changed)["HOME"] == str(tmp_path / "h")
    assert environment(changed)["OPENAI_API_KEY"] == "other"
    assert (tmp_path / "h").is_dir()


@pytest.mark.parametrize(
    ("rung", "sandbox", "policy"),
    [
        ("read-only", "read-only", "on-request"),
        ("workspace-write", "workspace-write", "on-request"),
        ("auto", "workspace-write", "on-request"),
        ("bypass", "danger-full-access", "never"),
    ],
)
def test_threads(rung: Permission, sandbox: str, policy: str) -> None:
    found = thread_settings(msgspec.structs.replace(PLAIN, permission=rung), "/d", "mine")
    assert (found["cwd"], found["model"]) == ("/d", "gpt-5")
    assert (found["sandbox"], found["approvalPolicy"]) == (sandbox, policy)
    assert ("approvalsReviewer" in found) is (rung == "auto")
    assert found["config"]["model_providers.mine.request_max_retries"] == 0
    assert "config" not in thread_settings(PLAIN, "/d", "")


def test_every_rung_is_there() -> None:
    assert list(PERMISSIONS) == ["read-only", "workspace-write", "auto", "bypass"]


def test_what_shares_a_server() -> None:
    other = msgspec.structs.replace(PLAIN, model="gpt-6", effort="high", permission="auto")
    assert other.server == PLAIN.server
    assert msgspec.structs.replace(PLAIN, home="/h").server != PLAIN.server
