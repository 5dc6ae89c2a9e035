"""Sums of executions by hour and by day, so that nobody counts a million rows.

They are part of the transaction that writes or deletes the executions, so they are exact at any moment. A question
about any span of time takes whole days and whole hours from them, and what is left at its ends from the executions.

Days have what is in their hours up to the last one that is over (:func:`through`); those after it are read by the hour.
So what is written now is added up once and not twice.
"""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import time
from dataclasses import dataclass
from operator import add as plus
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_stores.sums import nearest

from .row_values import NOTHING, Row, insert

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

HOUR, DAY = 3_600_000_000, 86_400_000_000
"""Microseconds."""
ERA = 719_162 * DAY
"""From the beginning of the year 1 until 1970; buckets are counted from there, so that none has a negative number."""

SUMMED = {
    "executions": "count(*)",
    "timed": "count(duration_ms)",
    "duration_ms": "coalesce(sum(duration_ms), 0)",
    "cost_micros": "coalesce(sum(cost_micros), 0)",
    "tokens_in": "coalesce(sum(tokens_in), 0)",
    "tokens_out": "coalesce(sum(tokens_out), 0)",
}
"""Columns of sums, and what they are of a group of executions."""

UPSERT = "ON CONFLICT DO UPDATE SET " + ", ".join(f"{column} = {column} + excluded.{column}" for column in SUMMED)

SAID = ("agent", "principal", "as_agent", "triggered_by", "status", "nested", "dry_run")
TOOL = "CASE WHEN kind = 'tool' THEN target ELSE '' END"
BY_TOOL = ("server", "tool", "access_key")


@dataclass(frozen=True, slots=True)
class Sums:
    """A table of sums."""

    table: str
    keys: tuple[str, ...]
    """What the sums are by, besides the bucket."""

    def create(self) -> str:
        """Its statement."""
        texts = {"agent", "principal", "triggered_by", "status", *BY_TOOL}
        columns = [f"{key} {'TEXT' if key in texts else 'INTEGER'} NOT NULL" for key in self.keys]
        columns += [f"{column} INTEGER NOT NULL" for column in SUMMED]
        return (
            f"CREATE TABLE {self.table} (grain INTEGER NOT NULL, bucket INTEGER NOT NULL, {', '.join(columns)}, "
            f"PRIMARY KEY (grain, bucket, {', '.join(self.keys)})) WITHOUT ROWID"
        )

    def add(self, grain: int, which: str, sign: int = 1) -> str:
        """Adds the executions that the condition ``which`` is true of, or takes them off."""
        keys = [TOOL if key == "tool" else key for key in self.keys]
        bucket = f"(started_at + {ERA}) / {grain}"
        sums = ", ".join(f"{sign} * {formula}" for formula in SUMMED.values())
        return (
            f"INSERT INTO {self.table} ({', '.join(self.columns())}) "
            f"SELECT {grain}, {bucket}, {', '.join(keys)}, {sums} FROM execution WHERE {which} "
            f"GROUP BY {bucket}, {', '.join(keys)} {UPSERT}"
        )

    def roll_up(self) -> str:
        """Adds hours, from after one to another, to their days."""
        day, keys = f"bucket * {HOUR} / {DAY}", ", ".join(self.keys)
        return (
            f"INSERT INTO {self.table} ({', '.join(self.columns())}) "
            f"SELECT {DAY}, {day}, {keys}, {', '.join(f'sum({column})' for column in SUMMED)} FROM {self.table} "
            f"WHERE grain = {HOUR} AND bucket > ? AND bucket <= ? GROUP BY {day}, {keys} {UPSERT}"
        )

    def columns(self) -> tuple[str, ...]:
        """All columns of the table."""
        return ("grain", "bucket", *self.keys, *SUMMED)


COARSE = Sums("sum_by_principal", ("principal", "status", "nested", "dry_run"))
"""Smallest: for lists of everything and of somebody's, whose total is a sum."""
BY_AGENT = Sums("sum_by_agent", SAID)
"""For what agents did, and for lists of it."""
BY_EVERYTHING = Sums("sum_by_tool", (*BY_TOOL, *SAID))
TABLES = (COARSE, BY_AGENT, BY_EVERYTHING)
THESE = "place IN (SELECT value FROM json_each(?))"

THROUGH = "SELECT hour FROM summed"
OF_GRAIN = {HOUR: THESE, DAY: f"{THESE} AND (started_at + {ERA}) / {HOUR} <= ({THROUGH})"}
TAKE_OFF = tuple(table.add(grain, which, -1) for table in TABLES for grain, which in OF_GRAIN.items())


def through(connection: sqlite3.Connection) -> int:
    """The last hour that is in the sums of its day, counted as buckets are."""
    (hour,) = connection.execute(THROUGH).fetchone()
    return int(hour)


def roll_up(connection: sqlite3.Connection) -> int:
    """Add hours that are over since to their days; gives the last of them."""
    last, over = through(connection), last_over()
    if last >= over:
        return last
    add_hours(connection, last, over)
    connection.execute("UPDATE summed SET hour = ?", (over,))
    return over


