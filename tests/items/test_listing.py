import io
from pathlib import Path

import pytest

from hmz_mp.core.ambient import Item
from hmz_mp.errors import BadInput
from hmz_mp.items import select

from .conftest import Tree


def listed(tree: Tree, content: bytes, *, nul: bool = False) -> list[Item]:
    (tree.root.parent / "list").write_bytes(content)
    return select(tree.root, items_file="../list", nul=nul).items


def test_files_and_records_in_the_order_of_the_list(tree: Tree) -> None:
    tree.write("b.py")
    tree.write("sub/a.py")
    found = listed(tree, b"sub/a.py\nsummarise the year 1999\n\n  \nb.py\r\nlast without end")
    assert found == [
        Item("sub/a.py", path=b"sub/a.py"),
        Item("summarise the year 1999", text="summarise the year 1999"),
        Item("b.py", path=b"b.py"),
        Item("last without end", text="last without end"),
    ]


def test_nul_separated_items_may_hold_anything_else(tree: Tree) -> None:
    tree.write(b"new\nline \xff.py")
    found = listed(tree, b"new\nline \xff.py\0two\nlines\0\0", nul=True)
    assert found == [
        Item("new\nline \udcff.py", path=b"new\nline \xff.py"),
        Item("two\nlines", text="two\nlines"),
    ]


def test_a_file_is_known_by_its_path_below_the_start(tree: Tree) -> None:
    path = tree.write("sub/a.py")
    for spelled in ("./sub/a.py", "sub//a.py", "sub/../sub/a.py", str(path)):
        assert listed(tree, spelled.encode()) == [Item("sub/a.py", path=b"sub/a.py")]


def test_what_is_not_a_file_below_the_start_is_a_record(tree: Tree, tmp_path: Path) -> None:
    tree.write("sub/a.py")
    (tmp_path / "outside.py").write_text("x")
    (tmp_path / "tree2").mkdir()
    (tmp_path / "tree2" / "a.py").write_text("x")
    long = "word " * 2000
    for text in ("../outside.py", "../tree2/a.py", "sub", "absent.py", "/etc/passwd", "..", long):
        assert listed(tree, text.encode()) == [Item(text, text=text)]


def test_listed_binary_files_are_kept(tree: Tree) -> None:
    tree.write("image.png", b"\0")
    assert listed(tree, b"image.png") == [Item("image.png", path=b"image.png")]


def test_patterns_apply_to_listed_files_and_not_to_records(tree: Tree) -> None:
    tree.write("a.py")
    tree.write("a.md")
    (tree.root / "list").write_bytes(b"a.py\na.md\nrecord\n")
    found = select(tree.root, items_file="list", include=["*.py"])
    assert [item.item_id for item in found.items] == ["a.py", "record"]
    assert found.searched == "the list in 'list' (3 items)"


def test_a_byte_order_mark_is_no_part_of_the_first_item(tree: Tree) -> None:
    assert listed(tree, b"\xef\xbb\xbffirst\n") == [Item("first", text="first")]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"x\ny\nx\n", "'x' is listed twice;"),
        (b"a.py\n./a.py\n", "'./a.py' is listed twice (as 'a.py' before);"),
    ],
)
def test_an_item_listed_twice_is_bad_input(tree: Tree, content: bytes, named: str) -> None:
    tree.write("a.py")
    with pytest.raises(BadInput) as caught:
        listed(tree, content)
    assert named in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n \n\t\n", b"\r\n"])
def test_an_empty_list_is_bad_input(tree: Tree, content: bytes) -> None:
    with pytest.raises(BadInput, match=r"no items: searched the list in '../list' \(0 items\)"):
        listed(tree, content)


def test_nul_bytes_without_the_option_are_bad_input(tree: Tree) -> None:
    with pytest.raises(BadInput, match="is -0 missing"):
        listed(tree, b"a\0b\0")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("absent", "No such file"), (".", "Is a directory"), ("a\0b", "null")],
)
def test_an_unreadable_list_is_bad_input(tree: Tree, name: str, reason: str) -> None:
    with pytest.raises(BadInput, match=f"cannot read --items .*{reason}"):
        select(tree.root, items_file=name)


def test_standard_input(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    found = select(tree.root, items_file="-", stdin=io.BytesIO(b"one\ntwo\n"))
    assert [item.item_id for item in found.items] == ["one", "two"]
    assert found.searched == "the list in standard input (2 items)"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"three\n")))
    assert select(tree.root, items_file="-").items == [Item("three", text="three")]
