"""Spans of nothing that is recorded, such as of tools that only look at history, go as executions do."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from pml_hookspecs import replace
from pml_store_sqlite import Settings, SqliteStore
from pml_store_sqlite.execution_rows import ExecutionRows
from pml_stores.sql import pruning
from pml_testing.records import EVERYONE, ended, execution

pytestmark = pytest.mark.anyio
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def span(n, at, execution_id=None, **attributes):
    """The ``n``-th span, which began at a time."""
    made = ended(n, execution_id, start_ns=(at - EPOCH) // timedelta(microseconds=1) * 1000)
    return replace(made, attributes=attributes)


def left(path):
    with closing(sqlite3.connect(path)) as connection:
        return [int(one, 16) for (one,) in connection.execute("SELECT span_id FROM span ORDER BY span_id")]


@pytest.fixture(params=[2000, 3])
def _steps(request, monkeypatch):
    monkeypatch.setattr(pruning, "SPANS", request.param)


@pytest.mark.usefixtures("_steps")
async def test_they_go_by_age_and_nothing_else_does(path):
    before = execution(0).started_at + timedelta(hours=1)
    old, young = before - timedelta(minutes=1), before + timedelta(minutes=1)
    running = execution(1, status="running", duration_ms=None, started_at=old)
    recorded = execution(2, started_at=young)
    async with SqliteStore(Settings(path=str(path))) as store:
        for one in (running, recorded):
            await store.executions.put(one)
        spans = [span(n, old) for n in range(10)]
        spans += [span(10, old, "of nothing that is recorded"), span(11, old, running.id), span(12, old, recorded.id)]
        await store.traces.append([*spans, *(span(n, young) for n in range(13, 20))])
        assert await store.executions.prune(before=before) == 0
        assert left(path) == [*range(11, 20)]
        assert len(await store.traces.of(running.id, EVERYONE)) == 1


async def test_a_store_that_has_nothing_but_them_gets_small_enough(path):
    now = datetime.now(UTC)
    async with SqliteStore(Settings(path=str(path))) as store:
        spans = [span(n, now - timedelta(hours=2), text="x" * 500) for n in range(5000)]
        await store.traces.append([*spans, span(5000, now, text="x")])
        assert await store.executions.prune(keep_bytes=0) == 0
        assert left(path) == [5000]


async def test_they_go_with_executions_of_their_age_where_a_size_is_to_be_reached(path):
    first = datetime.now(UTC) - timedelta(days=10)
    async with SqliteStore(Settings(path=str(path))) as store:
        for n in range(200):
            at = first + timedelta(hours=n)
            await store.executions.put(
                execution(n, started_at=at, response={"text": random.Random(n).randbytes(2000).hex()})
            )
            await store.traces.append([span(n, at, text="y" * 500)])
        with closing(sqlite3.connect(path)) as connection:
            size = ExecutionRows().used_bytes(connection)
        gone = await store.executions.prune(keep_bytes=size // 2)
        assert 0 < gone < 200
        assert left(path) == [*range(gone, 200)]


async def test_a_step_that_is_undone_is_done_again(path):
    async with SqliteStore(Settings(path=str(path))) as store:
        await store.traces.append([span(1, datetime(2026, 1, 1, tzinfo=UTC))])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        step, done = pruning.Pruning(ExecutionRows(), before=int(time.time() * 1_000_000)), False
        connection.execute("BEGIN")
        step.step(connection)
        connection.execute("ROLLBACK")
        while not done:
            connection.execute("BEGIN")
            _, done = step.step(connection)
            connection.execute("COMMIT")
    assert left(path) == []
