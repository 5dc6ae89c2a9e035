"""Rates: how many tasks in a window of time. In this process, or in the store."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from limits.aio.storage.base import SlidingWindowCounterSupport as AsyncSupport
from limits.aio.storage.base import Storage as AsyncStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter as AsyncLimiter
from limits.strategies import SlidingWindowCounterRateLimiter

from .atomic_changes import Changes
from .usage import WINDOWS
from .windows import MemoryWindows, read_window

if TYPE_CHECKING:
    from limits import WindowStats

    from pml_hookspecs import Services

    from .outage import Outage
    from .rules import Limit, RateLimit
SHORTEST_WAIT_S = 0.001
"""Told where a window turns at this very moment [s]."""


class Rates:
    """Rates that are counted in this process."""

    def __init__(self) -> None:
        self.windows = MemoryWindows()
        self._limiter = SlidingWindowCounterRateLimiter(self.windows)

    def refused(self, rated: tuple[RateLimit, ...]) -> tuple[Limit, float] | None:
        """Count one for each, or none: the first that has none free, and when it has one again [s]."""
        take = self.windows.acquire_sliding_window_entry
        for done, one in enumerate(rated):
            # As the library's limiter does, which makes the key anew each time.
            if not take(one.place, one.amount, one.expiry_s):
                for taken in rated[:done]:
                    self.windows.give_back(taken.place)
                return one.limit, _wait_s(self._limiter.get_window_stats(one.rate, one.limit.key))
        return None


class SharedRates:
    """Counted in the store, so that all gateways that use it count together."""

    def __init__(self, services: Services, alone: Rates, outage: Outage) -> None:
        """``alone`` counts while the store is out of order."""
        self.windows = StoredWindows(services)
        self._limiter, self._alone, self._outage = AsyncLimiter(self.windows), alone, outage

    async def refused(self, rated: tuple[RateLimit, ...]) -> tuple[Limit, float] | None:
        """As :meth:`Rates.refused`."""
        done = 0
        try:
            for one in rated:
                self.windows.whose[one.place] = one.limit
                if not await self._limiter.hit(one.rate, one.limit.key):
                    stats = await self._limiter.get_window_stats(one.rate, one.limit.key)
                    for taken in rated[:done]:
                        await self.windows.give_back(taken.place, taken.expiry_s)
                    return one.limit, _wait_s(stats)
                done += 1
        except Exception as exc:
            self._outage.noted("rates are counted by this gateway alone", exc)
            return self._alone.refused(rated[done:])
        return None


def _wait_s(stats: WindowStats) -> float:
    return max(stats.reset_time - time.time(), SHORTEST_WAIT_S)


class StoredWindows(AsyncStorage, AsyncSupport):
    """Storage of :mod:`limits` for its sliding window counters: one document each, changed by compare and swap."""

    STORAGE_SCHEME = None

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self.changes = Changes(services, WINDOWS)
        self.whose: dict[str, Limit] = {}
        """The limit of each key: what is written to the store names it."""

    @property
    def base_exceptions(self) -> type[Exception]:
        """What the store raises is told as it is."""
        return ValueError

    async def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Count ``amount`` if that many are free, in all gateways together."""
        about = self.whose.pop(key, None)

        def take(value: dict[str, Any]) -> bool:
            window = read_window(value, expiry)
            if not window.take(limit, amount, time.time()):
                return False
            value.update(window.plain())
            if about is not None:
                value.update(rule=about.name, whose=dict(about.whose))
            return True

        return await self.changes.change(key, take, keep_s=2 * expiry)

    async def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        """Counts of the stretch before and the current one, each with the time that it still counts [s]."""
        found = await self._services.store.documents.get(WINDOWS, key)
        return read_window({} if found is None else dict(found.value), expiry).stats(time.time())

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        """Forget one."""
        await self.clear(key)

    async def give_back(self, key: str, expiry: int) -> None:
        """Take back one that was counted."""

        def less(value: dict[str, Any]) -> None:
            if value.get("current"):
                value["current"] -= 1

        await self.changes.change(key, less, keep_s=2 * expiry)

    # What other strategies would need

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Not used by sliding windows."""
        raise NotImplementedError

    async def get(self, key: str) -> int:
        """How many were counted in the current stretch."""
        found = await self._services.store.documents.get(WINDOWS, key)
        return 0 if found is None else int(found.value.get("current", 0))

    async def get_expiry(self, key: str) -> float:
        """When the current stretch ends, Unix time [s]."""
        found, now_s = await self._services.store.documents.get(WINDOWS, key), time.time()
        if found is None:
            return now_s
        return now_s + read_window(dict(found.value), int(found.value["expiry_s"])).left_s(now_s)

    async def check(self) -> bool:
        """Whether the store answers."""
        await self._services.store.documents.get(WINDOWS, "")
        return True

    async def reset(self) -> int:
        """Forget all; how many."""
        return await self._services.store.documents.prune(WINDOWS, keep=0)

    async def clear(self, key: str) -> None:
        """Forget one."""
        await self._services.store.documents.delete(WINDOWS, key)
