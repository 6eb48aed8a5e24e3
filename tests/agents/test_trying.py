from __future__ import annotations

from typing import Any

import pytest

from hmz_mp.agents.trying import Tries, Try, current_try
from hmz_mp.core.ambient import TurnRecord


class Account:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.counted: list[str] = []
        self.dropped: list[str] = []

    def count(self, record: TurnRecord) -> None:
        self.counted.append(record.prompt)

    def drop(self, record: TurnRecord) -> None:
        self.dropped.append(record.prompt)


def turn(prompt: str, item_id: str = "a", **fields: Any) -> TurnRecord:
    given: dict[str, Any] = {"agent_id": "agent1", "session": "s", "place": 0, "state": "failed"}
    return TurnRecord(item_id=item_id, agent="tool/x:y", prompt=prompt, **given | fields)


def here() -> Try:
    attempt = current_try()
    assert attempt is not None
    return attempt


@pytest.fixture
def account() -> Account:
    return Account()


def test_there_is_none_where_nothing_is_tried_again(account: Account) -> None:
    assert current_try() is None
    with Tries() as tries:
        tries.begin(last=True)
        assert current_try() is None


def test_what_a_try_came_to_is_held_back_until_there_is_no_other(account: Account) -> None:
    with Tries() as tries:
        tries.begin(last=False)
        assert here().holds
        assert here().ended(account, turn("one"))
        assert repr(here()) == "<Try 1 ended, 0 of earlier ones>"
        assert account.counted == []
    assert current_try() is None
    assert account.counted == ["one"]


def test_a_turn_takes_the_place_of_one_before_once(account: Account) -> None:
    first = turn("one")
    with Tries() as tries:
        tries.begin(last=False)
        assert here().predecessor(first) is None
        here().ended(account, first)
        tries.begin(last=True)
        again = turn("one")
        assert here().predecessor(again) is first
        assert here().predecessor(again) is None
        assert not here().holds
        assert not here().ended(account, again)
    assert (account.counted, account.dropped) == ([], [])  # the last counts at once


def test_a_failure_ends_the_tries_too(account: Account) -> None:
    def fails() -> None:
        with Tries() as tries:
            tries.begin(last=False)
            here().ended(account, turn("one"))
            raise LookupError

    with pytest.raises(LookupError):
        fails()
    assert account.counted == ["one"]


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ({}, {"prompt": "other"}, True),
        ({}, {"place": 1}, False),
        ({}, {"agent_id": "agent2"}, False),
        ({}, {"item_id": "b"}, False),
        ({"identity": "x:1"}, {"identity": "x:2", "item_id": "b"}, True),
        ({"item_id": "s1", "session": "s1"}, {"item_id": "s2", "session": "s2"}, True),
        ({"item_id": "s1.2", "session": "s1", "place": 2}, {"place": 2}, False),
    ],
)
def test_which_turn_takes_whose_place(
    account: Account, before: dict[str, Any], after: dict[str, Any], is_same: bool
) -> None:
    earlier = turn("one", **before)
    with Tries() as tries:
        tries.begin(last=False)
        here().ended(account, earlier)
        tries.begin(last=True)
        found = here().predecessor(turn(**{"prompt": "one", **after}))
    assert found is (earlier if is_same else None)


def test_the_same_turn_comes_before_one_about_the_same_item(account: Account) -> None:
    one, two = turn("one", identity="one:1"), turn("two", identity="two:1")
    with Tries() as tries:
        tries.begin(last=False)
        here().ended(account, one)
        here().ended(account, two)
        tries.begin(last=True)
        assert here().predecessor(turn("two", identity="two:1")) is two
        assert here().predecessor(turn("three", identity="three:1")) is one


def test_what_the_last_try_did_without_is_dropped(account: Account) -> None:
    with Tries() as tries:
        tries.begin(last=False)
        here().ended(account, turn("one", place=0))
        here().ended(account, turn("two", place=1))
        here().ended(account, turn("other", item_id="b"))
        tries.begin(last=False)
        again = turn("one", state="ok")
        here().predecessor(again)
        here().ended(account, again)
    assert (account.counted, account.dropped) == (["other", "one"], ["two"])


def test_what_was_not_run_in_the_last_try_leaves_what_was(account: Account) -> None:
    first = turn("one")
    with Tries() as tries:
        tries.begin(last=False)
        here().ended(account, first)
        tries.begin(last=False)
        here().predecessor(turn("one"))
        assert here().keep(account, first)
        here().ended(account, turn("two", state="not_run"))
    assert (account.counted, account.dropped) == (["one", "two"], [])


def test_an_ending_after_the_try_counts_at_once(account: Account) -> None:
    with Tries() as tries:
        tries.begin(last=False)
        late = here()
        tries.begin(last=False)
        assert not late.ended(account, turn("one"))
    late.close()
    assert account.counted == []


def test_tries_within_a_try(account: Account) -> None:
    first, second = turn("inner 1"), turn("inner 2")
    with Tries() as outer:
        outer.begin(last=False)
        with Tries() as inner:
            inner.begin(last=False)
            here().ended(account, first)
            inner.begin(last=True)
            assert here().predecessor(second) is first
            assert here().ended(account, second)  # the outer one may be tried again
        assert account.counted == []
        outer.begin(last=True)
        with Tries() as inner:
            inner.begin(last=False)
            third = turn("inner 3")
            assert here().predecessor(third) is second
            here().ended(account, third)
        assert account.counted == ["inner 3"]
    assert account.dropped == []


def test_an_inner_try_is_one_of_the_outer_ones_too(account: Account) -> None:
    with Tries() as outer:
        outer.begin(last=False)
        here().ended(account, turn("first", place=1))
        outer.begin(last=True)
        with Tries() as inner:
            inner.begin(last=False)
            inner.begin(last=True)
            assert not here().ended(account, turn("second"))
    assert (account.counted, account.dropped) == ([], ["first"])
