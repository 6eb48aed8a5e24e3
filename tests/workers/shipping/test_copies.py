from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hmz_mp_worker.scratch import SCRATCH
from hmz_mp_worker.shipping import copies, differing
from hmz_mp_worker.shipping.copies import Copy, CopyFailed, code_directory, home_of
from hmz_mp_worker.shipping.parcels import EXECUTABLE, LINK, PLAIN, Parcel, SentFile, Setup
from tests.workers.shipping.support import IGNORING, declaring, files, setup_in

NOTHING = declaring()
ONE = Parcel(files(a="one\ntwo\n"))


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return setup_in(tmp_path)


def taken(setup: Setup, parcel: Parcel = ONE, session: str | None = None) -> Copy:
    return Copy.take(setup, declaring(IGNORING, *files(both="both\n")), parcel, session)


def names(copy: Copy) -> list[str]:
    top = Path(copy.directory)
    return sorted(str(one.relative_to(top)) for one in top.rglob("*") if one.name != ".git")


def test_it_has_what_was_sent_and_nothing_else(setup: Setup) -> None:
    copy = taken(setup)
    assert names(copy) == [".gitignore", "a.txt", "both.txt"]
    assert copy.cwd == copy.directory
    assert copy.patch() == b""
    copy.give_back()
    copy = taken(setup, Parcel(files(b="two\n")))  # the same directory, for another turn
    assert names(copy) == [".gitignore", "b.txt", "both.txt"]
    copy.give_back()


def test_turns_run_where_the_run_was_started(tmp_path: Path) -> None:
    copy = Copy.take(setup_in(tmp_path, "deep/er"), NOTHING, ONE, None)
    assert copy.cwd == f"{copy.directory}/deep/er"
    assert os.path.isdir(copy.cwd)
    assert copy.patch() == b""  # though the directory is new
    copy.give_back()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("echo three >> a.txt", b"\n+three\n"),
        ("sed -i s/one/ONE/ a.txt", b"\n+ONE\n"),
        ("printf 'eno\\ntwo\\n' > a.txt", b"\n+eno\n"),  # as long as it was
        ("rm a.txt", b"deleted file mode 100644"),
        ("mkdir new; echo n > new/n", b"+++ b/new/n\n"),
        ("chmod +x a.txt", b"new mode 100755"),
        ("mv a.txt b.txt", b"rename to b.txt"),
        ("ln -s a.txt link", b"new file mode 120000"),
        ("rm a.txt; mkdir a.txt; echo in > a.txt/in", b"+++ b/a.txt/in\n"),
        ("rm both.txt; cp -p a.txt both.txt", b"--- a/both.txt\n"),
        ("touch -r a.txt t; echo xxx > a.txt; echo xxx >> a.txt; touch -r t a.txt", b"\n+xxx\n"),
        ("git init -q . 2>/dev/null; echo q > q", b"+++ b/q\n"),
    ],
)
def test_a_change_is_in_the_patch(setup: Setup, change: str, line: bytes) -> None:
    copy = taken(setup)
    subprocess.run(["sh", "-c", change], cwd=copy.cwd, check=False)
    assert line in copy.patch()
    copy.give_back()
    assert not [one for one in os.listdir(setup.home) if one.endswith(".git")]


@pytest.mark.parametrize(
    "change",
    ["touch a.txt", "cat a.txt > b; mv b a.txt", "echo x > x.ignored", "echo x > x.excluded"],
)
def test_what_changes_nothing_is_in_no_patch(setup: Setup, change: str) -> None:
    copy = taken(setup)
    subprocess.run(["sh", "-c", change], cwd=copy.cwd, check=True)
    assert copy.patch() == b""
    copy.give_back()


def test_git_is_asked_of_nothing_where_nothing_changed(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "difference", pytest.fail)
    copy = taken(setup)
    assert copy.patch() == b""
    copy.give_back()


