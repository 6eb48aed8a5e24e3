from __future__ import annotations

import pytest

from hmz_mp_worker.chat import Settings
from hmz_mp_worker.chat.clients import needs_key


@pytest.fixture(autouse=True)
def _no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        (Settings("openai", "m"), "OPENAI_API_KEY"),
        (Settings("anthropic", "m", key_env="MINE"), "MINE"),
        (Settings("openai", "m", base_url="http://127.0.0.1:1"), ""),
        (Settings("openai", "m", base_url="http://127.0.0.1:1", key_env="MINE"), "MINE"),
    ],
)
def test_which_key_has_to_be_there(settings: Settings, needed: str) -> None:
    assert needs_key(settings) == needed


def test_an_address_of_the_environment_may_want_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    assert needs_key(Settings("openai", "m")) == ""
