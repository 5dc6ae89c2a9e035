"""The database: whose file it is, and what goes on when it was away."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from durable_kit import Gateway, PlanRun, call, left, plan

from pml_executor_dbos import Settings
from pml_executor_dbos.ledger import Ledger
from pml_executor_dbos.workflow import StepWriter
from pml_hookspecs import Status
from pml_testing.postgres import Cluster

pytestmark = pytest.mark.anyio


async def test_a_lost_connection_to_postgresql_is_made_again(postgres: Cluster) -> None:
    settings = Settings(database=postgres.database())
    left(settings, "r")
    ledger = Ledger(settings)
    assert [run.id for run in await ledger.runs()] == ["r"]
    with psycopg.connect(settings.url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    assert [run.id for run in await ledger.runs()] == ["r"]
    await ledger.close()


async def test_the_file_is_the_users_own_and_quick(tmp_path: Path) -> None:
    file = tmp_path / "home" / "durable.db"
    left(Settings(database=str(file)), "r")
    assert file.stat().st_mode & 0o77 == 0
    assert file.parent.stat().st_mode & 0o77 == 0
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_database_that_is_away_is_waited_for(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan neither fails for that, nor goes on without being kept."""
    write, refused, away = StepWriter.write, [], [True]

    def writes(steps: StepWriter, row: dict[str, object]) -> None:
        if away[0]:
            refused.append(row)
            raise OSError("no space left on device")
        write(steps, row)

    monkeypatch.setattr(StepWriter, "write", writes)
    gateway = Gateway(settings)
    try:
        run = PlanRun("r")
        going = asyncio.ensure_future(gateway.executor.execute(plan(call("a")), run))
        async with asyncio.timeout(60):
            while len(refused) < 3:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        assert not going.done()
        away[0] = False
        async with asyncio.timeout(60):
            assert (await going).status is Status.OK
        assert [task.path for task in await gateway.executor.engine.ledger.tasks("r")] == ["a"]
    finally:
        await gateway.executor.close()
