from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from pml_hookspecs import ExecutionQuery, Scope
from pml_store_sqlite import Settings, SqliteStore, StoreError
from pml_stores.sql import writer
from pml_testing.records import ended, execution

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)


def at(path, services=None, **more):
    return SqliteStore(Settings(path=str(path), **more), services)


def rows_in(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM execution").fetchone()[0]


async def until(condition, timeout_s=10.0):
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a thread, a file or another process
            await asyncio.sleep(0.005)


def lines(services, level):
    return [(event, fields) for at_level, event, fields in services.log.lines if at_level == level]


class Locked:
    """Another program that is in the middle of writing."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, isolation_level=None)

    def __enter__(self):
        self.connection.execute("BEGIN IMMEDIATE")
        return self

    def release(self):
        self.connection.rollback()

    def __exit__(self, *exc):
        self.connection.close()


async def test_calls_go_on_while_the_file_is_locked_and_the_rows_are_written_afterwards(path, services):
    async with at(path, services, busy_timeout_ms=10) as store:
        await store.executions.put(execution(0))
        with Locked(path) as other:
            for n in range(1, 1000):
                store.executions.record(execution(n))
            with pytest.raises(
                StoreError, match=r"pml.db cannot be written just now \(database is locked\); make room"
            ):
                await store.executions.put(execution(5000))
            with pytest.raises(StoreError, match="cannot be written"):
                await store.traces.append([ended(1)])
            assert (await store.health())["trouble"] == "database is locked"
            assert 999 <= (await store.health())["queued"] <= 999 + 2
            # Lists have what is in the file, an id is looked for in what waits as well.
            assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 1
            assert await store.executions.get(execution(999).id, EVERYONE) == execution(999)
            other.release()
            await until(lambda: rows_in(path) == 1000)
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 1000
        assert (await store.health())["trouble"] is None
        assert (await store.health())["drops"] == 0
    assert [event for event, _ in lines(services, "error")] == ["store cannot write"]
    assert [event for event, _ in lines(services, "info")] == ["store can write again"]


async def test_order_is_kept_over_a_time_when_the_file_could_not_be_written(path):
    async with at(path, busy_timeout_ms=10) as store:
        await store.executions.put(execution(0))
        with Locked(path) as other:
            for n in range(700):
                store.executions.record(execution(n, status="pending"))
            await until(lambda: store._writer.trouble)
            for n in range(700):
                store.executions.record(execution(n, intent="final"))
            other.release()
            await until(lambda: not store._writer.trouble)
        page = await store.executions.find(ExecutionQuery(scope=EVERYONE, statuses=frozenset({"ok"}), limit=1))
        assert (page.total, page.items[0].intent) == (700, "final")


async def test_the_queue_stays_bounded_while_the_file_cannot_be_written(path):
    async with at(path, busy_timeout_ms=1, queue_rows=1000) as store:
        await store.executions.put(execution(0))
        with Locked(path):
            for n in range(5000):
                store.executions.record(execution(n))
                if n % 500 == 0:
                    await asyncio.sleep(0)
            health = await store.health()
            assert health["queued"] <= 1000 + writer.BATCH
            assert health["drops"] >= 5000 - 1000 - writer.BATCH


async def test_waiting_for_a_file_that_cannot_be_written_leaves_nothing_behind(path):
    async with at(path, busy_timeout_ms=1) as store:
        await store.executions.put(execution(0))
        with Locked(path) as other:
            for n in range(600):
                store.executions.record(execution(n))
            await until(lambda: store._writer.trouble)
            for n in range(1000):
                with pytest.raises(StoreError):
                    await store.traces.append([ended(n)])
                await store.executions.get(execution(n).id, EVERYONE)
            assert (await store.health())["queued"] == 600
            other.release()
            await until(lambda: not store._writer.trouble)
        await store.traces.append([ended(1)])


async def test_a_refused_write_does_not_pass_for_a_recovery(path, services):
    async with at(path, services, busy_timeout_ms=1) as store:
        await store.executions.put(execution(0))
        with Locked(path):
            for _ in range(3):
                with pytest.raises(StoreError):
                    await store.executions.put(execution(1))
                assert await store.executions.get(execution(1).id, EVERYONE) is None
                assert (await store.health())["trouble"]
        await store.executions.put(execution(1))
    assert [event for _, event, _ in services.log.lines] == ["store cannot write", "store can write again"]


async def test_closing_on_a_locked_file_ends_and_says_how_much_is_lost(path, services):
    store = at(path, services, busy_timeout_ms=10)
    async with store:
        await store.executions.put(execution(0))
        with Locked(path):
            for n in range(1, 31):
                store.executions.record(execution(n))
            await until(lambda: store._writer.trouble)
            attempts, transaction = [], store._writer._session.transaction
            store._writer._session.transaction = lambda *work: attempts.append(None) or transaction(*work)
            async with asyncio.timeout(5):
                await store.__aexit__(None, None, None)
            assert len(attempts) == 1
    assert ("store closed with rows it could not write", {"path": str(path), "rows": 30}) in lines(services, "error")
    assert (await store.health())["unwritable"] == 30


FULL_DISK = """
import asyncio, resource, sys
from pml_hookspecs import RawObject, Scope, ExecutionQuery
from pml_store_sqlite import Settings, SqliteStore, StoreError
from pml_testing.fakes import FakeServices
from pml_testing.records import execution

BODY = RawObject(b'{"text":"' + b"x" * 3000 + b'"}')

async def main():
    services = FakeServices()
    async with SqliteStore(Settings(path=sys.argv[1]), services) as store:
        await store.executions.put(execution(0))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        for n in range(1, 1000):
            store.executions.record(execution(n, response=BODY))
        try:
            await store.executions.put(execution(5000, response=BODY))
        except StoreError as exc:
            print(exc)
        assert (await store.health())["trouble"], await store.health()
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        async with asyncio.timeout(10):
            while (await store.health())["queued"]:
                await asyncio.sleep(0.01)
        print((await store.executions.find(ExecutionQuery(scope=Scope(principals=None)))).total)
    print([event for _, event, _ in services.log.lines])

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
def test_rows_recorded_on_a_full_disk_are_written_when_there_is_room_again(path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, timeout=30, check=False
    )
    refusal, total, said = done.stdout.splitlines() or [done.stderr, "", ""]
    assert "cannot be written" in refusal, done.stderr
    assert total == "1000", done.stderr
    assert said == "['store cannot write', 'store can write again']"
