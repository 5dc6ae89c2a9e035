from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from pml_store_sqlite import Settings, SqliteStore, StoreError
from pml_store_sqlite.conditions import BUILDER
from pml_store_sqlite.database import Database
from pml_stores.documents import Draft
from pml_stores.sql.document_rows import SWEEP, DocumentRows
from pml_stores.values import blob, write_cursor

pytestmark = pytest.mark.anyio
MARKS = {"state": "open", "who": "alice"}
document_rows = DocumentRows(BUILDER)
LATER = write_cursor("pml-sqlite-documents-1", (1500, b"k1500".hex()))


def at(path, services=None, **more):
    return SqliteStore(Settings(path=str(path), **more), services)


def rows_in(path, table):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def now():
    return datetime.now(UTC)


class Explained:
    """Keeps SQLite's plan of every statement."""

    def __init__(self, connection):
        self.connection, self.plans = connection, []

    def execute(self, sql, values):
        self.plans.append([row[3] for row in self.connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)])
        return self.connection.execute(sql, values)


@pytest.fixture
def explained(path):
    """A connection to a file with documents, that explains what it does."""
    with closing(Database(Settings(path=str(path)), None).open_writer()) as connection:
        connection.execute("BEGIN")
        for n in range(2000):
            document_rows.write(
                connection,
                Draft(f"c{n % 3}", f"k{n}", b"{}", {"state": "open", "who": f"{n % 7}"}, n, None),
            )
        connection.execute("COMMIT")
        connection.execute("ANALYZE")
        yield Explained(connection)


def test_a_document_is_found_by_its_key_through_an_index(explained):
    assert document_rows.get(explained, "c1", "k1") is not None
    assert explained.plans == [["SEARCH d USING INDEX document_by_key (collection=? AND key=?)"]]


@pytest.mark.parametrize("cursor", [None, LATER], ids=["first page", "later page"])
@pytest.mark.parametrize(
    ("marks", "leading"),
    [
        ({}, "SEARCH m USING COVERING INDEX document_by_change (collection=?"),
        ({"state": "open"}, "SEARCH m USING PRIMARY KEY (collection=? AND name=? AND text=?"),
        ({"state": "open", "who": "3"}, "SEARCH m USING PRIMARY KEY (collection=? AND name=? AND text=?"),
    ],
    ids=len,
)
def test_documents_are_found_and_counted_through_an_index_in_their_order(explained, marks, leading, cursor):
    page = document_rows.find(explained, "c1", marks, 5, cursor)
    assert len(page.items) == 5
    count, search = explained.plans[-2:]
    assert count[0].startswith(leading)
    (first,) = (line for line in search if " m " in line)
    assert first.startswith(leading)
    assert "SEARCH d USING INDEX document_by_key (collection=? AND key=?)" in search
    assert not [line for line in [*count, *search] if "SCAN m" in line or "SCAN d" in line or "TEMP B-TREE" in line]


def test_the_mark_that_fewest_have_leads(explained):
    document_rows.find(explained, "c1", {"state": "open", "who": "3"}, 5, None)
    _, which, values = document_rows._which(explained, blob("c1"), {"state": "open", "who": "3"})
    assert (which.split()[0], values[1:3]) == ("document_mark", [b"who", b"3"])


def test_writing_and_sweeping_use_indexes(explained):
    document_rows.write(explained, Draft("c1", "k1", b"{}", MARKS, 9, None))
    document_rows.delete(explained, "c1", "k1")
    document_rows.sweep(explained)
    document_rows.prune(explained, "c1", 3)
    assert not [line for plan in explained.plans for line in plan if line.startswith("SCAN document")]


async def test_many_documents_are_written_in_few_transactions(path):
    async with at(path) as store:
        transactions, transaction = [], store._writer._session.transaction
        store._writer._session.transaction = lambda *work: transactions.append(None) or transaction(*work)
        versions = await asyncio.gather(*(store.documents.put("test", f"{n}", {}, marks=MARKS) for n in range(500)))
        assert versions == [1] * 500
        assert len(transactions) < 20


async def test_two_stores_in_one_process_see_each_others_documents(path):
    async with at(path) as one, at(path) as other:
        assert await one.documents.put("test", "a", {"by": "one"}, if_version=0) == 1
        assert await other.documents.put("test", "a", {"by": "other"}, if_version=0) is None
        assert (await other.documents.get("test", "a")).value["by"] == "one"
        assert await other.documents.delete("test", "a")
        assert await one.documents.get("test", "a") is None


