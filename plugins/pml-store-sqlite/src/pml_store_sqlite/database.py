"""Opens the file, brings its schema up to date, and says in words when that cannot be."""

from __future__ import annotations

import itertools
import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pml_stores.sql.database

from . import schema
from .conditions import BUILDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from pml_stores.errors import StoreError

    from .settings import Settings

APPLICATION_ID = 0x504D4C31
"""Marks the file as ours (``PRAGMA application_id``): "PML1"."""

FILE = "pml.db"
"""Name of the file in the user's PML folder, unless the settings say otherwise."""
OLDEST = (3, 35, 0)
"""First SQLite that has all that is used."""
LOG_PAGES = 1000
"""Length of the write-ahead log at which the writer moves it into the file, so that it begins anew [pages]."""
LOG_BYTES = 16 * 1024 * 1024
"""What is left of the log after a burst. Making a file longer takes more than writing over it."""

ELSEWHERE = "set [plugins.sqlite] path to another file"


def _expanded(path: str) -> Path:
    # Not Path.expanduser: that raises for a user without a home folder, and a constructor should not.
    return Path(os.path.expanduser(path)).absolute()  # noqa: PTH111


def _bytes(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


class Database(pml_stores.sql.database.Database[sqlite3.Connection]):
    """A file, and how to connect to it."""

    driver = BUILDER.driver
    kind = "path"

    def __init__(self, settings: Settings, log: Any) -> None:
        """Does not touch the file."""
        self._settings, self._log = settings, log
        self.path = str(_expanded(settings.path or str(Path(os.environ.get("PML_HOME") or "~/.pml") / FILE)))

    @property
    def place(self) -> str:
        return self.path

    def is_storage_fault(self, exc: BaseException) -> bool:
        return isinstance(exc, sqlite3.OperationalError) or type(exc) is sqlite3.DatabaseError

    def unwritable(self, exc: Exception) -> StoreError:
        said = str(exc) or repr(exc)
        problem = f"{self.path} cannot be written just now ({said})"
        return self.error(problem, "make room, make it writable or end what locks it", said)

    def unreadable(self, exc: BaseException) -> StoreError | None:
        if not isinstance(exc, sqlite3.Error):
            return None
        return self.error(f"{self.path} cannot be read ({exc})", "check the file and its disk")

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
            self._check_abilities(connection)
            self._version(connection)
            # Of a new file only: pages that get free can be given back.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            self._use_write_ahead_log(connection)
            connection.execute(f"PRAGMA synchronous = {self._settings.synchronous}")
            connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            self._migrate(connection)
        except BaseException as exc:
            if connection is not None:
                connection.close()
            if isinstance(exc, sqlite3.OperationalError):
                remedy = f"make it writable and free of locks, or {ELSEWHERE}"
                raise self.error(f"{self.path} cannot be opened for writing ({exc})", remedy) from exc
            if isinstance(exc, sqlite3.DatabaseError):
                remedy = f"move it away to start with an empty one, or {ELSEWHERE}"
                raise self.error(f"{self.path} is not a sound SQLite database ({exc})", remedy) from exc
            raise
        return connection

    def open_reader(self) -> sqlite3.Connection:
        """A connection that can only read; may be handed from thread to thread."""
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def size_bytes(self) -> int:
        """Bytes on disk, the write-ahead log included; 0 without a file."""
        return _bytes(self.path) + _bytes(f"{self.path}-wal")

    def _create(self) -> None:
        try:
            Path(self.path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite would create the file readable for everyone; its other two files take their mode from this one.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as exc:
            why = "its folder is a file" if isinstance(exc, FileExistsError) else exc.strerror
            remedy = f"make the folder and the file writable, or {ELSEWHERE}"
            raise self.error(f"{self.path} cannot be opened for writing ({why})", remedy) from exc

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

    def _check_abilities(self, connection: sqlite3.Connection) -> None:
        (text,) = connection.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()
        if not text or sqlite3.sqlite_version_info < OLDEST:
            wanted = f"SQLite {'.'.join(map(str, OLDEST))} or later with FTS5"
            having = f"this Python has {sqlite3.sqlite_version} {'with' if text else 'without'} it"
            raise self.error(f"{wanted} is needed and {having}", "use another Python, or another store driver")

    def _version(self, connection: sqlite3.Connection) -> int:
        """Of the schema of the file, 0 for an empty one.

        StoreError where the file belongs to another program, or was written by a newer version of this one.
        """
        # One view of all three: another process may be creating them.
        version, application, tables = connection.execute(
            "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) "
            "FROM pragma_user_version, pragma_application_id"
        ).fetchone()
        if application != APPLICATION_ID and (application or version or tables):
            raise self.error(f"{self.path} is the database of another program", ELSEWHERE)
        if version > (known := schema.BASE + len(schema.STEPS)):
            problem = f"{self.path} was written by schema {version}, this version knows {known}"
            raise self.error(problem, f"upgrade pml-store-sqlite or {ELSEWHERE}")
        return int(version)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Apply the steps that the file has not had, in one transaction that keeps other processes out."""
        wanted = schema.BASE + len(schema.STEPS)
        if self._version(connection) == wanted:
            return
        connection.execute("BEGIN EXCLUSIVE")
        try:
            # Again: another process may have done it while this one waited.
            if (version := self._version(connection)) < schema.BASE:
                schema.bring_up(connection, version)
            for statement in itertools.chain(*schema.STEPS[max(0, version - schema.BASE) :]):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {wanted}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.rollback()


class FileSession(pml_stores.sql.database.Session[sqlite3.Connection]):
    """The connection that writes, in the writer's thread."""

    def transaction(self, connection: sqlite3.Connection, work: Callable[[], object]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            work()
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.rollback()
