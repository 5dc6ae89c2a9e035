from __future__ import annotations

import asyncio
import json
import sqlite3
from base64 import b64decode, b64encode
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest

from pml_hookspecs import ExecutionQuery, Scope, Status
from pml_store_sqlite import Settings, SqliteStore, StoreError
from pml_testing.fakes import EPOCH
from pml_testing.records import ALICE, EVERYONE, ended, execution

pytestmark = pytest.mark.anyio
TWO = Scope(principals=frozenset({"alice", "bob"}))


@pytest.fixture
async def store(tmp_path):
    async with SqliteStore(Settings(path=str(tmp_path / "pml.db"))) as store:
        yield store


async def test_a_hundred_questions_at_once_are_answered(store):
    await store.executions.put(execution(1))
    pages = await asyncio.gather(*(store.executions.find(ExecutionQuery(scope=ALICE)) for _ in range(100)))
    assert [page.total for page in pages] == [1] * 100


async def test_simulated_executions_succeed_and_skipped_ones_fail(store):
    for n, status in enumerate((Status.SIMULATED, Status.SKIPPED, Status.INPUT_REQUIRED)):
        await store.executions.put(execution(n, status=status))
    (row,) = await store.executions.activity(ExecutionQuery(scope=ALICE))
    assert (row.executions, row.succeeded, row.failed, row.running) == (3, 1, 2, 0)


async def test_sums_of_money_are_exact(store):
    for n in range(1000):
        store.executions.record(execution(n, cost_usd=0.1))
    (row,) = await store.executions.activity(ExecutionQuery(scope=ALICE))
    assert row.cost_usd == 100


async def test_more_principals_than_sqlite_takes_parameters_are_no_problem(store):
    await store.executions.put(execution(1))
    many = Scope(principals=frozenset({"alice", *(f"user {n}" for n in range(50_000))}))
    assert (await store.executions.find(ExecutionQuery(scope=many))).total == 1


async def test_a_time_without_a_zone_is_refused(store):
    with pytest.raises(ValueError, match="time zone"):
        await store.executions.find(ExecutionQuery(scope=ALICE, since=EPOCH.replace(tzinfo=None)))


async def test_the_system_sees_spans_of_executions_that_were_not_recorded(store):
    await store.traces.append([ended(1, execution(1).id)])
    assert len(await store.traces.of(execution(1).id, EVERYONE)) == 1
    assert not await store.traces.of(execution(1).id, ALICE)


async def test_a_file_that_breaks_while_in_use_is_reported_in_words(tmp_path, store):
    await store.executions.put(execution(1))
    with closing(sqlite3.connect(tmp_path / "pml.db")) as connection:
        connection.execute("DROP TABLE span")
    with pytest.raises(StoreError, match=r"pml.db cannot be read \(no such table: span\)"):
        await store.traces.of(execution(1).id, EVERYONE)
    assert await store.executions.get(execution(1).id, ALICE) is not None


async def test_a_read_that_is_cancelled_harms_nobody(store):
    await store.executions.put(execution(1))
    readings = [asyncio.ensure_future(store.executions.get(execution(1).id, ALICE)) for _ in range(20)]
    await asyncio.sleep(0)
    for reading in readings[::2]:
        reading.cancel()
    done = await asyncio.gather(*readings, return_exceptions=True)
    assert done[1::2] == [execution(1)] * 10


@pytest.mark.parametrize("at", [10**30, -(10**30), 2**63, -(2**63)])
@pytest.mark.parametrize("text", [None, "anything"])
async def test_a_forged_cursor_with_a_time_that_is_none_is_refused(store, at, text):
    await store.executions.put(execution(1))
    cursor = b64encode(json.dumps(["pml-sqlite-1", at, "x"]).encode()).decode()
    with pytest.raises(ValueError, match="`cursor` is not one that this store gave"):
        await store.executions.find(ExecutionQuery(scope=ALICE, cursor=cursor, text=text))


async def test_a_forged_cursor_of_documents_with_a_time_that_is_none_is_refused(store):
    for n in range(2):
        await store.documents.put("test", str(n), {})
    cursor = (await store.documents.find("test", limit=1)).cursor
    mark, _, key = json.loads(b64decode(cursor.translate({45: "+", 95: "/"}) + "=" * (-len(cursor) % 4)))
    for at in (10**30, -(10**30), "1"):
        forged = b64encode(json.dumps([mark, at, key]).encode()).decode()
        with pytest.raises(ValueError, match="`cursor` is not one that this store gave"):
            await store.documents.find("test", cursor=forged)


@pytest.mark.parametrize(("told", "kept"), [(float("inf"), 1e9), (float("-inf"), -1e9), (float("nan"), None)])
async def test_a_cost_that_is_no_amount_loses_no_record(store, told, kept):
    await store.executions.put(execution(1, cost_usd=told, tokens_in=-5))
    record = await store.executions.get(execution(1).id, ALICE)
    assert (record.cost_usd, record.tokens_in) == (kept, 0)
    (total,) = await store.executions.totals(ExecutionQuery(scope=ALICE), "agent")
    assert (total.executions, total.cost_usd, total.tokens_in) == (1, kept or 0, 0)


def test_days_to_keep_have_a_bound():
    """Of more than that there is no time to count back to."""
    (days,) = (field for field in fields(Settings) if field.name == "keep_days")
    assert datetime.now(UTC) - timedelta(days=days.metadata["le"])
