import io
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hmz_mp.cli.delivery import deliver, write_file, write_stdout
from hmz_mp.errors import BadInput


def failing() -> Iterator[str]:
    yield "half"
    raise RuntimeError("no more")


def test_a_file_is_whole_and_has_the_usual_mode(tmp_path: Path) -> None:
    pieces = ["é\udcff"] * 100_000
    assert deliver(pieces, str(tmp_path / "a")) == 300_000
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa9\xff" * 100_000
    (tmp_path / "usual").touch()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "usual")}
    assert len(modes) == 1


def test_what_is_there_stays_when_it_goes_wrong(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("before")
    with pytest.raises(RuntimeError):
        write_file(failing(), file)
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_is_followed_and_a_mode_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("before")
    real.chmod(0o640)
    link.symlink_to(real)
    write_file(["after"], link)
    assert link.is_symlink()
    assert (real.read_text(), stat.S_IMODE(real.stat().st_mode)) == ("after", 0o640)


def test_a_device_is_written_to() -> None:
    assert write_file(["gone"], Path(os.devnull)) == 4
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("name", ["absent/a", "a/b", ""])
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(BadInput, match="cannot be written: "):
        write_file(["text"], tmp_path / name)


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("kind", "shown"), [(_Terminal, b"\\x1b[2J\n"), (io.TextIOWrapper, None)])
def test_a_terminal_is_spared(
    monkeypatch: pytest.MonkeyPatch, kind: type[io.TextIOWrapper], shown: bytes | None
) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", kind(buffer))
    write_stdout(["\x1b[2J\n"])
    assert buffer.getvalue() == (shown or b"\x1b[2J\n")


def test_a_surrogate_that_is_no_byte_is_escaped(tmp_path: Path) -> None:
    write_file(["\ud800"], tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"\\ud800"
