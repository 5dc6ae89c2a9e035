"""The schema: as it is, how one of an earlier version gets there, and later steps, which are only ever added.

Times are microseconds since 1970 UTC, costs are millionths of a dollar, JSON is kept as the bytes it came in. Texts of
executions sort by code point (``COLLATE "C"``). The schema is the first in the search path.
"""
# ruff: noqa: S608 - the SQL is put together from this package's own text

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_stores.sql import totals
from pml_stores.sql.query_builder import ALL

from .execution_rows import SPAN_BYTES
from .texts import MARK, MARK_CHARACTERS

if TYPE_CHECKING:
    from psycopg import Connection

BASE = 6
"""Version of a schema that has what is here but none of :data:`STEPS`."""
MARKS = 5
"""First version in which each word stands behind a mark of whose it is."""
STEPS: tuple[tuple[str, ...], ...] = ()
"""Statements that lead to later versions; a schema of version ``BASE + n`` has had the first ``n``."""

_BY_WORD = """
    CREATE INDEX execution_by_word ON execution USING gin (words)
        WITH (fastupdate = on, gin_pending_list_limit = 512) WHERE NOT nested
"""
_ASKED = "status, nested, dry_run, as_agent, triggered_by"


def _index(name: str, columns: str, condition: str = "") -> str:
    return f"CREATE INDEX execution_{name} ON execution ({columns})" + (condition and f" WHERE {condition}")


_EXECUTIONS = (
    """
    CREATE TABLE execution (
        started_at bigint NOT NULL, duration_ms bigint, cost_micros bigint, tokens_in bigint, tokens_out bigint,
        context_used bigint, context_max bigint, size_bytes bigint NOT NULL, deflated smallint NOT NULL,
        nested boolean NOT NULL, dry_run boolean NOT NULL, as_agent boolean NOT NULL, id text COLLATE "C" PRIMARY KEY,
        parent text COLLATE "C", kind text COLLATE "C" NOT NULL, target text COLLATE "C" NOT NULL,
        principal text COLLATE "C" NOT NULL, agent text COLLATE "C" NOT NULL, triggered_by text COLLATE "C" NOT NULL,
        status text COLLATE "C" NOT NULL, access_key text COLLATE "C" NOT NULL, schedule text COLLATE "C" NOT NULL,
        endpoint text COLLATE "C" NOT NULL, mode text COLLATE "C" NOT NULL, intent text COLLATE "C" NOT NULL,
        request bytea, response bytea, failure bytea, tool_calls bytea, words tsvector
    ) WITH (
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
        autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02
    )
    """,
    # JSON is deflated by the writer where that pays; the server need not try it again.
    """
    ALTER TABLE execution ALTER request SET STORAGE EXTERNAL, ALTER response SET STORAGE EXTERNAL,
        ALTER failure SET STORAGE EXTERNAL, ALTER tool_calls SET STORAGE EXTERNAL, ALTER words SET STORAGE EXTERNAL
    """,
    # Covers counts and sums over a span of time. Ascending, so that new rows come at the right edge, where pages fill.
    _index(
        "by_time",
        f"started_at, id) INCLUDE (principal, agent, {_ASKED}, kind, target, access_key, "
        "cost_micros, tokens_in, tokens_out, duration_ms",
    ),
    _index("by_agent", f"agent, started_at, id) INCLUDE (principal, {_ASKED}"),
    _index("by_principal", f"principal, started_at, id) INCLUDE (agent, {_ASKED}"),
    # Few rows are in these two; the lists of states are spelled as the queries spell them, or they would not be used.
    _index("open", f"started_at, id) INCLUDE (principal, agent, {_ASKED}", "status IN ('pending', 'running')"),
    _index(
        "failed",
        f"started_at, id) INCLUDE (principal, agent, {_ASKED}",
        "status NOT IN ('ok', 'pending', 'running', 'simulated')",
    ),
    _index("by_parent", "parent, started_at, id", "parent IS NOT NULL"),
    # What is found by text waits in a short list until it is sorted in: a longer one would cost every search more.
    _BY_WORD,
    """
    CREATE TABLE transcript (
        execution text COLLATE "C" PRIMARY KEY REFERENCES execution ON DELETE CASCADE, size_bytes bigint NOT NULL,
        deflated bytea NOT NULL
    )
    """,
    "ALTER TABLE transcript ALTER deflated SET STORAGE EXTERNAL",
)

