"""Databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from durable_kit import Gateway

from pml_executor_dbos import Settings
from pml_executor_dbos.ledger import Ledger
from pml_testing.postgres import Cluster, postgres

__all__ = ["postgres"]


EMPTY = """DO $$ DECLARE kept text; BEGIN
FOR kept IN SELECT unnest(ARRAY['workflow_status', 'operation_outputs', 'workflow_input', 'workflow_output']) LOOP
IF to_regclass('dbos.' || kept) IS NOT NULL THEN EXECUTE 'TRUNCATE dbos.' || kept || ' CASCADE'; END IF;
END LOOP; END $$"""


@pytest.fixture(scope="session")
def shared(postgres: Cluster) -> str:
    """One database: making one for each test, with the tables of DBOS, takes longer than the tests."""
    return postgres.database()


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Both databases, empty."""
    if request.param == "sqlite":
        return Settings(database=str(tmp_path / "durable.db"), heartbeat_s=0.05)
    import psycopg

    url = request.getfixturevalue("shared")
    with psycopg.connect(url) as connection:
        connection.execute(EMPTY)
    return Settings(database=url, heartbeat_s=0.05)


@pytest.fixture
def sqlite(tmp_path: Path) -> Settings:
    """SQLite alone, where the database does not matter."""
    return Settings(database=str(tmp_path / "durable.db"), heartbeat_s=0.05)


@pytest.fixture
async def ledger(settings: Settings) -> AsyncIterator[Ledger]:
    made = Ledger(settings)
    yield made
    await made.close()


@pytest.fixture
async def gateway(settings: Settings) -> AsyncIterator[Gateway]:
    made = Gateway(settings)
    yield made
    await made.executor.close()
