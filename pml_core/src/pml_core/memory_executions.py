"""Executions in memory: the last ones."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pml_hookspecs import (
    AgentActivity,
    ExecutionQuery,
    ExecutionRecord,
    Page,
    Scope,
    Status,
    Total,
    encode,
    split_tool_id,
)

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionId, Grouping, Json

LARGEST_PAGE = 100
MICROS = 1_000_000
"""Costs are added up in millionths of a dollar, so that sums are exact."""
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
OPEN = ("pending", "running")
SEARCHED = 2048
"""Of each text, that much is looked through [characters]."""
WORD = re.compile(r"[^\W_]+")


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

    async def get(self, id: ExecutionId, scope: Scope, *, transcript: bool = False) -> ExecutionRecord | None:
        """None when unknown or out of scope."""
        record = self.records.get(id)
        if record is None or not in_scope(record, scope):
            return None
        return record if transcript else _listed(record)

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
        items = [_listed(record) for record in found[: query.limit]]
        return Page(items, items[-1].id if len(found) > query.limit else None, total)

    async def activity(self, query: ExecutionQuery) -> Sequence[AgentActivity]:
        """One row per agent."""
        agents: dict[str, list[ExecutionRecord]] = {}
        for record in self._matching(query):
            agents.setdefault(record.agent, []).append(record)
        rows = [_activity(agent, records) for agent, records in agents.items()]
        return sorted(rows, key=lambda r: (-r.executions, r.agent))

    async def totals(self, query: ExecutionQuery, by: Grouping) -> Sequence[Total]:
        """One row per group."""
        groups: dict[str, list[ExecutionRecord]] = {}
        for record in self._matching(query):
            groups.setdefault(_group(record, by), []).append(record)
        rows = [_total(group, records) for group, records in groups.items()]
        return sorted(rows, key=lambda r: r.group if by == "day" else (-r.cost_usd, -r.executions, r.group))

    async def prune(self, *, before: datetime | None = None, keep_bytes: int | None = None) -> int:
        """Delete what ended, oldest first, with what ran inside."""
        children: dict[str | None, list[ExecutionRecord]] = {}
        for record in self.records.values():
            children.setdefault(record.parent, []).append(record)
        ended = sorted((r for r in children.get(None, ()) if r.status not in OPEN), key=lambda r: (r.started_at, r.id))
        pruned = 0
        for record in ended:
            old = before is not None and record.started_at < before
            if not old and (keep_bytes is None or sum(map(_size_bytes, self.records.values())) <= keep_bytes):
                break
            pruned += self._forget(record, children)
        return pruned

    def _forget(self, record: ExecutionRecord, children: Mapping[str | None, list[ExecutionRecord]]) -> bool:
        """Delete ``record`` with all that ran inside, unless some of that still runs; whether it is gone."""
        family = [record]
        for member in family:
            family += children.get(member.id, ())
        if any(member.status in OPEN for member in family):
            return False
        for member in family:
            self.records.pop(member.id, None)
        return True

    def _matching(self, query: ExecutionQuery) -> list[ExecutionRecord]:
        found = [r for r in self.records.values() if _matches(r, query)]
        return sorted(found, key=lambda r: (r.started_at, r.id), reverse=True)


def in_scope(record: ExecutionRecord, scope: Scope) -> bool:
    """Whether whoever has ``scope`` may see ``record``."""
    if scope.principals is None or record.principal in scope.principals:
        return True
    return record.as_agent and record.agent in scope.agents


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
        and (query.until is None or record.started_at < query.until)
        and (query.target is None or _is_target(record, query.target))
        and (query.text is None or _has_words(record, query.text))
    )


def _is_target(record: ExecutionRecord, target: str) -> bool:
    return record.target.startswith(target[:-1]) if target.endswith(":*") else record.target == target


def _has_words(record: ExecutionRecord, text: str) -> bool:
    if not (words := WORD.findall(text.casefold())):
        return True
    if record.parent is not None:
        return False
    failure = "" if record.failure is None else record.failure.message
    parts = [record.intent, record.target, _text(record.request), _text(record.response), failure]
    found = {word for part in parts for word in WORD.findall(part[:SEARCHED].casefold())}
    return all(any(there.startswith(word) for there in found) for word in words)


def _text(value: Json) -> str:
    """Every text and number in ``value``, names of members included."""
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_text(member)}" for name, member in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_text, value))
    return "" if value is None else str(value)


def _listed(record: ExecutionRecord) -> ExecutionRecord:
    return record if record.transcript is None else replace(record, transcript=None)


def _size_bytes(record: ExecutionRecord) -> int:
    return sum(len(encode(part)) for part in (record.request, record.response, record.transcript) if part is not None)


def _group(record: ExecutionRecord, by: Grouping) -> str:
    if by == "agent":
        return record.agent
    if by == "key":
        return record.access_key
    if by == "day":
        return record.started_at.astimezone(UTC).date().isoformat()
    if record.kind != "tool":
        return ""
    return record.target if by == "tool" else split_tool_id(record.target)[0]


def _total(group: str, records: list[ExecutionRecord]) -> Total:
    one = _activity(group, records)
    return Total(
        group=group,
        executions=one.executions,
        succeeded=one.succeeded,
        failed=one.failed,
        running=one.running,
        cost_usd=one.cost_usd,
        tokens_in=sum(r.tokens_in or 0 for r in records),
        tokens_out=sum(r.tokens_out or 0 for r in records),
        mean_duration_ms=one.mean_duration_ms,
    )


def _activity(agent: str, records: list[ExecutionRecord]) -> AgentActivity:
    good = sum(r.status in (Status.OK, Status.SIMULATED) for r in records)
    running = sum(r.status in OPEN for r in records)
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
