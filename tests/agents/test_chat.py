"""What ``openai/`` and ``anthropic/`` agents are written as."""

from __future__ import annotations

import importlib.util

import pytest

from hmz_mp.agents.chat import account_of, chat_settings
from hmz_mp.agents.kinds import engine_for
from hmz_mp.agents.spec import parse
from hmz_mp.errors import BadInput
from hmz_mp_worker.chat import Service, Settings
from tests.workers.chat.servers import SERVICES


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in SERVICES:
        monkeypatch.setenv(f"{service.upper()}_API_KEY", "sk-secret")


def settings(text: str) -> Settings:
    return chat_settings(parse(text))


@pytest.mark.parametrize(
    ("text", "model", "effort"),
    [
        ("openai/gpt-5.5", "gpt-5.5", ""),
        ("openai/gpt-5.5:high", "gpt-5.5", "high"),
        ("openai/org/model:8b", "org/model:8b", ""),
        ("openai/gpt-5.5:minimal", "gpt-5.5", "minimal"),
        ("anthropic/claude-opus-5:minimal", "claude-opus-5:minimal", ""),
        ("cli=anthropic,model=claude-opus-5,effort=max", "claude-opus-5", "max"),
        ("cli=openai,model=gpt-5.5:low,effort=low", "gpt-5.5", "low"),
    ],
)
def test_models_and_efforts(keys: None, text: str, model: str, effort: str) -> None:
    found = settings(text)
    assert (found.model, found.effort) == (model, effort)


def test_all_settings(keys: None) -> None:
    found = settings(
        "cli=openai,model=m,system=Be brief, and kind.,base_url=http://127.0.0.1:1/v1,"
        "key_env=OPENAI_API_KEY,max_tokens=9,temperature=0,stall=5"
    )
    assert found == Settings(
        "openai",
        "m",
        system="Be brief, and kind.",
        base_url="http://127.0.0.1:1/v1",
        key_env="OPENAI_API_KEY",
        max_tokens=9,
        temperature=0.0,
        stall=5.0,
    )
    assert account_of(found) == "openai http://127.0.0.1:1/v1 OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ("effort=huge", "effort=huge is none of"),
        ("max_tokens=0", "out of range"),
        ("max_tokens=1.5", "not a number"),
        ("temperature=-1", "out of range"),
        ("stall=0", "out of range"),
        ("attach=maybe", "attach=maybe is none of"),
        ("base_url=127.0.0.1:80", "not an address"),
        ("base_url=ftp://x", "not an address"),
        ("base_url=http://", "not an address"),
        ("base_url=http://x:port/", "not an address"),
        ("base_url=http://me:secret@x/", "kept in the ledger"),
        ("api_key=x", "has no setting 'api_key'"),
    ],
)
@pytest.mark.parametrize("service", SERVICES)
def test_what_the_user_has_to_correct(
    keys: None, service: Service, changes: str, says: str
) -> None:
    with pytest.raises(BadInput) as caught:
        engine_for(parse(f"cli={service},model=m,{changes}"))
    assert says in str(caught.value)


@pytest.mark.parametrize("service", SERVICES)
def test_a_key_written_in_place_of_its_name_is_not_repeated(service: Service) -> None:
    with pytest.raises(BadInput) as caught:
        engine_for(parse(f"cli={service},model=m,key_env=sk-secret"))
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("service", SERVICES)
def test_a_key_that_is_missing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "BASE_URL"):
        monkeypatch.delenv(f"{service.upper()}_{name}", raising=False)
    with pytest.raises(BadInput, match=f"set {service.upper()}_API_KEY in your environment"):
        engine_for(parse(f"{service}/m"))
    engine_for(parse(f"cli={service},model=m,base_url=http://127.0.0.1:1"))
    with pytest.raises(BadInput, match="set NO_SUCH_KEY"):
        engine_for(parse(f"cli={service},model=m,key_env=NO_SUCH_KEY"))


@pytest.mark.parametrize("service", SERVICES)
def test_a_package_that_is_missing(
    keys: None, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name, *rest: None if name == service else find(name, *rest),
    )
    with pytest.raises(BadInput, match=rf"pip install 'hmz-mp\[{service}\]'"):
        engine_for(parse(f"{service}/m"))
