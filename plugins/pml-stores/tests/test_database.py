"""What stores on a database share, on the smallest database there is; the stores' own tests hold it on real ones."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from pml_hookspecs import Document, Page
from pml_stores.errors import StoreError
from pml_stores.sql import housekeeping, writer
from pml_stores.sql.database import Database, Session
from pml_stores.sql.housekeeping import Housekeeping
from pml_stores.sql.parts import SqlDocuments, SqlSecrets
from pml_stores.sql.readers import Readers
from pml_stores.sql.store import DatabaseStore, NullLog
from pml_stores.sql.writer import Writer
from pml_testing.fakes import FakeLog, FakeServices
from pml_testing.records import execution

pytestmark = pytest.mark.anyio


class NoteDatabase(Database):
    """One table of ids and intents."""

    driver = "notes"
    place = "notes.db"
    kind = "path"

    def __init__(self, path):
        self._path, self.opened, self.lost = path, [], False

    def open_writer(self):
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("CREATE TABLE IF NOT EXISTS note (id TEXT PRIMARY KEY, intent TEXT NOT NULL)")
        return connection

    def open_reader(self):
        self.opened.append(sqlite3.connect(self._path, isolation_level=None, check_same_thread=False))
        return self.opened[-1]

    def is_storage_fault(self, exc):
        return isinstance(exc, OSError)

    def unwritable(self, exc):
        return self.error(f"notes.db cannot be written just now ({exc})", "make room", str(exc))

    def unreadable(self, exc):
        return self.error(f"notes.db cannot be read ({exc})", "mend it") if isinstance(exc, sqlite3.Error) else None

    def is_lost(self, connection):
        return self.lost


class NoteRows:
    """Executions as notes."""

    def __init__(self):
        self.batches = []

    def encode(self, record):
        if record.intent == "unfit":
            raise TypeError("unfit")
        return record

    def write(self, connection, rows):
        self.batches.append([row.id for row in rows])
        connection.executemany("INSERT OR REPLACE INTO note VALUES (?, ?)", [(r.id, r.intent or None) for r in rows])


class NoteSession(Session):
    """``broken`` is what is wrong with the disk."""

    def __init__(self, database):
        super().__init__(database, NoteRows())
        self.broken = None
        self.threads = set()

    def transaction(self, connection, work):
        self.threads.add(threading.current_thread().name)
        if self.broken is not None:
            raise self.broken
        connection.execute("BEGIN IMMEDIATE")
        try:
            work()
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.rollback()


class Rows:
    """Documents that are not kept."""

    most_collection_bytes = 20

    def __init__(self):
        self.swept, self.more = 0, [False]

    def now(self):
        return 1

    def read_cursor(self, cursor):
        raise ValueError("cursor")

    def write(self, connection, draft, if_version=None):
        connection.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", [draft.key, repr(draft.changed_at)])
        return 1

    def delete(self, connection, collection, key):
        return bool(connection.execute("DELETE FROM note WHERE id = ?", [key]).rowcount)

    def prune(self, connection, collection, keep):
        return keep

    def sweep(self, connection):
        self.swept += 1
        return self.more.pop() if self.more else False

    def get(self, connection, collection, key):
        found = connection.execute("SELECT id FROM note WHERE id = ?", [key]).fetchone()
        at = datetime.now(UTC)
        return found and Document(key=found[0], value={}, version=1, marks={}, created_at=at, changed_at=at)

    def find(self, connection, collection, marks, limit, cursor):
        return Page([], None, 0)


class SecretRows:
    def write_secret(self, connection, owner, name, value):
        connection.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", [name, value])

    def read_secret(self, connection, owner, name):
        found = connection.execute("SELECT intent FROM note WHERE id = ?", [name]).fetchone()
        return found and found[0]


class Notes(DatabaseStore):
    def __init__(self, path, services=None, *, queue_rows=10_000, interval_s=0.01):
        self.log = NullLog() if services is None else services.log
        self.database = NoteDatabase(path)
        self.session = NoteSession(self.database)
        self._writer = Writer(self.session, self.log, queue_rows=queue_rows, flush_interval_s=interval_s)
        self._readers = Readers(self.database)
        bounds = {"keep_days": 30, "keep_bytes": 0}
        self.documents = SqlDocuments(self._writer, self._readers, Rows())
        self.secrets = SqlSecrets(self._writer, self._readers, SecretRows())
        self._housekeeping = Housekeeping(self, self.documents, self.log, "notes", bounds)
        self.pruned = []

    _session = _place = _size_bytes = None

    async def prune(self, *, before=None, keep_bytes=None):
        self.pruned.append((before, keep_bytes))
        return 2

    async def notes(self):
        """Intent by id."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: dict(c.execute("SELECT id, intent FROM note").fetchall()))

    @property
    def told(self):
        return self._health()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "notes.db")


@pytest.fixture
def services():
    return FakeServices()


def note(n, intent="x"):
    return execution(n, intent=intent)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.005)


