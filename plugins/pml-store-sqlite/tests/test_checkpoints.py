from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from pml_hookspecs import ExecutionQuery, Scope
from pml_store_sqlite import Settings, SqliteStore, database
from pml_testing.records import execution

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _small_and_often(monkeypatch):
    monkeypatch.setattr(database, "LOG_PAGES", 64)


def log_of(path):
    return path.with_name(f"{path.name}-wal")


async def keep_writing(store, seconds, n=0):
    """Without a pause, so that the log is never moved as a whole by itself; how many there are. ``n`` are there."""
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        for _ in range(20):
            store.executions.record(execution(n))
            n += 1
        await store.executions.put(execution(n))
        n += 1
    return n


async def test_the_log_begins_anew_though_there_is_no_pause_between_writes(path):
    async with SqliteStore(Settings(path=str(path))) as store:
        written = 0
        # A row writes about a page, and the file does not get shorter: it is used again, or is never small enough. A
        # disk that is busy with others may take a second to move it.
        async with asyncio.timeout(60):
            while not written or log_of(path).stat().st_size > 1000 * written:
                written = await keep_writing(store, 1.0, written)


async def test_what_is_moved_while_rows_are_written_is_all_there(path):
    async with SqliteStore(Settings(path=str(path))) as store:
        written = await keep_writing(store, 1.0)
        page = await store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=1))
        assert page.total == written
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM execution").fetchone() == (written,)


async def test_who_reads_for_long_holds_neither_the_writer_nor_the_end_up(path):
    async with SqliteStore(Settings(path=str(path))) as store:
        await store.executions.put(execution(0))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM execution").fetchone() == (1,)
            written = 1
            async with asyncio.timeout(120):
                while written <= 100:
                    written = await keep_writing(store, 0.1, written)
            assert reader.execute("SELECT count(*) FROM execution").fetchone() == (1,)
