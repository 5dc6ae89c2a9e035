"""What is searched, added up and deleted agrees with what is there."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import zlib
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from pml_hookspecs import ExecutionQuery, Failure, Scope, encode
from pml_store_sqlite import Settings, SqliteStore, StoreError, database, execution_rows, migrations, sums, text
from pml_store_sqlite.database import Database
from pml_store_sqlite.row_values import micros
from pml_stores import housekeeping
from pml_stores.matching import in_scope
from pml_testing.fakes import EPOCH
from pml_testing.records import ALICE, EVERYONE, assert_same, ended, execution, some_executions
from pml_testing.store_totals import GROUPINGS, assert_adds_up_as_hours_pass, assert_totals, over_days, plain_totals

pytestmark = pytest.mark.anyio


def at(path, services=None, **more):
    return SqliteStore(Settings(path=str(path), **more), services)


def answers(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements]


def sums_in(path):
    """What the sums say, and what they should say."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in sums.TABLES:
            for grain in (sums.HOUR, sums.DAY):
                keys = ", ".join(table.columns())
                there = connection.execute(
                    f"SELECT {keys} FROM {table.table} WHERE grain = {grain} AND executions > 0"
                ).fetchall()
                connection.execute(f"DELETE FROM {table.table} WHERE grain = {grain}")
                connection.execute(table.add(grain, "1"))
                right = connection.execute(f"SELECT {keys} FROM {table.table} WHERE grain = {grain}").fetchall()
                yield sorted(there), sorted(right)


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
    compared = list(sums_in(path))
    assert len(compared) == 2 * len(sums.TABLES)
    assert all(there == right and there for there, right in compared)


