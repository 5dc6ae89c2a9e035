"""What executions add up to, kept by the hour and by the day, so that nobody counts a million of them.

Both databases have one table of them, and one statement that adds executions to it or takes them off, in the
transaction that writes or deletes these. So they are exact at any moment. A question about any span of time takes whole
days and whole hours from them, and what is left at its ends from the executions.
"""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from pml_hookspecs import split_tool_id
from pml_stores.sums import DAY, HOUR, Sum

from .query_builder import IS_FAILED, IS_OPEN, IS_SUCCEEDED, Condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pml_hookspecs import Grouping
    from pml_stores.values import Row

ERA = 719_162 * DAY
"""From the beginning of the year 1 until 1970: what is divided is never negative, which databases round otherwise."""
FIRST_DAY = date(1970, 1, 1).toordinal()
TABLE = "execution_total"
FLAGS = ("as_agent", "nested", "dry_run")
KEYS = ("agent", "principal", "triggered_by", "status", "tool", "access_key", *FLAGS)
"""What totals are by, besides the time."""
NUMBERS = ("executions", "timed", "duration_ms", "cost_micros", "tokens_in", "tokens_out")
TOOL = "CASE WHEN kind = 'tool' THEN target ELSE '' END"
_OF_ROWS = ("count(*)", "count(duration_ms)", *(f"coalesce(sum({name}), 0)" for name in NUMBERS[2:]))
_PLACE = ", ".join(("grain", "bucket", *KEYS))
FORGET_EMPTY = f"DELETE FROM {TABLE} WHERE executions = 0"


def bucket(at: str, grain: object) -> str:
    """The number of the hour or day in which a time [µs] is, counted from 1970."""
    return f"(({at}) + {ERA}) / {grain} - {ERA} / {grain}"


def create(text: str, flag: str) -> str:
    """The statement for the table, whose texts and flags are of these types."""
    columns = ["grain bigint", "bucket bigint", *(f"{key} {flag if key in FLAGS else text}" for key in KEYS)]
    columns += [f"{number} bigint" for number in NUMBERS]
    return f"CREATE TABLE {TABLE} ({' NOT NULL, '.join(columns)} NOT NULL, PRIMARY KEY ({_PLACE}))"


def add(which: Condition, sign: int = 1) -> Condition:
    """Adds the executions that ``which`` is true of, or takes them off."""
    keys = ", ".join(TOOL if key == "tool" else key for key in KEYS)
    numbers = ", ".join(f"{sign} * {formula}" for formula in _OF_ROWS)
    return Condition(
        f"INSERT INTO {TABLE} AS t ({_PLACE}, {', '.join(NUMBERS)}) "
        f"SELECT grain, {bucket('started_at', 'grain')}, {keys}, {numbers} "
        f"FROM execution CROSS JOIN (SELECT {HOUR} AS grain UNION ALL SELECT {DAY}) AS g WHERE {which.sql} "
        f"GROUP BY {', '.join(str(n + 1) for n in range(len(KEYS) + 2))} "
        f"ON CONFLICT ({_PLACE}) DO UPDATE SET "
        + ", ".join(f"{number} = t.{number} + excluded.{number}" for number in NUMBERS),
        which.values,
    )


GROUPS: dict[Grouping, tuple[str, str]] = {
    "agent": ("agent", "agent"),
    "principal": ("principal", "principal"),
    "tool": (TOOL, "tool"),
    "server": (TOOL, "tool"),
    "key": ("access_key", "access_key"),
    "day": (bucket("started_at", DAY), bucket("bucket * grain", DAY)),
}
"""Of an execution, and of a total."""
_STATES = (("succeeded", IS_SUCCEEDED), ("failed", IS_FAILED), ("running", IS_OPEN))
_SUMMED = ("cost_micros", "tokens_in", "tokens_out", "duration_ms", "timed")
OF_ROWS = (
    ", ".join(f"count(*) FILTER (WHERE {which}) AS {state}" for state, which in _STATES)
    + ", sum(cost_micros) AS cost_micros, sum(tokens_in) AS tokens_in, sum(tokens_out) AS tokens_out, "
    "sum(duration_ms) AS duration_ms, count(duration_ms) AS timed, max(started_at) AS since"
)
"""What executions add up to, and no later time than that at which the last of them began."""
OF_TOTALS = (
    ", ".join(f"sum(executions) FILTER (WHERE {which}) AS {state}" for state, which in _STATES)
    + f", {', '.join(f'sum({name}) AS {name}' for name in _SUMMED)}, max(bucket * grain) AS since"
)
"""The same of totals."""
ALL_TOGETHER = ", ".join(
    f"CAST(coalesce(sum({name}), 0) AS bigint) AS {name}" for name in (*(state for state, _ in _STATES), *_SUMMED)
)
"""The fields of :class:`pml_stores.sums.Sum`, in their order."""
ANY = "coalesce(sum(succeeded), 0) + coalesce(sum(failed), 0) + coalesce(sum(running), 0) > 0"


def by_group(rows: Iterable[Row], by: Grouping) -> dict[str, Sum]:
    """Sums by the name of the group; ``rows`` have what it is of and the fields of a sum."""
    found: dict[str, Sum] = {}
    for of, *numbers in rows:
        group = date.fromordinal(of + FIRST_DAY).isoformat() if by == "day" else of
        group = split_tool_id(group)[0] if by == "server" else group
        found[group] = found.get(group, Sum()) + Sum(*numbers)
    return found
