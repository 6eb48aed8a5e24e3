from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hmz_mp_worker.backends.acp.permissions import CANCELLED, Call, Rules, chosen
from hmz_mp_worker.backends.acp.settings import KINDS, PERMISSIONS, Permission, Settings


def rules(cwd: Path, **settings: Any) -> Rules:
    return Rules(Settings(("agent",), **settings), str(cwd))


@pytest.mark.parametrize(
    ("rung", "kinds"),
    [
        ("read-only", "read search think"),
        ("workspace-write", "read search think edit delete move"),
        ("auto", "read search think edit delete move"),
        ("bypass", " ".join(KINDS)),
    ],
)
def test_rungs(tmp_path: Path, rung: Permission, kinds: str) -> None:
    made = rules(tmp_path, permission=rung)
    assert {kind for kind in KINDS if made.permit(kind, ["a"])} == set(kinds.split())
    assert {
        one for one in PERMISSIONS if rules(tmp_path, permission=one).permit("edit", ["a"])
    } == {
        "workspace-write",
        "auto",
        "bypass",
    }


def test_kinds_of_ones_own(tmp_path: Path) -> None:
    made = rules(tmp_path, permission="read-only", allow=("execute", "edit"), deny=("search",))
    assert made.permit("execute", [])
    assert made.permit("edit", ["a"])
    assert not made.permit("search", [])
    assert not made.permit("delete", ["a"])
    assert not rules(tmp_path, permission="bypass", deny=("fetch",)).permit("fetch", [])


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "link/a", "a\0b", "sub/../../b"])
def test_only_in_the_directory(tmp_path: Path, path: str) -> None:
    here = tmp_path / "here"
    (here / "sub").mkdir(parents=True)
    (here / "link").symlink_to(tmp_path)
    made = rules(here)
    assert not made.permit("edit", [path])
    assert not made.permit("read", ["a", path])
    assert rules(here, permission="bypass").permit("edit", [path])


def test_inside_the_directory(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "other").symlink_to(tmp_path / "here")
    made = rules(tmp_path / "other")
    for path in ("a", "sub/a", "sub/../a", str(tmp_path / "here" / "a"), "."):
        assert made.permit("edit", [path])


def test_a_link_that_leads_nowhere_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    rules(tmp_path).permit("edit", ["loop"])  # versions of Python disagree on where it is


def test_what_writes_has_to_say_where(tmp_path: Path) -> None:
    made = rules(tmp_path, allow=("execute",))
    assert not made.permit("edit", [])
    assert made.permit("read", [])
    assert made.permit("execute", [])


def test_what_is_certainly_forbidden(tmp_path: Path) -> None:
    assert rules(tmp_path).forbid(Call("edit", paths=("/etc/x",)))
    assert rules(tmp_path, permission="read-only").forbid(Call("delete", paths=("x",)))
    assert not rules(tmp_path).forbid(Call("edit", paths=("x",)))
    assert not rules(tmp_path).forbid(Call("edit"))
    assert not rules(tmp_path).forbid(Call("execute", paths=("/etc",)))


def test_what_is_said_of_a_call_adds_up() -> None:
    call = Call().updated({"kind": "edit", "title": "Write", "status": "pending", "locations": []})
    assert call == Call("edit", "Write", (), "pending")
    call = call.updated({"title": " ", "locations": [{"path": "a.txt", "line": None}, 3, {}]})
    assert call == Call("edit", "Write", ("a.txt",), "pending")
    call = call.updated(
        {"kind": None, "status": "failed", "content": [{"path": "b", "newText": ""}]}
    )
    assert call == Call("edit", "Write", ("b",), "failed")
    assert Call().updated({"kind": 3, "locations": "here", "content": None}) == Call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call("edit", "Write", ("/x/a.txt",)), "edit Write /x/a.txt"),
        (Call("edit", "Write a.txt", ("/x/a.txt",)), "edit Write a.txt"),
        (Call("execute", "ls\n  -l", ("/x",)), "execute ls -l"),
        (Call(), "other"),
    ],
)
def test_words(call: Call, words: str) -> None:
    assert call.words == words
    assert len(Call("other", "x" * 999).words) == 120


def options(*kinds: str) -> list[Any]:
    return [None, {}, *({"optionId": f"the {kind}", "kind": kind} for kind in kinds)]


@pytest.mark.parametrize(
    ("offered", "permitted", "which"),
    [
        (("allow_always", "allow_once", "reject_once"), True, "the allow_once"),
        (("allow_always", "reject_always", "reject_once"), True, "the allow_always"),
        (("allow_always", "reject_always", "reject_once"), False, "the reject_once"),
        (("allow_once", "reject_always"), False, "the reject_always"),
    ],
)
def test_what_is_chosen(offered: tuple[str, ...], permitted: bool, which: str) -> None:
    answer = chosen(options(*offered), permitted=permitted)
    assert answer == {"outcome": {"outcome": "selected", "optionId": which}}


def test_where_there_is_nothing_to_choose() -> None:
    assert chosen(options("allow_once"), permitted=False) == CANCELLED
    assert chosen(options("reject_once"), permitted=True) == CANCELLED
    assert chosen(None, permitted=False) == CANCELLED
