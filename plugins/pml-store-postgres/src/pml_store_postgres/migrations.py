"""The schema, as the numbered steps that lead to it. Steps are only ever added.

Times are microseconds since 1970 UTC, costs are millionths of a dollar, JSON is kept as the bytes it came in. Texts of
executions sort by code point (``COLLATE "C"``). ``{schema}`` is the quoted name of the schema.
"""

from __future__ import annotations

from .texts import MARK, MARK_CHARACTERS
from .triggers import ADDED_UP, BY_THE_HOUR

_BY_WORD = """
    CREATE INDEX execution_by_word ON {schema}.execution USING gin (words)
        WITH (fastupdate = on, gin_pending_list_limit = 512) WHERE NOT nested
"""
_EXECUTIONS = (
    """
    CREATE TABLE {schema}.execution (
        started_at bigint NOT NULL,
        duration_ms bigint,
        cost_micros bigint,
        tokens_in bigint,
        tokens_out bigint,
        context_used bigint,
        context_max bigint,
        size_bytes bigint NOT NULL,
        deflated smallint NOT NULL,
        nested boolean NOT NULL,
        dry_run boolean NOT NULL,
        as_agent boolean NOT NULL,
        id text COLLATE "C" PRIMARY KEY,
        parent text COLLATE "C",
        kind text COLLATE "C" NOT NULL,
        target text COLLATE "C" NOT NULL,
        principal text COLLATE "C" NOT NULL,
        agent text COLLATE "C" NOT NULL,
        triggered_by text COLLATE "C" NOT NULL,
        status text COLLATE "C" NOT NULL,
        access_key text COLLATE "C" NOT NULL,
        schedule text COLLATE "C" NOT NULL,
        endpoint text COLLATE "C" NOT NULL,
        mode text COLLATE "C" NOT NULL,
        intent text COLLATE "C" NOT NULL,
        request bytea,
        response bytea,
        failure bytea,
        tool_calls bytea,
        words tsvector
    ) WITH (
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
        autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02
    )
    """,
    # JSON is deflated by the writer where that pays; the server need not try it again.
    """
    ALTER TABLE {schema}.execution ALTER request SET STORAGE EXTERNAL, ALTER response SET STORAGE EXTERNAL,
        ALTER failure SET STORAGE EXTERNAL, ALTER tool_calls SET STORAGE EXTERNAL, ALTER words SET STORAGE EXTERNAL
    """,
    # Covers counts and sums over a span of time. Ascending, so that new rows come at the right edge, where pages fill.
    """
    CREATE INDEX execution_by_time ON {schema}.execution (started_at, id) INCLUDE (
        principal, agent, status, nested, dry_run, as_agent, triggered_by, kind, target, access_key,
        cost_micros, tokens_in, tokens_out, duration_ms
    )
    """,
    """
    CREATE INDEX execution_by_agent ON {schema}.execution (agent, started_at, id)
        INCLUDE (principal, status, nested, dry_run, as_agent, triggered_by)
    """,
    """
    CREATE INDEX execution_by_principal ON {schema}.execution (principal, started_at, id)
        INCLUDE (agent, status, nested, dry_run, as_agent, triggered_by)
    """,
    # Few rows are in these two; the lists of states are spelled as the queries spell them, or they would not be used.
    """
    CREATE INDEX execution_open ON {schema}.execution (started_at, id)
        INCLUDE (principal, agent, status, nested, dry_run, as_agent, triggered_by)
        WHERE status IN ('pending', 'running')
    """,
    """
    CREATE INDEX execution_failed ON {schema}.execution (started_at, id)
        INCLUDE (principal, agent, status, nested, dry_run, as_agent, triggered_by)
        WHERE status NOT IN ('ok', 'pending', 'running', 'simulated')
    """,
    "CREATE INDEX execution_by_parent ON {schema}.execution (parent, started_at, id) WHERE parent IS NOT NULL",
    # What is found by text waits in a short list until it is sorted in: a longer one would cost every search more.
    _BY_WORD,
    """
    CREATE TABLE {schema}.execution_transcript (
        execution text COLLATE "C" PRIMARY KEY REFERENCES {schema}.execution ON DELETE CASCADE,
        size_bytes bigint NOT NULL,
        deflated bytea NOT NULL
    )
    """,
    "ALTER TABLE {schema}.execution_transcript ALTER deflated SET STORAGE EXTERNAL",
    # What the executions of each hour and each day add up to, see `sums`.
    """
    CREATE TABLE {schema}.execution_sum (
        bucket bigint NOT NULL,
        succeeded bigint NOT NULL,
        failed bigint NOT NULL,
        running bigint NOT NULL,
        cost_micros bigint NOT NULL,
        tokens_in bigint NOT NULL,
        tokens_out bigint NOT NULL,
        duration_ms bigint NOT NULL,
        timed bigint NOT NULL,
        facet smallint NOT NULL,
        grain smallint NOT NULL,
        everyone boolean NOT NULL,
        nested boolean NOT NULL,
        dry_run boolean NOT NULL,
        as_agent boolean NOT NULL,
        principal text COLLATE "C" NOT NULL,
        value text COLLATE "C" NOT NULL,
        PRIMARY KEY (facet, everyone, principal, grain, bucket, value, nested, dry_run, as_agent)
    ) PARTITION BY LIST (grain)
    """,
    # Apart, so that the few of days lie side by side.
    """
    CREATE TABLE {schema}.execution_sum_day PARTITION OF {schema}.execution_sum FOR VALUES IN (24)
        WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05)
    """,
    """
    CREATE TABLE {schema}.execution_sum_hour PARTITION OF {schema}.execution_sum FOR VALUES IN (1)
        WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05)
    """,
)

