"""How ``acp/`` agents are written."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from hmz_mp.agents.engine import Engine
from hmz_mp.agents.kinds import engine_for
from hmz_mp.agents.spec import parse
from hmz_mp.errors import BadInput
from hmz_mp_worker.backends import acp
from tests.fakes.programs import fake_acp


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program ``fake`` on PATH, and return it."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return fake_acp(tmp_path / "bin", "fake")


def engine(text: str) -> Engine:
    return engine_for(parse(text))


def settings(text: str) -> acp.Settings:
    made = engine(text)
    assert made.call is acp.arun
    (found,) = made.args
    assert isinstance(found, acp.Settings)
    return found


def wrong(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        engine(text)
    return str(caught.value)


def test_the_short_form(program: Path) -> None:
    assert settings("acp/fake --acp 'a b'") == acp.Settings((str(program), "--acp", "a b"))
    made = engine("acp/fake")
    assert made.waits
    assert made.converses
    assert not made.prices
    assert made.options == {}


def test_a_model_is_its_own(program: Path) -> None:
    command = (str(program), "acp")
    assert settings("cli=acp,model=fake acp") == acp.Settings(command)
    assert settings("cli=acp,command=fake acp") == acp.Settings(command)
    found = settings("cli=acp,command=fake acp,model=anthropic/claude:high")
    assert found == acp.Settings(command, "anthropic/claude:high")


def test_every_setting() -> None:
    found = settings(
        "cli=acp,command=fake,model=large,effort=high,mode=plan,permission=read-only,"
        "allow=execute fetch,deny=search,auth=key,env=A=1 B='2 3',home=/tmp/h,commands=true,"
        "fresh=true,stall=60,timeout=9"
    )
    assert (found.model, found.effort, found.mode) == ("large", "high", "plan")
    assert found.permission == "read-only"
    assert (found.allow, found.deny) == (("execute", "fetch"), ("search",))
    assert found.auth == "key"
    assert found.environment == (("A", "1"), ("B", "2 3"))
    assert found.home == "/tmp/h"
    assert found.commands
    assert found.fresh
    assert found.stall == 60
    assert engine("cli=acp,command=fake,timeout=9,at_once=4").options == {
        "timeout": 9,
        "at_once": 4,
    }


def test_programs_of_ones_own(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(program.parent.parent)
    for text in (str(program), "bin/fake", "./bin/fake"):
        assert settings(f"acp/{text}").command == (str(program),)


def test_who_shares_an_account(program: Path) -> None:
    assert engine("acp/fake").account == engine("acp/fake --more").account == f"acp {program}"
    assert engine("cli=acp,command=fake,home=/one").account == f"acp /one {program}"
    assert engine("cli=acp,command=fake,backoff=false").account == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("acp/none --acp", "there is no program 'none' on PATH: install it, or write where it is"),
        ("acp//none", "there is no program '/none': install it"),
        ("acp/fake 'open", "cannot be split into words: No closing quotation"),
        ("acp/''", "there is no program '' on PATH"),
        ("cli=acp,command=,model=", "has no program to run"),
        ("cli=acp,permission=auto", "has no model: what is acp/ to run?"),
        ("cli=acp,command=fake,permission=all", "permission=all is none of read-only"),
        ("cli=acp,command=fake,allow=Bash", "allow=Bash is no kind of tool; there is read, edit"),
        ("cli=acp,command=fake,deny=read edits", "deny=edits is no kind of tool"),
        ("cli=acp,command=fake,fresh=yes", "fresh=yes is none of false, true"),
        ("cli=acp,command=fake,env=API_KEY=x", "looks like a secret"),
        ("cli=acp,command=fake,colour=red", "acp/ has no setting 'colour'; it has timeout"),
    ],
)
def test_what_the_user_has_to_correct(text: str, says: str) -> None:
    assert says in wrong(text)


def test_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    said = wrong("acp/fake")
    assert "needs the package agent-client-protocol" in said
    assert "pip install 'hmz-mp[acp]'" in said
