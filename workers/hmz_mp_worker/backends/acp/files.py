"""Files that an agent program asks its client to read and write: text, in its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hmz_mp_worker.backends.acp.agent import Declined

__all__ = ["CEILING", "read", "write"]

CEILING = 1 << 24  # bytes of a file that is read
_INVALID, _INTERNAL, _NOT_FOUND = -32602, -32603, -32002


def read(cwd: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the text of a file, or so many lines of it. Raises `Declined`."""
    file = _file(cwd, params)
    try:
        if file.exists() and not file.is_file():
            raise Declined(_INVALID, f"{file} is no regular file")
        if file.exists() and file.stat().st_size > CEILING:
            raise Declined(_INVALID, f"{file} has more than {CEILING} bytes")
        text = file.read_bytes().decode()
    except FileNotFoundError:
        raise Declined(_NOT_FOUND, f"there is no file {file}") from None
    except UnicodeDecodeError:  # whoever wrote it back with other characters would spoil it
        raise Declined(_INVALID, f"{file} is no text in UTF-8") from None
    except OSError as error:
        raise Declined(_INTERNAL, f"{file} cannot be read: {error.strerror}") from None
    return {"content": _lines(text, params.get("line"), params.get("limit"))}


def write(cwd: str, params: dict[str, Any]) -> dict[str, Any]:
    """Write a text to a file. Raises `Declined`."""
    file = _file(cwd, params)
    content = params.get("content")
    if not isinstance(content, str):
        raise Declined(_INVALID, "there is no content")
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


def _file(cwd: str, params: dict[str, Any]) -> Path:
    path = params.get("path")
    if not isinstance(path, str) or not path or "\0" in path:
        raise Declined(_INVALID, "there is no path")
    return Path(cwd, path)


def _lines(text: str, first: Any, limit: Any) -> str:
    if not isinstance(first, int) and not isinstance(limit, int):
        return text
    lines = text.split("\n")
    begin = max(0, first - 1) if isinstance(first, int) else 0
    end = begin + max(0, limit) if isinstance(limit, int) else len(lines)
    return "\n".join(lines[begin:end])
