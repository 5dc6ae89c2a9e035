"""Sliding windows, kept in this process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from math import floor
from typing import Any

from limits.storage.base import SlidingWindowCounterSupport, Storage

MOST = 10_000
"""Windows kept: each new one above takes the place of another."""
LOOKED_AT = 8
"""How many of the oldest are looked at for one that is over; a new window costs no more, however many there are."""
TURN_S = 1e-6
"""A stretch that begins at this very moment ends so much earlier [s]."""


class Window:
    """What was counted in the current stretch of time and in the one before."""

    __slots__ = ("current", "expiry_s", "index", "previous")

    def __init__(self, expiry_s: int, index: int = 0, previous: int = 0, current: int = 0) -> None:
        """``index`` numbers the stretches of ``expiry_s`` seconds since 1970."""
        self.expiry_s, self.index, self.previous, self.current = expiry_s, index, previous, current

    def roll(self, now_s: float) -> None:
        """Be at ``now_s``. A clock that is put back changes nothing."""
        index = int(now_s // self.expiry_s)
        if index > self.index:
            self.previous = self.current if index == self.index + 1 else 0
            self.index, self.current = index, 0

    def left_s(self, now_s: float) -> float:
        """How long the current stretch still takes [s]."""
        return min(max((self.index + 1) * self.expiry_s - now_s, 0.0), float(self.expiry_s))

    def used(self, now_s: float) -> float:
        """How much counts at ``now_s``, the stretch before in part."""
        return self.previous * self.left_s(now_s) / self.expiry_s + self.current

    def take(self, limit: int, amount: int, now_s: float) -> bool:
        """Count ``amount`` if that many are free."""
        self.roll(now_s)
        if floor(self.used(now_s)) + amount > limit:
            return False
        self.current += amount
        return True

    def plain(self) -> dict[str, int]:
        """The window as JSON."""
        return {"index": self.index, "previous": self.previous, "current": self.current, "expiry_s": self.expiry_s}

    def stats(self, now_s: float) -> tuple[int, float, int, float]:
        """As :meth:`limits.storage.base.SlidingWindowCounterSupport.get_sliding_window` gives them."""
        self.roll(now_s)
        # The library takes it modulo the window, and 0 would be now.
        left_s = min(self.left_s(now_s), self.expiry_s - TURN_S)
        return self.previous, left_s if self.previous else 0.0, self.current, left_s + self.expiry_s


def read_window(value: Mapping[str, Any], expiry_s: int) -> Window:
    """What :meth:`Window.plain` wrote; a new one when there is none, or it was counted by another rate."""
    if value.get("expiry_s") != expiry_s:
        return Window(expiry_s)
    return Window(expiry_s, int(value["index"]), int(value["previous"]), int(value["current"]))


class MemoryWindows(Storage, SlidingWindowCounterSupport):
    """Storage of :mod:`limits` for its sliding window counters, without threads: for one event loop.

    The library's own starts a thread with a hit, to forget what is over; here that happens when there are many.
    """

    STORAGE_SCHEME = None

    def __init__(self) -> None:
        super().__init__()
        self.windows: OrderedDict[str, Window] = OrderedDict()

    @property
    def base_exceptions(self) -> type[Exception]:
        """Nothing can fail."""
        return ValueError

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Count ``amount`` if that many are free."""
        window = self.windows.get(key)
        if window is None:
            window = self._new(key, expiry)
        return window.take(limit, amount, time.time())

    def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        """Counts of the stretch before and the current one, each with the time that it still counts [s]."""
        return (self.windows.get(key) or Window(expiry)).stats(time.time())

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        """Forget one."""
        self.windows.pop(key, None)

    def give_back(self, key: str) -> None:
        """Take back one that was counted."""
        window = self.windows.get(key)
        if window is not None and window.current:
            window.current -= 1

    def _new(self, key: str, expiry_s: int) -> Window:
        if len(self.windows) >= MOST:
            self._make_way()
        window = self.windows[key] = Window(expiry_s)
        return window

    def _make_way(self) -> None:
        """Forget a window that is over; where none is found, the oldest of those that count."""
        now_s = time.time()
        for _ in range(LOOKED_AT):
            key, window = self.windows.popitem(last=False)
            window.roll(now_s)
            if not (window.previous or window.current):
                return
            self.windows[key] = window
        self.windows.popitem(last=False)

    # What other strategies would need

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Not used by sliding windows."""
        raise NotImplementedError

    def get(self, key: str) -> int:
        """How many were counted in the current stretch."""
        window = self.windows.get(key)
        return 0 if window is None else window.current

    def get_expiry(self, key: str) -> float:
        """When the current stretch ends, Unix time [s]."""
        now_s, window = time.time(), self.windows.get(key)
        return now_s if window is None else now_s + window.left_s(now_s)

    def check(self) -> bool:
        """It is always well."""
        return True

    def reset(self) -> int:
        """Forget all; how many."""
        count = len(self.windows)
        self.windows.clear()
        return count

    def clear(self, key: str) -> None:
        """Forget one."""
        self.windows.pop(key, None)
