"""A batch stands still while somebody reads, and never when somebody waits for it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from pml_hookspecs import ExecutionQuery, Scope
from pml_store_sqlite import Settings, SqliteStore
from pml_stores import writer
from pml_testing.records import execution

pytestmark = pytest.mark.anyio
EVERYONE = ExecutionQuery(scope=Scope(principals=None), limit=1)
ROWS = 200


@pytest.fixture
async def store(path, monkeypatch):
    """Its patience is ten seconds, so that what is seen below is not over by itself."""
    monkeypatch.setattr(writer, "IN_MEMORY_S", 25.0)
    async with SqliteStore(Settings(path=str(path))) as opened:
        await opened.executions.put(execution(0))
        yield opened


def rows_in(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM execution").fetchone()[0]


def record(store):
    for n in range(1, ROWS):
        store.executions.record(execution(n))


async def written(path):
    async with asyncio.timeout(9):
        while rows_in(path) < ROWS:  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.005)


async def stands_still(store, path):
    """The batch was begun and is not over."""
    await asyncio.sleep(0.3)
    assert store._writer.queued == 0
    assert rows_in(path) == 1


async def test_a_batch_goes_on_when_nobody_reads_any_more(store, path):
    with store._readers._giving_way.reading():
        record(store)
        await stands_still(store, path)
    await written(path)


async def test_others_can_read_all_of_it_meanwhile(store, path):
    with store._readers._giving_way.reading():
        record(store)
        await stands_still(store, path)
        assert (await store.executions.find(EVERYONE)).total == ROWS
        assert rows_in(path) == 1
    await written(path)


async def test_who_wants_something_durable_does_not_wait_for_who_reads(store, path):
    with store._readers._giving_way.reading():
        record(store)
        await stands_still(store, path)
        async with asyncio.timeout(5):
            await store.executions.put(execution(0, intent="again"))
        assert rows_in(path) == ROWS


async def test_another_process_that_writes_does_not_wait_for_who_reads_here(store, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with store._readers._giving_way.reading():
            record(store)
            await asyncio.sleep(0.3)
            other.execute("ROLLBACK")
            await written(path)


async def test_closing_does_not_wait_for_who_reads(store, path):
    with store._readers._giving_way.reading():
        record(store)
        await stands_still(store, path)
        async with asyncio.timeout(5):
            await store._writer.stop()
    assert rows_in(path) == ROWS
