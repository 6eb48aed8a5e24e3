import io
import os
import sys

import pytest
from rich.cells import cell_len
from rich.console import Console

from hmz_mp.terminal import make_console, printable, safe_text, shorten


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words.py", "plain words.py"),
        ("two\nlines\tand\rmore", "two\\nlines\\tand\\rmore"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x00\x07\x7f", "\\x00\\x07\\x7f"),
        ("\x85\x9b31m", "\\u0085\\u009b31m"),
        ("evil\u202etxt.exe", "evil\\u202etxt.exe"),
        ("\u2066\u2069\u200e\u061c\ufeff", "\\u2066\\u2069\\u200e\\u061c\\ufeff"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\U000e0001", "\\U000e0001"),
        (os.fsdecode(b"caf\xe9.py"), "caf\\xe9.py"),
        ("\ud800", "\\ud800"),
        ("[bold]x[/bold] :smile:", "[bold]x[/bold] :smile:"),
        ("C:\\dir", "C:\\dir"),
        ("naïve 文字 العربية", "naïve 文字 العربية"),
        ("👩‍💻 ❤️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿", "👩‍💻 ❤️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿"),
        ("no\u00a0break \ue000", "no\u00a0break \ue000"),
        ("", ""),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_printable_keeps_only_lines_and_tabs_when_multiline() -> None:
    shown = printable("a\r\nb\tc\rd\x1b[2J\u202e\n", multiline=True)
    assert shown == "a\nb\tc\\rd\\x1b[2J\\u202e\n"


def test_nothing_printable_returns_is_unsafe() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    for ch in printable(everything):
        assert ord(ch) >= 0x20
        assert not 0x7F <= ord(ch) <= 0x9F
        assert not 0xD800 <= ord(ch) <= 0xDFFF
        assert not 0x202A <= ord(ch) <= 0x202E


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("文字文字", 5, "文字…"),
        ("文字文字", 4, "文…"),
        ("x", 0, ""),
        ("x", -3, ""),
        ("", 0, ""),
        ("ab", 1, "…"),
        ("a\nb", 4, "a\\nb"),
    ],
)
def test_shorten(text: str, width: int, shown: str) -> None:
    assert shorten(text, width) == shown


def test_shorten_can_keep_the_end() -> None:
    assert shorten("a/very/long/path/name.py", 10, keep="end") == "…h/name.py"
    assert shorten("文字文字.py", 6, keep="end") == "…字.py"


def test_shorten_says_that_marks_without_width_were_cut() -> None:
    assert shorten("a" + "\u0301" * 1000, 3).endswith("…")


def test_shorten_never_takes_more_cells_than_allowed() -> None:
    text = "a文👩‍💻\x1b\u0301" * 5000
    for width in range(30):
        for kept in (shorten(text, width), shorten(text, width, keep="end")):
            assert cell_len(kept) <= width


def test_safe_text_is_not_markup() -> None:
    text = safe_text("[red]a\x1bb[/red]", "bold")
    assert text.plain == "[red]a\\x1bb[/red]"
    assert text.style == "bold"
    assert safe_text("a\nb", multiline=True).plain == "a\nb"


def _printed(console: Console, *what: object) -> str:
    stream = io.StringIO()
    console.file = stream
    console.print(*what)
    return stream.getvalue()


def test_console_shows_plain_strings_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    console = make_console()
    assert _printed(console, "[red]x[/red] :smile: 1234 'q'") == "[red]x[/red] :smile: 1234 'q'\n"
    assert _printed(console, safe_text("x", "red")) == "x\n"


def test_console_goes_to_the_stream_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print("to err")
    make_console(stderr=False).print("to out")
    assert capsys.readouterr() == ("to out\n", "to err\n")


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[31m" in _printed(make_console(), safe_text("x", "red"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in _printed(make_console(), safe_text("x", "red"))


def test_a_reader_that_has_gone_is_a_broken_pipe() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    console = make_console()
    with open(writing, "w") as file:
        console.file = file
        with pytest.raises(BrokenPipeError):
            console.print("x" * 100_000)
        with open(os.devnull, "wb") as nowhere:  # what is still buffered would fail again
            os.dup2(nowhere.fileno(), writing)
