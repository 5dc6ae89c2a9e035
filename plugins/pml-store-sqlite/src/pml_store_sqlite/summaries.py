"""How many, and what they add up to: from sums where they can tell, else from the executions themselves."""
# ruff: noqa: S608 - the SQL is put together from this package's own text; every value is a parameter

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from pml_hookspecs import AgentActivity
from pml_hookspecs.store import Total

from . import conditions, sums, text
from .conditions import IS_FAILED, IS_OPEN, IS_SUCCEEDED, Conditions
from .row_values import moment
from .schema_history import FARTHEST, SPILLED, TIES

if TYPE_CHECKING:
    import sqlite3

    from pml_hookspecs import ExecutionQuery
    from pml_hookspecs.store import Grouping

GROUPS: dict[Grouping, tuple[str, str]] = {
    "agent": ("agent", "agent"),
    "tool": (sums.TOOL, "tool"),
    "server": ("server", "server"),
    "key": ("access_key", "access_key"),
    "day": (f"(started_at + {sums.ERA}) / {sums.DAY}", f"bucket * grain / {sums.DAY}"),
}
"""Of an execution, and of a sum."""
ALL = ("''", "''")
"""The same for one sum of everything."""
ONE = "1 AS executions, duration_ms IS NOT NULL AS timed, duration_ms, cost_micros, tokens_in, tokens_out"
NOTHING = (
    "SELECT NULL AS grp, NULL AS status, 0 AS start, 0 AS length, "
    + ", ".join(f"0 AS {column}" for column in sums.SUMMED)
    + " WHERE 0"
)
"""No rows, with the columns of :func:`arms`."""
COUNTS = (
    "sum(executions) AS executions, "
    f"sum(executions * ({IS_SUCCEEDED})), sum(executions * ({IS_FAILED})), sum(executions * ({IS_OPEN})), "
    "total(cost_micros) AS cost, CASE WHEN sum(timed) THEN total(duration_ms) / sum(timed) END"
)


def found_by_text(found: Conditions) -> tuple[str, str]:
    """Statements for the places of executions with the words asked for, in their scope where the index knows it.

    The first is for those whose place tells their time, which are in the time asked for; of the others it must be seen.
    """
    start, end = (None if at is None else max(-FARTHEST - 1, min(at, FARTHEST + 1)) * TIES for at in found.times)
    near = [f"rowid < {SPILLED if end is None else found.value(min(end, SPILLED))}"]
    if start is not None:
        near.append(f"rowid >= {found.value(start)}")
    match = f"{text.TABLE} MATCH {found.value(text.match(found.words) + (found.whose or ''))}"
    select = f"SELECT rowid FROM {text.TABLE} WHERE {match}"
    return f"{select} AND {' AND '.join(near)}", f"{select} AND rowid >= {SPILLED}"


def arms(found: Conditions, group: tuple[str, str], *, by_tool: bool = False) -> str:
    """The statement for what is to be added up: single executions, and sums of many.

    Its columns are ``grp``, ``status``, ``start`` and ``length`` (of the time that it speaks for), and those of sums.
    """
    of_row, of_sum = group
    row = f"SELECT {of_row} AS grp, status, started_at AS start, 1 AS length, {ONE} FROM execution"
    if found.nothing:
        # Not with the others: SQLite finds no use for an index that it is told to use for nothing.
        return NOTHING
    if found.words:
        return f"{row} NOT INDEXED WHERE place IN ({' UNION ALL '.join(found_by_text(found))}) AND {found.of_rows()}"
    if not found.summable:
        return f"{row} INDEXED BY {found.index} WHERE {found.of_rows()}"
    of_rows = " AND ".join([*found.shared, *found.rows])
    of_sums = " AND ".join([*found.shared, *found.sums])
    table = sums.BY_EVERYTHING if by_tool or found.by_tool else sums.BY_AGENT
    if found.coarse and group in (ALL, GROUPS["day"]):
        table = sums.COARSE
    of_table = (
        f"SELECT {of_sum} AS grp, status, bucket * grain - {sums.ERA} AS start, grain AS length, "
        f"{', '.join(sums.SUMMED)} FROM {table.table}"
    )
    parts = []
    for piece in sums.pieces(found.since, found.until):
        within = sums.span(piece, found.values)
        if piece[0]:
            parts.append(f"{of_table} WHERE {within} AND executions > 0 AND {of_sums}")
        else:
            parts.append(f"{row} INDEXED BY execution_by_time WHERE {within} AND {of_rows}")
    return " UNION ALL ".join(parts) or NOTHING


def count(connection: sqlite3.Connection, found: Conditions) -> int:
    """How many match."""
    (number,) = connection.execute(
        f"SELECT coalesce(sum(executions), 0) FROM ({arms(found, ALL)})", found.values
    ).fetchone()
    return int(number)


def activity(connection: sqlite3.Connection, query: ExecutionQuery) -> list[AgentActivity]:
    """See :meth:`pml_hookspecs.Executions.activity`."""
    found = conditions.of(query)
    everything = arms(found, GROUPS["agent"])
    rows = connection.execute(
        f"SELECT grp, {COUNTS}, max(start), max(start + length) FROM ({everything}) GROUP BY grp "
        "ORDER BY executions DESC, grp",
        found.values,
    ).fetchall()
    return [
        AgentActivity(
            agent=agent,
            executions=executions,
            succeeded=succeeded,
            failed=failed,
            running=running,
            cost_usd=cost / 1_000_000,
            mean_duration_ms=None if mean is None else round(mean),
            last_started_at=moment(_last(connection, found, agent, start, end)),
        )
        for agent, executions, succeeded, failed, running, cost, mean, start, end in rows
    ]


def _last(connection: sqlite3.Connection, found: Conditions, agent: str, start: int, end: int) -> int:
    """When the last one of ``agent`` started, which was from ``start`` to before ``end``."""
    if end - start <= 1:
        return start
    values = {**found.values, "of": agent, "from": start, "to": end}
    (last,) = connection.execute(
        "SELECT started_at FROM execution INDEXED BY execution_by_agent "
        f"WHERE agent = :of AND started_at >= :from AND started_at < :to AND {' AND '.join(found.shared + found.rows)} "
        "ORDER BY started_at DESC LIMIT 1",
        values,
    ).fetchone()
    return int(last)


def totals(connection: sqlite3.Connection, query: ExecutionQuery, by: Grouping) -> list[Total]:
    """See :meth:`pml_hookspecs.Executions.totals`."""
    found = conditions.of(query)
    everything = arms(found, GROUPS[by], by_tool=by in ("tool", "server", "key"))
    order = "grp" if by == "day" else "cost DESC, executions DESC, grp"
    rows = connection.execute(
        f"SELECT grp, {COUNTS}, coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0) FROM ({everything}) "
        f"GROUP BY grp ORDER BY {order}",
        found.values,
    )
    return [_total(row, by) for row in rows]


def _total(row: tuple[Any, ...], by: Grouping) -> Total:
    group, executions, succeeded, failed, running, cost, mean, tokens_in, tokens_out = row
    return Total(
        group=date.fromordinal(group + 1).isoformat() if by == "day" else group,
        executions=executions,
        succeeded=succeeded,
        failed=failed,
        running=running,
        cost_usd=cost / 1_000_000,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        mean_duration_ms=None if mean is None else round(mean),
    )
