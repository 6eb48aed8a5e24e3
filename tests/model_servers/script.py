"""What a scripted model answers, worked out from a request alone.

A script is ``{"rules": [{"match": REGEX, "steps": [STEP, ...]}], "default": {"steps": [...]}}``.
The first rule whose regex is found in the newest prompt answers it, with the step whose number is
that of the model's turns since that prompt; so one server answers many programs at once, and a
resumed or repeated turn gets the right answer. ``{name}`` in a text is filled from the regex's
groups, and ``{cwd}`` if the request names a working directory.

A step is a text (``{"text": "done"}``), calls of a tool (``{"tool": "Read", "input": {...}}``; as
``arguments`` a text is sent as it is), or a fault, which stands before the step of its number
``at`` so many ``times``: ``{"status": 429, "retry_after": 1}``, ``{"hang_s": 5}``, or
``{"stream_cut": true}`` and ``{"stream_error": {...}}``, which send half a text. ``usage`` says
what to report.
"""

from __future__ import annotations

import re
import threading
from typing import Any

__all__ = ["Plan", "Step", "calls_of", "pieces"]

Step = dict[str, Any]
_FAULTS = {"status", "stream_cut", "stream_error", "hang_s"}


class Plan:
    """A script, and how often each fault has been given, by prompt."""

    def __init__(self, script: dict[str, Any]) -> None:
        self._rules = script.get("rules", [])
        self._default = script.get("default", {"steps": [{"text": "ok"}]})
        self._given: dict[tuple[str, int, int], int] = {}
        self._lock = threading.Lock()

    def pick(self, prompt: str, turns_done: int, cwd: str = "") -> Step:
        """Return the step to answer with."""
        rule, names = self._default, {}
        for one in self._rules:
            match = re.search(one["match"], prompt, re.DOTALL)
            if match is not None:
                rule = one
                names = {name: value or "" for name, value in match.groupdict().items()}
                break
        names.setdefault("cwd", cwd)
        faults = [step for step in rule["steps"] if _FAULTS & step.keys()]
        for number, fault in enumerate(faults):
            if fault.get("at", 0) == turns_done and self._is_due(prompt, number, fault):
                return _fill(fault, names)  # type: ignore[no-any-return]  # a dict stays one
        answers = [step for step in rule["steps"] if step not in faults] or [{"text": "ok"}]
        return _fill(answers[min(turns_done, len(answers) - 1)], names)  # type: ignore[no-any-return]

    def _is_due(self, prompt: str, number: int, fault: Step) -> bool:
        key = (prompt, fault.get("at", 0), number)
        with self._lock:
            given = self._given.get(key, 0)
            self._given[key] = given + 1
        return bool(given < fault.get("times", 1))


def _fill(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], match[0]), value)
    if isinstance(value, list):
        return [_fill(one, names) for one in value]
    if isinstance(value, dict):
        return {key: _fill(one, names) for key, one in value.items()}
    return value


def calls_of(step: Step) -> list[Step]:
    """Return the calls of tools in a step."""
    calls: list[Step] = step.get("calls") or ([step] if "tool" in step else [])
    return calls


def pieces(text: str, words: int = 3) -> list[str]:
    """Cut a text into pieces of a few words, for streaming."""
    parts = re.findall(r"\S+\s*|\s+", text)
    return ["".join(parts[at : at + words]) for at in range(0, len(parts), words)] or [""]
