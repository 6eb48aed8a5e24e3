from __future__ import annotations

from typing import Any

import pytest

from hmz_mp.dispatch import schemas
from hmz_mp.dispatch.describing import by_name
from tests.dispatch.functions import weather

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "default": 1},
    },
    "required": ["city"],
    "additionalProperties": False,
}
TEXT = weather.explanation


@pytest.mark.parametrize(
    ("flavour", "described"),
    [
        (
            "openai",
            {
                "type": "function",
                "function": {"name": "weather", "description": TEXT, "parameters": PARAMETERS},
            },
        ),
        (
            "openai-responses",
            {
                "type": "function",
                "name": "weather",
                "description": TEXT,
                "parameters": PARAMETERS,
                "strict": False,
            },
        ),
        ("anthropic", {"name": "weather", "description": TEXT, "input_schema": PARAMETERS}),
    ],
)
def test_what_each_service_is_told(flavour: Any, described: dict[str, Any]) -> None:
    assert schemas([weather], flavour) == [described]


def test_the_text_says_that_calls_are_independent() -> None:
    assert TEXT.startswith("What the weather will be.")
    assert "independent" in TEXT


def test_another_service() -> None:
    with pytest.raises(ValueError, match="not for 'gemini'"):
        schemas([], "gemini")  # type: ignore[arg-type]  # that is the point


def test_names() -> None:
    def plain() -> None: ...

    assert list(by_name([weather, plain])) == ["weather", "plain"]
    with pytest.raises(ValueError, match="two tools are called 'weather'"):
        by_name([weather, weather])
    with pytest.raises(ValueError, match="'<lambda>' is no name"):
        by_name([lambda: None])
