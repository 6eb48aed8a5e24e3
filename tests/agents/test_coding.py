from __future__ import annotations

from pathlib import Path

import pytest

from hmz_mp.agents.engine import Engine
from hmz_mp.agents.kinds import engine_for
from hmz_mp.agents.spec import parse
from hmz_mp.errors import BadInput
from hmz_mp_worker.backends import claude, codex
from tests.fakes.programs import fake_claude, fake_codex


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put programs ``claude`` and ``codex`` on PATH; return the first."""
    (tmp_path / "bin").mkdir()
    fake_codex(tmp_path / "bin")
    program = fake_claude(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return program


def engine(text: str) -> Engine:
    return engine_for(parse(text))


def settings(text: str) -> claude.Settings:
    made = engine(text)
    assert made.call is claude.arun
    (found,) = made.args
    assert isinstance(found, claude.Settings)
    return found


def wrong(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        engine(text)
    return str(caught.value)


def test_the_short_form(program: Path) -> None:
    found = settings("claude/claude-opus-4-8:high")
    assert found == claude.Settings(str(program), "claude-opus-4-8", "high")
    made = engine("claude/opus")
    assert made.waits
    assert made.converses
    assert made.options == {}


@pytest.mark.parametrize(
    ("model", "name", "effort"),
    [
        ("opus", "opus", ""),
        ("opus:max", "opus", "max"),
        ("us.anthropic.claude-v1:0", "us.anthropic.claude-v1:0", ""),
        ("us.anthropic.claude-v1:0:low", "us.anthropic.claude-v1:0", "low"),
    ],
)
def test_models_and_efforts(model: str, name: str, effort: str) -> None:
    found = settings(f"claude/{model}")
    assert (found.model, found.effort) == (name, effort)


def test_every_setting(tmp_path: Path) -> None:
    found = settings(
        "cli=claude,model=opus,effort=low,permission=read-only,allow=Bash(git log *) Read,"
        "deny=WebFetch,args=--add-dir '../x y',env=A=1 B='2 3',home=/tmp/h,commands=true,"
        "fresh=true,stall=60,timeout=9,retries=1,at_once=4"
    )
    assert found.effort == "low"
    assert found.permission == "read-only"
    assert found.allow == ("Bash(git log *)", "Read")
    assert found.deny == ("WebFetch",)
    assert found.arguments == ("--add-dir", "../x y")
    assert found.environment == (("A", "1"), ("B", "2 3"))
    assert (found.home, found.homes) == ("/tmp/h", False)
    assert found.commands
    assert found.fresh
    assert found.stall == 60
    assert engine("cli=claude,model=o,timeout=9,at_once=4").options == {"timeout": 9, "at_once": 4}


def test_a_home_for_each_program_lives_as_long_as_the_agent() -> None:
    made = engine("cli=claude,model=opus,home=private")
    (found,) = made.args
    assert found.homes
    assert Path(found.home).is_dir()
    del made
    assert not Path(found.home).exists()


def test_a_program_of_ones_own(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = program.rename(program.with_name("other"))
    assert settings("cli=claude,model=o,program=other").program == str(other)
    monkeypatch.chdir(other.parent.parent)
    assert settings("cli=claude,model=o,program=bin/other").program == str(other)
    monkeypatch.chdir(other.parent)
    assert settings("cli=claude,model=o,program=./other").program == str(other)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("claude/opus:fast", "there is no effort 'fast'; there is low, medium, high, xhigh, max"),
        ("cli=claude,model=opus,effort=fast", "effort=fast is none of low"),
        ("cli=claude,model=opus:low,effort=high", "has two efforts, low and high"),
        ("cli=claude,model=opus,permission=all", "permission=all is none of read-only"),
        ("cli=claude,model=opus,fresh=yes", "fresh=yes is none of false, true"),
        ("cli=claude,model=opus,stall=0", "stall=0 is out of range"),
        ("cli=claude,model=opus,args='open", "cannot be split into words"),
        ("cli=claude,model=opus,env=A", "env=A is not NAME=VALUE"),
        ("cli=claude,model=opus,program=none", "there is no program 'none' on PATH"),
        ("cli=claude,model=opus,program=/none", "there is no program '/none':"),
        ("cli=claude,model=opus,colour=red", "claude/ has no setting 'colour'; it has timeout"),
    ],
)
def test_what_the_user_has_to_correct(text: str, says: str) -> None:
    assert says in wrong(text)


def test_a_program_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said = wrong("claude/opus")
    assert "there is no program 'claude' on PATH: install it (npm install" in said


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "MY_TOKEN", "Password", "aws_secret"])
def test_secrets_are_not_written_into_an_agent(name: str) -> None:
    said = wrong(f"cli=claude,model=opus,env={name}=sk-hidden")
    assert "looks like a secret" in said
    assert "sk-hidden" not in said


# Codex -----------------------------------------------------------------------------------------


def codex_settings(text: str) -> codex.Settings:
    made = engine(text)
    assert made.call is codex.arun
    assert made.converses
    (found,) = made.args
    assert isinstance(found, codex.Settings)
    return found


@pytest.mark.parametrize(
    ("model", "name", "effort"),
    [
        ("gpt-5", "gpt-5", ""),
        ("gpt-5:high", "gpt-5", "high"),
        ("gpt-oss:20b", "gpt-oss:20b", ""),
        ("llama:latest", "llama:latest", ""),
        ("llama:latest:low", "llama:latest", "low"),
    ],
)
def test_codex_models_and_efforts(model: str, name: str, effort: str) -> None:
    found = codex_settings(f"codex/{model}")
    assert (found.model, found.effort) == (name, effort)


def test_every_setting_of_codex(program: Path) -> None:
    found = codex_settings(
        "cli=codex,model=gpt-5,effort=high,permission=auto,args=-c 'web_search=\"off\"',env=A=1,"
        "home=/tmp/h,stall=60,timeout=9"
    )
    assert found == codex.Settings(
        program=str(program.with_name("codex")),
        model="gpt-5",
        effort="high",
        permission="auto",
        arguments=("-c", 'web_search="off"'),
        environment=(("A", "1"),),
        home="/tmp/h",
        stall=60,
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cli=codex,model=gpt-5,effort=fast", "effort=fast is none of none, minimal"),
        ("cli=codex,model=gpt-5:low,effort=high", "has two efforts, low and high"),
        ("cli=codex,model=gpt-5,allow=Bash", "codex/ has no setting 'allow'"),
        ("cli=codex,model=gpt-5,program=none", "there is no program 'none' on PATH"),
    ],
)
def test_what_the_user_of_codex_has_to_correct(text: str, says: str) -> None:
    assert says in wrong(text)


def test_who_shares_an_account() -> None:
    assert engine("claude/opus").account == engine("claude/haiku:high").account == "claude"
    assert engine("codex/gpt-5").account == "codex"
    assert engine("cli=claude,model=opus,home=/one").account == "claude /one"
    assert engine("cli=claude,model=opus,home=private").account == "claude"
    assert engine("cli=codex,model=gpt-5,env=BASE=http://x").account == "codex BASE=http://x"
    assert engine("cli=claude,model=opus,backoff=false").account == ""
    assert "backoff=no is none of true, false" in wrong("cli=claude,model=opus,backoff=no")


def test_who_says_what_turns_cost() -> None:
    assert engine("claude/opus").prices
    assert not engine("codex/gpt-5").prices
