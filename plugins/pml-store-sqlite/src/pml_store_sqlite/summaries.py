"""How many, and what they add up to: from sums where they can tell, else from the executions themselves."""
# ruff: noqa: S608 - the SQL is put together from this package's own text; every value is a parameter

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from pml_stores.sums import Sum

from . import conditions, execution_rows, sums, text
from .conditions import IS_FAILED, IS_OPEN, IS_SUCCEEDED, Conditions
from .execution_rows import FOREVER
from .row_values import clean, moment
from .schema_history import FARTHEST, SPILLED, TIES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from pml_hookspecs import ExecutionId, ExecutionQuery, Grouping

GROUPS: dict[Grouping, tuple[str, str]] = {
    "agent": ("agent", "agent"),
    "principal": ("principal", "principal"),
    "tool": (sums.TOOL, "tool"),
    "server": ("server", "server"),
    "key": ("access_key", "access_key"),
    "day": (f"(started_at + {sums.ERA}) / {sums.DAY}", f"bucket * grain / {sums.DAY}"),
}
"""Of an execution, and of a sum."""
ONE = "{sign}1 AS executions, {sign}(duration_ms IS NOT NULL) AS timed, " + ", ".join(
    f"{{sign}}{column} AS {column}" for column in ("duration_ms", "cost_micros", "tokens_in", "tokens_out")
)
MANY = ", ".join(f"{{sign}}{column} AS {column}" for column in sums.SUMMED)
"""Of an execution, and of a sum."""
NOTHING = (
    "SELECT NULL AS grp, NULL AS status, 0 AS start, 0 AS length, "
    + ", ".join(f"0 AS {column}" for column in sums.SUMMED)
    + " WHERE 0"
)
"""No rows, with the columns of :func:`arms`."""
COUNTS = (
    f"sum(executions * ({IS_SUCCEEDED})), sum(executions * ({IS_FAILED})), sum(executions * ({IS_OPEN})), "
    "total(cost_micros), coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0), total(duration_ms), sum(timed)"
)
"""The fields of :class:`pml_stores.sums.Sum`, in their order."""


def found_by_text(found: Conditions, *, looked_up: bool = False, whole: bool = False) -> tuple[str, str]:
    """Statements for the places of executions with the words asked for, in their scope.

    The first is for those whose place tells their time, which are in the time asked for; of the others it must be seen.

    Args:
        found: What is asked for.
        looked_up: Whether all else that is asked for holds of what the first finds.
        whole: Whether words that only begin so do not count.
    """
    start, end = (None if at is None else max(-FARTHEST - 1, min(at, FARTHEST + 1)) * TIES for at in found.times)
    near = [f"rowid < {SPILLED if end is None else found.value(min(end, SPILLED))}"]
    if start is not None:
        near.append(f"rowid >= {found.value(start)}")
    match = f"{text.TABLE} MATCH {found.value(text.match(found.marks, found.words, whole=whole))}"
    select = f"SELECT {text.TABLE}.rowid FROM {text.TABLE}"
    of_time = " AND ".join(f"{text.TABLE}.{one}" for one in near)
    others = f"{select} WHERE {match} AND {text.TABLE}.rowid >= {SPILLED}"
    if not looked_up:
        return f"{select} WHERE {match} AND {of_time}", others
    # In this order, which is that of the places: so it can end with the last one that is wanted.
    joined = f"CROSS JOIN execution ON place = {text.TABLE}.rowid"
    return f"{select} {joined} WHERE {match} AND {of_time} AND {found.of_rows()}", others


@dataclass(frozen=True, slots=True)
class Columns:
    """What is taken of each, as text of SQL with the same names. Each number begins with ``{sign}``."""

    of_row: str
    """Expression for one execution."""
    of_sum: str

    def row(self, sign: str = "") -> str:
        """Of an execution; ``sign`` is ``-`` where it is taken off."""
        return self.of_row.format(sign=sign)

    def sum(self, sign: str = "") -> str:
        """Expression for the sum over many executions."""
        return self.of_sum.format(sign=sign)


COUNTED = Columns("{sign}1 AS executions", "{sign}executions AS executions")
"""Less than the others: what is in an index need not be looked up."""


def _summed(group: tuple[str, str]) -> Columns:
    """``grp``, ``status``, ``start`` and ``length`` (of the time that it speaks for), and the columns of sums."""
    of_row, of_sum = group
    return Columns(
        f"{of_row} AS grp, status, started_at AS start, 1 AS length, {ONE}",
        f"{of_sum} AS grp, status, bucket * grain - {sums.ERA} AS start, grain AS length, {MANY}",
    )


def arms(found: Conditions, group: tuple[str, str], *, by_tool: bool = False) -> str:
    """The statement for what is to be added up: single executions, and sums of many."""
    return _arms(found, _summed(group), by_tool=by_tool, fine=group != GROUPS["day"])


