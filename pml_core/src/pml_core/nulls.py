"""What works with nothing installed: a store that remembers the last hundred executions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from pml_hookspecs import AgentActivity, ExecutionQuery, ExecutionRecord, Page, Scope, Status

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Ended, ExecutionId, Json, ServerStatus

REMEMBERED = 100
LARGEST_PAGE = 100
MICROS = 1_000_000
"""Costs are added up in millionths of a dollar, so that sums are exact."""
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryStore:
    """Implements :class:`pml_hookspecs.Store` in memory; forgets the oldest first, and everything at the end."""

    def __init__(self, settings: Any = None, services: Any = None, *, remembered: int = REMEMBERED) -> None:
        self.executions = MemoryExecutions(remembered)
        self.traces = MemoryTraces(self.executions, remembered)
        self.catalog = MemoryCatalog()
        self.secrets = MemorySecrets()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def health(self) -> Mapping[str, Json]:
        """How much it holds."""
        return {"kind": "memory", "executions": len(self.executions.records), "drops": 0}


class MemorySecrets:
    """Implements :class:`pml_hookspecs.Secrets`."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], str] = {}

    async def get(self, owner: str, name: str) -> str | None:
        """None when there is none."""
        return self._values.get((owner, name))

    async def put(self, owner: str, name: str, value: str | None) -> None:
        """Keep until the gateway ends."""
        if value is None:
            self._values.pop((owner, name), None)
        else:
            self._values[owner, name] = value


class MemoryExecutions:
    """Implements :class:`pml_hookspecs.Executions`."""

    def __init__(self, remembered: int) -> None:
        self._remembered = remembered
        self.records: OrderedDict[str, ExecutionRecord] = OrderedDict()

    def record(self, record: ExecutionRecord) -> None:
        """Insert or replace by id."""
        self.records[record.id] = record
        while len(self.records) > self._remembered:
            self.records.popitem(last=False)

    async def put(self, record: ExecutionRecord) -> None:
        """Insert or replace by id."""
        self.record(record)

    async def get(self, id: ExecutionId, scope: Scope) -> ExecutionRecord | None:
        """None when unknown or out of scope."""
        record = self.records.get(id)
        return record if record is not None and in_scope(record, scope) else None

    async def find(self, query: ExecutionQuery) -> Page[ExecutionRecord]:
        """Newest first; the cursor is the last id given."""
        if not 1 <= query.limit <= LARGEST_PAGE:
            raise ValueError(f"limit must be 1 to {LARGEST_PAGE}, not {query.limit}")
        found = self._matching(query)
        total = len(found)
        if query.cursor is not None:
            at = next((n for n, r in enumerate(found) if r.id == query.cursor), None)
            if at is None:
                raise ValueError("the cursor is not one of this store's, or its record is forgotten")
            found = found[at + 1 :]
        items = found[: query.limit]
        return Page(items, items[-1].id if len(found) > query.limit else None, total)

    async def activity(self, query: ExecutionQuery) -> Sequence[AgentActivity]:
        """One row per agent."""
        agents: dict[str, list[ExecutionRecord]] = {}
        for record in self._matching(query):
            agents.setdefault(record.agent, []).append(record)
        rows = [_activity(agent, records) for agent, records in agents.items()]
        return sorted(rows, key=lambda r: (-r.executions, r.agent))

    def _matching(self, query: ExecutionQuery) -> list[ExecutionRecord]:
        found = [r for r in self.records.values() if _matches(r, query)]
        return sorted(found, key=lambda r: (r.started_at, r.id), reverse=True)


def in_scope(record: ExecutionRecord, scope: Scope) -> bool:
    """Whether whoever has ``scope`` may see ``record``."""
    return scope.principals is None or record.principal in scope.principals


def _matches(record: ExecutionRecord, query: ExecutionQuery) -> bool:
    return (
        in_scope(record, query.scope)
        and record.started_at >= (query.since or BEGINNING)
        and query.agent in (None, record.agent)
        and (query.statuses is None or record.status in query.statuses)
        and query.trigger in (None, record.trigger)
        and query.parent in (None, record.parent)
        and not (query.top_level and record.parent is not None)
        and (query.include_dry_runs or not record.dry_run)
    )


def _activity(agent: str, records: list[ExecutionRecord]) -> AgentActivity:
    good = sum(r.status in (Status.OK, Status.SIMULATED) for r in records)
    running = sum(r.status in ("pending", "running") for r in records)
    times = [r.duration_ms for r in records if r.duration_ms is not None]
    return AgentActivity(
        agent=agent,
        executions=len(records),
        succeeded=good,
        failed=len(records) - good - running,
        running=running,
        cost_usd=sum(round((r.cost_usd or 0) * MICROS) for r in records) / MICROS,
        mean_duration_ms=round(sum(times) / len(times)) if times else None,
        last_started_at=max(r.started_at for r in records),
    )


class MemoryTraces:
    """Implements :class:`pml_hookspecs.Traces`."""

    def __init__(self, executions: MemoryExecutions, remembered: int) -> None:
        self._executions, self._remembered = executions, remembered
        self._spans: OrderedDict[tuple[str, str], Ended] = OrderedDict()

    async def append(self, spans: Iterable[Ended]) -> None:
        """Add spans that are not there yet."""
        for ended in spans:
            self._spans.setdefault((ended.span.trace_id, ended.span.span_id), ended)
        while len(self._spans) > self._remembered:
            self._spans.popitem(last=False)

    async def of(self, execution: ExecutionId, scope: Scope) -> Sequence[Ended]:
        """Spans of one execution in start order."""
        if await self._executions.get(execution, scope) is None:
            return []
        return sorted((e for e in self._spans.values() if e.span.execution == execution), key=lambda e: e.span.start_ns)


class MemoryCatalog:
    """Implements :class:`pml_hookspecs.CatalogCache`."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[str, list[CatalogEntry]]] = {}
        self._statuses: dict[str, ServerStatus] = {}

    async def replace(self, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
        """Make ``entries`` all that ``server`` has."""
        self._entries[server] = (fingerprint, sorted(entries, key=lambda e: e.name))

    async def entries(self, server: str, fingerprint: str) -> Sequence[CatalogEntry]:
        """By tool name; empty under another fingerprint."""
        known, entries = self._entries.get(server, ("", []))
        return entries if known == fingerprint else []

    async def report(self, status: ServerStatus) -> None:
        """Remember how a server is doing."""
        self._statuses[status.name] = status

    async def statuses(self) -> Sequence[ServerStatus]:
        """By name."""
        return [self._statuses[name] for name in sorted(self._statuses)]