def last_over() -> int:
    """The last hour that is over by the clock."""
    return (time.time_ns() // 1000 + ERA) // HOUR - 1


def add_hours(connection: sqlite3.Connection, after: int, last: int) -> None:
    """Add those after one, and the last, to their days."""
    for table in TABLES:
        connection.execute(table.roll_up(), (after, last))


def add(connection: sqlite3.Connection, rows: Iterable[Row], columns: Sequence[str]) -> None:
    """Add executions that are being written: their rows have ``columns``."""
    groups, keys, last = _by_hour(rows, columns), BY_EVERYTHING.keys, roll_up(connection)
    for table in (BY_EVERYTHING, BY_AGENT, COARSE):
        if table.keys != keys:
            # Of the groups before, which are fewer than the rows.
            groups = _regrouped(groups, itemgetter(0, *(1 + keys.index(name) for name in table.keys)))
            keys = table.keys
        values = [(HOUR, *key, *numbers) for key, numbers in groups.items()]
        # What comes late, and what is replaced.
        values += [
            (DAY, hour * HOUR // DAY, *key, *numbers) for (hour, *key), numbers in groups.items() if hour <= last
        ]
        insert(connection, table.table, table.columns(), values, UPSERT)


def _by_hour(rows: Iterable[Row], columns: Sequence[str]) -> dict[Row, Row]:
    """Sums by the hour and the keys of :data:`BY_EVERYTHING`."""
    finest = itemgetter(
        *(columns.index(name) for name in ("started_at", "server", "kind", "target", "access_key", *SAID))
    )
    summed = itemgetter(*(columns.index(name) for name in list(SUMMED)[2:]))
    groups: dict[Row, Row] = {}
    for row in rows:
        at, server, kind, target, *others = finest(row)
        duration, cost, tokens_in, tokens_out = summed(row)
        key = ((at + ERA) // HOUR, server, target if kind == "tool" else "", *others)
        numbers = (1, 0 if duration == NOTHING else 1, duration or 0, cost or 0, tokens_in or 0, tokens_out or 0)
        groups[key] = tuple(map(plus, groups[key], numbers)) if key in groups else numbers
    return groups


def _regrouped(groups: Mapping[Row, Row], key_of: Callable[[Row], Row]) -> dict[Row, Row]:
    fewer: dict[Row, Row] = {}
    for finer, numbers in groups.items():
        key = key_of(finer)
        fewer[key] = tuple(map(plus, fewer[key], numbers)) if key in fewer else numbers
    return fewer


def take_off(connection: sqlite3.Connection, places: str) -> None:
    """Take the executions at ``places`` off; they are still there."""
    for statement in TAKE_OFF:
        connection.execute(statement, [places])


def tidy(connection: sqlite3.Connection) -> None:
    """Forget sums of nothing."""
    for table in TABLES:
        connection.execute(f"DELETE FROM {table.table} WHERE executions = 0")


Piece: TypeAlias = tuple[str, int, int | None, int | None]
"""``(sign, grain, from, to)`` in microseconds, from inclusive, to exclusive.

Sign is ``-`` for what is taken off again. Grain 0 is single executions.
"""


def pieces(since: int | None, until: int | None, last: int) -> Iterator[Piece]:
    """What makes up ``since`` to ``until``; ``last`` is the hour that days go :func:`through`."""
    if since is not None and until is not None and since >= until:
        return
    first_hour, last_hour = _first(since, HOUR, until), _down(until, HOUR)
    if first_hour is not None and last_hour is not None and first_hour >= last_hour:
        yield "", 0, since, until
        return
    first_day, last_day = _first(first_hour, DAY, until), _down(last_hour, DAY)
    if first_day is not None and last_day is not None and first_day >= last_day:
        yield "", HOUR, first_hour, last_hour
    else:
        yield from _left_over(HOUR, first_hour, first_day)
        yield from _left_over(HOUR, last_day, last_hour)
        if first_day is None or first_day != last_day:
            yield "", DAY, first_day, last_day
            later = (last + 1) * HOUR - ERA if first_day is None else max((last + 1) * HOUR - ERA, first_day)
            if last_day is None or later < last_day:
                yield "", HOUR, later, last_day
    yield from _left_over(0, since, first_hour)
    yield from _left_over(0, last_hour, until)


def _left_over(grain: int, start: int | None, end: int | None) -> Iterator[Piece]:
    """Between where it should begin or end and where larger buckets do; without a bound there is nothing."""
    if start is not None and end is not None and start != end:
        yield ("", grain, start, end) if start < end else ("-", grain, end, start)


def _first(at: int | None, grain: int, until: int | None) -> int | None:
    # With an end, what is taken off might lie after it; so nothing is.
    return None if at is None else nearest(at, grain, at if until is not None else time.time_ns() // 1000)


def _down(at: int | None, grain: int) -> int | None:
    return None if at is None else at // grain * grain


def span(grain: int, start: int | None, end: int | None, values: dict[str, Any]) -> str:
    """The condition that a row of a piece is in its time; its parameters are put into ``values``."""
    column = "bucket" if grain else "started_at"
    found = [f"grain = {grain}"] if grain else []
    for at, comparison in ((start, ">="), (end, "<")):
        if at is not None:
            name = f"t{len(values)}"
            values[name] = (at + ERA) // grain if grain else at
            found.append(f"{column} {comparison} :{name}")
    return " AND ".join(found) or "1"
