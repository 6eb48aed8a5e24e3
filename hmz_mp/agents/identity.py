"""What a turn is asked, and of whom, as a short text: by it a resumed run finds the answer again.

Owns which settings of an agent make a difference. Imported by what submits turns; what becomes of
identities is ``hmz_mp.runs``'s. The item's file is not in it: it is looked at by who compares.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from hmz_mp.agents.spec import parse
from hmz_mp_worker.backends.schemas import schema_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hmz_mp.agents.prompts import Prompt

__all__ = ["Identities", "asked", "digest_of_files", "identity_of"]

_DIGEST = 12  # bytes
# How long, how often and how many at once: no answer is another for that.
_NO_DIFFERENCE = frozenset(("timeout", "retries", "at_once", "stall", "backoff"))


class Identities:
    """The identities of one agent's turns: ``ASKED:OF_WHOM``, two digests.

    ASKED is of the agent's place in the flow, the prompt, the item, the directory, the schema, and
    of what was asked before in the same session; OF_WHOM is of the agent as it is written, and of
    ``source``, a digest of the code of a tool.
    """

    def __init__(self, agent_id: str, spec: str, source: str = "") -> None:
        self._agent_id = agent_id
        self._whom = _digest(*_settings(spec), source).hexdigest()
        self._prefixes: dict[tuple[Any, bool], hashlib.blake2b] = {}

    def of(
        self,
        prompt: Prompt,
        cwd: str | None,
        *,
        schema: Any = None,
        pursue: bool = False,
        after: str | None = None,
    ) -> str:
        """Return a turn's identity.

        ``after`` is ASKED of the turn before it in its session; empty for the first, ``None`` for a
        turn that stands alone.
        """
        key = (schema, pursue)
        prefix = self._prefixes.get(key)
        if prefix is None:
            text = "" if schema is None else _schema_text(schema)
            prefix = self._prefixes[key] = _digest(self._agent_id, text, str(pursue))
        hasher = prefix.copy()
        file = b"" if prompt.file is None else prompt.file
        head = f"{len(file)} {len(prompt.item_id or '')} {len(cwd or '')} {after}\0"
        text = f"{head}{prompt.item_id or ''}{cwd or ''}{prompt.text}"
        hasher.update(text.encode("utf-8", "surrogatepass"))
        hasher.update(file)
        return f"{hasher.hexdigest()}:{self._whom}"


def identity_of(asked: Sequence[str], whom: Sequence[str]) -> str:
    """Return the identity of a turn that is no agent's."""
    return f"{_digest(*asked).hexdigest()}:{_digest(*whom).hexdigest()}"


def asked(identity: str) -> str:
    """Return the part of an identity that tells what was asked."""
    return identity.partition(":")[0]


def digest_of_files(*files: str | os.PathLike[str]) -> str:
    """Return a digest of what is in some files, those left out that cannot be read."""
    hasher = _digest()
    for file in files:
        try:
            with open(file, "rb") as opened:  # noqa: PTH123  (a str or a path)
                hasher.update(hashlib.file_digest(opened, "blake2b").digest())
        except OSError:
            continue
    return hasher.hexdigest()


def _schema_text(schema: Any) -> str:
    try:
        return schema_for(schema).text
    except TypeError:  # a type that answers can be turned into, and that no JSON schema tells
        return f"{schema!r}"


def _settings(spec: str) -> list[str]:
    written = parse(spec)
    settings = [
        f"{key}={value}"
        for key, value in sorted(written.settings.items())
        if key not in _NO_DIFFERENCE
    ]
    return [written.backend, written.model, *settings]


def _digest(*texts: str) -> hashlib.blake2b:
    hasher = hashlib.blake2b(digest_size=_DIGEST)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        hasher.update(f"{len(data)} ".encode())
        hasher.update(data)
    return hasher
