"""What the history answers, for a scope: the same for tools, routes and the command line."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CLIENT_PREFIX, ExecutionId, ExecutionQuery, InvalidArguments
from pml_kit.pages import every_execution

from .definitions import LONGEST_HOURS, MOST_LISTED
from .records import (
    EXCUSED,
    PUBLIC,
    WAITS,
    asked,
    detailed,
    failed,
    failed_at,
    inside,
    listed,
    public,
    seconds,
    selected,
    zulu,
)

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Executions, Scope, Total

LONGEST_TRANSCRIPT = 1000
"""Most executions in one transcript."""
MOST_FAILURES = 10
"""Failures in a summary."""
MOST_LOOKED_AT = 500
"""Newest failures that are looked at, to see which repeat themselves."""
COMPARED = 300
"""Characters of a message that are compared."""
VARIES = re.compile(r"[0-9a-f]{8}[0-9a-f-]{4,}|\d+", re.IGNORECASE)
"""Ids and numbers: what differs between two messages of one trouble."""
DIGITS = 6
"""Decimal places of a sum of costs: stores keep millionths of a dollar."""


def query_of(given: Mapping[str, Any], scope: Scope) -> ExecutionQuery:
    """The query of a list or a search.

    Raises:
        InvalidArguments: ``since`` or ``until`` is no time, or there is none between them.
    """
    status = given["status"]
    since, until = span(given)
    return ExecutionQuery(
        scope=scope,
        since=since,
        until=until,
        agent=given["agent_name"] or None,
        statuses=None if status is None else PUBLIC[status],
        trigger=given["triggered_by"],
        principal=given["person"] or None,
        target=given["tool"] or None,
        text=given.get("query"),
        # What a plan called is of a tool as well.
        top_level=not given["tool"],
        limit=given["limit"],
        cursor=given["cursor"],
    )


async def listing(executions: Executions, scope: Scope, given: Mapping[str, Any]) -> dict[str, Any]:
    """One page of executions that clients asked for, newest first; what they ran inside is not listed.

    Raises:
        InvalidArguments: The cursor is not one of the store's.
    """
    query = query_of(given, scope)
    try:
        page = await executions.find(query)
    except ValueError:
        if query.cursor is None:
            raise
        raise InvalidArguments("'cursor' is no next_cursor of a page before; leave it out for the newest.") from None
    filters = {name: value for name, value in given.items() if name != "cursor"}
    if given["since"] and query.since is not None:
        filters |= {"hours": None, "since": zulu(query.since)}
    filters |= {"since": filters["since"] or None, "until": None if query.until is None else zulu(query.until)}
    answer = {
        "executions": [listed(record) for record in page.items],
        "total_count": page.total,
        "filters_applied": {**filters, "agent_name": query.agent, "person": query.principal, "tool": query.target},
    }
    return answer if page.cursor is None else {**answer, "next_cursor": page.cursor}


async def result(executions: Executions, scope: Scope, given: Mapping[str, Any]) -> dict[str, Any]:
    """One execution, ended or not; its ``transcript`` if it is asked for.

    Raises:
        InvalidArguments: There is none such in the scope, whether there is one out of it is not told; or ``select``
            does not fit its response.
    """
    wanted, with_transcript = ExecutionId(given["execution_id"].strip()), given["include_transcript"]
    record = await executions.get(wanted, scope, transcript=with_transcript)
    if record is None or given["agent_name"] not in (None, record.agent):
        raise InvalidArguments(
            f"agent {given['agent_name']!r} has no execution {given['execution_id']!r} that you can see; "
            "list_recent_executions shows the ids and agents of those you can."
        )
    shown = detailed(record)
    if select := given.get("select"):
        shown["response"] = await selected(record, select)
    if with_transcript:
        shown["transcript"] = await _transcript(executions, scope, record)
    return {"execution": shown}


async def _transcript(executions: Executions, scope: Scope, record: ExecutionRecord) -> list[Any]:
    """What an agent said and did; of all else the request, then what ran inside in order of start."""
    if record.transcript is not None:
        return list(record.transcript)
    query, left = ExecutionQuery(scope=scope, parent=record.id, limit=MOST_LISTED), 0
    children = [child async for child in every_execution(executions, query, most=LONGEST_TRANSCRIPT)]
    if len(children) == LONGEST_TRANSCRIPT:
        left = (await executions.find(query)).total - len(children)
    left_out = [{"type": "left_out", "executions": left}] if left else []
    return [asked(record), *left_out, *(inside(child) for child in reversed(children))]


@dataclass(frozen=True, slots=True)
class ActivityCounts:
    """How many executions of one agent, or one client, ended how."""

    all: Total
    failed: int
    excused: int
    """Of those that failed, how many say nothing of it: they were cancelled, or a policy refused them."""

    @property
    def rate(self) -> float | None:
        """As :func:`rate` has it."""
        return rate(self.all.succeeded, self.failed - self.excused)


class Summaries:
    """What agents did, and, under names that they give themselves and that prove nothing, what clients did.

    Rehearsals count only where it is said that they do.
    """

    def __init__(
        self, executions: Executions, scope: Scope, given: Mapping[str, Any], *, read: Scope, dry_runs: bool
    ) -> None:
        """Executions in ``scope`` count; of failures, which quote output, those in ``read`` are shown.

        Raises:
            InvalidArguments: ``since`` or ``until`` of ``given`` is no time, or there is none between them.
        """
        self._executions, self._scope, self._read, self._dry_runs = executions, scope, read, dry_runs
        (self._since, self._until), self._now = span(given), _ago(LONGEST_HOURS)

    async def agent(self, name: str) -> dict[str, Any]:
        """Of one agent; zeros of one that nothing is known of, or that the scope does not show."""
        who = {"agent": name, "agents_only": not name.startswith(CLIENT_PREFIX)}
        activity = await self._done(**who)
        latest = await self._executions.find(self._query(**who, limit=1))
        under_way = [await self._busy(status, **who) for status in ("running", "pending")]
        mean_ms = activity[0].all.mean_duration_ms if activity else None
        summary = {
            **await self._counts(activity, **who),
            "avg_duration_seconds": None if mean_ms is None else seconds(mean_ms),
            "last_execution_at": zulu(latest.items[0].started_at) if latest.items else None,
            "last_execution_status": public(latest.items[0]) if latest.items else None,
            "is_busy": under_way[0] > 0,
            "queue_length": under_way[1],
        }
        return {"agent_name": name, "summary": summary, "recent_failures": await self._failures(**who)}

    async def fleet(self, configured: Collection[str]) -> dict[str, Any]:
        """Of all agents.

        Args:
            configured: Agents that count although they did nothing.
        """
        everybody, activity = await self._done(), await self._done(agents_only=True)
        busy, at_work = await self._at_work(agents_only=True), await self._at_work()
        active = {row.all.group for row in activity}
        rows = [_by_agent(row, busy) for row in activity]
        # Those that have been at one thing for longer than the time that is summed up.
        rows += [_idle_row(name) for name in sorted(busy - active)]
        counts = await self._counts(activity, agents_only=True)
        total = len(active | busy | set(configured))
        clients = [row for row in everybody if row.all.group.startswith(CLIENT_PREFIX)]
        return {
            "fleet_summary": {"total_agents": total, "agents_with_activity": len(active), **counts},
            "by_agent": rows,
            "by_client": [_by_agent(row, at_work) for row in clients],
            "recent_failures": await self._failures(),
        }

    async def _done(self, **which: Any) -> list[ActivityCounts]:
        # An activity does not tell those that failed from those that wait, or that nobody can be blamed for.
        waits, excused = [
            {row.group: row.failed for row in await self._executions.activity(self._query(statuses=statuses, **which))}
            for statuses in (WAITS, EXCUSED)
        ]
        rows = await self._executions.activity(self._query(**which))
        return [ActivityCounts(row, row.failed - waits.get(row.group, 0), excused.get(row.group, 0)) for row in rows]

    async def _at_work(self, **which: Any) -> set[str]:
        query = self._query(since=self._now, until=None, statuses=PUBLIC["running"], **which)
        return {row.group for row in await self._executions.activity(query)}

    async def _counts(self, done: Collection[ActivityCounts], **which: Any) -> dict[str, Any]:
        activity = [row.all for row in done]
        successful, broken = sum(row.succeeded for row in activity), sum(row.failed for row in done)
        # An activity does not tell those that run from those that wait.
        running = await self._executions.activity(self._query(statuses=PUBLIC["running"], **which))
        return {
            "total_executions": sum(row.executions for row in activity),
            "successful": successful,
            "failed": broken,
            "running": sum(row.executions for row in running),
            "success_rate": rate(successful, broken - sum(row.excused for row in done)),
            "total_cost_usd": round(sum(row.cost_usd for row in activity), DIGITS),
        }

    async def _busy(self, status: str, **which: Any) -> int:
        query = self._query(since=self._now, until=None, statuses=frozenset({status}), limit=1, **which)
        return (await self._executions.find(query)).total

    async def _failures(self, **which: Any) -> list[dict[str, Any]]:
        query = self._query(scope=self._read, statuses=PUBLIC["failed"], limit=MOST_LISTED, **which)
        return await repeated(every_execution(self._executions, query, most=MOST_LOOKED_AT))

    def _query(self, **which: Any) -> ExecutionQuery:
        times = {"since": self._since, "until": self._until}
        usual = {"scope": self._scope, **times, "include_dry_runs": self._dry_runs, "top_level": True}
        return ExecutionQuery(**{**usual, **which})


async def repeated(records: AsyncIterator[ExecutionRecord]) -> list[dict[str, Any]]:
    """The newest failures, each agent's alike ones as one, which tells how often and since when.

    Args:
        records: Those that failed, the newest first.
    """
    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    async for record in records:
        said = "" if record.failure is None else record.failure.message[:COMPARED]
        code = "" if record.failure is None else record.failure.code
        group = groups.setdefault((record.agent, code, VARIES.sub("#", said)), {**failed(record), "times": 0})
        group["times"] += 1
        group["first_failed_at"] = failed_at(record)
    return list(groups.values())[:MOST_FAILURES]


def rate(successful: int, broken: int) -> float | None:
    """How many of those that ended by themselves did so well [%, one decimal]; None when none has."""
    ended = successful + broken
    return round(100 * successful / ended, 1) if ended else None


def _by_agent(row: ActivityCounts, busy: Collection[str]) -> dict[str, Any]:
    return {
        "agent_name": row.all.group,
        "executions": row.all.executions,
        "success_rate": row.rate,
        "cost_usd": round(row.all.cost_usd, DIGITS),
        "status": "running" if row.all.group in busy else "idle",
    }


def _idle_row(name: str) -> dict[str, Any]:
    return {"agent_name": name, "executions": 0, "success_rate": None, "cost_usd": 0.0, "status": "running"}


def span(given: Mapping[str, Any]) -> tuple[datetime, datetime | None]:
    """From when on, and until when; None for now.

    Raises:
        InvalidArguments: ``since`` or ``until`` is no time, or there is none between them.
    """
    now = datetime.now(UTC)
    from pml_kit.command_line.moments import moment

    until = moment(given["until"], "'until'", now, ends=True) if given["until"] else None
    if given["since"]:
        since = moment(given["since"], "'since'", now)
    else:
        try:
            since = (until or now) - timedelta(hours=given["hours"])
        except OverflowError:
            raise InvalidArguments(f"'until' {given['until']!r} is too long ago.") from None
    if until is not None and since >= until:
        raise InvalidArguments(f"'since' {zulu(since)} is not before 'until' {zulu(until)}.")
    return since, until


def _ago(hours: float) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)
