"""Sliding windows: how much was counted lately, by two counters and one formula."""

from __future__ import annotations

import socket
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

MOST = 10_000
"""Windows that one process keeps: each new one above takes the place of another."""
LOOKED_AT = 8
"""How many of the oldest are looked at for one that is over; a new window costs no more, however many there are."""
SHORTEST_WAIT_S = 0.001
HOST = socket.gethostname()


class Window:
    """What was counted in the current stretch of time and in the one before. Reads the clock of this process alone."""

    __slots__ = ("current", "expiry_s", "number", "previous", "since_s")

    def __init__(
        self, expiry_s: float, *, number: int = 0, previous: int = 0, current: int = 0, age_s: float = 0.0
    ) -> None:
        """A stretch takes ``expiry_s``, is the ``number``-th, and began ``age_s`` ago [s]."""
        self.expiry_s, self.number, self.previous, self.current = expiry_s, number, previous, current
        self.since_s = time.monotonic() - age_s

    def roll(self) -> float:
        """Be at the present time; how long ago the current stretch began [s]."""
        age_s = time.monotonic() - self.since_s
        if (over := int(age_s // self.expiry_s)) > 0:
            self.previous = self.current if over == 1 else 0
            self.current, self.number = 0, self.number + over
            self.since_s += over * self.expiry_s
            age_s -= over * self.expiry_s
        return age_s

    def used(self) -> float:
        """How much counts now, the stretch before in part."""
        age_s = self.roll()
        return self.previous * (1 - age_s / self.expiry_s) + self.current

    def take(self, limit: int) -> bool:
        """Count one more if it is free."""
        if self.used() >= limit:
            return False
        self.current += 1
        return True

    def give_back(self) -> None:
        """Take back one that was counted."""
        self.current = max(self.current - 1, 0)

    def wait_s(self, limit: int) -> float:
        """When one is free, if nothing else is counted until then [s]."""
        left_s = self.expiry_s - self.roll()
        if self.current < limit:  # as soon as enough of the stretch before does not count any more
            wait_s = left_s - (limit - self.current) * self.expiry_s / self.previous if self.previous else 0.0
        else:
            wait_s = left_s + self.expiry_s * (1 - limit / self.current)
        return max(wait_s, SHORTEST_WAIT_S)

    def plain(self) -> dict[str, Any]:
        """The window as JSON."""
        age_s = self.roll()
        counts = {"number": self.number, "previous": self.previous, "current": self.current}
        return {**counts, "expiry_s": self.expiry_s, "age_s": round(age_s, 3), "host": HOST, "at_s": time.time()}


class Windows:
    """Windows of one process, with a bound on how many."""

    def __init__(self) -> None:
        self.kept: OrderedDict[str, Window] = OrderedDict()

    def at(self, key: str, expiry_s: float) -> Window:
        """The window of ``key``."""
        window = self.kept.get(key)
        if window is None:
            if len(self.kept) >= MOST:
                self._make_way()
            window = self.kept[key] = Window(expiry_s)
        return window

    def read(self, key: str, value: Mapping[str, Any], expiry_s: float) -> Window:
        """The window that :meth:`Window.plain` wrote; a new one when there is none, or it was counted by another rate.

        It began as long ago as whoever wrote it said, or as this process knows by itself. What passed since it was
        written is known by the clock of the machine only where that is the one that wrote it.
        """
        if value.get("expiry_s") != expiry_s or "age_s" not in value:
            self.kept.pop(key, None)
            return self.at(key, expiry_s)
        age_s = value["age_s"] + (max(time.time() - value["at_s"], 0.0) if value["host"] == HOST else 0.0)
        counts = {name: int(value[name]) for name in ("number", "previous", "current")}
        window, known = Window(expiry_s, age_s=age_s, **counts), self.at(key, expiry_s)
        if known.number == window.number:
            window.since_s = min(window.since_s, known.since_s)
        self.kept[key] = window
        return window

    def _make_way(self) -> None:
        """Forget a window that is over; where none is found, the oldest of those that count."""
        for _ in range(LOOKED_AT):
            key, window = self.kept.popitem(last=False)
            if not window.used():
                return
            self.kept[key] = window
        self.kept.popitem(last=False)
