"""Rates: how many tasks in a window of time. In this process, or in the store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pml_kit.shared.window import Windows

from .atomic_changes import Changes
from .slots import KEPT_S

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .outage import Outage
    from .rules import Limit, RateLimit

WINDOWS = "limits.windows"
"""Collection of documents."""
LONGEST_S = 1e9
"""No document is kept for longer [s]."""


class Rates:
    """Rates that are counted in this process."""

    def __init__(self) -> None:
        self.windows = Windows()

    def refused(self, rated: tuple[RateLimit, ...]) -> tuple[Limit, float] | None:
        """Count one for each, or none: the first that has none free, and when it has one again [s]."""
        for done, one in enumerate(rated):
            window = self.windows.at(one.limit.key, one.expiry_s)
            if not window.take(one.amount):
                for taken in rated[:done]:
                    self.windows.at(taken.limit.key, taken.expiry_s).give_back()
                return one.limit, window.wait_s(one.amount)
        return None


class SharedRates:
    """Counted in the store, so that all gateways that use it count together."""

    def __init__(self, services: Services, alone: Rates, outage: Outage) -> None:
        """``alone`` counts while the store is out of order."""
        self.changes, self._windows = Changes(services, WINDOWS), Windows()
        self._alone, self._outage = alone, outage

    async def refused(self, rated: tuple[RateLimit, ...]) -> tuple[Limit, float] | None:
        """As :meth:`Rates.refused`."""
        done = 0
        try:
            for one in rated:
                if (wait_s := await self._change(one, 1)) is not None:
                    for taken in rated[:done]:
                        await self._change(taken, -1)
                    return one.limit, wait_s
                done += 1
        except Exception as exc:
            self._outage.noted("rates are counted by this gateway alone", exc)
            return self._alone.refused(rated[done:])
        return None

    async def _change(self, one: RateLimit, more: int) -> float | None:
        change = partial(self._counted, one, more)
        return await self.changes.change(one.limit.key, change, keep_s=min(KEPT_S + 2 * one.expiry_s, LONGEST_S))

    def _counted(self, one: RateLimit, more: int, value: dict[str, Any]) -> float | None:
        """Count one more or less in what is stored; None, or when there is one free [s]."""
        window = self._windows.read(one.limit.key, value, one.expiry_s)
        if more < 0:
            window.give_back()
        elif not window.take(one.amount):
            return window.wait_s(one.amount)
        value.update(window.plain(), rule=one.limit.name, whose=dict(one.limit.whose))
        return None