COUNT = """
import asyncio, sys
from pml_store_sqlite import Settings, SqliteStore

async def main():
    async with SqliteStore(Settings(path=sys.argv[1], busy_timeout_ms=20_000)) as store:
        done = 0
        while done < 40:
            found = await store.documents.get("test", "counter")
            n, version = (found.value["n"], found.version) if found else (0, 0)
            done += bool(await store.documents.put("test", "counter", {"n": n + 1}, if_version=version))

asyncio.run(main())
"""


def test_processes_that_count_together_lose_nothing(path):
    processes = [
        subprocess.Popen([sys.executable, "-c", COUNT, str(path)], stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert [process.communicate(timeout=60)[1] for process in processes] == [""] * 3
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT value, version FROM document").fetchall() == [(b'{"n":120}', 120)]


async def test_what_has_expired_is_deleted_when_something_is_written(path):
    async with at(path) as store:
        await store.documents.put("test", "first", {})
        for n in range(SWEEP + 10):
            store.documents.put_soon("test", f"{n}", {}, marks=MARKS, expires_at=now() - timedelta(seconds=1))
        await store.documents.put("other", "a", {})
        assert rows_in(path, "document") == SWEEP + 12
        store.documents._next_sweep = 0.0
        await store.documents.put("other", "a", {})
        assert rows_in(path, "document") == 12
        await store.documents.put("other", "a", {})
        assert (rows_in(path, "document"), rows_in(path, "document_mark")) == (2, 0)
        assert store.documents._next_sweep > time.monotonic()


async def test_marks_go_with_their_document(path):
    async with at(path) as store:
        for n in range(5):
            await store.documents.put("test", f"{n}", {}, marks=MARKS)
        await store.documents.put("test", "0", {}, marks={"state": "done"})
        assert rows_in(path, "document_mark") == 9
        await store.documents.delete("test", "0")
        assert rows_in(path, "document_mark") == 8
        await store.documents.prune("test", keep=1)
        assert rows_in(path, "document_mark") == 2


async def test_the_order_holds_when_the_clock_is_put_back(path, monkeypatch):
    async with at(path) as store:
        await store.documents.put("test", "a", {})
        earlier = time.time_ns() - 3_600 * 10**9
        monkeypatch.setattr(time, "time_ns", lambda: earlier)
        await store.documents.put("test", "b", {})
        await store.documents.put("test", "c", {})
        assert [d.key for d in (await store.documents.find("test")).items] == ["c", "b", "a"]


async def test_documents_wait_while_the_file_is_locked_and_are_written_afterwards(path, services):
    async with at(path, services, busy_timeout_ms=10) as store:
        await store.documents.put("test", "a", {"n": 0})
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for n in range(1, 100):
                store.documents.put_soon("test", "a", {"n": n})
            with pytest.raises(StoreError, match="cannot be written just now"):
                await store.documents.put("test", "b", {})
            with pytest.raises(StoreError, match="cannot be written just now"):
                await store.documents.delete("test", "a")
            assert (await store.documents.get("test", "a")).value["n"] == 0
            other.rollback()
        async with asyncio.timeout(10):
            while store._writer.trouble:  # noqa: ASYNC110 - what is waited for happens in a thread
                await asyncio.sleep(0.005)
        found = await store.documents.get("test", "a")
        assert (found.value["n"], found.version) == (99, 100)


async def test_documents_that_a_full_queue_drops_are_counted(path):
    store = at(path, queue_rows=10)
    for n in range(15):
        store.documents.put_soon("test", f"{n}", {})
    assert (await store.health())["drops"] == 5
    async with store:
        assert (await store.documents.find("test")).total == 10


async def test_a_document_that_cannot_be_stored_is_counted_and_said_once(path, services):
    async with at(path, services) as store:
        store.documents.put_soon("test", "a", {"callable": print})
        store.documents.put_soon("test", "b", {}, marks={"n": 1})
        store.documents.put_soon("test", "c", {})
        assert [d.key for d in (await store.documents.find("test")).items] == ["c"]
        assert (await store.health())["unwritable"] == 2
    ((event, fields),) = [(event, fields) for level, event, fields in services.log.lines if level == "error"]
    assert (event, fields["document"]) == ("document cannot be stored", "test a")


async def test_a_document_that_is_no_object_is_refused(path):
    async with at(path) as store:
        with pytest.raises(TypeError, match="JSON object, not list"):
            await store.documents.put("test", "a", [1])
        with pytest.raises(ValueError, match="`keep` must be 0 or more"):
            await store.documents.prune("test", keep=-1)


async def test_documents_of_a_closed_store_are_refused_and_counted(path):
    async with at(path) as store:
        pass
    store.documents.put_soon("test", "a", {})
    assert (await store.health())["drops"] == 1
    with pytest.raises(StoreError, match="is closed"):
        await store.documents.put("test", "a", {})