_REST = (
    # How much all executions and all spans take, so that nobody has to add it up.
    "CREATE TABLE {schema}.stored (part text PRIMARY KEY, size_bytes bigint NOT NULL) WITH (fillfactor = 50)",
    "INSERT INTO {schema}.stored VALUES ('execution', 0), ('span', 0)",
    """
    CREATE TABLE {schema}.span (
        start_ns bigint NOT NULL,
        end_ns bigint NOT NULL,
        trace_id text COLLATE "C" NOT NULL,
        span_id text COLLATE "C" NOT NULL,
        parent_id text COLLATE "C",
        execution text COLLATE "C",
        name text COLLATE "C" NOT NULL,
        kind text COLLATE "C" NOT NULL,
        status text COLLATE "C" NOT NULL,
        attributes bytea,
        end_attributes bytea,
        PRIMARY KEY (trace_id, span_id)
    )
    """,
    "CREATE INDEX span_by_execution ON {schema}.span (execution, start_ns, span_id) WHERE execution IS NOT NULL",
    """
    CREATE TABLE {schema}.catalog_tool (
        server bytea NOT NULL,
        fingerprint bytea NOT NULL,
        id bytea NOT NULL,
        definition bytea NOT NULL,
        tokens bigint NOT NULL,
        digest text NOT NULL,
        meta boolean NOT NULL
    )
    """,
    "CREATE INDEX catalog_tool_by_server ON {schema}.catalog_tool (server)",
    """
    CREATE TABLE {schema}.server_status (
        name bytea PRIMARY KEY,
        state text NOT NULL,
        reason bytea NOT NULL,
        tools bigint NOT NULL,
        restarts bigint NOT NULL,
        description bytea NOT NULL
    )
    """,
    # Names are kept whole and looked up by a digest: they may be longer than an entry of an index.
    """
    CREATE TABLE {schema}.secret (
        place bytea PRIMARY KEY,
        owner bytea NOT NULL,
        name bytea NOT NULL,
        value bytea NOT NULL
    )
    """,
    """
    CREATE TABLE {schema}.document (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        version bigint NOT NULL,
        created_at bigint NOT NULL,
        changed_at bigint NOT NULL,
        expires_at bigint,
        collection bytea NOT NULL,
        key bytea NOT NULL,
        marks bytea NOT NULL,
        value bytea NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0.05)
    """,
    "CREATE UNIQUE INDEX document_by_key ON {schema}.document (collection, key)",
    # Covers counts and the places of a page; only what is given out is read from the rows, which carry JSON.
    """
    CREATE INDEX document_by_change ON {schema}.document (collection, changed_at DESC, key) INCLUDE (id, expires_at)
    """,
    "CREATE INDEX document_expiring ON {schema}.document (expires_at) WHERE expires_at IS NOT NULL",
    # A mark is the digest of collection, name and text. Has the order of a page as well.
    """
    CREATE TABLE {schema}.document_mark (
        document bigint NOT NULL REFERENCES {schema}.document ON DELETE CASCADE,
        changed_at bigint NOT NULL,
        expires_at bigint,
        mark bytea NOT NULL,
        key bytea NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0.05)
    """,
    """
    CREATE INDEX document_mark_by_change ON {schema}.document_mark (mark, changed_at DESC, key)
        INCLUDE (document, expires_at)
    """,
    "CREATE INDEX document_mark_by_document ON {schema}.document_mark (document, mark)",
)

_OLD_SPANS = (
    # They are written in the order of time, so the range of times of each piece of the table says enough.
    "CREATE INDEX span_by_time ON {schema}.span USING brin (start_ns) WITH (autosummarize = on)",
)

_LANES = (
    # What agents did themselves, which others than their principals may see: with those of the other index, somebody
    # who may see an agent that others use would have all of theirs gone through.
    """
    CREATE INDEX execution_by_own_agent ON {schema}.execution (agent, started_at, id)
        INCLUDE (principal, status, nested, dry_run, triggered_by) WHERE as_agent
    """,
    """
    CREATE INDEX execution_by_server ON {schema}.execution (split_part(target, ':', 1), started_at, id)
        INCLUDE (target, principal) WHERE kind = 'tool'
    """,
)

_MARKS = f"""
    ARRAY[{MARK}] || CASE WHEN as_agent
        THEN ARRAY[left(encode(sha256(convert_to('a:' || agent, 'UTF8')), 'hex'), {MARK_CHARACTERS})] END
"""
_WORDS_BY_OWNER = (
    # Each word behind the mark of whose it is, as `texts.words_of` writes them; marks stood beside them until now.
    "DROP INDEX {schema}.execution_by_word",
    "ALTER TABLE {schema}.execution DISABLE TRIGGER USER",
    f"""
    UPDATE {{schema}}.execution SET words = array_to_tsvector(ARRAY(
        SELECT left(word, 4) || mark || substr(word, 5)
        FROM unnest(tsvector_to_array(words)) AS word CROSS JOIN unnest({_MARKS}) AS mark
        WHERE substr(word, 5, 1) <> '_'
    )) WHERE words IS NOT NULL
    """,  # noqa: S608 - text of ours
    "ALTER TABLE {schema}.execution ENABLE TRIGGER USER",
    _BY_WORD,
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (*_EXECUTIONS, *_REST, *ADDED_UP),
    _OLD_SPANS,
    _LANES,
    BY_THE_HOUR,
    _WORDS_BY_OWNER,
)
"""Statements of each step; a schema of version ``n`` has had the first ``n``."""
