from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from pml_hookspecs import ExecutionQuery, Scope
from pml_store_sqlite import Settings, SqliteStore, checkpoints, database
from pml_store_sqlite.checkpoints import Checkpoints
from pml_store_sqlite.database import Database
from pml_testing.records import execution

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _small_and_often(monkeypatch):
    monkeypatch.setattr(database, "WAL_LONG_BYTES", 0)
    monkeypatch.setattr(checkpoints, "LONG_PAGES", 64)
    monkeypatch.setattr(checkpoints, "BETWEEN_S", 0.02)


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


async def test_the_log_begins_anew_though_there_is_no_pause_between_writes(path, monkeypatch):
    # However slow the disk.
    monkeypatch.setattr(checkpoints, "QUICK_S", 10.0)
    monkeypatch.setattr(checkpoints, "PAUSE_S", 10.0)
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


@pytest.mark.parametrize(
    ("took_s", "waited_for"),
    [
        ([0.05, 0.02, 0.0, 0.0], [False, False, False, True]),
        ([0.05, 0.0, 0.0], [False, False, True]),
        ([0.02] * 5, [False] * 5),
    ],
    ids=["catches up", "at once", "a slow disk"],
)
def test_the_writer_waits_for_the_last_pages_only_and_for_no_slow_disk(path, monkeypatch, took_s, waited_for):
    where = Database(Settings(path=str(path)), None)
    with closing(where.open_writer()) as connection:
        connection.execute("CREATE TABLE anything (a)")
        moving, waited, rest = Checkpoints(where), [], iter(took_s)

        def moved(connection):
            waited.append(moving._quiet.locked())
            time.sleep(next(rest))
            return 10_000

        monkeypatch.setattr(checkpoints, "_moved", moved)
        moving._move()
    assert waited == waited_for


async def test_the_writer_goes_on_while_a_disk_takes_long_over_the_last_pages(path, monkeypatch):
    async with SqliteStore(Settings(path=str(path))) as store:
        calls, asleep = [], threading.Event()

        def moved(connection):
            calls.append(connection)
            # The first two went quickly, so for this one the writer waits.
            if len(calls) == 3:
                asleep.set()
                time.sleep(1.0)
            return 10_000

        monkeypatch.setattr(checkpoints, "_moved", moved)
        await store.executions.put(execution(0))
        while not asleep.is_set():
            await store.executions.put(execution(1))
        began = time.monotonic()
        await store.executions.put(execution(2))
        assert time.monotonic() - began < 0.5


def test_an_end_that_comes_just_before_moving_begins_is_not_overheard(path):
    moving = Checkpoints(Database(Settings(path=str(path)), None))
    clear = moving._written.clear

    def end_and_clear():
        moving._closing.set()
        moving._written.set()
        clear()

    moving._written.clear = end_and_clear
    moving.start()
    moving.written()
    moving._thread.join(10)
    assert not moving._thread.is_alive()


async def test_the_log_of_one_that_was_killed_is_moved_before_anything_is_written(path):
    where = Database(Settings(path=str(path)), None)
    with closing(where.open_writer()) as killed:
        killed.execute("CREATE TABLE anything (a)")
        killed.executemany("INSERT INTO anything VALUES (?)", [("x" * 5000,)] * 50)
        with closing(where.open_writer()) as next_one:
            next_one.execute("INSERT INTO anything VALUES (1)")
            _, pages, _ = next_one.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            # The log began anew.
            assert 0 < pages < 10


async def test_who_reads_for_long_holds_neither_the_writer_nor_the_end_up(path):
    async with SqliteStore(Settings(path=str(path))) as store:
        await store.executions.put(execution(0))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM execution").fetchone() == (1,)
            async with asyncio.timeout(10):
                assert await keep_writing(store, 0.5) > 100
            assert reader.execute("SELECT count(*) FROM execution").fetchone() == (1,)
