"""Foreign text on a terminal: escaped, shortened, and never read as markup.

Owns how text that others wrote (file names, answers, what tools print) is shown. Anything above
``errors`` may import this module; it knows nothing of runs, agents or commands. rich is imported
on first need, since many who import this never print.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["make_console", "printable", "safe_text", "shorten"]

_ELLIPSIS = "…"
_WITHOUT_LINES = {ord("\n"): None, ord("\t"): None}
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# The two joiners and the tag letters are invisible parts of emoji and of ordinary words.
_JOINERS = frozenset("\u200c\u200d")
_TAGS = range(0xE0020, 0xE0080)
# Control, surrogate, line and paragraph separator, and format characters (bidi among them).
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp", "Cf"})


def printable(text: str, *, multiline: bool = False) -> str:
    r"""Return ``text`` with everything a terminal could act on shown as backslash escapes.

    Escaped are control characters (C1 too), escape codes, line ends and tabs, characters that
    reorder or hide text, and surrogates: those that stand for an undecodable byte show as that
    byte (``\xff``). Emoji and ordinary Unicode stay. With ``multiline=True`` line ends and tabs
    stay too. Backslashes are not doubled: the result is for reading, not for decoding.
    """
    if text.isprintable():
        return text
    if multiline:
        text = text.replace("\r\n", "\n")
        if text.translate(_WITHOUT_LINES).isprintable():
            return text
        return "".join(ch if ch in "\n\t" else _escaped(ch) for ch in text)
    return "".join(map(_escaped, text))


def _escaped(ch: str) -> str:
    if ch.isprintable() or ch in _JOINERS or ord(ch) in _TAGS:
        return ch
    if unicodedata.category(ch) not in _UNSAFE_CATEGORIES:
        return ch
    code = ord(ch)
    if 0xDC80 <= code <= 0xDCFF:  # how os.fsdecode writes the byte
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return _SHORT_ESCAPES.get(ch) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def shorten(text: str, width: int, *, keep: Literal["start", "end"] = "start") -> str:
    """Return ``text`` on one line, printable, in at most ``width`` terminal cells.

    What does not fit is replaced by an ellipsis, at the end, or at the start with
    ``keep="end"``, which suits paths.
    """
    from rich.cells import cell_len

    # Long answers are not worth escaping and measuring whole for the little that can show.
    kept = _cut(text, width * 8, keep) if len(text) > width * 8 else text
    shown = printable(kept)
    if kept == text and cell_len(shown) <= width:
        return shown
    if width < 1:
        return ""
    longest = _longest_fit(shown, width - 1, keep)
    return longest + _ELLIPSIS if keep == "start" else _ELLIPSIS + longest


def _cut(text: str, length: int, keep: Literal["start", "end"]) -> str:
    length = max(length, 0)
    return text[:length] if keep == "start" else text[len(text) - length :]


def _longest_fit(text: str, width: int, keep: Literal["start", "end"]) -> str:
    from rich.cells import cell_len

    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if cell_len(_cut(text, middle, keep)) <= width:
            low = middle
        else:
            high = middle - 1
    return _cut(text, low, keep)


def safe_text(text: str, style: str = "", *, multiline: bool = False) -> Text:
    """Return foreign ``text`` as a rich ``Text``: escaped, its ``[brackets]`` left alone."""
    from rich.text import Text

    return Text(printable(text, multiline=multiline), style=style)


def make_console(stderr: bool = True) -> Console:
    """Return a console that shows plain strings as they are.

    Markup, emoji codes and highlighting are off, so ``[x]`` and ``:smile:`` in data stay. There
    is no colour when ``NO_COLOR`` is set, and none when the stream is not a terminal, unless
    the user asks for it with ``FORCE_COLOR``. Printing to a pipe whose reader has gone raises
    `BrokenPipeError`, as it does everywhere else.
    """
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            raise  # rich would exit with status 1 here

    return PlainConsole(stderr=stderr, markup=False, emoji=False, highlight=False)
