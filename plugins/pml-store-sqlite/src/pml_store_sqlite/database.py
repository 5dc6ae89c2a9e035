"""Opens the file, brings its schema up to date, and says in words when that cannot be."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import StoreError
from .migrations import MIGRATIONS

if TYPE_CHECKING:
    from .settings import Settings

APPLICATION_ID = 0x504D4C31
"""Marks the file as ours (``PRAGMA application_id``): "PML1"."""

FILE = "pml.db"
"""Name of the file in the user's PML folder, unless the settings say otherwise."""
OLDEST = (3, 35, 0)
"""First SQLite that has all that is used."""
WAL_PAGES = 32768
"""Length that the log may have, see :mod:`.checkpoints`."""
WAL_LIMIT_PAGES = 4 * WAL_PAGES
"""Length at which the writer itself moves what is left of the log, so that it begins anew. It should never be: that
takes the writer 50 ms and more where the disk is slow. With another process on the same file it may."""
WAL_LIMIT_BYTES = WAL_PAGES * 4120
"""Size that the write-ahead log is cut back to after a burst. Making a file longer takes more than writing over it."""

WAL_LONG_BYTES = 4 * 1024 * 1024
"""A log that is no larger is left as it is: closing the store moves it."""

ELSEWHERE = "set [plugins.sqlite] path to another file"


def is_storage_fault(exc: BaseException) -> bool:
    """Whether the file is to blame (full, read-only, locked, broken) and not the data being written."""
    return isinstance(exc, sqlite3.OperationalError) or type(exc) is sqlite3.DatabaseError


def _expanded(path: str) -> Path:
    # Not Path.expanduser: that raises for a user without a home folder, and a constructor should not.
    return Path(os.path.expanduser(path)).absolute()  # noqa: PTH111


def _bytes(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


class Database:
    """Where the data are, and how to connect to them."""

    def __init__(self, settings: Settings, log: Any) -> None:
        """Does not touch the file."""
        self._settings, self._log = settings, log
        self.path = str(_expanded(settings.path or str(Path(os.environ.get("PML_HOME") or "~/.pml") / FILE)))

    def open_writer(self) -> sqlite3.Connection:
        """A connection that may write, to a file that exists and has the current schema.

        Raises:
            StoreError: The file cannot be created or written, is no SQLite database, belongs to another program, or
                was written by a newer version.
        """
        self._create()
        connection = None
        try:
            connection = self._connect()
            check_abilities(connection)
            check(connection, self.path)
            # Of a new file only: pages that get free can be given back.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            self._use_write_ahead_log(connection)
            connection.execute(f"PRAGMA synchronous = {self._settings.synchronous}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_LIMIT_PAGES}")
            migrate(connection, self.path)
            self._move_what_was_left(connection)
        except BaseException as exc:
            if connection is not None:
                connection.close()
            if isinstance(exc, sqlite3.OperationalError):
                remedy = f"make it writable and free of locks, or {ELSEWHERE}"
                raise StoreError(f"{self.path} cannot be opened for writing ({exc})", remedy) from exc
            if isinstance(exc, sqlite3.DatabaseError):
                remedy = f"move it away to start with an empty one, or {ELSEWHERE}"
                raise StoreError(f"{self.path} is not a sound SQLite database ({exc})", remedy) from exc
            raise
        return connection

    def open_reader(self) -> sqlite3.Connection:
        """A connection that can only read; may be handed from thread to thread."""
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def open_checkpointer(self) -> sqlite3.Connection:
        """A connection that moves the write-ahead log into the file, and waits for the disk as the writer does."""
        connection = self._connect()
        connection.execute(f"PRAGMA synchronous = {self._settings.synchronous}")
        return connection

    def size_bytes(self) -> int:
        """Bytes on disk, the write-ahead log included; 0 without a file."""
        return _bytes(self.path) + self.log_bytes()

    def log_bytes(self) -> int:
        """Bytes of the write-ahead log; 0 without one."""
        return _bytes(f"{self.path}-wal")

    def _move_what_was_left(self, connection: sqlite3.Connection) -> None:
        # Of one that was killed, by which nobody is kept waiting yet. What goes wrong here, whoever writes finds out.
        if self.log_bytes() > WAL_LONG_BYTES:
            with contextlib.suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _create(self) -> None:
        try:
            Path(self.path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite would create the file readable for everyone; its other two files take their mode from this one.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as exc:
            why = "its folder is a file" if isinstance(exc, FileExistsError) else exc.strerror
            remedy = f"make the folder and the file writable, or {ELSEWHERE}"
            raise StoreError(f"{self.path} cannot be opened for writing ({why})", remedy) from exc

    def _connect(self) -> sqlite3.Connection:
        timeout_s = self._settings.busy_timeout_ms / 1000
        connection = sqlite3.connect(self.path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self._settings.busy_timeout_ms / 1000
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as exc:
                # Two processes that start together: SQLite does not wait here, whatever the time-out says.
                if exc.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            else:
                break
        if mode != "wal":
            self._log.warning(
                "store works without a write-ahead log, reads and writes wait for each other", path=self.path
            )


def check_abilities(connection: sqlite3.Connection) -> None:
    """See that this SQLite can do what is needed.

    Raises:
        StoreError: It cannot search for text, or is too old.
    """
    (text,) = connection.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()
    if not text or sqlite3.sqlite_version_info < OLDEST:
        wanted = f"SQLite {'.'.join(map(str, OLDEST))} or later with FTS5"
        having = f"this Python has {sqlite3.sqlite_version} {'with' if text else 'without'} it"
        raise StoreError(f"{wanted} is needed and {having}", "use another Python, or another store driver")


def check(connection: sqlite3.Connection, path: str) -> int:
    """The schema version of the file, 0 for an empty one.

    Raises:
        StoreError: The file belongs to another program, or was written by a newer version of this one.
    """
    alone = not connection.in_transaction
    if alone:
        # One view of all three: another process may be creating them.
        connection.execute("BEGIN")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        if alone:
            connection.rollback()
    if application != APPLICATION_ID and (application or version or tables):
        raise StoreError(f"{path} is the database of another program", ELSEWHERE)
    if version > len(MIGRATIONS):
        problem = f"{path} was written by schema {version}, this version knows {len(MIGRATIONS)}"
        raise StoreError(problem, f"upgrade pml-store-sqlite or {ELSEWHERE}")
    return int(version)


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Apply the steps that the file has not had, in one transaction that keeps other processes out."""
    if check(connection, path) == len(MIGRATIONS):
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        # Again: another process may have done it while this one waited.
        for step in MIGRATIONS[check(connection, path) :]:
            for statement in step:
                if callable(statement):
                    statement(connection)
                else:
                    connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.rollback()
