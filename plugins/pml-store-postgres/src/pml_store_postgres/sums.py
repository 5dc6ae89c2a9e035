"""Counts and sums: of whole days and hours from what the triggers keep, of the rest from the executions themselves.

A row of ``execution_sum`` tells of one bucket: of one hour (grain 1) or one day (grain 24) since 1970. Each execution
is counted in a row for everyone, whose principal is ``""``, and in one for its principal. Days have their hours up to
the one in ``summed``; those after it are read by the hour.
"""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pml_hookspecs import split_tool_id
from pml_stores.sums import Sum, nearest

from .conditions import (
    ALL,
    FIRST,
    IS_FAILED,
    IS_OPEN,
    IS_SUCCEEDED,
    LAST,
    NONE,
    Condition,
    any_of,
    asked_for,
    classes_of,
    is_target,
    leaving_out,
    other_than,
    when,
    within,
)
from .rows import BEGINNING, DAY, moment
from .texts import mark_of, restored
from .triggers import SUMMED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from psycopg import Connection

    from pml_hookspecs import ExecutionId, ExecutionQuery, Grouping, Scope

HOUR = 3_600_000_000
"""Microseconds."""
DAY_HOURS = 24
AGENTS, TOOLS, KEYS, NOTHING = range(4)
"""What sums are by; the numbers are in the triggers, see `migrations`."""
FACETS: Mapping[Grouping, tuple[int, str]] = {
    "agent": (AGENTS, "agent"),
    "day": (NOTHING, f"started_at / {DAY_HOURS * HOUR}"),
    "tool": (TOOLS, "CASE WHEN kind = 'tool' THEN target ELSE '' END"),
    "server": (TOOLS, "CASE WHEN kind = 'tool' THEN target ELSE '' END"),
    "key": (KEYS, "access_key"),
    "principal": (NOTHING, "principal"),
}
"""Which sums tell, and what of an execution it is. Those by tool and by key are kept for everyone together only; of
principals the executions themselves are added up."""

COUNTS = (
    f"{{sign}}count(*) FILTER (WHERE {IS_SUCCEEDED}) AS succeeded, "
    f"{{sign}}count(*) FILTER (WHERE {IS_FAILED}) AS failed, {{sign}}count(*) FILTER (WHERE {IS_OPEN}) AS running"
)
AMOUNTS = (
    "{sign}sum(cost_micros) AS cost_micros, {sign}sum(tokens_in) AS tokens_in, {sign}sum(tokens_out) AS tokens_out, "
    "{sign}sum(duration_ms) AS duration_ms, {sign}count(duration_ms) AS timed"
)
"""Both of them of executions, see :meth:`SumParts.union`."""
KEPT = ", ".join(f"{{sign}}{column} AS {column}" for column in SUMMED)
"""The same columns of sums."""
THROUGH = "SELECT hour FROM summed"
ADDED_UP = (
    "sum(succeeded)::int8 AS succeeded, sum(failed)::int8 AS failed, sum(running)::int8 AS running, "
    "coalesce(sum(cost_micros), 0)::int8, "
    "coalesce(sum(tokens_in), 0)::int8, coalesce(sum(tokens_out), 0)::int8, coalesce(sum(duration_ms), 0)::int8, "
    "sum(timed)::int8"
)
"""The fields of :class:`pml_stores.sums.Sum`, in their order."""


SUMS, ROWS, GONE = "execution_sum", "execution", "gone"
"""Where executions are counted; the last are those that are left out."""


@dataclass(frozen=True, slots=True)
class SumPart:
    """Some of what is counted."""

    table: str
    these: Condition
    sign: str = ""
    """``-`` for what is taken off again."""


class SumParts(tuple[SumPart, ...]):
    """What makes up a query: each of its executions is counted once; whatever is counted besides, is taken off."""

    __slots__ = ()

    @property
    def summed(self) -> bool:
        """Whether sums tell of any."""
        return any(part.table == SUMS for part in self)

    def union(self, of_sums: str, of_rows: str, groups: str = "") -> Condition:
        """All of it as one query.

        Args:
            of_sums: Columns; each number begins with ``{sign}``.
            of_rows: The same of executions, which come in groups.
            groups: What those are grouped by.
        """
        by = f" GROUP BY {groups}" if groups else ""
        found = []
        for part in self:
            columns, grouped = (of_sums, "") if part.table == SUMS else (of_rows, by)
            sql = f"SELECT {columns.format(sign=part.sign)} FROM {part.table} WHERE {part.these.sql}{grouped}"
            found.append(Condition(sql, part.these.values))
        return Condition(" UNION ALL ".join(p.sql for p in found), tuple(v for p in found for v in p.values))


