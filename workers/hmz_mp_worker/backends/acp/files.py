"""Files that an agent program asks its client to write: text, in its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hmz_mp_worker.backends.acp.agent import Declined

__all__ = ["write"]

_INVALID, _INTERNAL = -32602, -32603


def write(cwd: str, params: dict[str, Any]) -> dict[str, Any]:
    """Write a text to a file. Raises `Declined`."""
    path, content = params.get("path"), params.get("content")
    if not isinstance(path, str) or not path or "\0" in path:
        raise Declined(_INVALID, "there is no path")
    if not isinstance(content, str):
        raise Declined(_INVALID, "there is no content")
    file = Path(cwd, path)
    try:
        if file.exists() and not file.is_file():
            raise Declined(_INVALID, f"{file} is no regular file")
        data = content.encode()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except UnicodeEncodeError:
        raise Declined(_INVALID, "the content is no text in UTF-8") from None
    except OSError as error:
        raise Declined(_INTERNAL, f"{file} cannot be written: {error.strerror}") from None
    return {}
