"""What fan-outs of the tests are given as work, where it runs in workers or is an agent."""

from __future__ import annotations

import os
from typing import TypedDict

from hmz_mp import tool
from hmz_mp.fanin import Finding


class Length(TypedDict):
    finding: str
    length: int
    worker: int


@tool
def length(text: str) -> Length:
    """How long a text is."""
    if text.startswith("bad"):
        raise ValueError(f"no length of {text}")
    return {"finding": f"{len(text)} letters", "length": len(text), "worker": os.getpid()}


@tool(batch=True)
def lengths(texts: list[str]) -> list[int]:
    return [len(text) for text in texts]


@tool
def plus(number: int, more: int) -> int:
    return number + more


def echo(prompt: str) -> str:
    """Answer as an agent what it is asked."""
    if "bad" in prompt:
        raise ValueError("bad prompt")
    return prompt


def looks(prompt: str, item_id: str) -> Finding:
    """Answer as an agent with a finding."""
    about = "another" if "wrong" in item_id else item_id
    status = "needs_review" if "odd" in item_id else "failed" if "bad" in item_id else "ok"
    return Finding(about, status, f"asked: {prompt}", "", "low")  # type: ignore[arg-type]  # one of three