Piece: TypeAlias = tuple[str, int, int, int]
"""``(sign, grain, from, to)``, from inclusive, to exclusive: grain 24 and 1 in buckets, grain 0 in microseconds.

Sign is ``-`` for what is taken off again.
"""


def pieces(since: int, until: int) -> Iterator[Piece]:
    """What makes up ``since`` to ``until``."""
    if since >= until:
        return
    # With an end, what is taken off might lie after it; so nothing is.
    now = time.time_ns() // 1000 if until == LAST else since
    first_hour = since if since == FIRST else nearest(since, HOUR, now) // HOUR
    last_hour = until if until == LAST else until // HOUR
    if first_hour >= last_hour:
        yield "", 0, since, until
        return
    first_day = since if since == FIRST else nearest(first_hour * HOUR, DAY, now) // DAY
    last_day = until if until == LAST else last_hour // DAY_HOURS
    if first_day >= last_day:
        yield "", 1, first_hour, last_hour
    else:
        yield "", DAY_HOURS, first_day, last_day
        if since != FIRST:
            yield from _left_over(1, first_hour, first_day * DAY_HOURS)
        if until != LAST:
            yield from _left_over(1, last_day * DAY_HOURS, last_hour)
    if since != FIRST:
        yield from _left_over(0, since, first_hour * HOUR)
    if until != LAST:
        yield from _left_over(0, last_hour * HOUR, until)


def _left_over(grain: int, start: int, end: int) -> Iterator[Piece]:
    """Between where it should begin or end and where larger buckets do."""
    if start != end:
        yield ("", grain, start, end) if start < end else ("-", grain, end, start)


