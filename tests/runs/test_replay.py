from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.core.ambient import TurnRecord, TurnState
from hmz_mp.runs.costs import Costs
from hmz_mp.runs.fingerprints import fingerprint_of
from hmz_mp.runs.reading import PatchState, RecordedRun
from hmz_mp.runs.replay import Replay


class Recorded:
    """The turns of a run, in place of its ledger."""

    def __init__(self, records: Sequence[TurnRecord], patches: Sequence[str] = ()) -> None:
        self._records = {record.number: record for record in records}
        self._patches = patches

    def columns(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for _, record in sorted(self._records.items()):
            yield tuple(getattr(record, name) for name in names)

    def turn(self, number: int) -> TurnRecord:
        return self._records[number]

    def next_number(self) -> int:
        return max(self._records, default=-1) + 1

    def costs(self) -> Costs:
        return Costs()

    def patches(self) -> dict[int, PatchState]:
        return {number: PatchState(state, None, None) for number, state in enumerate(self._patches)}


def ask(item_id: str = "", prompt: str = "go", *, nth: int = 1, **fields: Any) -> TurnRecord:
    """Return a turn as a submitter makes it, the ``nth`` of its agent."""
    fields.setdefault("session", f"agent1-{nth}")
    place = fields.setdefault("place", 0)
    default = f"{fields['session']}.{place}" if place else fields["session"]
    fields.setdefault("identity", f"{item_id}/{prompt}:who")
    return TurnRecord(
        item_id=item_id or default,
        agent="tool/x:y",
        agent_id=fields.pop("agent_id", "agent1"),
        prompt=prompt,
        **fields,
    )


def was(number: int, record: TurnRecord, state: TurnState = "ok") -> TurnRecord:
    """Return the turn as an earlier execution left it."""
    record.number, record.state, record.answer = number, state, f"answer {number}"
    return record


def replay_of(*records: TurnRecord, retry: bool = False, patches: Sequence[str] = ()) -> Replay:
    return Replay(cast(RecordedRun, Recorded(records, patches)), 2, retry=retry)


def test_an_answered_turn_is_answered_and_once_only() -> None:
    replay = replay_of(was(0, ask("a")), was(1, ask("b")))
    known = replay.recall(ask("b", nth=7))
    assert known is not None
    assert (known.number, known.answer) == (1, "answer 1")
    again = ask("b")
    assert replay.recall(again) is None
    assert again.number == -1
    assert replay.unasked == 1
    assert repr(replay) == "<Replay of 1 of 2 turns>"


@pytest.mark.parametrize("state", ["failed", "cancelled", "running", "queued", "not_run"])
def test_one_that_was_not_takes_over_its_row_and_what_that_cost(state: TurnState) -> None:
    before = was(3, ask("a", input_tokens=5, cost_usd=0.5, usage="[]"), state)
    replay = replay_of(before)
    record = ask("a")
    assert replay.recall(record) is None
    assert (record.number, record.execution, record.input_tokens) == (3, 2, 5)
    assert (record.cost_usd, record.usage) == (0.5, "[]")
    assert replay.changed == set()
    assert replay.next_number == 4


@pytest.mark.parametrize("change", ["whom", "file"])
def test_one_that_has_changed_runs_again_in_its_row(tmp_path: Path, change: str) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    path = str(file).encode()
    before = was(0, ask("a", path=path, fingerprint=fingerprint_of(path), began_at=1.0))
    whom = "a/go:other" if change == "whom" else "a/go:who"
    if change == "file":
        file.write_text("another")
    for retry in (True, False):
        replay = replay_of(before, retry=retry)
        record = ask("a", path=path, identity=whom)
        known = replay.recall(record)
        assert (known is not None) == retry  # only what failed runs again then
        assert retry or (record.number, replay.changed) == (0, {0})


def test_of_several_turns_about_a_file_the_last_tells_how_it_was_left(tmp_path: Path) -> None:
    file = tmp_path / "a"
    path = str(file).encode()
    rows = []
    for number, prompt in enumerate(("one", "two")):
        file.write_text(prompt)
        times: dict[str, Any] = {"began_at": 1.0 + number, "ended_at": 1.5 + number}
        row = ask("a", prompt, path=path, fingerprint=fingerprint_of(path), **times)
        rows.append(was(number, row))
    replay = replay_of(*rows)
    for prompt in ("one", "two"):
        assert replay.recall(ask("a", prompt, path=path)) is not None
    # One that was stopped in the middle may have left it in any way.
    running = was(2, ask("a", "three", path=path, began_at=3.0), "running")
    file.write_text("half of three")
    replay = replay_of(*rows, running)
    for prompt, known in (("one", True), ("two", True), ("three", False)):
        assert (replay.recall(ask("a", prompt, path=path)) is not None) == known
    assert replay_of(*rows).recall(ask("a", "one", path=path)) is None


def test_files_are_not_looked_at_once_patches_are_in_the_checkout(tmp_path: Path) -> None:
    before = was(0, ask("a", path=b"a", fingerprint="1 1 1:x", began_at=1.0))
    assert replay_of(before, patches=["conflict"]).recall(ask("a", path=b"a")) is None
    assert replay_of(before, patches=["applied"]).recall(ask("a", path=b"a")) is not None


def test_another_prompt_about_an_item_does_not_take_an_answer_away() -> None:
    replay = replay_of(was(0, ask("a", "first")), was(1, ask("a", "second")))
    new = ask("a", "zeroth")
    assert replay.recall(new) is None
    assert new.number == -1
    for prompt in ("first", "second"):
        assert replay.recall(ask("a", prompt)) is not None
    assert list(replay.replaced()) == []


def test_another_prompt_in_the_place_of_one_replaces_it_in_the_end() -> None:
    replay = replay_of(was(0, ask("a", "first")), was(1, ask("b", "first")))
    new = ask("a", "other")
    assert replay.recall(new) is None
    assert new.number == -1
    assert list(replay.replaced()) == [0]
    assert replay.unasked == 2


def test_turns_without_a_name_keep_that_of_their_row() -> None:
    replay = replay_of(was(0, ask(prompt="x", nth=1)), was(1, ask(prompt="y", nth=2), "failed"))
    swapped = ask(prompt="y", nth=1)
    assert replay.recall(swapped) is None
    assert (swapped.number, swapped.item_id, swapped.session) == (1, "agent1-2", "agent1-2")
    known = replay.recall(ask(prompt="x", nth=2))
    assert known is not None
    assert known.item_id == "agent1-1"


def test_a_new_turn_gets_no_name_that_is_taken() -> None:
    replay = replay_of(was(0, ask(prompt="x", nth=1)))
    new = ask(prompt="new", nth=1)
    assert replay.recall(new) is None
    assert (new.number, new.session, new.item_id) == (-1, "agent1-1+2", "agent1-1+2")


def in_session(nth: int, *prompts: str, kept_as: str = "talk") -> list[TurnRecord]:
    turns, chain = [], "s"
    for place, prompt in enumerate(prompts):
        chain = f"{chain}/{prompt}"
        turns.append(
            ask(prompt=prompt, nth=nth, place=place, identity=f"{chain}:who", kept_as=kept_as)
        )
    return turns


def test_a_session_keeps_to_the_one_it_was() -> None:
    first, second = in_session(1, "hi", "a", kept_as="t1"), in_session(2, "hi", "b", kept_as="t2")
    rows = [first[0], second[0], first[1], second[1]]
    replay = replay_of(*(was(number, row) for number, row in enumerate(rows)))
    mine = in_session(5, "hi", "b", "c")
    found = [replay.recall(turn) for turn in mine]
    # The first of two sessions that began alike is taken; what it was asked next is another thing.
    assert [turn and turn.number for turn in found] == [0, None, None]
    assert [turn.session for turn in mine] == ["agent1-1"] * 3
    other = [replay.recall(turn) for turn in in_session(6, "hi", "b")]
    assert [turn and turn.number for turn in other] == [1, 3]


def test_of_sessions_that_began_alike_the_one_of_the_same_name_is_taken() -> None:
    first, second = in_session(1, "hi", kept_as="t1"), in_session(2, "hi", kept_as="t2")
    replay = replay_of(was(0, first[0]), was(1, second[0]))
    found = [replay.recall(in_session(nth, "hi")[0]) for nth in (2, 1)]
    assert [turn and turn.kept_as for turn in found] == ["t2", "t1"]


def test_a_session_that_was_cut_short_goes_on() -> None:
    rows = in_session(1, "one", "two", "three", kept_as="t1")
    replay = replay_of(was(0, rows[0]), was(1, rows[1], "running"))
    mine = in_session(1, "one", "two", "three", kept_as="t9")
    known = replay.recall(mine[0])
    assert known is not None
    assert known.kept_as == "t1"
    assert replay.recall(mine[1]) is None
    assert replay.recall(mine[2]) is None
    assert [turn.number for turn in mine[1:]] == [1, -1]
    assert mine[2].item_id == "agent1-1.2"


def test_which_items_are_tried_again() -> None:
    states: list[TurnState] = ["ok", "failed", "cancelled", "running", "queued", "not_run"]
    rows = [was(number, ask(state), state) for number, state in enumerate(states)]
    replay = replay_of(*rows, retry=True)
    chosen = replay.chosen([*states, "new"])
    assert chosen == [True, True, True, True, False, False, False]
    assert all(replay_of(*rows).chosen(states))
    assert replay.has_row("queued")
    assert not replay.has_row("new")


def test_a_run_of_an_older_version_can_be_tried_again() -> None:
    rows = [was(0, ask("a", identity="")), was(1, ask("b", identity=""), "failed")]
    replay = replay_of(*rows, retry=True)
    known = replay.recall(ask("a"))
    assert known is not None
    failed = ask("b")
    assert replay.recall(failed) is None
    assert failed.number == 1


turns = st.tuples(st.sampled_from(["", "a", "b", "c"]), st.sampled_from(["x", "y"]))


@given(
    st.lists(st.tuples(turns, st.sampled_from(["ok", "ok", "failed", "running", "queued"]))),
    st.randoms(use_true_random=False),
    st.lists(turns, max_size=3),
)
def test_in_whatever_order_nothing_is_lost_and_nothing_had_twice(
    history: list[tuple[tuple[str, str], TurnState]], chance: Any, more: list[tuple[str, str]]
) -> None:
    rows = [
        was(number, ask(*asked, nth=number + 1), state)
        for number, (asked, state) in enumerate(history)
    ]
    replay = replay_of(*rows)
    wanted = [asked for asked, _ in history] + more
    chance.shuffle(wanted)
    recalled: list[TurnRecord] = []
    ran: list[TurnRecord] = []
    for nth, asked in enumerate(wanted, start=1):
        record = ask(*asked, nth=nth)
        known = replay.recall(record)
        if known is None:
            ran.append(record)
        else:
            assert known.prompt == asked[1]
            assert not asked[0] or known.item_id == asked[0]
            recalled.append(known)
    assert {row.number for row in recalled} == {row.number for row in rows if row.state == "ok"}
    numbers = [record.number for record in (*recalled, *ran) if record.number >= 0]
    assert max(Counter(numbers).values(), default=1) == 1
    assert sorted(numbers) == list(range(len(rows)))
    names = Counter(
        record.item_id for record in (*recalled, *ran) if record.session in record.item_id
    )
    assert max(names.values(), default=1) == 1
    assert (replay.unasked, list(replay.replaced())) == (0, [])