@pytest.fixture
def clock(monkeypatch):
    """Makes the hour with this number after EPOCH the last one that is over."""

    def over(hour):
        monkeypatch.setattr(sums, "last_over", lambda: (micros(EPOCH) + sums.ERA) // sums.HOUR + hour)

    return over


async def test_sums_are_right_whatever_of_a_day_is_over(path, clock):
    async def over(hour):
        clock(hour)

    clock(-30)
    async with at(path) as store:
        await assert_adds_up_as_hours_pass(store, over)


OF_DAYS = f"SELECT sum(executions) FROM {sums.BY_EVERYTHING.table} WHERE grain = {sums.DAY}"


async def test_of_a_day_what_is_over_is_added_up(path, clock):
    clock(1)
    async with at(path) as store:
        for n, hours in enumerate((0, 1, 2, 3)):
            await store.executions.put(execution(n, started_at=EPOCH + timedelta(hours=hours, minutes=1)))
        assert answers(path, OF_DAYS) == [[(2,)]]
        clock(2)
        await store.executions.put(execution(5, started_at=EPOCH + timedelta(hours=3)))
        assert answers(path, OF_DAYS) == [[(3,)]]
        # Late, and replaced.
        await store.executions.put(execution(6, started_at=EPOCH))
        await store.executions.put(execution(0, started_at=EPOCH + timedelta(hours=4)))
        assert answers(path, OF_DAYS) == [[(3,)]]


async def test_days_that_had_all_their_hours_lose_those_that_are_not_over(path, clock, monkeypatch):
    clock(30)
    with monkeypatch.context() as patched:
        patched.setattr(database, "MIGRATIONS", database.MIGRATIONS[:4])
        patched.setattr(text, "add", lambda connection, texts: None)
        with closing(Database(Settings(path=str(path)), None).open_writer()) as connection:
            connection.execute("CREATE TABLE summed (hour)")
            connection.execute("INSERT INTO summed VALUES (99999999)")
            execution_rows.write(connection, over_days())
            connection.execute("DROP TABLE summed")
            for name, table in migrations.SUMS_BEFORE.items():
                connection.execute(f"ALTER TABLE {table.table} RENAME TO {name}")
    (before,) = (name for name, table in migrations.SUMS_BEFORE.items() if table is sums.BY_EVERYTHING)
    of_days_before = OF_DAYS.replace(sums.BY_EVERYTHING.table, before)
    assert answers(path, of_days_before) == [[(len(over_days()),)]]
    async with at(path) as store:
        over = EPOCH + timedelta(hours=31)
        assert answers(path, OF_DAYS) == [[(sum(record.started_at < over for record in over_days()),)]]
        query = ExecutionQuery(scope=EVERYONE)
        for by in GROUPINGS:
            assert_totals(await store.executions.totals(query, by), plain_totals(over_days(), query, by), by)


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


INSERT = """
INSERT INTO execution (
    id, parent, nested, kind, target, principal, agent, triggered_by, intent, status, started_at, duration_ms, dry_run,
    cost_micros, bodies, request, response, failure, tool_calls, endpoint, mode
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def write_as_schema_3(connection, record):
    """As the version before wrote it."""
    failure = record.failure and encode({**{k: getattr(record.failure, k) for k in ("code", "message")}, **NO_DETAILS})
    response = None if record.response is None else encode(record.response)
    if large := response is not None and len(response) > 4096:
        body = [record.id, "response", len(response), zlib.compress(response, 1)]
        connection.execute("INSERT INTO execution_body VALUES (?, ?, ?, ?)", body)
    started_at = (record.started_at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    cost = None if record.cost_usd is None else round(record.cost_usd * 1_000_000)
    connection.execute(
        INSERT,
        [
            *(record.id, record.parent, int(bool(record.parent)), record.kind, record.target, record.principal),
            *(record.agent, record.trigger, record.intent, str(record.status), started_at, record.duration_ms),
            *(int(record.dry_run), cost, 2 if large else 0, encode(record.request) if record.request else None),
            *(None if large else response, failure, encode(record.tool_calls) if record.tool_calls else None, "", ""),
        ],
    )


NO_DETAILS = {"retryable": False, "details": {}}


async def test_history_of_the_schema_before_is_searched_and_added_up(path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(database, "MIGRATIONS", database.MIGRATIONS[:3])
        with closing(Database(Settings(path=str(path)), None).open_writer()) as connection:
            old = [execution(n, started_at=execution(n // 3).started_at, cost_usd=0.5) for n in range(300)]
            old += [
                execution(300, response={"text": "a\nzebra" + "x" * 9000}),
                execution(301, failure=Failure("a.b", "no zebra"), request={"animal": "none"}),
                execution(302, parent=execution(300).id, intent="zebra", tool_calls=("a:b",)),
                *(execution(400 + n, started_at=EPOCH) for n in range(400)),
            ]
            for record in old:
                write_as_schema_3(connection, record)
            assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    async with at(path) as store:
        for record in old:
            assert_same(await store.executions.get(record.id, EVERYONE), record)
        page = await store.executions.find(ExecutionQuery(scope=ALICE, text="zebra"))
        assert [record.id for record in page.items] == [execution(301).id, execution(300).id]
        assert (await store.executions.find(ExecutionQuery(scope=ALICE, target="files:*"))).total == len(old)
        (row,) = await store.executions.totals(ExecutionQuery(scope=ALICE), "server")
        assert (row.group, row.executions, row.cost_usd) == ("files", len(old), 150)
        store.executions.record(execution(0, intent="zebra"))
        assert (await store.executions.find(ExecutionQuery(scope=ALICE, text="zebra"))).total == 3
        assert await store.executions.prune(before=execution(1000).started_at) == len(old) - 1
    assert all(there == right for there, right in sums_in(path))


OLD_TEXT = """
CREATE VIRTUAL TABLE execution_text USING fts5(
    said, who, detail = column, columnsize = 0, prefix = '1 2 3',
    tokenize = "unicode61 remove_diacritics 0 categories 'L* N*'"
)
"""
OLD_WAITING = """
CREATE TABLE execution_unsearched (place INTEGER PRIMARY KEY NOT NULL, said TEXT NOT NULL, who TEXT NOT NULL)
"""


async def test_texts_of_the_version_before_are_searched_by_whose_they_are(path, monkeypatch):
    records = [
        execution(n, intent=f"count zebras {n}", principal="alice" if n % 3 else "bob", agent="r", as_agent=n % 2 == 0)
        for n in range(200)
    ]
    waits = {record.id for record in records[:20]}
    with monkeypatch.context() as patched:
        patched.setattr(database, "MIGRATIONS", database.MIGRATIONS[:5])
        patched.setattr(text, "add", lambda connection, texts: None)
        with closing(Database(Settings(path=str(path)), None).open_writer()) as connection:
            connection.execute("DROP TABLE execution_text")
            connection.execute("DROP TABLE execution_unsearched")
            connection.execute(OLD_TEXT)
            connection.execute(OLD_WAITING)
            execution_rows.write(connection, records)
            for place, id_, intent in connection.execute("SELECT place, id, intent FROM execution").fetchall():
                table, key = ("execution_unsearched", "place") if id_ in waits else ("execution_text", "rowid")
                connection.execute(f"INSERT INTO {table} ({key}, said, who) VALUES (?, ?, 'p')", (place, intent))
    async with at(path) as store:
        for scope in (EVERYONE, ALICE, Scope(principals=frozenset({"bob"}), agents=frozenset({"r"}))):
            right = sum(in_scope(record, scope) for record in records)
            for words in ("zebra", "count zebras", "co"):
                assert (await store.executions.find(ExecutionQuery(scope=scope, text=words))).total == right
        assert await store.executions.prune(before=execution(1000).started_at) == len(records)
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE, text="zebras"))).total == 0


async def test_a_gateway_of_the_version_before_cannot_spoil_what_is_added_up(path):
    with (
        closing(Database(Settings(path=str(path)), None).open_writer()) as connection,
        pytest.raises(sqlite3.IntegrityError, match="NOT NULL"),
    ):
        write_as_schema_3(connection, execution(1))


def test_nor_can_one_that_added_days_up_at_once(path):
    with closing(Database(Settings(path=str(path)), None).open_writer()) as connection:
        for name in migrations.SUMS_BEFORE:
            with pytest.raises(sqlite3.OperationalError, match=f"no such table: {name}") as caught:
                connection.execute(f"INSERT INTO {name} (grain) VALUES (1)")
            # So its rows wait, and it says why.
            assert database.is_storage_fault(caught.value)


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


async def test_pruning_takes_many_small_steps(path):
    async with at(path) as store:
        for n in range(1500):
            store.executions.record(execution(n))
            store.executions.record(execution(2000 + n, parent=execution(n).id))
        await store.traces.append([ended(n, execution(n).id) for n in range(100)])
        deleted, delete = [], execution_rows.delete
        execution_rows.delete = lambda connection, places: deleted.append(len(places)) or delete(connection, places)
        try:
            assert await store.executions.prune(before=execution(1500).started_at) == 1500
        finally:
            execution_rows.delete = delete
        assert (sum(deleted), max(deleted)) == (3000, 100)


async def test_what_cannot_be_asked_of_pruning_is_refused(path):
    async with at(path) as store:
        with pytest.raises(ValueError, match="time zone"):
            await store.executions.prune(before=EPOCH.replace(tzinfo=None))
        with pytest.raises(ValueError, match="0 or more"):
            await store.executions.prune(keep_bytes=-1)
    with pytest.raises(StoreError, match="is closed"):
        await store.executions.prune(keep_bytes=0)