def _arms(found: Conditions, columns: Columns, *, by_tool: bool = False, fine: bool = False) -> str:
    row = f"SELECT {columns.row()} FROM execution"
    if found.nothing:
        # Not with the others: SQLite finds no use for an index that it is told to use for nothing.
        return NOTHING
    if found.words:
        places = " UNION ALL ".join([*found_by_text(found), *([found.unsearched] if found.unsearched else [])])
        return f"{row} NOT INDEXED WHERE place IN ({places}) AND {found.of_rows()} AND {found.others}"
    if not found.summable:
        return f"{row} INDEXED BY {found.index} WHERE {found.of_rows()} AND {found.others}"
    of_rows = " AND ".join([*found.shared, *found.rows])
    of_sums = " AND ".join([*found.shared, *found.sums])
    table = sums.BY_EVERYTHING if by_tool or found.by_tool else sums.BY_AGENT
    if found.coarse and not fine:
        table = sums.COARSE
    parts = []
    for sign, grain, start, end in sums.pieces(found.since, found.until, found.through):
        within = sums.span(grain, start, end, found.values)
        if grain:
            of_table = f"SELECT {columns.sum(sign)} FROM {table.table}"
            parts.append(f"{of_table} WHERE {within} AND executions > 0 AND {of_sums}")
        else:
            of_row = f"SELECT {columns.row(sign)} FROM execution INDEXED BY execution_by_time"
            parts.append(f"{of_row} WHERE {within} AND {of_rows}")
    if parts and found.left_out:
        these = f"place IN ({found.left_out}) AND {found.of_rows()}"
        parts.append(f"SELECT {columns.row('-')} FROM execution NOT INDEXED WHERE {these}")
    return " UNION ALL ".join(parts) or NOTHING


def count(connection: sqlite3.Connection, found: Conditions) -> int:
    """How many match."""
    (number,) = connection.execute(
        f"SELECT coalesce(sum(executions), 0) FROM ({_arms(found, COUNTED)})", found.values
    ).fetchone()
    return int(number)


def activity(
    connection: sqlite3.Connection, query: ExecutionQuery, without: Sequence[ExecutionId] = ()
) -> dict[str, Sum]:
    """See :meth:`pml_stores.pending_overlay.Statements.activity`."""
    found = asked(connection, query, without)
    rows = connection.execute(
        f"SELECT grp, max(start) FILTER (WHERE executions > 0), max(start + length) FILTER (WHERE executions > 0), "
        f"{COUNTS} FROM ({arms(found, GROUPS['agent'])}) GROUP BY grp HAVING sum(executions) > 0",
        found.values,
    ).fetchall()
    sums_by_agent = {}
    for agent, start, end, *counts in rows:
        sums_by_agent[agent] = Sum(*counts)
        sums_by_agent[agent].last_started_at = moment(_last(connection, found, agent, start, end))
    return sums_by_agent


def asked(connection: sqlite3.Connection, query: ExecutionQuery, without: Sequence[ExecutionId]) -> Conditions:
    """What ``query`` asks for, and what is left out.

    Raises:
        ValueError: A time has no zone.
    """
    found = conditions.of(query)
    found.through = sums.through(connection)
    if without and not found.nothing:
        found.leave_out(execution_rows.places_of(connection, [clean(id_) for id_ in without]))
    if found.words and not found.nothing:
        if found.everybodys:
            found.marks = text.everyone(connection)
            found.nothing = not found.marks
        whose = conditions.Conditions()
        found.take_in(text.waiting(connection, found.words, conditions.scope(whose, query.scope), whose.values))
    return found


def _last(connection: sqlite3.Connection, found: Conditions, agent: str, start: int, end: int) -> int:
    """When the last one of ``agent`` started: from ``start`` to before ``end``, or earlier if those are left out."""
    if end - start <= 1 and not found.left_out:
        return start
    these = f"agent = :of AND {' AND '.join([*found.shared, *found.rows, found.others])}"
    for first, last in ((start, end), (-FOREVER if found.since is None else found.since, start)):
        row = connection.execute(
            f"SELECT started_at FROM execution INDEXED BY execution_by_agent WHERE {these} "
            "AND started_at >= :from AND started_at < :to ORDER BY started_at DESC LIMIT 1",
            {**found.values, "of": agent, "from": first, "to": last},
        ).fetchone()
        if row is not None:
            break
    return int(row[0])


def totals(
    connection: sqlite3.Connection, query: ExecutionQuery, by: Grouping, without: Sequence[ExecutionId] = ()
) -> dict[str, Sum]:
    """See :meth:`pml_stores.pending_overlay.Statements.totals`."""
    found = asked(connection, query, without)
    everything = arms(found, GROUPS[by], by_tool=by in ("tool", "server", "key"))
    rows = connection.execute(
        f"SELECT grp, {COUNTS} FROM ({everything}) GROUP BY grp HAVING sum(executions) > 0", found.values
    )
    return {date.fromordinal(group + 1).isoformat() if by == "day" else group: Sum(*counts) for group, *counts in rows}
