from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.core.ambient import TurnRecord
from hmz_mp.runs.endings import Endings

from .support import turn


def test_an_ending_is_told_of_once_written_and_in_order() -> None:
    told: list[int] = []
    had: list[int] = []
    endings = Endings(lambda record: told.append(record.number))
    for number in (0, 1, 2):
        endings.expect(number)
    endings.add(turn(1), 5, lambda: had.append(1))
    endings.add(turn(0), 6, lambda: had.append(0))
    endings.add(turn(2), 0, lambda: had.append(2))
    assert (told, had) == ([], [2])
    endings.written(5)
    assert (told, had) == ([], [2, 1])
    assert repr(endings) == "<Endings 0 of 3 told, 1 unwritten>"
    endings.written(7)
    assert (told, had) == ([0, 1, 2], [2, 1, 0])


@given(st.permutations(range(8)), st.lists(st.integers(0, 9), max_size=12))
def test_whatever_the_order_each_is_told_once_and_none_too_early(
    ends: list[int], commits: list[int]
) -> None:
    told: list[TurnRecord] = []
    had: list[int] = []
    endings = Endings(told.append)
    for number in range(8):
        endings.expect(number)
    written = 0
    for put, number in enumerate(ends, start=1):
        endings.add(turn(number), put, partial(had.append, number))
        if commits:
            written = max(written, min(put, commits.pop()))
            endings.written(written)
        assert had == ends[:written]
    endings.written(len(ends))
    assert had == ends
    assert [record.number for record in told] == list(range(8))


def test_what_is_held_or_dropped_is_not_told_of() -> None:
    told: list[int] = []
    had: list[int] = []
    endings = Endings(lambda record: told.append(record.number))
    for number in (0, 1, 2):
        endings.expect(number)
    endings.hold(5, lambda: had.append(0))
    endings.hold(0, lambda: had.append(1))
    endings.add(turn(2), 0)
    endings.written(5)
    assert (told, had) == ([], [1, 0])
    endings.add(turn(0), 0)
    assert told == [0]
    endings.drop(1)
    assert told == [0, 2]
