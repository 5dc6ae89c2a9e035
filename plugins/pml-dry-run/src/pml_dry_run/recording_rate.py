"""How often calls are recorded: the first ones of a tool always, further ones as long as they cost little."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .settings import Settings

FIRST_PRICE_S = 300e-6
"""What one recording is thought to cost before any was written [s]."""
NEWEST = 0.2
"""How much what was written last counts in the price."""
MOST_CREDIT_S = 0.05
"""What recording may take and did not, and what it took too much, counts up to this [s]."""


class RecordingRate:
    """How often the calls of one tool are recorded: some at any rate, further ones evenly."""

    __slots__ = ("_at_s", "_first", "_left", "_most", "_per_second")

    def __init__(self, settings: Settings) -> None:
        self._first = settings.max_per_tool
        self._most = self._left = float(settings.max_per_tool)
        self._per_second, self._at_s = settings.per_second, time.monotonic()

    def allows(self) -> bool:
        """Whether one more may be recorded now; counts it."""
        now_s = time.monotonic()
        self._left = min(self._most, self._left + (now_s - self._at_s) * self._per_second)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def is_first(self) -> bool:
        """Whether it is one of those that count whatever they cost; counts it."""
        self._first -= 1
        return self._first >= 0


class ProcessorBudget:
    """Processor time for recording, of all tools together: at most a share of what the gateway takes.

    What it took is put against what it may take when that is known, so that nothing depends on an estimate for long:
    what was recorded at any pace is paid for later.
    """

    __slots__ = ("_at_s", "_credit_s", "_share", "price_s")

    def __init__(self, share: float, price_s: float = FIRST_PRICE_S) -> None:
        self._share, self._credit_s = share, 0.0
        self.price_s = price_s
        """What one recording costs in all, as far as is known [s]."""
        self._at_s = time.process_time()

    def allows(self, waiting: int) -> bool:
        """Whether one more recording can be paid for, when ``waiting`` are not written yet."""
        if self._share >= 1:
            return True
        now_s = time.process_time()
        self._credit_s = min(MOST_CREDIT_S, self._credit_s + (now_s - self._at_s) * self._share)
        self._at_s = now_s
        return self._credit_s >= (waiting + 1) * self.price_s

    def spend(self, seconds: float, recordings: int = 0) -> None:
        """Take note of what these recordings cost, or what was done for all of them [s]."""
        self._credit_s = max(-MOST_CREDIT_S, self._credit_s - seconds)
        if recordings:
            self.price_s += (seconds / recordings - self.price_s) * NEWEST
