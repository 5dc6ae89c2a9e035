"""A server and a schema for all tests, emptied for each."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pml_store_postgres import PostgresStore, Settings
from pml_testing.postgres import HOW, Cluster, _account, _as, cluster, postgres, programs

__all__ = ["postgres"]

SCHEMA = 'test "größe" %s'
"""A name that has to be quoted."""
QUOTED = '"test ""größe"" %s"'
EMPTY = f"""DO $$ DECLARE kept text; BEGIN
FOR kept IN SELECT tablename FROM pg_tables
WHERE schemaname = '{SCHEMA}' AND tablename NOT IN ('pml_store', 'stored', 'summed') LOOP
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
