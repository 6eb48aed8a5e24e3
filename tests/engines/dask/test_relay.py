from __future__ import annotations

from typing import Any

from hmz_mp.engines.dask import relay

TO_SITE: list[Any] = [
    relay.Frame(1, b"\xff", 2),
    relay.Start(1, True),
    relay.Kill(1, 2),
    relay.Paths([b"/\xff"], b"/"),
    relay.ByValue(),
    relay.Bound(),
    relay.Measure(1, False),
    relay.Close(True),
    relay.Pieces(1, b"", [relay.Piece(b"\xff", True, False), relay.Piece(b"", True, True)], 2),
    relay.Discard([b"\xff"]),
]
FROM_SITE: list[Any] = [
    relay.Frame(1, b"\xff", 2),
    relay.Died(1, 2, 3, None, 9, "words"),
    relay.Missed(1),
    relay.Failed("reason", "said"),
    relay.Held(1, True, 1 << 40),
    relay.Closed(),
]


def test_messages_arrive_as_they_were() -> None:
    assert relay.decode_to_site(relay.encode(TO_SITE)) == TO_SITE
    assert relay.decode_from_site(relay.encode(FROM_SITE)) == FROM_SITE