_REST = (
    # How much all executions and all spans take, so that nobody has to add it up.
    "CREATE TABLE stored (part text PRIMARY KEY, size_bytes bigint NOT NULL) WITH (fillfactor = 50)",
    "INSERT INTO stored VALUES ('execution', 0), ('span', 0)",
    """
    CREATE TABLE span (
        start_ns bigint NOT NULL, end_ns bigint NOT NULL, trace_id text COLLATE "C" NOT NULL,
        span_id text COLLATE "C" NOT NULL, parent_id text COLLATE "C", execution text COLLATE "C",
        name text COLLATE "C" NOT NULL, kind text COLLATE "C" NOT NULL, status text COLLATE "C" NOT NULL,
        attributes bytea, end_attributes bytea, PRIMARY KEY (trace_id, span_id)
    )
    """,
    "CREATE INDEX span_by_execution ON span (execution, start_ns, span_id) WHERE execution IS NOT NULL",
    """
    CREATE TABLE catalog_tool (
        server bytea NOT NULL, fingerprint bytea NOT NULL, id bytea NOT NULL, definition bytea NOT NULL,
        tokens bigint NOT NULL, digest text NOT NULL, meta boolean NOT NULL
    )
    """,
    "CREATE INDEX catalog_tool_by_server ON catalog_tool (server)",
    """
    CREATE TABLE server_status (
        name bytea PRIMARY KEY, state text NOT NULL, reason bytea NOT NULL, tools bigint NOT NULL,
        restarts bigint NOT NULL, description bytea NOT NULL
    )
    """,
    # Names are kept whole and looked up by a digest: they may be longer than an entry of an index.
    """
    CREATE TABLE secret (
        place bytea PRIMARY KEY, owner bytea NOT NULL, name bytea NOT NULL, value bytea NOT NULL
    )
    """,
    """
    CREATE TABLE document (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, version bigint NOT NULL, created_at bigint NOT NULL,
        changed_at bigint NOT NULL, expires_at bigint, collection bytea NOT NULL, key bytea NOT NULL,
        marks bytea NOT NULL, value bytea NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0.05)
    """,
    "CREATE UNIQUE INDEX document_by_key ON document (collection, key)",
    # Covers counts and the places of a page; only what is given out is read from the rows, which carry JSON.
    """
    CREATE INDEX document_by_change ON document (collection, changed_at DESC, key) INCLUDE (id, expires_at)
    """,
    "CREATE INDEX document_expiring ON document (expires_at) WHERE expires_at IS NOT NULL",
    # A mark is the digest of collection, name and text. Has the order of a page as well.
    """
    CREATE TABLE document_mark (
        document bigint NOT NULL REFERENCES document ON DELETE CASCADE, changed_at bigint NOT NULL, expires_at bigint,
        mark bytea NOT NULL, key bytea NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0.05)
    """,
    """
    CREATE INDEX document_mark_by_change ON document_mark (mark, changed_at DESC, key)
        INCLUDE (document, expires_at)
    """,
    "CREATE INDEX document_mark_by_document ON document_mark (document, mark)",
)
_ADDED = (
    """
    CREATE INDEX IF NOT EXISTS execution_by_server ON execution (split_part(target, ':', 1), started_at, id)
        INCLUDE (target, principal) WHERE kind = 'tool'
    """,
    # They are written in the order of time, so the range of times of each piece of the table says enough.
    "CREATE INDEX IF NOT EXISTS span_by_time ON span USING brin (start_ns) WITH (autosummarize = on)",
    totals.create('text COLLATE "C"', "boolean"),
)
_REPLACED = (
    "DROP FUNCTION IF EXISTS execution_insert(), execution_update(), execution_delete(), last_hour_over() CASCADE",
    "DROP FUNCTION IF EXISTS span_insert(), span_delete() CASCADE",
    "DROP TABLE IF EXISTS execution_sum, summed",
    "DROP INDEX IF EXISTS execution_by_own_agent",
    # A gateway of an earlier version, still running, finds it gone: what it would still record waits, and it says why.
    "ALTER TABLE execution_transcript RENAME TO transcript",
)
_MARKS = f"""
    ARRAY[{MARK}] || CASE WHEN as_agent
        THEN ARRAY[left(encode(sha256(convert_to('a:' || agent, 'UTF8')), 'hex'), {MARK_CHARACTERS})] END
"""
_WORDS_BY_OWNER = (
    # Each word behind the mark of whose it is, as `texts.words_of` writes them; marks stood beside them before.
    "DROP INDEX execution_by_word",
    f"""
    UPDATE execution SET words = array_to_tsvector(ARRAY(
        SELECT left(word, 4) || mark || substr(word, 5)
        FROM unnest(tsvector_to_array(words)) AS word CROSS JOIN unnest({_MARKS}) AS mark
        WHERE substr(word, 5, 1) <> '_'
    )) WHERE words IS NOT NULL
    """,
    _BY_WORD,
)


def bring_up(connection: Connection[Any], schema: str, version: int) -> None:
    """Make what version :data:`BASE` has in ``schema``, quoted, which is empty or of an earlier version."""
    statements: tuple[str, ...] = _REPLACED if version else (*_EXECUTIONS, *_REST)
    if 0 < version < MARKS:
        statements += _WORDS_BY_OWNER
    for statement in (*statements, *_ADDED, totals.add(ALL).sql):
        connection.execute(statement)
    for table, size in (("execution", "size_bytes"), ("span", SPAN_BYTES)):
        for event, rows, sign in (("INSERT", "NEW", "+"), ("DELETE", "OLD", "-")):
            _keep_size(connection, schema, table, f"{sign} (SELECT coalesce(sum({size}), 0) FROM these)", event, rows)


def _keep_size(connection: Connection[Any], schema: str, table: str, change: str, event: str, rows: str) -> None:
    """Have the server keep how much all rows of a table take, whoever writes or deletes some; nobody updates any."""
    name = f"{schema}.{table}_{event.lower()}"
    connection.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"UPDATE {schema}.stored SET size_bytes = size_bytes {change} WHERE part = '{table}'; RETURN NULL; END $$"
    )
    connection.execute(
        f"CREATE TRIGGER {table}_{event.lower()} AFTER {event} ON {schema}.{table} "
        f"REFERENCING {rows} TABLE AS these FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
    )
