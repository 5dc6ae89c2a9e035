"""Deleting what is old, a little at a time."""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .conditions import IS_OPEN

if TYPE_CHECKING:
    from psycopg import Connection

STEP = 200
"""Most executions without a parent that one step deletes, so that nobody waits long."""
LATEST = (1 << 63) - 1
SPANS = 2000
"""Most spans of nothing that is recorded that one step deletes."""
UNRECORDED_S = 3600
"""So young a span may be of an execution that is not recorded yet [s]: it is not deleted for its size."""

_FAMILIES = f"""
    WITH RECURSIVE needed AS (
        SELECT id, parent FROM execution WHERE {IS_OPEN}
        UNION
        SELECT e.id, e.parent FROM execution AS e JOIN needed ON e.id = needed.parent
    ), oldest AS (
        SELECT id, row_number() OVER (ORDER BY started_at, id) AS place FROM (
            SELECT started_at, id FROM execution
            WHERE NOT nested AND parent IS NULL AND NOT ({IS_OPEN})
                AND (%(before)s::int8 IS NULL OR started_at < %(before)s) AND id NOT IN (SELECT id FROM needed)
            ORDER BY started_at, id LIMIT {STEP}
        ) AS first_ones
    ), family AS (
        SELECT place, id FROM oldest
        UNION
        SELECT family.place, e.id FROM execution AS e JOIN family ON e.parent = family.id
    )
"""
"""The oldest of those in which everything has ended, with what ran inside."""
_BY_AGE = f"{_FAMILIES} SELECT place, id FROM family"
_BY_SIZE = f"""{_FAMILIES}, sizes AS (
        SELECT family.place, sum(e.size_bytes + coalesce((
            SELECT sum(400 + coalesce(length(s.attributes), 0) + coalesce(length(s.end_attributes), 0))
            FROM span AS s WHERE s.execution = e.id
        ), 0)) AS size_bytes FROM family JOIN execution AS e USING (id) GROUP BY family.place
    ), so_far AS (
        SELECT place, sum(size_bytes) OVER (ORDER BY place) - size_bytes AS before FROM sizes
    )
    SELECT family.place, family.id FROM family JOIN so_far USING (place) WHERE so_far.before < %(surplus)s
"""
_ORPHANS = f"""
    SELECT 0, id FROM execution AS e WHERE parent IS NOT NULL AND NOT ({IS_OPEN}) AND started_at < %(before)s
        AND NOT EXISTS (SELECT FROM execution AS p WHERE p.id = e.parent)
    ORDER BY started_at, id LIMIT {STEP}
"""

_SPANS = f"""
    SELECT s.trace_id, s.span_id FROM span AS s WHERE s.start_ns < %(before_ns)s
        AND NOT EXISTS (SELECT FROM execution AS e WHERE e.id = s.execution)
    LIMIT {SPANS}
"""
"""Of nothing that is recorded."""
_DELETE_SPANS = """
    DELETE FROM span USING unnest(%s::text[], %s::text[]) AS gone (trace_id, span_id)
    WHERE span.trace_id = gone.trace_id AND span.span_id = gone.span_id
"""
_OLDEST = f"SELECT started_at FROM execution WHERE NOT ({IS_OPEN}) ORDER BY started_at LIMIT 1"


@dataclass(slots=True)
class Pruning:
    """One pruning, from step to step."""

    before: int | None
    """Microseconds since 1970 UTC."""
    keep_bytes: int | None
    gone: int = 0
    """Executions without a parent deleted so far."""

    def step(self, connection: Connection[Any]) -> bool:
        """Delete some; whether there may be more. In the writer's thread."""
        if self.before is not None:
            if deleted := self._delete(connection, _BY_AGE, before=self.before):
                self.gone += deleted
                return True
            if self._delete(connection, _ORPHANS, before=self.before) or _delete_spans(connection, self.before):
                return True
        if self.keep_bytes is not None and (surplus := stored_bytes(connection) - self.keep_bytes) > 0:
            deleted = self._delete(connection, _BY_SIZE, before=None, surplus=surplus)
            self.gone += deleted
            return _delete_spans(connection, _age_of_all(connection)) > 0 or deleted > 0
        # What nothing is counted in any more.
        connection.execute("DELETE FROM execution_sum WHERE succeeded = 0 AND failed = 0 AND running = 0")
        return False

    @staticmethod
    def _delete(connection: Connection[Any], which: str, **values: int | None) -> int:
        rows = connection.execute(which, values).fetchall()
        if not rows:
            return 0
        ids = [id_ for _, id_ in rows]
        connection.execute("DELETE FROM span WHERE execution = ANY(%s)", [ids])
        connection.execute("DELETE FROM execution WHERE id = ANY(%s)", [ids])
        return len({place for place, _ in rows})


def _delete_spans(connection: Connection[Any], before: int) -> int:
    """Delete spans of nothing that is recorded that began before a time [µs]; how many, not all at once."""
    rows = connection.execute(_SPANS, {"before_ns": min(before, LATEST // 1000) * 1000}).fetchall()
    if rows:
        traces, spans = zip(*rows, strict=True)
        connection.execute(_DELETE_SPANS, [list(traces), list(spans)])
    return len(rows)


def _age_of_all(connection: Connection[Any]) -> int:
    """When the oldest execution that has ended began, or an hour ago if there is none that old [µs]."""
    row = connection.execute(_OLDEST).fetchone()
    an_hour_ago = int((time.time() - UNRECORDED_S) * 1_000_000)
    return an_hour_ago if row is None else min(int(row[0]), an_hour_ago)


def stored_bytes(connection: Connection[Any]) -> int:
    """What executions, their transcripts and spans take [bytes]: what is stored, not what the files have grown to."""
    row = connection.execute("SELECT sum(size_bytes)::int8 FROM stored").fetchone()
    return int(row[0]) if row else 0
