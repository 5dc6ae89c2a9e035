"""A file, or the file system under it, that turns read-only while the store is in use."""

from __future__ import annotations

import _sqlite3
import asyncio
import ctypes
import errno
import sqlite3
import threading
from contextlib import closing, contextmanager, suppress

import pytest

from pml_hookspecs import ExecutionQuery
from pml_store_sqlite import Settings, SqliteStore, StoreError
from pml_stores.sql import writer
from pml_testing.records import EVERYONE, ended, execution

pytestmark = pytest.mark.anyio
ALL = ExecutionQuery(scope=EVERYONE)
SAYS = {"statement": "attempt to write a readonly database", "disk": "disk I/O error"}
WRITES = {"pwrite64": 4, "pwrite": 4, "write": 3, "ftruncate": 2, "fallocate": 3}
"""System calls that change files, as SQLite names them, with how many arguments they have."""
BEFORE_SET_SYSTEM_CALL = 16
"""Pointers of a ``sqlite3_vfs`` between its three numbers and ``xSetSystemCall``."""


class Vfs(ctypes.Structure):
    """As ``sqlite3.h`` has it, from version 3 of the structure on."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("longest_path", ctypes.c_int),
        ("others", ctypes.c_void_p * BEFORE_SET_SYSTEM_CALL),
        (
            "set_system_call",
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        ),
    )


class Disk:
    """The file system as SQLite finds it: every write fails as on one that the kernel has made read-only."""

    def __init__(self):
        library = ctypes.CDLL(_sqlite3.__file__)
        find = library.sqlite3_vfs_find
        find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        self._at = find(None)
        self._vfs = Vfs.from_address(self._at)
        self._refusals = []
        for name, arguments in WRITES.items():
            kind = ctypes.CFUNCTYPE(ctypes.c_ssize_t, *[ctypes.c_void_p] * arguments, use_errno=True)
            self._refusals.append((name.encode(), kind(self._refuse)))
        self.refused = 0

    def _refuse(self, *_arguments):
        self.refused += 1
        ctypes.set_errno(errno.EROFS)
        return -1

    def read_only(self):
        for name, refusal in self._refusals:
            self._vfs.set_system_call(self._at, name, ctypes.cast(refusal, ctypes.c_void_p))

    def writable(self):
        for name, _ in self._refusals:
            self._vfs.set_system_call(self._at, name, None)


class Statement:
    """The connection that writes: SQLite itself refuses each statement that would change something."""

    def __init__(self):
        self.connection = None

    def read_only(self):
        self.connection.execute("PRAGMA query_only = ON")

    def writable(self):
        with suppress(sqlite3.ProgrammingError):  # it is closed
            self.connection.execute("PRAGMA query_only = OFF")


@pytest.fixture(params=["statement", "disk"])
def medium(request, monkeypatch):
    """What can be made read-only, and writable again."""
    if request.param == "disk":
        made = Disk()
        yield made
        made.writable()
        return
    made = Statement()
    from pml_store_sqlite.database import Database

    open_writer = Database.open_writer

    def opened(database):
        made.connection = open_writer(database)
        return made.connection

    monkeypatch.setattr(Database, "open_writer", opened)
    yield made


@pytest.fixture
def says(request):
    """What SQLite says of it."""
    return SAYS[request.node.callspec.params["medium"]]


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.005)


@contextmanager
def load(store):
    """Rows, one after the other, until told to stop; how many there were is in the list."""
    count, over = [1], threading.Event()

    async def write():
        while not over.is_set():
            store.executions.record(execution(count[0]))
            count[0] += 1
            await asyncio.sleep(0.0005)

    writing = asyncio.ensure_future(write())
    try:
        yield count
    finally:
        over.set()
        writing.cancel()


def rows_in(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM execution").fetchone()[0]


async def test_rows_of_a_time_when_it_was_read_only_are_written_afterwards(path, services, medium, says):
    async with SqliteStore(Settings(path=str(path)), services) as store:
        await store.executions.put(execution(0))
        with load(store) as count:
            await until(lambda: count[0] > 100)
            medium.read_only()
            await until(lambda: store._writer.trouble)
            seen = count[0]
            await until(lambda: count[0] > seen + 100)
            with pytest.raises(StoreError, match=f"cannot be written just now .{says}.*make it writable"):
                await store.executions.put(execution(10**6))
            with pytest.raises(StoreError, match="cannot be written"):
                await store.traces.append([ended(1)])
            assert await store.executions.get(execution(0).id, EVERYONE) is not None
            health = await store.health()
            assert (health["trouble"], health["drops"]) == (says, 0)
            medium.writable()
            await until(lambda: not store._writer.trouble)
        assert (await store.executions.find(ALL)).total == count[0]
        health = await store.health()
        assert (health["drops"], health["unwritable"], health["trouble"]) == (0, 0, None)
    assert [event for _, event, _ in services.log.lines] == ["store cannot write", "store can write again"]
    assert rows_in(path) == count[0]


async def test_what_there_was_no_room_for_meanwhile_is_counted(path, services, medium):
    async with SqliteStore(Settings(path=str(path), queue_rows=1000), services) as store:
        await store.executions.put(execution(0))
        medium.read_only()
        for n in range(1, 5001):
            store.executions.record(execution(n))
            if n % 500 == 0:
                await asyncio.sleep(0)
        await until(lambda: store._writer.trouble)
        drops = (await store.health())["drops"]
        assert drops >= 5000 - 1000 - writer.BATCH
        medium.writable()
        await until(lambda: not store._writer.trouble and not store._writer.queued)
        assert (await store.executions.find(ALL)).total == 5001 - drops


async def test_closing_while_it_is_read_only_ends_and_says_how_much_is_lost(path, services, medium):
    store = SqliteStore(Settings(path=str(path)), services)
    async with asyncio.timeout(20):
        async with store:
            await store.executions.put(execution(0))
            medium.read_only()
            for n in range(1, 31):
                store.executions.record(execution(n))
            await until(lambda: store._writer.trouble)
        medium.writable()
    lost = [fields["rows"] for _, event, fields in services.log.lines if event.startswith("store closed with rows")]
    assert lost == [30]
    assert rows_in(path) == 1