def test_what_is_equal_to_its_neighbour_and_as_old_is_seen(setup: Setup) -> None:
    copy = Copy.take(setup, NOTHING, Parcel(files(a="aaa\n", b="bbb\n")), None)
    shutil.copy2(f"{copy.directory}/a.txt", f"{copy.directory}/b.txt")
    assert b"\n+aaa\n" in copy.patch()
    copy.give_back()


@pytest.mark.parametrize("inside", ["", "deep/er"])
def test_a_program_that_waits_there_is_still_there(tmp_path: Path, inside: str) -> None:
    setup = setup_in(tmp_path, inside)
    parcel = Parcel(files(a="a", deep__b="b", deep__er__c="c"))
    first = Copy.take(setup, NOTHING, parcel, None)
    Path(first.cwd, "made").mkdir()
    here = os.stat(first.cwd).st_ino
    first.give_back()
    second = Copy.take(setup, NOTHING, Parcel(files(d="d")), None)
    assert os.stat(second.cwd).st_ino == here
    assert [one for one in names(second) if one.endswith("txt")] == ["d.txt"]
    assert not Path(second.cwd, "made").exists()
    second.give_back()


@pytest.mark.parametrize("inside", ["", "deep/er"])
@pytest.mark.parametrize(
    "change",
    [
        "rm -rf $PWD",
        "rm -rf $PWD; touch $PWD",
        "rm -rf $PWD; ln -s $OUTSIDE $PWD",
        "mkdir x; touch x/y; chmod 0 x",
        "chmod 0 .",
    ],
)
def test_whatever_a_turn_did_the_next_one_has_its_files(
    tmp_path: Path, change: str, inside: str
) -> None:
    setup = setup_in(tmp_path, inside)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").touch()
    for _ in range(2):
        copy = Copy.take(setup, NOTHING, Parcel(files(a="a", deep__er__c="c")), None)
        assert sorted(one for one in names(copy) if "." in one) == ["a.txt", "deep/er/c.txt"]
        environment = {**os.environ, "OUTSIDE": str(outside)}
        subprocess.run(["sh", "-c", change], cwd=copy.cwd, env=environment, check=True)
        copy.give_back()
    assert os.listdir(outside) == ["mine"]


def test_two_at_once_have_two(setup: Setup) -> None:
    first, second = taken(setup), taken(setup)
    assert first.directory != second.directory
    first.give_back()
    third = taken(setup)
    assert third.directory == first.directory
    second.give_back()
    third.give_back()


