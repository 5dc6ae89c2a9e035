from __future__ import annotations

import asyncio
from contextlib import closing

import psycopg
import pytest

from pml_hookspecs import ExecutionQuery
from pml_store_postgres import PostgresStore, Settings, StoreError
from pml_store_postgres.database import ServerSession
from pml_stores.sql import writer
from pml_testing.records import EVERYONE, ended, execution

pytestmark = pytest.mark.anyio


async def until(condition, timeout_s=20.0):
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a thread or another process
            await asyncio.sleep(0.01)


def events(services, level=None):
    return [event for at_level, event, _ in services.log.lines if level in (None, at_level)]


class Locked:
    """Another gateway that is in the middle of writing."""

    def __init__(self, settings):
        self.lock = PostgresStore(settings)._database.lock
        self.connection = psycopg.connect(settings.url)

    def __enter__(self):
        self.connection.execute("SELECT pg_advisory_xact_lock(%s)", [self.lock])
        return self

    def release(self):
        self.connection.rollback()

    def __exit__(self, *exc):
        self.connection.close()


async def test_a_server_that_is_restarted_under_load_costs_no_row(server, services):
    async with PostgresStore(Settings(url=server.url), services) as store:
        n, failures = 0, 0
        await store.executions.put(execution(n))

        async def load():
            nonlocal n
            while True:
                n += 1
                store.executions.record(execution(n))
                await asyncio.sleep(0.0005)

        loading = asyncio.ensure_future(load())
        for mode in ("fast", "immediate"):
            seen = n
            await until(lambda seen=seen: n > seen + 300)
            await asyncio.to_thread(server.stop, mode)
            await until(lambda: store._writer.trouble)
            for _ in range(3):
                with pytest.raises(StoreError, match="cannot be") as refused:
                    await store.executions.put(execution(10**6))
                failures += 1
                with pytest.raises(StoreError, match="cannot be reached"):
                    await store.executions.get(execution(1).id, EVERYONE)
                assert "Traceback" not in str(refused.value)
            assert (await store.health())["trouble"]
            await asyncio.to_thread(server.start)
            await until(lambda: not store._writer.trouble)
        loading.cancel()
        page = await store.executions.find(ExecutionQuery(scope=EVERYONE, limit=1))
        assert (page.total, page.items[0].id) == (n + 1, execution(n).id)
        await store.executions.put(execution(n))
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE, limit=1))).total == n + 1
        health = await store.health()
        assert (health["drops"], health["unwritable"], health["queued"], health["trouble"]) == (0, 0, 0, None)
    assert failures == 6
    assert events(services) == ["store cannot write", "store can write again"] * 2


async def test_a_restart_between_two_calls_is_not_even_noticed(server, services):
    async with PostgresStore(Settings(url=server.url), services) as store:
        await store.executions.put(execution(1))
        assert await store.executions.get(execution(1).id, EVERYONE)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        await store.executions.put(execution(2))
        assert await store.executions.get(execution(2).id, EVERYONE)
    assert events(services) == []


