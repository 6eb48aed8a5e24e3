from __future__ import annotations

import pytest

from hmz_mp.worktrees.patches import Change, Entry, changes_of, is_safe, text_of, unquoted

A, B = "a" * 40, "b" * 40
NONE = "0" * 40


def raw(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode() + b"\ndiff --git a/x b/x\n\nmore\n"


def test_no_changes() -> None:
    assert changes_of(b"") == []
    assert text_of(b"") == b""


def test_changes() -> None:
    patch = raw(
        f":100644 100755 {A} {B} M\tx y",
        f":000000 120000 {NONE} {B} A\tnew",
        f":100644 000000 {A} {NONE} D\tgone",
        f":100644 120000 {A} {B} T\ttyped",
    )
    assert changes_of(patch) == [
        Change(b"x y", Entry("100644", A), Entry("100755", B)),
        Change(b"new", None, Entry("120000", B)),
        Change(b"gone", Entry("100644", A), None),
        Change(b"typed", Entry("100644", A), Entry("120000", B)),
    ]
    assert text_of(patch) == b"diff --git a/x b/x\n\nmore\n"


def test_renames_and_copies() -> None:
    patch = raw(
        f':100644 100644 {A} {B} R090\told\t"ne\\tw"',
        f":100644 100644 {A} {B} C100\tkept\tcopy",
    )
    assert changes_of(patch) == [
        Change(b"old", Entry("100644", A), None),
        Change(b"ne\tw", None, Entry("100644", B)),
        Change(b"copy", None, Entry("100644", B)),
    ]


def test_two_files_that_change_places() -> None:
    patch = raw(f":100644 100644 {A} {A} R100\tx\ty", f":100644 100644 {B} {B} R100\ty\tx")
    assert changes_of(patch) == [
        Change(b"x", Entry("100644", A), Entry("100644", B)),
        Change(b"y", Entry("100644", B), Entry("100644", A)),
    ]


def test_submodules_are_passed_over() -> None:
    assert changes_of(raw(f":160000 160000 {A} {B} M\tsub")) == []


def test_what_is_no_patch() -> None:
    with pytest.raises(ValueError, match="this is no patch"):
        changes_of(b"hello\n\nworld")


def test_names() -> None:
    assert unquoted(b"plain 'name'") == b"plain 'name'"
    assert unquoted(rb'"a\tb\nc\"d\\e\377\303\251\r\a"') == b'a\tb\nc"d\\e\xff\xc3\xa9\r\a'


@pytest.mark.parametrize(
    "path", [b"", b"/etc/passwd", b"a/../b", b"..", b"a//b", b"./a", b".git/hooks/x", b"a/.GIT/x"]
)
def test_unsafe_paths(path: bytes) -> None:
    assert not is_safe(path)


def test_safe_paths() -> None:
    assert is_safe(b"a/.gitignore")
    assert is_safe(b"-x/...\xff")
