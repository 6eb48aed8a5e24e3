from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hmz_mp.worktrees.patches import changes_of
from hmz_mp_worker.shipping.differing import difference
from hmz_mp_worker.shipping.parcels import PLAIN, SentFile, write_file
from tests.workers.shipping.support import files, setup_in


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "copy"
    made.mkdir()
    return made


@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
def test_the_blobs_are_those_of_the_checkout(tmp_path: Path, top: Path, hashes: str) -> None:
    name = '\N{OWL} "q" \\ \n'.encode() + b"\xff"
    sent = [SentFile(name, PLAIN, b"before\r\n\0"), *files(same="same\n")]
    for file in sent:
        write_file(str(top), file)
    (top / os.fsdecode(name)).write_bytes(b"after\r\n")
    patch = difference(str(top), setup_in(tmp_path, hashes=hashes), sent)
    (change,) = changes_of(patch)
    assert change.path == name
    assert change.before is not None
    assert change.after is not None
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "--quiet", f"--object-format={hashes}", repository], check=True)
    for entry, content in ((change.before, b"before\r\n\0"), (change.after, b"after\r\n")):
        hashed = subprocess.run(
            ["git", "hash-object", "--stdin"],
            cwd=repository, input=content, capture_output=True, check=True,
        )  # fmt: skip
        assert entry.blob == hashed.stdout.decode().strip()
    assert not os.path.exists(f"{top}.git")


def test_settings_of_the_machine_make_no_difference(
    tmp_path: Path, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ignore").write_text("new.txt\n")
    (tmp_path / "attributes").write_text("*.txt text eol=crlf\n")
    (tmp_path / "config").write_text(
        f"[core]\n autocrlf = true\n excludesFile = {tmp_path}/ignore\n"
        f" attributesFile = {tmp_path}/attributes\n fileMode = false\n[diff]\n external = false\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    sent = [SentFile(b"a.txt", PLAIN, b"one\r\n")]
    write_file(str(top), sent[0])
    (top / "new.txt").write_bytes(b"new\r\n")
    (top / "a.txt").chmod(0o755)
    patch = difference(str(top), setup_in(tmp_path), sent)
    assert b"\n+new\r\n" in patch
    assert b"new mode 100755" in patch
    assert b"-one" not in patch
