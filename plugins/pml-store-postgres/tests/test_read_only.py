"""A server that is made read-only while the store is in use, as by a switch to a standby or by its administrator."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from pml_hookspecs import ExecutionQuery
from pml_store_postgres import PostgresStore, Settings, StoreError
from pml_stores.sql import writer
from pml_testing.records import EVERYONE, ended, execution

pytestmark = pytest.mark.anyio
ALL = ExecutionQuery(scope=EVERYONE, limit=1)


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a thread or another process
            await asyncio.sleep(0.01)


class Switch:
    """Makes a whole server read-only, also for those who are connected."""

    def __init__(self, url):
        self._url = url

    def turn(self, how):
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {how}")
            connection.execute("SELECT pg_reload_conf()")


@pytest.fixture
def switch(server):
    made = Switch(server.url)
    yield made
    made.turn("off")


async def test_rows_of_a_time_when_it_was_read_only_are_written_afterwards(server, switch, services):
    async with PostgresStore(Settings(url=server.url), services) as store:
        n = 0
        await store.executions.put(execution(n))

        async def load():
            nonlocal n
            while True:
                n += 1
                store.executions.record(execution(n))
                await asyncio.sleep(0.001)

        loading = asyncio.ensure_future(load())
        await until(lambda: n > 100)
        await asyncio.to_thread(switch.turn, "on")
        await until(lambda: store._writer.trouble)
        seen = n
        await until(lambda: n > seen + 100)
        # Said by the connection in use, or by a new one that was refused for it: whichever the writer has just now.
        with pytest.raises(StoreError, match=r"cannot be written just now \(.*read-only|is read-only, as"):
            await store.executions.put(execution(10**6))
        with pytest.raises(StoreError, match="cannot be written"):
            await store.traces.append([ended(1)])
        assert await store.executions.get(execution(0).id, EVERYONE) is not None
        health = await store.health()
        assert "read-only" in health["trouble"]
        assert (health["drops"], health["unwritable"]) == (0, 0)
        await asyncio.to_thread(switch.turn, "off")
        await until(lambda: not store._writer.trouble)
        loading.cancel()
        assert (await store.executions.find(ALL)).total == n + 1
        health = await store.health()
        assert (health["drops"], health["unwritable"], health["trouble"]) == (0, 0, None)
    assert [event for _, event, _ in services.log.lines] == ["store cannot write", "store can write again"]


async def test_what_there_was_no_room_for_meanwhile_is_counted(server, switch):
    async with PostgresStore(Settings(url=server.url, queue_rows=1000)) as store:
        await store.executions.put(execution(0))
        await asyncio.to_thread(switch.turn, "on")
        store.executions.record(execution(1))
        await until(lambda: store._writer.trouble)
        for n in range(2, 5001):
            store.executions.record(execution(n))
            if n % 500 == 0:
                await asyncio.sleep(0)
        drops = (await store.health())["drops"]
        assert drops >= 5000 - 1000 - writer.BATCH
        await asyncio.to_thread(switch.turn, "off")
        await until(lambda: not store._writer.trouble and not store._writer.queued)
        assert (await store.executions.find(ALL)).total == 5001 - drops


async def test_a_server_that_is_read_only_at_the_start_is_reported_in_words(server, switch):
    await asyncio.to_thread(switch.turn, "on")
    with pytest.raises(StoreError, match="is read-only, as a standby is"):
        await PostgresStore(Settings(url=server.url)).__aenter__()
