"""What calls took and cost before, by the caller's own executions and recordings."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionQuery, Scope, Status

if TYPE_CHECKING:
    from pml_hookspecs import Services

PAGE = 100
KEPT_S = 5.0
"""How long what was found is used again [s]."""
MOST_CALLERS = 256


@dataclass(slots=True)
class CallStatistics:
    """How long calls of one tool or capability took, and what they cost."""

    durations_ms: list[int] = field(default_factory=list)
    costs_usd: list[float] = field(default_factory=list)

    @property
    def samples(self) -> int:
        """Calls behind the estimate."""
        return len(self.durations_ms)

    @property
    def duration_ms(self) -> int | None:
        """The median; None without samples [ms]."""
        return round(median(self.durations_ms)) if self.durations_ms else None

    @property
    def cost_usd(self) -> float | None:
        """The mean of those whose cost is known; None without [USD]."""
        return fmean(self.costs_usd) if self.costs_usd else None


class History:
    """The last executions of each caller that were real and ended well."""

    def __init__(self, services: Services, most: int) -> None:
        """``most`` executions are looked through."""
        self._services, self._most = services, most
        self._kept: dict[str, tuple[float, Mapping[str, CallStatistics]]] = {}

    async def of(self, principal: str, targets: Collection[str]) -> dict[str, CallStatistics]:
        """What is known of each of ``targets`` from calls of ``principal``; what nothing is known of is left out."""
        if not targets:
            return {}
        kept = self._kept.get(principal)
        if kept is None or time.monotonic() - kept[0] > KEPT_S:
            past = await self._read(principal)
            if len(self._kept) >= MOST_CALLERS:
                self._kept.clear()
            kept = self._kept[principal] = time.monotonic(), past
        past = kept[1]
        return {target: past[target] for target in targets if target in past}

    async def _read(self, principal: str) -> Mapping[str, CallStatistics]:
        found: dict[str, CallStatistics] = {}
        executions: Any = getattr(_store(self._services), "executions", None)
        cursor: str | None = None
        left = self._most
        while executions is not None and left > 0:
            query = ExecutionQuery(
                scope=Scope(principals=frozenset({principal})),
                statuses=frozenset({Status.OK.value}),
                include_dry_runs=False,
                limit=min(PAGE, left),
                cursor=cursor,
            )
            page = await executions.find(query)
            for record in page.items:
                if record.kind not in ("tool", "capability") or record.duration_ms is None:
                    continue
                past = found.setdefault(record.target, CallStatistics())
                past.durations_ms.append(record.duration_ms)
                if record.cost_usd is not None:
                    past.costs_usd.append(record.cost_usd)
            left, cursor = left - PAGE, page.cursor
            if cursor is None:
                break
        return found


def _store(services: Services) -> Any:
    try:
        return services.store
    except RuntimeError:
        return None
