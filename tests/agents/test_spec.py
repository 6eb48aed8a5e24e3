from __future__ import annotations

import pytest

from hmz_mp.agents.spec import Spec, parse
from hmz_mp.errors import BadInput


@pytest.mark.parametrize(
    ("text", "backend", "model", "settings"),
    [
        ("tool/json:dumps", "tool", "json:dumps", {}),
        ("tool//abs/my file.py:f", "tool", "/abs/my file.py:f", {}),
        ("sh/wc -l {path}", "sh", "wc -l {path}", {}),
        ("sh/env A=1,B=2 cmd", "sh", "env A=1,B=2 cmd", {}),
        ("cli=tool,model=json:dumps", "tool", "json:dumps", {}),
        ("model=wc -l,cli=sh,timeout=3", "sh", "wc -l", {"timeout": "3"}),
        ("cli=sh,model=cut -d, -f1 {path}", "sh", "cut -d, -f1 {path}", {}),
        ("cli=sh,effort=high,model=x", "sh", "x", {"effort": "high"}),
        (" tool / json:dumps ", "tool", "json:dumps", {}),
    ],
)
def test_a_spec_is_taken_apart(
    text: str, backend: str, model: str, settings: dict[str, str]
) -> None:
    assert parse(text) == Spec(text, backend, model, settings)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not written BACKEND/MODEL"),
        ("tool", "is not written BACKEND/MODEL"),
        ("/json:dumps", "is not written BACKEND/MODEL"),
        ("tool/", "agent 'tool/' has no model"),
        ("sh/  ", "has no model: what is sh/ to run"),
        ("cli=tool", "has no model"),
        ("cli=tool,model=", "has no model"),
        ("model=json:dumps", "has no cli="),
        ("cli=,model=x", "has no cli="),
        ("cli=tool,cli=sh,model=x", "has cli= twice"),
    ],
)
def test_a_spec_that_is_malformed(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        parse(text)


def test_a_spec_that_is_no_text() -> None:
    with pytest.raises(TypeError, match="written as a str, not NoneType"):
        parse(None)  # type: ignore[arg-type]
