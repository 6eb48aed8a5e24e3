"""How fast a run goes, and how long what is left will take.

Owns the arithmetic, on the caller's clock. Imported by the displays.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

__all__ = ["Pace"]

_WINDOW = 30.0  # seconds: long enough to be calm, short enough to follow a change


@dataclass(slots=True)
class Pace:
    """Turns per second over the last half minute; over the whole run if none ended in it."""

    began: float
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, now: float, ended: int) -> None:
        """Note how many turns have ended by ``now``; call it at most a few times a second."""
        self._samples.append((now, ended))
        while now - self._samples[0][0] > _WINDOW and len(self._samples) > 2:
            self._samples.popleft()

    @property
    def rate(self) -> float:
        """Turns per second; 0 while none has ended."""
        if not self._samples:
            return 0.0
        (first, before), (last, ended) = self._samples[0], self._samples[-1]
        if ended > before and last > first:
            return (ended - before) / (last - first)
        return ended / (last - self.began) if last > self.began else 0.0

    def left(self, remaining: int) -> float | None:
        """Return how many seconds ``remaining`` turns will take, ``None`` when nobody can say."""
        rate = self.rate
        return remaining / rate if rate else None
