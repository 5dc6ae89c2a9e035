"""Budgets: what all tasks of a day may cost. Always kept in the store, so that a new start does not refill them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from .atomic_changes import Changes

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionId, Outcome, Run, Services

    from .outage import Outage
    from .rules import Limit

COLLECTION = "limits.spent"
MICROS = 1_000_000
"""Costs are added up in millionths of a dollar, so that sums are exact."""
KEPT_S = 8 * 86_400.0
"""How long a day's sum can be looked at [s]."""
WRITE_S = 1.0
"""How often gateways that count by themselves write, and learn of others [s]."""


class Budgets:
    """What was spent today, by counter."""

    def __init__(self, services: Services, outage: Outage, *, shared: bool) -> None:
        """``shared``: ask the store before each task, and write after each."""
        self._services, self._outage, self._shared = services, outage, shared
        self._changes = Changes(services, COLLECTION)
        self._writing = asyncio.Lock()
        # By day and counter, millionths of a dollar: what is stored, is on its way there, and is not yet.
        self._stored: dict[str, int] = {}
        self._sent: dict[str, int] = {}
        self._added: dict[str, int] = {}
        self._limits: dict[str, Limit] = {}

    async def refused(self, limits: tuple[Limit, ...]) -> tuple[Limit, float, float] | None:
        """The first that is used up, what was spent of it [USD], and when there is a new one [s]."""
        now = datetime.now(UTC)
        for limit in limits:
            place = _place(limit, now)
            if self._shared or place not in self._stored:
                await self._look(place)
            spent = sum(known.get(place, 0) for known in (self._stored, self._sent, self._added))
            if spent >= round(limit.rule.daily_usd * MICROS):
                return limit, spent / MICROS, _to_midnight_s(now)
        return None

    async def _look(self, place: str) -> None:
        try:
            found = await self._services.store.documents.get(COLLECTION, place)
        except Exception as exc:
            self._outage.noted("budgets are counted by this gateway alone", exc)
            self._stored.setdefault(place, 0)
        else:
            self._stored[place] = 0 if found is None else int(found.value["micro_usd"])

    async def spend(self, limits: tuple[Limit, ...], cost_usd: float) -> None:
        """Count what a task cost."""
        now = datetime.now(UTC)
        for limit in limits:
            place = _place(limit, now)
            self._limits[place] = limit
            self._added[place] = self._added.get(place, 0) + round(cost_usd * MICROS)
        if self._shared:
            await asyncio.shield(self.write())

    async def write(self) -> None:
        """Add to the store what is not there yet."""
        async with self._writing:
            for place in [place for place, micros in self._added.items() if micros]:
                await self._write(place, self._added.pop(place), self._limits[place])

    async def _write(self, place: str, micros: int, limit: Limit) -> None:
        def add(value: dict[str, Any]) -> int:
            total = int(value.get("micro_usd", 0)) + micros
            value.update(micro_usd=total, rule=limit.name, whose=dict(limit.whose), day=place[:10])
            return total

        self._sent[place] = micros
        try:
            self._stored[place] = await self._changes.change(place, add, keep_s=KEPT_S)
        except Exception as exc:
            self._added[place] = self._added.get(place, 0) + micros
            self._outage.noted("budgets are counted by this gateway alone", exc)
        finally:
            del self._sent[place]

    async def keep_writing(self) -> None:
        """Write now and then, and forget the days before, until cancelled."""
        while True:
            await asyncio.sleep(WRITE_S)
            await self.write()
            today = _day(datetime.now(UTC))
            for place in [p for p in self._stored if p[:10] < today and not self._added.get(p)]:
                for known in (self._stored, self._added, self._limits):
                    known.pop(place, None)


class Costs:
    """What each task cost by itself: an outcome's cost includes that of what ran inside."""

    def __init__(self) -> None:
        self._inside: dict[ExecutionId, float] = {}

    def begins(self, run: Run) -> None:
        """Note a task that others may run inside of."""
        self._inside[run.id] = 0.0

    def ends(self, run: Run, outcome: Outcome | None) -> float:
        """Cost without that of the tasks inside [USD]; 0 when it is not known."""
        inside = self._inside.pop(run.id, 0.0)
        cost_usd = None if outcome is None else outcome.cost_usd
        whole = inside if cost_usd is None else max(cost_usd, inside)
        if run.parent in self._inside:
            self._inside[run.parent] += whole
        return whole - inside


def _day(now: datetime) -> str:
    return now.date().isoformat()


def _place(limit: Limit, now: datetime) -> str:
    return f"{_day(now)}\n{limit.key}"


def _to_midnight_s(now: datetime) -> float:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return (midnight - now).total_seconds()