async def test_what_is_recorded_is_read_at_once_and_written_in_one_thread(path):
    async with Notes(path) as store:
        for n in range(100):
            store._writer.record(note(n))
            if n % 30 == 0:
                assert len(await store.notes()) == n + 1
        assert len(await store.notes()) == 100
    assert store.session.threads == {"pml-store-notes"}
    assert len(store.session.rows.batches) < 20


async def test_of_several_records_with_one_id_the_last_is_written(path):
    async with Notes(path) as store:
        for n in range(10):
            store._writer.record(note(1, f"{n}"))
        assert await store.notes() == {note(1).id: "9"}


async def test_order_is_that_of_queueing_whoever_waits(path):
    seen = []
    async with Notes(path) as store:
        waiting = []
        for n in range(20):
            store._writer.write_later(lambda _, n=n: seen.append(n), document=f"{n}")
            waiting.append(asyncio.ensure_future(store._writer.write(apply=lambda _, n=n: seen.append(n))))
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
    assert seen == [n for n in range(20) for _ in range(2)]


async def test_what_cannot_be_written_is_lost_alone(path, services):
    """By what makes rows of records, by the database, and by a function."""
    async with Notes(path, services) as store:
        store._writer.record(note(1))
        store._writer.record(note(2, "unfit"))
        store._writer.record(note(3, ""))
        store._writer.write_later(lambda _: 1 / 0, document="a b")
        done = await asyncio.gather(
            store._writer.write(note(4)),
            store._writer.write(note(5, "unfit")),
            store._writer.write(note(6, "")),
            store._writer.write(apply=lambda _: 1 / 0),
            store._writer.write(apply=lambda c: c.execute("INSERT INTO note VALUES ('7', 'x')").rowcount),
            return_exceptions=True,
        )
        assert [type(one) for one in done] == [
            type(None),
            TypeError,
            sqlite3.IntegrityError,
            ZeroDivisionError,
            int,
        ]
        assert set(await store.notes()) == {note(1).id, note(4).id, "7"}
        assert store.told == {"queued": 0, "drops": 0, "unwritable": 3, "trouble": None}
    assert [event for _, event, _ in services.log.lines] == ["execution cannot be stored"]


async def test_while_the_database_is_out_of_order_rows_wait_and_tasks_are_told(path, services, monkeypatch):
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    async with Notes(path, services) as store:
        await store._writer.write(note(0))
        store.session.broken = OSError("disk full")
        store._writer.record(note(1))
        with pytest.raises(StoreError, match=r"'notes': notes.db cannot be written just now \(disk full\); make room"):
            await store._writer.write(note(2))
        with pytest.raises(StoreError, match="disk full"):
            await store._writer.write(note(2))
        assert set(await store.notes()) == {note(0).id}
        assert (store.told["trouble"], store.told["queued"]) == ("disk full", 1)
        store.session.broken = None
        await until(lambda: store._writer.trouble is None)
        assert set(await store.notes()) == {note(0).id, note(1).id}
    assert [(event, fields.get("path")) for _, event, fields in services.log.lines] == [
        ("store cannot write", "notes.db"),
        ("store can write again", "notes.db"),
    ]


async def test_each_task_that_is_told_has_an_error_of_its_own(path):
    async with Notes(path) as store:
        store.session.broken = OSError("disk full")
        tasks = (store._writer.write(note(n)) for n in range(5))
        told = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(one) for one in told} == {StoreError}
    assert len({id(one) for one in told}) == 5


async def test_a_full_queue_drops_and_counts(path):
    store = Notes(path, queue_rows=10)
    for n in range(15):
        store._writer.record(note(n))
    assert store.told["drops"] == 5
    async with store:
        assert len(await store.notes()) == 10


async def test_leaving_writes_what_is_queued_and_says_what_is_lost(path, services):
    async with Notes(path) as store:
        for n in range(2000):
            store._writer.record(note(n))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM note").fetchone() == (2000,)
    connection.close()
    async with Notes(path, services) as store:
        store.session.broken = OSError("disk full")
        for n in range(30):
            store._writer.record(note(n))
        await until(lambda: store._writer.trouble)
    lost = [fields for _, event, fields in services.log.lines if event.startswith("store closed")]
    assert (lost, store.told["unwritable"]) == ([{"path": "notes.db", "rows": 30}], 30)


async def test_a_store_that_is_not_entered_refuses(path):
    store = Notes(path)
    with pytest.raises(StoreError, match="is closed"):
        await store._writer.write(note(1))
    with pytest.raises(StoreError, match="is closed"):
        await store._readers.read(lambda _: None)
    await store.__aexit__(None, None, None)


async def test_a_database_that_cannot_be_opened_is_told_by_entering(tmp_path):
    store = Notes(str(tmp_path / "none" / "notes.db"))
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        await store.__aenter__()
    store._writer._thread.join(5)
    assert not store._writer._thread.is_alive()


async def test_who_asks_does_not_wait_for_the_flush_interval(path):
    async with Notes(path, interval_s=30) as store:
        store._writer.record(note(0))
        async with asyncio.timeout(10):
            assert set(await store.notes()) == {note(0).id}