async def test_the_queue_stays_bounded_while_the_server_is_down(server):
    async with PostgresStore(Settings(url=server.url, queue_rows=1000)) as store:
        await store.executions.put(execution(0))
        await asyncio.to_thread(server.stop)
        for n in range(1, 5001):
            store.executions.record(execution(n))
            if n % 500 == 0:
                await asyncio.sleep(0)
        health = await store.health()
        assert health["queued"] <= 1000 + writer.BATCH
        assert health["drops"] >= 5000 - 1000 - writer.BATCH
        await until(lambda: store._writer.trouble)
        await asyncio.to_thread(server.start)
        await until(lambda: not store._writer.queued)
        total = (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total
        assert total == 5001 - (await store.health())["drops"]


async def test_closing_while_the_server_is_down_ends_and_says_how_much_is_lost(server, services):
    store = PostgresStore(Settings(url=server.url), services)
    async with store:
        await store.executions.put(execution(0))
        await asyncio.to_thread(server.stop)
        for n in range(1, 31):
            store.executions.record(execution(n))
        await until(lambda: store._writer.trouble)
    lost = [fields["rows"] for _, event, fields in services.log.lines if event.startswith("store closed with rows")]
    assert lost == [30]
    assert (await store.health())["unwritable"] == 30


async def test_a_server_that_is_down_at_the_start_is_reported_in_words(server):
    server.stop()
    with pytest.raises(StoreError, match=r"cannot be reached \(.*check that the server runs"):
        await PostgresStore(Settings(url=server.url)).__aenter__()


async def test_calls_go_on_while_another_gateway_writes_for_long(emptied, services, sql):
    settings = Settings(url=emptied.url, schema=emptied.schema, busy_timeout_ms=50)
    async with PostgresStore(settings, services) as store:
        await store.executions.put(execution(0))
        with Locked(emptied) as other:
            for n in range(1, 1000):
                store.executions.record(execution(n))
            # Lists have what is in the database, an id is looked for in what waits as well.
            assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 1
            assert await store.executions.get(execution(999).id, EVERYONE) == execution(999)
            with pytest.raises(StoreError, match=r"cannot be written just now \(.*lock timeout"):
                await store.executions.put(execution(5000))
            with pytest.raises(StoreError, match="cannot be written"):
                await store.traces.append([ended(1)])
            other.release()
            await until(lambda: sql("SELECT count(*) FROM execution").fetchone() == (1000,))
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 1000
        assert (await store.health())["drops"] == 0
    assert events(services) == ["store cannot write", "store can write again"]


async def test_order_is_kept_over_a_time_when_nothing_could_be_written(emptied):
    settings = Settings(url=emptied.url, schema=emptied.schema, busy_timeout_ms=10)
    async with PostgresStore(settings) as store:
        await store.executions.put(execution(0))
        with Locked(emptied) as other:
            for n in range(700):
                store.executions.record(execution(n, status="pending"))
            await until(lambda: store._writer.trouble)
            for n in range(700):
                store.executions.record(execution(n, intent="final"))
            other.release()
            await until(lambda: not store._writer.trouble)
        page = await store.executions.find(ExecutionQuery(scope=EVERYONE, statuses=frozenset({"ok"}), limit=1))
        assert (page.total, page.items[0].intent) == (700, "final")


async def test_a_gateway_that_stands_still_in_the_middle_of_writing_is_shut_out(emptied, sql):
    async with PostgresStore(emptied) as store:
        seen = []
        await store._writer.write(
            apply=lambda c: seen.append(c.execute("SHOW idle_in_transaction_session_timeout").fetchone()[0])
        )
    assert seen == ["15s"]


async def test_a_connection_lost_while_committing_is_not_tried_again_unasked(emptied, monkeypatch):
    """It may have been done: a document would be written twice."""
    async with PostgresStore(emptied) as store:
        await store.documents.put("test", "a", {})
        tried = []
        transaction = ServerSession.transaction

        def lose(session, connection, work):
            tried.append(None)
            transaction(session, connection, work)
            session._committing = True
            connection.pgconn.finish()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        with monkeypatch.context() as patch:
            patch.setattr(ServerSession, "transaction", lose)
            with pytest.raises(StoreError, match="closed the connection"):
                await store.documents.put("test", "a", {})
        assert len(tried) == 1
        assert (await store.documents.get("test", "a")).version == 2


async def test_a_table_that_vanishes_while_in_use_is_reported_in_words(url):
    async with PostgresStore(Settings(url=url)) as store:
        await store.executions.put(execution(1))
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute("DROP TABLE pml.span")
        with pytest.raises(StoreError, match=r"cannot be read \(relation \"span\" does not exist\)"):
            await store.traces.of(execution(1).id, EVERYONE)
        assert await store.executions.get(execution(1).id, EVERYONE) is not None