def days_of(connection: Connection[Any], query: ExecutionQuery) -> dict[int, int]:
    """Days since 1970 on which there may be what is found by text, in order, and how many executions each has.

    None for a query without text.
    """
    if not query.text:
        return {}
    since, until = when(query)
    of_all = f"FROM execution_sum WHERE facet = {NOTHING} AND everyone AND principal = ''"
    counted = "succeeded + failed + running"
    rows = connection.execute(
        f"SELECT day, sum(n)::int8 FROM (SELECT bucket, {counted} {of_all} AND grain = {DAY_HOURS} UNION ALL "
        f"SELECT bucket / {DAY_HOURS}, {counted} {of_all} AND grain = 1 AND bucket > ({THROUGH})) AS there (day, n) "
        "WHERE day >= %s AND day < %s GROUP BY day ORDER BY day",
        (since // DAY, -(-until // DAY)),
    ).fetchall()
    return dict(rows)


def places_of(connection: Connection[Any], query: ExecutionQuery, days: Iterable[int]) -> dict[int, Sequence[str]]:
    """Whose words a search goes through on each of ``days``: marks of those of its scope who were there."""
    found: dict[int, list[str]] = {day: [] for day in days}
    if not found:
        return {}
    whose = ALL if query.scope.principals is None else any_of("principal", query.scope.principals)
    _mark(connection, found, "principal", "principal", Condition(f"facet = {NOTHING} AND NOT everyone") & whose)
    if query.scope.agents:
        theirs = Condition(f"facet = {AGENTS} AND everyone AND as_agent") & any_of("(value || '')", query.scope.agents)
        _mark(connection, found, "agent", "value", theirs)
    return {day: marks for day, marks in found.items() if marks}


def _mark(
    connection: Connection[Any], found: dict[int, list[str]], kind: Literal["principal", "agent"], column: str,
    these: Condition,
) -> None:  # fmt: skip
    """Add the marks of those in ``column`` to the days that they were there."""
    first, last = min(found), max(found) + 1
    of_days, of_hours = _of_grain(DAY_HOURS, first, last), _of_grain(1, first * DAY_HOURS, last * DAY_HOURS)
    rows = connection.execute(
        f"SELECT bucket, {column} FROM execution_sum WHERE {these.sql} AND {of_days.sql} "
        f"UNION SELECT bucket / {DAY_HOURS}, {column} FROM execution_sum "
        f"WHERE {these.sql} AND {of_hours.sql} AND bucket > ({THROUGH})",
        (*these.values, *of_days.values, *these.values, *of_hours.values),
    )
    for day, name in rows:
        if day in found:
            found[day].append(mark_of(kind, restored(name)))


def finest(query: ExecutionQuery) -> int:
    """Which sums tell how many executions there are: the fewest that do."""
    if query.target is not None:
        return TOOLS
    return NOTHING if query.agent is None and not (query.scope.agents or query.agents_only) else AGENTS


def parts_of(query: ExecutionQuery, asked: Condition, facet: int, without: Sequence[ExecutionId]) -> SumParts:
    """As much as possible from what is kept. With statuses, only counts may be taken from there.

    Args:
        query: What is asked for.
        asked: All that it says but when.
        facet: Of sums by agent, by tool, by key or by nothing. Only those by tool can be narrowed to some tools.
        without: Executions that are left out.
    """
    since, until = when(query)
    apart = query.trigger is not None or query.parent is not None or query.text is not None
    apart = apart or (query.target is not None and facet != TOOLS) or (query.agents_only and facet != AGENTS)
    # Those by tool and by key do not know whose they are.
    apart = apart or (facet in (TOOLS, KEYS) and (query.agent is not None or query.scope.principals is not None))
    if apart or classes_of(query.statuses) is None:
        return _from_rows(query, asked, without)
    # Not as values: of most statements the plan is kept.
    shared = Condition(f"facet = {facet}")
    if query.agent is not None:
        shared &= any_of("value", (query.agent,))
    if query.agents_only:
        shared &= Condition("as_agent")
    if query.target is not None:
        shared &= is_target("value", query.target)
    if query.top_level:
        shared &= Condition("NOT nested")
    if not query.include_dry_runs:
        shared &= Condition("NOT dry_run")
    kept = [whose & shared for whose in _whose(query.scope)]
    found = []
    for sign, grain, start, end in pieces(since, until):
        if grain:
            each = (whose & of for of in _buckets(grain, start, end) for whose in kept)
            found += [SumPart(SUMS, these, sign) for these in each]
        else:
            found.append(SumPart(ROWS, asked & within(start, end), sign))
    if found and without:
        found.append(SumPart(GONE, asked & within(since, until), "-"))
    return SumParts(found or [SumPart(ROWS, asked & NONE)])


def _from_rows(query: ExecutionQuery, asked: Condition, without: Sequence[ExecutionId]) -> SumParts:
    """From the executions themselves."""
    these = asked & within(*when(query))
    # Taken off again, so that not each of many is looked for among them.
    return SumParts([SumPart(ROWS, these), SumPart(GONE, these, "-")] if without else [SumPart(ROWS, these)])


def _buckets(grain: int, start: int, end: int) -> list[Condition]:
    if grain != DAY_HOURS:
        return [_of_grain(grain, start, end)]
    hours = (at if at in (FIRST, LAST) else at * DAY_HOURS for at in (start, end))
    return [_of_grain(grain, start, end), _of_grain(1, *hours) & Condition(f"bucket > ({THROUGH})")]


def _of_grain(grain: int, start: int, end: int) -> Condition:
    found = Condition(f"grain = {grain}")
    if start != FIRST:
        found &= Condition("bucket >= %s", (start,))
    return found if end == LAST else found & Condition("bucket < %s", (end,))


def _whose(scope: Scope) -> list[Condition]:
    if scope.principals is None:
        return [Condition("everyone AND principal = ''")]
    own = Condition("NOT everyone") & any_of("principal", scope.principals)
    if not scope.agents:
        return [own]
    # An expression, as with the column the server would go through all buckets once for each agent.
    shared = any_of("(value || '')", scope.agents)
    return [
        own & Condition(f"NOT (as_agent AND {shared.sql})", shared.values),
        Condition("everyone AND principal = '' AND as_agent") & shared,
    ]


def counting(query: ExecutionQuery, parts: SumParts) -> Condition:
    """The statement for how many executions there are in ``parts``, which are by the :func:`finest`."""
    if len(parts) == 1 and not parts.summed:
        return Condition(f"SELECT count(*) FROM execution WHERE {parts[0].these.sql}", parts[0].these.values)
    classes = " + ".join(classes_of(query.statuses) or ())
    every = parts.union(f"{{sign}}sum({classes}) AS n", "{sign}count(*) AS n")
    return Condition(f"SELECT coalesce(sum(n), 0)::int8 FROM ({every.sql}) AS part", every.values)


def _amounts_of(query: ExecutionQuery, asked: Condition, facet: int, without: Sequence[ExecutionId]) -> SumParts:
    """Where amounts are added up: with statuses from the executions, as only counts are kept apart by them."""
    if query.statuses is None:
        return parts_of(query, asked, facet, without)
    return _from_rows(query, asked, without)


def activity(connection: Connection[Any], query: ExecutionQuery, without: Sequence[ExecutionId] = ()) -> dict[str, Sum]:
    """See :meth:`pml_stores.pending_overlay.Statements.activity`."""
    asked = asked_for(query, places_of(connection, query, days_of(connection, query)))
    every = _amounts_of(query, asked, AGENTS, without).union(
        f"value AS agent, bucket * grain * {HOUR} AS first, (bucket + 1) * grain * {HOUR} AS last, {KEPT}",
        f"agent, min(started_at) AS first, max(started_at) + 1 AS last, {COUNTS}, {AMOUNTS}",
        "agent",
    )
    last = _last_of(asked & within(*when(query)) & other_than(without), earlier=bool(without))
    gone = leaving_out(without)
    rows = connection.execute(
        f"{gone.sql}SELECT a.*, {last.sql} FROM ("
        "SELECT agent, max(first) FILTER (WHERE succeeded + failed + running > 0) AS first, "
        "max(last) FILTER (WHERE succeeded + failed + running > 0) AS last, "
        f"{ADDED_UP} FROM ({every.sql}) AS part GROUP BY agent) AS a "
        "WHERE a.succeeded + a.failed + a.running > 0",
        (*gone.values, *last.values, *every.values),
    ).fetchall()
    sums_by_agent = {}
    for agent, _, _, *counts, at in rows:
        sums_by_agent[restored(agent)] = found = Sum(*counts)
        found.last_started_at = None if at is None else moment(at)
    return sums_by_agent


def _last_of(asked: Condition, *, earlier: bool) -> Condition:
    """When each agent was last active: looked up in the one bucket that it can be in, or before where it may not be."""
    these = f"SELECT started_at FROM execution WHERE agent = a.agent AND {asked.sql} AND started_at"
    order = "ORDER BY started_at DESC, id DESC LIMIT 1"
    there = f"({these} >= a.first AND started_at < a.last {order})"
    if not earlier:
        return Condition(there, asked.values)
    return Condition(f"coalesce({there}, ({these} < a.first {order}))", asked.values * 2)


def totals(
    connection: Connection[Any], query: ExecutionQuery, by: Grouping, without: Sequence[ExecutionId] = ()
) -> dict[str, Sum]:
    """See :meth:`pml_stores.pending_overlay.Statements.totals`."""
    facet, of_rest = FACETS[by]
    of_kept = f"bucket * grain / {DAY_HOURS}" if by == "day" else "value"
    if by == "day":
        facet = finest(query)
    asked = asked_for(query, places_of(connection, query, days_of(connection, query)))
    parts = _from_rows(query, asked, without) if by == "principal" else _amounts_of(query, asked, facet, without)
    every = parts.union(
        f"{of_kept} AS what, {KEPT}",
        f"{of_rest} AS what, {COUNTS}, {AMOUNTS}",
        "1",
    )
    gone = leaving_out(without)
    rows = connection.execute(
        f"{gone.sql}SELECT what, {ADDED_UP} FROM ({every.sql}) AS part GROUP BY what", (*gone.values, *every.values)
    ).fetchall()
    named = [(_day(row[0]) if by == "day" else restored(row[0]), row[1:]) for row in rows]
    found = _by_server(named) if by == "server" else named
    return {group: Sum(*numbers) for group, numbers in found if any(numbers[:3])}


def _day(number: int) -> str:
    return (BEGINNING + timedelta(days=number)).date().isoformat()


def _by_server(rows: Iterable[tuple[str, Sequence[int]]]) -> list[tuple[str, Sequence[int]]]:
    servers: defaultdict[str, list[int]] = defaultdict(lambda: [0] * 8)
    for tool, sums in rows:
        server = servers[split_tool_id(tool)[0]]
        server[:] = [a + b for a, b in zip(server, sums, strict=True)]
    return list(servers.items())
