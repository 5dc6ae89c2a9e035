"""A server and a schema for all tests, emptied for each."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from pml_store_postgres import PostgresStore, Settings
from pml_store_postgres.database import Database
from pml_stores.sql import housekeeping, totals
from pml_stores.sql.query_builder import ALL
from pml_stores.values import micros
from pml_testing.fakes import EPOCH
from pml_testing.postgres import HOW, Cluster, _account, _as, cluster, postgres, programs

__all__ = ["postgres"]

SCHEMA = 'test "größe" %s'
"""A name that has to be quoted."""
QUOTED = '"test ""größe"" %s"'
EMPTY = f"""DO $$ DECLARE kept text; BEGIN
FOR kept IN SELECT tablename FROM pg_tables
WHERE schemaname = '{SCHEMA}' AND tablename NOT IN ('pml_store', 'stored') LOOP
EXECUTE 'TRUNCATE {QUOTED}.' || kept || ' CASCADE'; END LOOP;
UPDATE {QUOTED}.stored SET size_bytes = 0; END $$"""


@pytest.fixture(scope="session")
def shared(postgres: Cluster) -> str:
    """The address of a database with one schema: making one for each test takes longer than the tests."""
    url = postgres.database()
    asyncio.run(_enter(Settings(url=url, schema=SCHEMA)))
    return url


async def _enter(settings: Settings) -> None:
    async with PostgresStore(settings):
        pass


@pytest.fixture
def emptied(shared: str) -> Settings:
    """An empty schema."""
    with psycopg.connect(shared, autocommit=True) as connection:
        connection.execute(EMPTY)
    return Settings(url=shared, schema=SCHEMA)


@pytest.fixture
def url(postgres: Cluster) -> str:
    """A database that nobody has used."""
    return postgres.database()


@pytest.fixture
def sql(emptied):
    """Runs SQL in the schema of the test, past the store."""
    with psycopg.connect(emptied.url, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {QUOTED}")
        yield lambda text, values=None: connection.execute(text, values)


class Server:
    """A server that a test may stop and start."""

    def __init__(self, running: Cluster) -> None:
        self._running = running
        with psycopg.connect(running.url) as connection:
            self.data = Path(connection.execute("SHOW data_directory").fetchone()[0])
        self._control = [str(programs() / "pg_ctl"), "-D", str(self.data), "-w", "-t", "60"]
        self._log = str(self.data.parent / "log")
        # What it was started with; the first word is the program.
        started = shlex.split((self.data / "postmaster.opts").read_text())[1:]
        self._options = " ".join(started[2:] if started[0] == "-D" else started)
        self.url = ""
        """Of a database that nobody has used."""

    def renew(self) -> None:
        self.start()
        self.url = self._running.database()

    def stop(self, mode: str = "fast") -> None:
        _as(_account(), [*self._control, "-m", mode, "stop"])

    def start(self) -> None:
        if not (self.data / "postmaster.pid").exists():
            _as(_account(), [*self._control, "-l", self._log, "-o", self._options, "start"])


@pytest.fixture(scope="session")
def stoppable() -> Iterator[Server]:
    if programs() is None:
        pytest.skip(HOW)
    with cluster() as running:
        made = Server(running)
        yield made
        # The cluster ends with stopping it.
        made.start()


@pytest.fixture
def server(stoppable: Server) -> Server:
    stoppable.renew()
    return stoppable


FILL = """
    INSERT INTO execution (started_at, duration_ms, cost_micros, size_bytes, deflated, nested, dry_run, as_agent, id,
        parent, kind, target, principal, agent, triggered_by, status, access_key, schedule, endpoint, mode, intent,
        request, response, words)
    SELECT %(first)s + n * %(step)s::int8, 5, 10, 1000, 0, n %% 3 > 0, false, n %% 2 = 0, to_char(n, 'FM00000000'),
        CASE WHEN n %% 3 > 0 THEN to_char(n - n %% 3, 'FM00000000') END, 'tool', 'files:read',
        'user' || n %% 40, 'agent' || n %% 50, 'mcp',
        CASE WHEN n %% 100 = 7 THEN 'running' WHEN n %% 31 = 0 THEN 'error' ELSE 'ok' END, '', '', '', '', '',
        convert_to('{"a": "' || repeat('x', 300) || '"}', 'UTF8'), NULL,
        CASE WHEN n %% 3 = 0 THEN array_to_tsvector((SELECT array_agg(
            to_hex((%(first)s + n * %(step)s::int8) / 86400000000) || mark || word) FROM unnest(ARRAY[
                'word' || n %% 999,
                'every',
                CASE WHEN n < %(rows)s / 2 THEN 'early' WHEN n >= %(rows)s - 900 THEN 'late' ELSE 'between' END
            ]) AS word, unnest(ARRAY[
                left(encode(sha256(convert_to('p:user' || n %% 40, 'UTF8')), 'hex'), 12),
                CASE WHEN n %% 2 = 0
                    THEN left(encode(sha256(convert_to('a:agent' || n %% 50, 'UTF8')), 'hex'), 12) END
            ]) AS mark WHERE mark IS NOT NULL)) END
    FROM generate_series(0, %(rows)s - 1) AS n
"""


@pytest.fixture(scope="module")
def fill(postgres: Cluster) -> Callable[[int, timedelta], Settings]:
    """Makes a history of so many executions, so far apart, the first at :data:`EPOCH`."""

    def make(rows: int, apart: timedelta) -> Settings:
        settings = Settings(url=postgres.database())
        with Database(settings).open_writer() as connection:
            values = {"first": micros(EPOCH), "rows": rows, "step": apart // timedelta(microseconds=1)}
            connection.execute(FILL, values)
            connection.execute(totals.add(ALL).sql)
            connection.execute("VACUUM ANALYZE")
        return settings

    return make


class Explained:
    """Keeps the plan of every statement that looks something up, as the server executed it."""

    def __init__(self, connection):
        self.connection, self.plans = connection, []
        connection.add_notice_handler(lambda said: self.plans.append(said.message_primary))
        connection.execute("LOAD 'auto_explain'")
        connection.execute("SET auto_explain.log_min_duration = 0; SET client_min_messages = log")
        self.plans.clear()

    def execute(self, sql, values=None, **_how):
        return self.connection.execute(sql, values, binary=True)


@pytest.fixture
def explained(filled):
    """A connection to what the ``filled`` of the module has."""
    connection = Database(filled).open_reader()
    yield Explained(connection)
    connection.close()


@pytest.fixture(autouse=True)
def _nothing_deleted_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is old: on a slow machine a test may last until it would be deleted."""
    monkeypatch.setattr(housekeeping, "FIRST_S", 3600.0)