async def test_a_log_that_fails_stops_nobody(path, services):
    class Broken(FakeLog):
        def error(self, event, **fields):
            raise ValueError("closed file")

    services.log = Broken()
    async with Notes(path, services) as store:
        store._writer.record(note(1, "unfit"))
        await store._writer.write(note(2))
        assert set(await store.notes()) == {note(2).id}


async def test_a_connection_that_was_lost_since_is_made_again(path):
    async with Notes(path) as store:
        assert await store.notes() == {}
        store.database.opened[0].close()
        with pytest.raises(StoreError, match=r"cannot be read .*closed"):
            await store.notes()
        assert await store.notes() == {}
        store.database.opened[1].close()
        store.database.lost = True
        assert await store.notes() == {}
        with pytest.raises(StoreError, match="no such table"):
            await store._readers.read(lambda c: c.execute("SELECT * FROM absent"))
        with pytest.raises(ZeroDivisionError):
            await store._readers.read(lambda _: 1 / 0)


async def test_every_connection_is_closed_also_when_leaving_is_cancelled(path):
    async with Notes(path) as store:
        readers, reached, go_on = store._readers, threading.Event(), threading.Event()
        await asyncio.gather(*(readers.read(lambda _: time.sleep(0.01)) for _ in range(3)))
        reading = asyncio.create_task(readers.read(lambda _: (reached.set(), go_on.wait(10))))
        await until(reached.is_set)
        leaving = asyncio.create_task(readers.stop())
        await asyncio.sleep(0.05)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        go_on.set()
        await reading
        for connection in store.database.opened:
            with pytest.raises(sqlite3.ProgrammingError, match="closed"):
                connection.execute("SELECT 1")


async def test_what_no_database_keeps_is_refused_before_it_is_asked(path, services):
    async with Notes(path, services) as store:
        aware, naive = datetime.now(UTC), datetime.now(UTC).replace(tzinfo=None)
        for given, how in (
            (("a", "k" * 513, {}), {}),
            (("a", "b", {}), {"marks": {f"{n}": "" for n in range(9)}}),
            (("a", "b", {}), {"expires_at": naive}),
            (("c" * 21, "b", {}), {}),
        ):
            with pytest.raises(ValueError, match=r"512|8|zone|`collection` has 21 bytes; at most 20"):
                await store.documents.put(*given, **how)
            store.documents.put_soon(*given, **how)
        for value in ([], {"no": object()}):
            with pytest.raises(TypeError):
                await store.documents.put("a", "b", value)
        for limit in (0, 1001):
            with pytest.raises(ValueError, match="limit"):
                await store.documents.find("a", limit=limit)
        with pytest.raises(ValueError, match="keep"):
            await store.documents.prune("a", keep=-1)
        await store.documents.put("a", "b", {}, expires_at=aware)
        assert (store.told["unwritable"], set(await store.notes())) == (4, {"b"})


async def test_no_two_documents_are_changed_at_the_same_time(path):
    async with Notes(path) as store:
        for n in range(5):
            store.documents.put_soon("a", f"{n}", {})
        assert await store.documents.get("a", "4") is not None
        assert list((await store.notes()).values()) == ["1", "2", "3", "4", "5"]


async def test_expired_documents_are_swept_now_and_then(path):
    async with Notes(path) as store:
        rows = store.documents.statements
        rows.more = [False, True]
        for n in range(4):
            await store.documents.put("a", f"{n}", {})
        assert rows.swept == 2
        rows.more = [False, True, True]
        await store.documents.sweep()
        assert rows.swept == 5


async def test_old_executions_are_deleted_by_age_alone_when_no_size_is_set(path, services):
    async with Notes(path, services) as store:
        assert await store._housekeeping.tidy() == 2
    ((before, keep_bytes),) = store.pruned
    assert abs(before - (datetime.now(UTC) - timedelta(days=30))) < timedelta(minutes=1)
    assert keep_bytes is None
    assert ("info", "store deleted old executions") in [line[:2] for line in services.log.lines]


async def test_housekeeping_goes_on_after_what_goes_wrong(path, services, monkeypatch):
    monkeypatch.setattr(housekeeping, "FIRST_S", 0.0)
    monkeypatch.setattr(housekeeping, "BETWEEN_S", 0.0)
    wrong = [StoreError("notes", "unwell", "wait"), RuntimeError("odd"), None]

    class Odd(Notes):
        async def prune(self, **how):
            if wrong and (exc := wrong.pop(0)):
                raise exc
            return await super().prune(**how)

    async with Odd(path, services) as store:
        await until(lambda: store.pruned)
    assert [event for level, event, _ in services.log.lines if level == "error"] == [
        "store could not delete what is old"
    ]


async def test_small_parts_read_what_they_wrote(path):
    async with Notes(path) as store:
        await store.secrets.put("me", "a", "secret")
        assert await store.secrets.get("me", "a") == "secret"
        assert await store.secrets.get("me", "b") is None


def test_an_error_names_the_driver_and_says_what_to_do():
    error = StoreError("notes", "notes.db is gone", "look for it")
    assert str(error.again()) == "store driver 'notes': notes.db is gone; look for it"
    assert (error.said, error.again() is not error) == ("notes.db is gone", True)
