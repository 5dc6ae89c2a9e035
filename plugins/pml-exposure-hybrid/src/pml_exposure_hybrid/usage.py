"""Which tools are used most, as the history knows it."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pml_hookspecs import ExecutionQuery
from pml_kit.offers import ACCESS, required

if TYPE_CHECKING:
    from pml_hookspecs import Scope, Services, Session

PERIOD = timedelta(days=30)
MOST_KEPT = 1000
"""Callers of which it is known, for as long as the gateway runs."""


class Usage:
    """Counts once for each scope: a list of tools must not change while the catalog does not."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: OrderedDict[Scope, tuple[tuple[str, int], ...]] = OrderedDict()

    async def of(self, session: Session) -> tuple[tuple[str, int], ...]:
        """Tools and how often they were called, most first; only what the session may see. Empty: nothing is known.

        Raises:
            Exception: The store cannot be read.
        """
        scope = await required(self._services, ACCESS).scope(session)
        if scope not in self._known:
            since = datetime.now(UTC) - PERIOD
            query = ExecutionQuery(scope=scope, since=since, include_dry_runs=False)
            totals = await self._services.store.executions.totals(query, "tool")
            used = sorted((-total.executions, total.group) for total in totals if total.group)
            self._known[scope] = tuple((tool, -count) for count, tool in used)
            if len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        return self._known[scope]
