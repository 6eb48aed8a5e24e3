"""Limits: named bounds on turns in flight, shared by everything that names them."""

from __future__ import annotations

from collections.abc import Iterator
from random import random
from typing import Literal

from hmz_mp.core.breaker import Breaker
from hmz_mp.core.gates import Gate

__all__ = ["AUTO", "AtOnce", "Limit", "LimitTable", "adapted", "check_at_once", "check_width"]

AtOnce = int | Literal["auto"]
AUTO: Literal["auto"] = "auto"


class Limit:
    """A named bound: ``at_once`` turns in flight and ``per_minute`` begun; 0 bounds nothing.

    One that `adapts` also bounds its turns to its ``width``, which it finds out by itself.

    It is enforced in the coordinator, over everything that names it, whatever worker runs it.
    """

    __slots__ = ("gate",)

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    @property
    def name(self) -> str:
        """The limit's name in its pool."""
        return self.gate.name

    @property
    def at_once(self) -> int:
        """How many turns may be in flight; 0 means any number."""
        return self.gate.capacity

    @property
    def per_minute(self) -> int:
        """How many turns may begin in any minute; 0 means any number."""
        return self.gate.per_minute

    @property
    def adapts(self) -> bool:
        """Whether it was made with ``at_once="auto"``."""
        return self.gate.adapts

    @property
    def width(self) -> int:
        """How many turns its service bears at once, as far as is known now; 0 is any number."""
        breaker = self.gate.breaker
        return int(breaker.width.bound) if breaker is not None else 0

    def __repr__(self) -> str:
        return f"<Limit {self.name!r} at_once={self.at_once} per_minute={self.per_minute}>"


class LimitTable:
    """The limits of one pool, by name."""

    def __init__(self) -> None:
        self._limits: dict[str, Limit] = {}

    def get(self, name: str, at_once: AtOnce, per_minute: int) -> Limit:
        """Return the limit of that name, made now if there is none.

        Raises `ValueError` for a negative bound, and for bounds other than those it has. To adapt
        its width is no other bound, but one more.
        """
        adapts, at_once = at_once == AUTO, check_at_once(at_once)
        check_width("per_minute", per_minute)
        known = self._limits.get(name)
        if known is None:
            known = self._limits[name] = Limit(Gate(name, at_once, per_minute, Breaker(random)))
        elif (at_once or per_minute) and (at_once, per_minute) != (
            known.at_once,
            known.per_minute,
        ):
            raise ValueError(
                f"the limit {name!r} has at_once={known.at_once}, per_minute={known.per_minute}; "
                f"it cannot have at_once={at_once}, per_minute={per_minute} too"
            )
        if adapts:
            known.gate.adapt()
        return known

    def bounded_elsewhere(self, name: str) -> tuple[Limit, bool]:
        """Return a limit whose ``at_once`` somebody else sets, and whether it was made now.

        It is not a service's, and so has no breaker.
        """
        known = self._limits.get(name)
        if known is None:
            self._limits[name] = made = Limit(Gate(name))
            return made, True
        return known, False

    def named(self, limit: Limit | str) -> Limit:
        """Return a limit itself, or the one of that name. Raises `ValueError` for none."""
        if isinstance(limit, Limit):
            return limit
        if limit not in self._limits:
            known = ", ".join(map(repr, self._limits)) or "none"
            raise ValueError(
                f"there is no limit {limit!r} (known: {known}): make it with "
                "pool.limit(name, at_once=...)"
            )
        return self._limits[limit]

    def widths(self) -> dict[str, int]:
        """Return the widths of the limits that adapt theirs, by name."""
        return {name: limit.width for name, limit in self._limits.items() if limit.adapts}

    def __iter__(self) -> Iterator[Limit]:
        return iter(self._limits.values())


def adapted(gates: tuple[Gate, ...]) -> tuple[Gate, ...]:
    """Have the limits among some gates adapt their width, or one more gate."""
    limits = [gate for gate in gates if gate.breaker is not None]
    if not limits:
        limits = [Gate(AUTO, breaker=Breaker(random))]
        gates = (*gates, *limits)
    for gate in limits:
        gate.adapt()
    return gates


def check_at_once(value: object) -> int:
    """Return a bound, 0 for ``"auto"``. Raises `TypeError` or `ValueError`."""
    if isinstance(value, str):
        if value != AUTO:
            raise ValueError(f"at_once is a number, or {AUTO!r}, not {value!r}")
        return 0
    return check_width("at_once", value)


def check_width(name: str, value: object) -> int:
    """Return a bound that is a whole number from 0 up. Raises `TypeError` or `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, 0 for no bound, not {value!r}")
    if value < 0:
        raise ValueError(f"{name} is 0 for no bound, or more, not {value}")
    return value
