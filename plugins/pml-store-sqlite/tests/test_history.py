"""What is searched, added up and deleted agrees with what is there."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from pml_hookspecs import ExecutionQuery
from pml_store_sqlite import Settings, SqliteStore, StoreError
from pml_store_sqlite.execution_rows import ExecutionRows
from pml_stores.sql import housekeeping, pruning, totals
from pml_stores.sql.query_builder import ALL
from pml_testing.fakes import EPOCH
from pml_testing.records import ALICE, EVERYONE, ended, execution, some_executions
from pml_testing.store_totals import assert_adds_up_as_hours_pass, over_days

pytestmark = pytest.mark.anyio


def at(path, services=None, **more):
    return SqliteStore(Settings(path=str(path), **more), services)


def answers(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements]


def totals_in(path):
    """What the totals say, and what they should say."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        there = connection.execute(f"SELECT * FROM {totals.TABLE} WHERE executions > 0").fetchall()
        connection.execute(f"DELETE FROM {totals.TABLE}")
        connection.execute(totals.add(ALL).sql)
        return sorted(there), sorted(connection.execute(f"SELECT * FROM {totals.TABLE}").fetchall())


async def test_totals_are_right_whatever_is_late_replaced_or_deleted(path):
    async def over(hour):
        pass

    async with at(path) as store:
        await assert_adds_up_as_hours_pass(store, over)


async def test_sums_are_what_they_would_be_if_they_were_made_anew(path):
    records, chance = over_days() + some_executions(), random.Random(3)
    async with at(path) as store:
        for record in records:
            store.executions.record(record)
        await store.executions.put(records[0])
        for n in chance.sample(range(600), 200):
            store.executions.record(execution(n, started_at=records[chance.randrange(600)].started_at, tokens_in=n))
        await store.executions.put(records[1])
        await store.executions.prune(before=EPOCH + timedelta(days=4))
        await store.executions.put(records[2])
    there, right = totals_in(path)
    assert there == right
    assert there


async def test_more_executions_of_a_microsecond_than_there_are_places_for_are_all_found(path):
    moment = execution(5).started_at
    async with at(path) as store:
        for n in range(700):
            store.executions.record(execution(n, started_at=moment, intent="zebra"))
        later = moment + timedelta(microseconds=1)
        await store.executions.put(execution(900, started_at=later, intent="zebra"))
        for query, total in (
            (ExecutionQuery(scope=ALICE, text="zebra"), 701),
            (ExecutionQuery(scope=ALICE, text="zebra", since=later), 1),
            (ExecutionQuery(scope=ALICE, text="zebra", until=later), 700),
            (ExecutionQuery(scope=ALICE, since=moment, until=later), 700),
        ):
            page = await store.executions.find(query)
            assert (page.total, page.items[0].id) == (total, execution(900 if total % 700 else 699).id)
        assert await store.executions.prune(before=later) == 700
        assert (await store.executions.find(ExecutionQuery(scope=ALICE, text="zebra"))).total == 1


async def test_executions_of_absurd_times_do_no_harm(path):
    async with at(path) as store:
        for n, year in enumerate((1, 1969, 2026, 5000, 9999)):
            store.executions.record(execution(n, started_at=datetime(year, 6, 1, 12, 30, tzinfo=UTC), intent="zebra"))
        for scope in (ALICE, EVERYONE):
            page = await store.executions.find(ExecutionQuery(scope=scope, text="zebra"))
            assert [record.started_at.year for record in page.items] == [9999, 5000, 2026, 1969, 1]
        since = datetime(1900, 1, 1, tzinfo=UTC)
        assert (await store.executions.find(ExecutionQuery(scope=ALICE, since=since))).total == 4
        days = await store.executions.totals(ExecutionQuery(scope=ALICE), "day")
        assert [total.group[:4] for total in days] == ["0001", "1969", "2026", "5000", "9999"]


async def test_a_transcript_is_compressed_and_apart(path):
    async with at(path) as store:
        await store.executions.put(execution(1, transcript=[{"text": "said " * 20_000}]))
    rows, columns = answers(path, "SELECT part, length(deflated) < 2000 FROM execution_body", "SELECT * FROM execution")
    assert rows == [("transcript", 1)]
    assert not [value for value in columns[0] if isinstance(value, bytes)]


async def test_what_is_old_is_deleted_by_itself(path, services, monkeypatch):
    monkeypatch.setattr(housekeeping, "FIRST_S", 0.0)
    monkeypatch.setattr(housekeeping, "BETWEEN_S", 0.01)
    now = datetime.now(UTC)
    async with at(path, services, keep_days=30) as store:
        await store.executions.put(execution(1, started_at=now - timedelta(days=31)))
        await store.executions.put(execution(2, started_at=now - timedelta(days=29)))
        await store.documents.put("test", "a", {}, expires_at=now - timedelta(days=1))
        await gone(store, execution(1).id)
        assert await store.executions.get(execution(2).id, EVERYONE) is not None
        await until(lambda: ("info", "store deleted old executions") in [line[:2] for line in services.log.lines])
        assert answers(path, "SELECT DISTINCT collection FROM document") == [[(b"history.events",)]]
        (event,) = (await store.documents.find("history.events")).items
        assert (event.value["kind"], event.value["executions"]) == ("history.pruned", 1)


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another task and in a thread
            await asyncio.sleep(0.01)


async def gone(store, id):
    async with asyncio.timeout(20):
        while await store.executions.get(id, EVERYONE) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_is_too_much_is_deleted_by_itself_and_its_room_given_back(path, monkeypatch):
    async with at(path, keep_days=0, keep_bytes=0) as store:
        for n in range(400):
            store.executions.record(execution(n, response=random.Random(n).randbytes(10_000).hex()))
        assert await store._housekeeping.tidy() == 0
    full = path.stat().st_size
    monkeypatch.setattr(housekeeping, "FIRST_S", 0.0)
    async with at(path, keep_days=0, keep_bytes=2_000_000) as store:
        await gone(store, execution(0).id)
        await store._housekeeping.stop()
        await store.executions.prune(keep_bytes=2_000_000)
        assert await store.executions.get(execution(399).id, EVERYONE) is not None
    assert full > 4_000_000
    assert path.stat().st_size <= 2_100_000


async def test_pruning_takes_many_small_steps(path, monkeypatch):
    async with at(path) as store:
        for n in range(1500):
            store.executions.record(execution(n))
            store.executions.record(execution(2000 + n, parent=execution(n).id))
        await store.traces.append([ended(n, execution(n).id) for n in range(100)])
        deleted, delete = [], ExecutionRows.forget

        def forget(rows, connection, these):
            deleted.append(len(json.loads(these.values[0])))
            delete(rows, connection, these)

        monkeypatch.setattr(ExecutionRows, "forget", forget)
        assert await store.executions.prune(before=execution(1500).started_at) == 1500
        assert (sum(deleted), max(deleted)) == (3000, 2 * pruning.FAMILIES)


async def test_what_cannot_be_asked_of_pruning_is_refused(path):
    async with at(path) as store:
        with pytest.raises(ValueError, match="time zone"):
            await store.executions.prune(before=EPOCH.replace(tzinfo=None))
        with pytest.raises(ValueError, match="0 or more"):
            await store.executions.prune(keep_bytes=-1)
    with pytest.raises(StoreError, match="is closed"):
        await store.executions.prune(keep_bytes=0)
