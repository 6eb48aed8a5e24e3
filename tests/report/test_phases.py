from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.report.phases import Did, Phase, phases
from hmz_mp.report.spans import Span


def span(attempts: int = 1, seconds: float | None = 10.0) -> Span:
    return Span(0, "a", "ok", attempts, 7, 0.0, 0.0, 10.0, seconds, "x", "s", 0, 0, 0, 0.0, None, 1)


def test_a_turn_of_one_attempt() -> None:
    assert list(phases(span(), [])) == [Phase(0.0, 10.0, "attempt", "attempt 1")]


def test_a_turn_that_waits_at_its_end() -> None:
    found = list(phases(span(), [Did(4.0, "waiting", "9", None)]))
    assert found == [
        Phase(0.0, 4.0, "attempt", "attempt 1"),
        Phase(4.0, 10.0, "waiting", "waits for its service"),
    ]


def test_what_lies_outside_the_turn_is_moved_to_its_edge() -> None:
    deeds = [Did(-5.0, "tool", "early", 3.0), Did(99.0, "tool", "late", None)]
    (_, early) = phases(span(), deeds)
    assert early == Phase(0.0, 3.0, "tool", "early")


moments = st.floats(-2, 12)


@given(
    st.lists(st.tuples(moments, st.sampled_from(["tool", "attempt", "waiting"]), moments)),
    st.integers(1, 4),
)
def test_parts_lie_inside_each_other_or_apart(
    drawn: list[tuple[float, str, float]], attempts: int
) -> None:
    deeds = [Did(at, kind, "x", max(at, until)) for at, kind, until in sorted(drawn)]
    found = list(phases(span(attempts, 3.0), deeds))
    parts = [one for one in found if one.kind != "tool"]
    assert parts[0].begin == 0.0
    assert parts[-1].end == 10.0
    for one, other in pairwise(parts):
        assert one.begin <= one.end == other.begin
    for one in found:
        if one.kind == "tool":
            assert any(it.begin <= one.begin <= one.end <= it.end for it in parts)
