"""What an agent is told: a text, and the item it is about. Imports nothing of ours."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec
import msgspec.structs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Goal", "Prompt", "as_prompt", "each_prompt"]


class Prompt(msgspec.Struct, frozen=True):
    """A prompt and the item it is about.

    ``path`` may be given as ``str``, ``bytes`` or a path object, and is kept as the file's bytes.
    Without an ``item_id`` the path names the item; without either, the session does.
    """

    text: str
    item_id: str | None = None
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"a prompt's text is a str, not {type(self.text).__name__}")
        if self.path is not None:
            if not isinstance(self.path, bytes):
                msgspec.structs.force_setattr(self, "path", os.fsencode(self.path))
            if self.item_id is None:
                msgspec.structs.force_setattr(self, "item_id", os.fsdecode(self.path))

    @property
    def file(self) -> bytes | None:
        """The path as bytes."""
        return self.path  # type: ignore[return-value]  # made bytes above


class Goal:
    """Marks an agent in a flow's annotation as one that pursues an objective.

    As in ``worker: Annotated[Agent, Goal]``. Every agent can pursue, so nothing follows from it.
    """


def as_prompt(prompt: str | Prompt) -> Prompt:
    """Return a prompt, which may be written as a plain text."""
    if isinstance(prompt, Prompt):
        return prompt
    if isinstance(prompt, str):
        return Prompt(prompt)
    raise TypeError(f"a prompt is a str or a Prompt, not {type(prompt).__name__}")


def each_prompt(prompts: Iterable[str | Prompt]) -> Iterable[Prompt]:
    """Return many prompts. Raises `TypeError` for one ``str``, which would go letter by letter."""
    if isinstance(prompts, (str, Prompt)):
        raise TypeError("a batch takes a list of prompts, not one prompt")
    return map(as_prompt, prompts)
