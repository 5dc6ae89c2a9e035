"""When a server that failed is tried again."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

FIRST_S, LONGEST_S = 0.5, 60.0
GIVES_UP_AFTER = 5
"""Failures in a row after which the longest pause is made at once."""
STABLE_S = 10.0
"""A connection that lasted this long was a good one [s]."""


class Backoff:
    """Back-off with jitter, and a circuit that opens after repeated failure."""

    def __init__(self) -> None:
        self._refusals, self._crashes = 0, 0
        self.next_attempt_at: datetime | None = None
        """When the pause ends that began last; None before the first."""

    @property
    def failures(self) -> int:
        """Attempts in a row that led to nothing, or to connections that soon ended."""
        return max(self._refusals, self._crashes)

    @property
    def open(self) -> bool:
        """Whether the circuit is open: nothing is tried for a while."""
        return self.failures >= GIVES_UP_AFTER

    @property
    def news(self) -> bool:
        """Whether the last failure is worth a line: the first in a row, and the one that opened the circuit."""
        return self.failures in (1, GIVES_UP_AFTER)

    def failed(self) -> float:
        """There was no connection; the pause until the next attempt [s]."""
        self._refusals += 1
        return self._pause_s()

    def lost(self, lasted_s: float) -> float:
        """There was a connection, for so long; the pause until the next attempt [s]."""
        self._refusals = 0
        self._crashes = 1 if lasted_s >= STABLE_S else self._crashes + 1
        return self._pause_s()

    def rested(self) -> None:
        """It was stopped in good order: what failed before is over."""
        self._refusals, self._crashes = 0, 0

    def _pause_s(self) -> float:
        pause_s = LONGEST_S if self.open else min(LONGEST_S, FIRST_S * 2 ** (self.failures - 1))
        return pause_s * random.uniform(0.8, 1.2)  # noqa: S311 - jitter

    def explain_now(self, reason: str, left_s: float) -> str:
        """``reason``, and when the circuit is open, that it is and how long it still is; for who asks now."""
        if not self.open:
            return reason
        return f"{reason} (failed {self.failures} times in a row; the next attempt is in {max(0.0, left_s):.0f} s)"

    def pause(self, reason: str, pause_s: float) -> str:
        """Begin a pause; ``reason``, and of an open circuit, that it is and until when: true whenever it is read."""
        self.next_attempt_at = datetime.now(UTC) + timedelta(seconds=pause_s)
        if not self.open:
            return reason
        at = f"{self.next_attempt_at:%H:%M:%S} UTC"
        return f"{reason} (failed {self.failures} times in a row; the next attempt is at {at})"
