from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.shipping import sending
from hmz_mp.shipping.sending import Shipping
from hmz_mp.worktrees.trees import Opened
from hmz_mp_worker.shipping.parcels import Parcel, Setup, decode_parcel, decode_setup
from hmz_mp_worker.shipping.turns import CODE, aturn, turn
from tests.worktrees.support import Repository


@pytest.fixture
def shipping(opened: Opened) -> Iterator[Shipping]:
    top = opened.checkout.top
    made = Shipping(opened, "run", also=["*.csv"], code=[f"{top}/tools.py"])
    yield made
    made.close()


def sent_with(shipping: Shipping) -> tuple[Setup, list[bytes]]:
    """Return what goes with every turn."""
    wrapped: Any = shipping.wrap(waits=False)
    setup, files = wrapped.args
    assert wrapped.func is turn
    other: Any = shipping.wrap(waits=True)
    assert (other.func, other.args) == (aturn, wrapped.args)
    return decode_setup(setup), [file.name for file in decode_parcel(files).files]


def parcel(shipping: Shipping, path: bytes | None) -> Parcel:
    return decode_parcel(shipping.parcel(path)())


def test_what_goes_with_every_turn(opened: Opened, shipping: Shipping) -> None:
    setup, names = sent_with(shipping)
    assert names == [b"pkg/table.csv", b".gitignore", b"tools.py"]
    assert (setup.label, setup.home, setup.inside) == ("run", str(opened.home.path), "")
    assert setup.hashes == "sha1"


def test_elsewhere_there_is_no_home(opened: Opened) -> None:
    shipping = Shipping(opened, "run", elsewhere=True)
    setup, names = sent_with(shipping)
    assert (setup.home, names) == ("", [])
    shipping.close()


def test_what_is_ignored_beside_gitignore_files(
    opened: Opened, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    info = repository.top / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "exclude").write_bytes(b"!mine\xff\n")

    def excludes() -> bytes:
        shipping = Shipping(opened, "run")
        shipping.close()
        return sent_with(shipping)[0].excludes

    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    assert excludes() == b"!mine\xff\n"
    (tmp_path / "config" / "git").mkdir()
    (tmp_path / "config" / "git" / "ignore").write_text("theirs\n")
    assert excludes() == b"theirs\n\n!mine\xff\n"
    repository.git("config", "core.excludesFile", str(tmp_path / "named"))
    (tmp_path / "named").write_text("named\n")
    assert excludes() == b"named\n\n!mine\xff\n"


def test_a_turn_s_own_files(shipping: Shipping) -> None:
    assert parcel(shipping, None) == Parcel()
    files = parcel(shipping, b"deep/er/c.txt").files
    assert [file.name for file in files] == [b"deep/er/c.txt", b"deep/.gitignore", b".gitignore"]
    assert files[0].content == b"deep\n"


def test_a_turn_about_a_file_that_is_not_there(shipping: Shipping) -> None:
    problem = parcel(shipping, b"x.ignored").problem
    assert problem == (
        "'x.ignored' is not among the files that the run began with: git ignores it, or it came "
        "later"
    )
    assert "'no/such'" in parcel(shipping, b"no/such").problem


def test_a_file_that_cannot_be_read(shipping: Shipping) -> None:
    shipping._base._files[b"a.txt"] = "100644", "0" * 40
    problem = parcel(shipping, b"a.txt").problem
    assert problem.startswith("'a.txt' cannot be read to be sent: git cat-file: there is no blob")


def test_in_a_directory_of_the_checkout(repository: Repository, tmp_path: Path) -> None:
    from hmz_mp.worktrees.trees import Worktrees

    trees = Worktrees(repository.top / "deep", "run")
    shipping = Shipping(trees.open(), "run", also=["run.sh"])
    setup, names = sent_with(shipping)
    assert (setup.inside, names[0]) == ("deep", b"deep/run.sh")
    assert parcel(shipping, b"er/c.txt").files[0].name == b"deep/er/c.txt"
    assert parcel(shipping, b"../a.txt").files[0].name == b"a.txt"
    shipping.close()
    trees.close()


def test_sessions_have_names(shipping: Shipping) -> None:
    assert [shipping.name_for(one) for one in ("a", "b", "a")] == ["s1", "s2", "s1"]


def test_an_agent_s_arguments_are_where_its_code_is(opened: Opened, shipping: Shipping) -> None:
    top = opened.checkout.top
    given = (f"{top}/tools.py:check", f"{top}/deep", top, "/elsewhere/x.py:f", "json:dumps", 1)
    assert shipping.as_sent(given) == (
        f"{CODE}/tools.py:check",
        f"{CODE}/deep",
        f"{CODE}/",
        "/elsewhere/x.py:f",
        "json:dumps",
        1,
    )
    # It is there, but was not declared: here it can be had all the same.
    assert shipping.as_sent([f"{top}/pkg/sub/tool.py:f"]) == (f"{top}/pkg/sub/tool.py:f",)


def test_code_that_is_not_sent_elsewhere(opened: Opened) -> None:
    shipping = Shipping(opened, "run", elsewhere=True)
    for file in ("/elsewhere/x.py", f"{opened.checkout.top}/x.ignored.py"):
        with pytest.raises(BadInput, match=f"--ship: {file} is not sent"):
            shipping.as_sent([f"{file}:f"])
    shipping.close()


def test_too_much_to_go_with_every_turn(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "DECLARED_MOST", 10)
    with pytest.raises(BadInput, match="8 files go with every turn, which have more than 0 MB"):
        Shipping(opened, "run", also=["pkg/", "deep/"])


def test_a_repository_that_cannot_be_read(opened: Opened, repository: Repository) -> None:
    for file in (repository.top / ".git" / "objects").glob("*/*"):
        file.unlink()
    with pytest.raises(BadInput, match="--ship: the files to send cannot be read: git ls-tree"):
        Shipping(opened, "run")
