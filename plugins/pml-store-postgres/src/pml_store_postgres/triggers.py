"""Functions and triggers that keep what executions and spans add up to, for whole statements and whoever writes.

``{schema}`` is the quoted name of the schema. Rows of ``execution_sum`` are told about in `sums`.
"""
# ruff: noqa: S608 - the SQL is put together from this module's own text

from __future__ import annotations

LEVELS = """
    (0, 1, true), (0, 24, true), (0, 1, false), (0, 24, false), (1, 1, true), (1, 24, true), (2, 1, true),
    (2, 24, true), (3, 1, true), (3, 24, true), (3, 1, false), (3, 24, false)
"""
"""Facet, grain and whether it is everyone's, of the sums that an execution is part of."""
SUMMED = (
    *("succeeded", "failed", "running", "cost_micros"),
    *("tokens_in", "tokens_out", "duration_ms", "timed"),
)
WHOSE = "everyone, nested, dry_run, as_agent, principal, value"
SPAN_BYTES = "400 + coalesce(length(attributes), 0) + coalesce(length(end_attributes), 0)"
"""Size of a span with its entries in the indexes."""


def _sums_of(rows: str, sign: str, which: str) -> str:
    """What executions add up to, on those levels that the condition ``which`` is true of."""
    return f"""
        SELECT started_at / (grain * 3600000000), {sign} count(*) FILTER (WHERE status IN ('ok', 'simulated')),
            {sign} count(*) FILTER (WHERE status NOT IN ('ok', 'pending', 'running', 'simulated')),
            {sign} count(*) FILTER (WHERE status IN ('pending', 'running')),
            {sign} coalesce(sum(cost_micros), 0), {sign} coalesce(sum(tokens_in), 0),
            {sign} coalesce(sum(tokens_out), 0), {sign} coalesce(sum(duration_ms), 0), {sign} count(duration_ms),
            facet, grain, everyone, nested, dry_run,
            facet = 0 AND as_agent, CASE WHEN everyone THEN '' ELSE principal END,
            CASE facet WHEN 0 THEN agent WHEN 1 THEN CASE WHEN kind = 'tool' THEN target ELSE '' END
                WHEN 2 THEN access_key ELSE '' END
        FROM {rows} CROSS JOIN (VALUES {LEVELS}) AS level (facet, grain, everyone) WHERE {which}
        GROUP BY 1, 10, 11, 12, 13, 14, 15, 16, 17
    """


def _hours(after: str, last: str) -> str:
    """What hours after one, up to another, add up to by the day."""
    return f"""
        SELECT bucket / 24, {", ".join(f"sum({column})" for column in SUMMED)}, facet, 24, {WHOSE}
        FROM {{schema}}.execution_sum WHERE grain = 1 AND bucket + 0 > {after} AND bucket + 0 <= {last}
        GROUP BY bucket / 24, facet, {WHOSE}
    """


def _add(sums: str) -> str:
    return f"""
        INSERT INTO {{schema}}.execution_sum AS s (bucket, {", ".join(SUMMED)}, facet, grain, {WHOSE})
        {sums}
        ON CONFLICT (facet, everyone, principal, grain, bucket, value, nested, dry_run, as_agent) DO UPDATE SET
            {", ".join(f"{column} = s.{column} + excluded.{column}" for column in SUMMED)};
    """


def _size(part: str, size: str, *, added: bool = False, gone: bool = False) -> str:
    changed = ""
    for sign, rows, wanted in (("+", "new_rows", added), ("-", "old_rows", gone)):
        if wanted:
            changed += f" {sign} (SELECT coalesce(sum({size}), 0) FROM {rows})"
    return f"UPDATE {{schema}}.stored SET size_bytes = size_bytes{changed} WHERE part = '{part}';"


