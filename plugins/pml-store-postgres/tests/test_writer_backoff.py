"""A batch stands still while somebody reads, and never when somebody waits for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import psycopg
import pytest

from pml_hookspecs import ExecutionQuery, Scope
from pml_store_postgres import PostgresStore
from pml_stores import writer
from pml_testing.records import execution

pytestmark = pytest.mark.anyio
EVERYONE = ExecutionQuery(scope=Scope(principals=None), limit=1)
ROWS = 120
LONGEST_S = 9.0


@pytest.fixture
async def store(emptied, monkeypatch):
    """Its patience is half a minute, so that what is seen below is not over by itself."""
    monkeypatch.setattr(writer, "IN_MEMORY_S", 100.0)
    async with PostgresStore(replace(emptied, flush_interval_ms=500)) as opened:
        assert opened._writer._patience_s > 2 * LONGEST_S
        await opened.executions.put(execution(0))
        yield opened


@pytest.fixture
def encoded(store, monkeypatch):
    """How many executions were encoded."""
    seen, encode = [], store._writer._session.encode

    def noted(record):
        found = encode(record)
        seen.append(found.id)
        return found

    monkeypatch.setattr(store._writer._session, "encode", noted)
    return seen


def record(store):
    for n in range(1, ROWS):
        store.executions.record(execution(n))


def count(sql):
    return sql("SELECT count(*) FROM execution").fetchone()[0]


async def until(condition):
    async with asyncio.timeout(LONGEST_S):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.005)


async def test_nothing_is_encoded_while_somebody_reads(store, encoded, sql):
    with store._readers._writer_backoff.reading():
        record(store)
        await until(lambda: not store._writer.queued)
        await asyncio.sleep(0.3)
        assert not encoded
        assert (await store.executions.find(EVERYONE)).total == ROWS
        assert count(sql) == 1
    await until(lambda: count(sql) == ROWS)


async def test_it_also_stands_still_before_what_is_encoded_is_sent(store, encoded, sql, monkeypatch):
    writer_backoff = store._readers._writer_backoff
    give_way, stood = writer_backoff.give_way, []

    def noted():
        stood.append((len(encoded), count(sql)))
        give_way()

    monkeypatch.setattr(writer_backoff, "give_way", noted)
    record(store)
    await until(lambda: count(sql) == ROWS)
    assert stood == [(n, 1) for n in range(ROWS)]


@pytest.mark.parametrize(
    "urgent",
    [lambda store: store.executions.put(execution(0, intent="again")), lambda store: store._writer.stop()],
    ids=["putting", "closing"],
)
async def test_who_waits_for_a_batch_does_not_wait_for_who_reads(store, sql, urgent):
    with store._readers._writer_backoff.reading():
        record(store)
        await until(lambda: not store._writer.queued)
        await asyncio.sleep(0.3)
        assert count(sql) == 1
        async with asyncio.timeout(LONGEST_S):
            await urgent(store)
        assert count(sql) == ROWS


async def test_another_gateway_that_writes_does_not_wait_for_who_reads_here(store, encoded, emptied, sql):
    writer_backoff = store._readers._writer_backoff
    with psycopg.connect(emptied.url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [store._database.lock])
        record(store)
        await until(lambda: len(encoded) == ROWS - 1)
        with writer_backoff.reading():
            await asyncio.sleep(0.3)
            other.rollback()
            await until(lambda: count(sql) == ROWS)
