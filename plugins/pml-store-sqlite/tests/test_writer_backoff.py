"""A batch stands still while somebody reads, and never when somebody waits for it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from pml_hookspecs import ExecutionQuery, Scope
from pml_store_sqlite import Settings, SqliteStore, session
from pml_stores import writer
from pml_testing.records import execution

pytestmark = pytest.mark.anyio
EVERYONE = ExecutionQuery(scope=Scope(principals=None), limit=1)
ROWS = 200
LONGEST_S = 9.0


@pytest.fixture
async def store(path, monkeypatch):
    """Its patience is half a minute, so that what is seen below is not over by itself, nor by a slow machine."""
    monkeypatch.setattr(writer, "IN_MEMORY_S", 100.0)
    monkeypatch.setattr(session, "LOCKED_S", 0.15)
    async with SqliteStore(Settings(path=str(path), flush_interval_ms=90)) as opened:
        assert opened._writer._patience_s > 2 * LONGEST_S
        await opened.executions.put(execution(0))
        yield opened


def rows_in(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM execution").fetchone()[0]


def record(store):
    for n in range(1, ROWS):
        store.executions.record(execution(n))


async def written(path):
    async with asyncio.timeout(LONGEST_S):
        while rows_in(path) < ROWS:  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.005)


async def stands_still(store, path):
    """The batch was begun and is not over."""
    async with asyncio.timeout(LONGEST_S):
        while store._writer.queued:  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.3)
    assert rows_in(path) == 1


async def test_a_batch_goes_on_when_nobody_reads_any_more(store, path):
    with store._readers._writer_backoff.reading():
        record(store)
        await stands_still(store, path)
    await written(path)


async def test_others_can_read_all_of_it_meanwhile(store, path):
    with store._readers._writer_backoff.reading():
        record(store)
        await stands_still(store, path)
        assert (await store.executions.find(EVERYONE)).total == ROWS
        assert rows_in(path) == 1
    await written(path)


@pytest.mark.parametrize(
    "urgent",
    [lambda store: store.executions.put(execution(0, intent="again")), lambda store: store._writer.stop()],
    ids=["putting", "closing"],
)
async def test_who_waits_for_a_batch_does_not_wait_for_who_reads(store, path, urgent):
    with store._readers._writer_backoff.reading():
        record(store)
        await stands_still(store, path)
        async with asyncio.timeout(LONGEST_S):
            await urgent(store)
        assert rows_in(path) == ROWS


async def test_another_process_that_writes_does_not_wait_for_who_reads_here(store, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with store._readers._writer_backoff.reading():
            record(store)
            await asyncio.sleep(0.3)
            other.execute("ROLLBACK")
            await written(path)