def _function(table: str, event: str, body: str, declared: str = "") -> str:
    begun = f"CREATE OR REPLACE FUNCTION {{schema}}.{table}_{event.lower()}() RETURNS trigger LANGUAGE plpgsql"
    return f"{begun} AS $$ {declared} BEGIN {body} RETURN NULL; END $$"


def _trigger(table: str, event: str) -> str:
    name, tables = f"{table}_{event.lower()}", TABLES[event]
    when = f"CREATE TRIGGER {name} AFTER {event} ON {{schema}}.{table} REFERENCING {tables}"
    return f"{when} FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.{name}()"


TABLES = {
    "INSERT": "NEW TABLE AS new_rows",
    "UPDATE": "OLD TABLE AS old_rows NEW TABLE AS new_rows",
    "DELETE": "OLD TABLE AS old_rows",
}


def _of_executions(event: str, which: str, first: str = "") -> str:
    """What happens when executions are written or deleted: ``first`` that, then their sums follow."""
    added, gone = (table in TABLES[event] for table in ("new_rows", "old_rows"))
    # An upsert fires two events, one of them for no rows at all.
    body = f"IF EXISTS (SELECT FROM {'new_rows' if added else 'old_rows'}) THEN {first}"
    if gone:
        body += _add(_sums_of("old_rows", "-", which))
    if added:
        body += _add(_sums_of("new_rows", "", which))
    return f"{body} {_size('execution', 'size_bytes', added=added, gone=gone)} END IF;"


ADDED_UP = (
    *(_function("execution", event, _of_executions(event, "true")) for event in TABLES),
    *(_trigger("execution", event) for event in TABLES),
    _function("span", "INSERT", _size("span", SPAN_BYTES, added=True)),
    _function("span", "DELETE", _size("span", SPAN_BYTES, gone=True)),
    _trigger("span", "INSERT"),
    _trigger("span", "DELETE"),
)
"""A part of the first step of the schema."""

_OVER = "{schema}.last_hour_over()"
_LAST = "(SELECT hour FROM {schema}.summed)"
_ROLL_UP = f"""
    SELECT hour INTO through FROM {{schema}}.summed;
    IF through < {_OVER} THEN
        {_add(_hours("through", _OVER))}
        UPDATE {{schema}}.summed SET hour = {_OVER} RETURNING hour INTO through;
    END IF;
"""

BY_THE_HOUR = (
    # The last hour that is in the sums of its day, counted from 1970. Those after it are read by the hour, so what is
    # written now is added up once and not twice.
    "CREATE TABLE {schema}.summed (hour bigint NOT NULL)",
    f"""
    CREATE FUNCTION {_OVER} RETURNS bigint LANGUAGE sql
    AS $$ SELECT floor(extract(epoch FROM statement_timestamp()) / 3600)::bigint - 1 $$
    """,
    f"INSERT INTO {{schema}}.summed SELECT {_OVER}",
    # For adding them up, and of an expression, so that no question takes it: whose sums it asks for is not in here.
    "CREATE INDEX execution_sum_hour_by_time ON {schema}.execution_sum_hour ((bucket + 0))",
    # Of what agents did themselves, for those who may see some agents: of a time there are the sums of all.
    *(
        f"CREATE INDEX execution_sum_{grain}_by_agent ON {{schema}}.execution_sum_{grain} ((value || ''), bucket) "
        "WHERE facet = 0 AND everyone AND as_agent"
        for grain in ("hour", "day")
    ),
    # Until now days had all of their hours.
    f"DELETE FROM {{schema}}.execution_sum WHERE grain = 24 AND bucket >= {_LAST} / 24",
    _add(_hours(f"{_LAST} / 24 * 24 - 1", _LAST)),
    *(
        _function(
            "execution",
            event,
            _of_executions(event, "grain = 1 OR started_at / 3600000000 <= through", _ROLL_UP),
            "DECLARE through bigint;",
        )
        for event in TABLES
    ),
)
"""The step by which days are added up when their hours are over."""