def test_a_directory_in_which_a_worker_died_is_not_used_again(setup: Setup) -> None:
    script = (
        "import os, sys, msgspec\n"
        "from hmz_mp_worker.shipping.copies import Copy\n"
        "from hmz_mp_worker.shipping.parcels import *\n"
        "setup = decode_setup(sys.stdin.buffer.read())\n"
        "copy = Copy.take(setup, Declared(encode(Parcel())), Parcel(), None)\n"
        "print(copy.directory, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    from hmz_mp_worker.shipping.parcels import encode

    died = subprocess.run(
        [sys.executable, "-c", script], input=encode(setup), capture_output=True, check=False
    )
    copy = taken(setup)
    assert copy.directory == died.stdout.decode().strip() + ".1"
    assert names(copy) == [".gitignore", "a.txt", "both.txt"]
    copy.give_back()


def test_a_session_keeps_its_own(setup: Setup) -> None:
    first = taken(setup, ONE, "s1")
    Path(first.cwd, "a.txt").write_text("mine\n")
    Path(first.cwd, "b.txt").write_text("mine too\n")
    patch = first.patch()
    first.give_back()
    # Another process would know of it what this does: b.txt, which it made, is sent only now.
    second = taken(setup, Parcel(files(b="theirs\n", c="c\n")), "s1")
    assert second.directory == first.directory
    assert Path(second.cwd, "a.txt").read_text() == "mine\n"
    assert Path(second.cwd, "b.txt").read_text() == "mine too\n"
    assert Path(second.cwd, "c.txt").read_text() == "c\n"
    assert patch != second.patch()
    assert b"\n-theirs\n+mine too\n" in second.patch()
    assert b"\n+mine\n" in second.patch()
    second.give_back()
    other = taken(setup, ONE, "s2")
    assert Path(other.cwd, "a.txt").read_text() == "one\ntwo\n"
    other.give_back()


def test_a_session_whose_directory_is_gone_begins_anew(setup: Setup) -> None:
    first = taken(setup, ONE, "s1")
    shutil.rmtree(first.directory)
    with pytest.raises(CopyFailed, match="the turn's directory is gone"):
        first.patch()
    first.give_back()
    second = taken(setup, ONE, "s1")
    assert names(second) == [".gitignore", "a.txt", "both.txt"]
    assert second.patch() == b""
    second.give_back()


def test_git_does_not_go_up_to_a_checkout_around(setup: Setup, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    copy = taken(setup)
    asked = subprocess.run(
        ["git", "status"], cwd=copy.cwd, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 128
    assert "not a git repository" in asked.stderr
    copy.give_back()


def test_a_problem_of_the_parcel_is_the_turn_s(setup: Setup) -> None:
    with pytest.raises(CopyFailed, match="no such thing"):
        taken(setup, Parcel(problem="no such thing"))
    assert os.listdir(setup.home) == []


def test_files_that_cannot_be_written(setup: Setup) -> None:
    both = Parcel([*files(a="a"), SentFile(b"a.txt/b", PLAIN, b"")])
    with pytest.raises(CopyFailed, match="the turn's files could not be written"):
        taken(setup, both)
    copy = taken(setup)  # and it was given back
    assert copy.directory == f"{setup.home}/0"
    copy.give_back()


def test_without_git_a_turn_that_changed_nothing_is_fine(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    copy = taken(setup)
    assert copy.patch() == b""
    Path(copy.cwd, "a.txt").write_text("changed")
    with pytest.raises(CopyFailed, match="git, which tells what, is not on PATH here"):
        copy.patch()
    copy.give_back()


def test_a_git_that_fails(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = taken(setup)
    Path(copy.cwd, "a.txt").write_text("changed")
    monkeypatch.setattr(differing, "DIFF", ("--no-such-option",))
    with pytest.raises(CopyFailed, match="the changes could not be taken: git diff-index"):
        copy.patch()
    copy.give_back()


# Where there is no home of the coordinator's.


def test_the_engine_s_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = Setup("run 1")
    monkeypatch.setenv(SCRATCH, str(tmp_path / "scratch"))
    assert home_of(elsewhere) == str(tmp_path / "scratch" / "run 1")
    assert os.path.isdir(home_of(elsewhere))
    monkeypatch.delenv(SCRATCH)
    with pytest.raises(CopyFailed, match="is not set any more"):
        Copy.take(elsewhere, NOTHING, ONE, None)


# Code.


def test_code_is_written_once(setup: Setup) -> None:
    common = declaring(
        SentFile(b"tools.py", PLAIN, b"x = 1\n"),
        SentFile(b"bin/run", EXECUTABLE, b""),
        SentFile(b"link", LINK, b"tools.py"),
    )
    directory = code_directory(setup, common)
    (Path(directory) / "mark").touch()
    assert code_directory(setup, common) == directory
    assert sorted(os.listdir(directory)) == ["bin", "link", "mark", "tools.py"]
    half = Path(f"{code_directory(setup, declaring(*files(a='a')))}.half")
    half.mkdir()
    assert code_directory(setup, NOTHING) not in (directory, str(half))


def test_code_that_was_half_written_is_written_anew(setup: Setup) -> None:
    common = declaring(SentFile(b"tools.py", PLAIN, b"x = 1\n"))
    half = Path(setup.home, f"code-{common.digest}.half")
    half.mkdir()
    (half / "tools.py").write_text("x =")
    assert (Path(code_directory(setup, common)) / "tools.py").read_text() == "x = 1\n"
