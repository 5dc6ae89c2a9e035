"""Connects, brings the schema up to date, and says in words when that cannot be."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pml_stores.sql.database
from pml_stores.errors import StoreError

from . import schema
from .conditions import BUILDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from psycopg import Connection

    from pml_stores.sql.execution_rows import ExecutionRows

    from .settings import Settings

OLDEST_SERVER = 130000
"""PostgreSQL 13 is the first that vacuums tables that are only added to, without which counting is slow."""

APPLICATION = "pml"
ABANDONED_S = 15
"""A gateway that stands still in the middle of writing is shut out after this time, so that others can go on."""
STATEMENT_S = 60
"""Longest that one statement may take."""
LIFE_SIGNS = {"keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
"""How a connection to a server that is gone is found out [s, s, times, ms]."""

ELSEWHERE = "set [plugins.postgres] url or schema to another place"
UNREACHABLE = "check that the server runs, and the host and port in [plugins.postgres] url"
REMEDIES = {
    "password": "check user and password in [plugins.postgres] url",
    "role": "check the user in [plugins.postgres] url, or let an administrator create it",
    "does not exist": "create the database, or name another in [plugins.postgres] url",
    "no pg_hba.conf entry": "let an administrator allow this user and machine to connect (pg_hba.conf)",
    "too many": "raise max_connections of the server, or end what holds its connections",
    "remaining connection slots": "raise max_connections of the server, or end what holds its connections",
    "starting up": "wait until the server has started",
    "SSL": "check sslmode and the certificates in [plugins.postgres] url",
}
"""By what the server's message holds; in another language than English, the general remedy stands."""


class Database(pml_stores.sql.database.Database["Connection[Any]"]):
    """A schema of a server, and how to connect to it."""

    driver = BUILDER.driver

    def __init__(self, settings: Settings) -> None:
        """Connects to nothing."""
        self._settings = settings
        self._place: str | None = None
        self._secrets: list[str] = []
        self.schema = '"' + settings.schema.replace('"', '""') + '"'
        digest = sha256(f"pml-store-postgres {settings.schema}".encode("utf-8", "surrogatepass")).digest()
        self.lock = int.from_bytes(digest[:8], signed=True)
        """Whoever has this advisory lock may write to the schema."""

    @property
    def place(self) -> str:
        """Server, database and schema; no user and no password."""
        if self._place is None:
            try:
                self._parameters()
            except StoreError:
                return f"the database of [plugins.postgres] url, schema {self.schema}"
        return self._place or ""

    def _parameters(self) -> dict[str, Any]:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        if not self._settings.url.strip():
            raise self.error("there is no address of a database", "set [plugins.postgres] url to postgresql://…")
        try:
            given = conninfo_to_dict(self._settings.url)
        except (psycopg.Error, ValueError):
            # Not `from` it: what it says quotes the address, password and all.
            remedy = "write it as postgresql://user:password@host:port/database, with %40 for @ in a password"
            raise self.error("[plugins.postgres] url is not an address of PostgreSQL", remedy) from None
        self._secrets = [str(given[key]) for key in ("password", "sslpassword") if given.get(key)]
        host, port = given.get("host") or given.get("hostaddr") or "the local server", given.get("port")
        self._place = f"{host}{f':{port}' if port else ''}/{given.get('dbname') or ''}, schema {self.schema}"
        more = {"connect_timeout": self._settings.connect_timeout_s, "application_name": APPLICATION, **LIFE_SIGNS}
        return {**more, **given, "client_encoding": "UTF8"}

    def _said(self, exc: BaseException) -> str:
        """The first line of what the server says, without the password, should a message ever have it."""
        text = (str(exc).strip() or repr(exc)).splitlines()[0]
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def is_storage_fault(self, exc: BaseException) -> bool:
        import psycopg

        if isinstance(exc, StoreError):
            return True
        of_data = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)
        return isinstance(exc, psycopg.Error) and not isinstance(exc, of_data)

    def unwritable(self, exc: Exception) -> StoreError:
        if isinstance(exc, StoreError):
            return exc
        problem = f"{self.place} cannot be written just now ({self._said(exc)})"
        return self.error(problem, "start the server, make room or end what locks it")

    def unreadable(self, exc: BaseException) -> StoreError | None:
        import psycopg

        if not isinstance(exc, psycopg.Error):
            return None
        return self.error(f"{self.place} cannot be read ({self._said(exc)})", UNREACHABLE)

    def is_lost(self, connection: Connection[Any]) -> bool:
        return connection.broken or connection.closed

    def open_writer(self) -> Connection[Any]:
        """A connection that may write, to a schema of the current version.

        StoreError when the address is none, nobody answers, the server refuses, or the schema belongs to another
        program or was written by a newer version.
        """
        with self._opened(lock_timeout=self._settings.busy_timeout_ms) as connection:
            connection.execute(
                f"SET synchronous_commit = {'on' if self._settings.synchronous == 'FULL' else 'off'}; "
                f"SET idle_in_transaction_session_timeout = {ABANDONED_S * 1000}"
            )
            self._check_server(connection)
            self._migrate(connection)
            return connection

    def open_reader(self) -> Connection[Any]:
        """A connection that can only read; may be handed from thread to thread. StoreError as for one that writes."""
        with self._opened(lock_timeout=0) as connection:
            # Of a question that takes milliseconds, starting workers is the longest part.
            connection.execute(
                "SET default_transaction_read_only = on; SET default_transaction_isolation = 'repeatable read'; "
                "SET max_parallel_workers_per_gather = 0; SET work_mem = '32MB'; "
                # An hour and a year take different ways.
                "SET plan_cache_mode = force_custom_plan"
            )
            return connection

    @contextmanager
    def _opened(self, *, lock_timeout: int) -> Iterator[Connection[Any]]:
        """A connection that is closed where something goes wrong; StoreError says what."""
        import psycopg

        try:
            connection = psycopg.Connection.connect(**self._parameters(), autocommit=True)
        except psycopg.Error as exc:
            said = self._said(exc)
            remedy = next((remedy for part, remedy in REMEDIES.items() if part in said), UNREACHABLE)
            raise self.error(f"{self.place} cannot be reached ({said})", remedy) from None
        try:
            self._set_up(connection, lock_timeout=lock_timeout)
            yield connection
        except BaseException as exc:
            connection.close()
            if not isinstance(exc, psycopg.Error):
                raise
            said = self._said(exc)
            if isinstance(exc, psycopg.errors.InsufficientPrivilege):
                remedy = f"let an administrator run: CREATE SCHEMA {self.schema} AUTHORIZATION <the user of the url>"
                raise self.error(f"the user may not use {self.place} ({said})", remedy) from exc
            raise self.error(f"{self.place} cannot be used ({said})", UNREACHABLE) from exc

    def _set_up(self, connection: Connection[Any], *, lock_timeout: int) -> None:
        connection.execute(
            f"SET search_path TO {self.schema}; SET jit = off; SET statement_timeout = {STATEMENT_S * 1000}; "
            f"SET lock_timeout = {lock_timeout}; SET client_min_messages = error"
        )

    def _check_server(self, connection: Connection[Any]) -> None:
        if connection.info.server_version < OLDEST_SERVER:
            version = connection.info.server_version // 10000
            raise self.error(f"{self.place} is PostgreSQL {version}", f"use version {OLDEST_SERVER // 10000} or newer")
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            remedy = "create one with ENCODING 'UTF8' and name it in [plugins.postgres] url"
            raise self.error(f"{self.place} is a database with encoding {encoding}", remedy)
        if connection.execute("SELECT current_setting('transaction_read_only')::boolean").fetchone() == (True,):
            raise self.error(
                f"{self.place} is read-only, as a standby is", "name the server that writes in [plugins.postgres] url"
            )

    def _version(self, connection: Connection[Any]) -> int | None:
        """Of the schema; 0 for an empty one, None without.

        StoreError where it belongs to another program, or was written by a newer version of this one.
        """
        row = connection.execute(
            "SELECT count(relname), count(*) FILTER (WHERE relname = 'pml_store') FROM pg_namespace AS n "
            "LEFT JOIN pg_class ON relnamespace = n.oid WHERE nspname = %s GROUP BY n.oid",
            [self._settings.schema],
        ).fetchone()
        if row is None:
            return None
        anything, ours = row
        if anything and not ours:
            remedy = "set [plugins.postgres] schema to another name"
            raise self.error(f"{self.place} has the tables of another program", remedy)
        found = connection.execute("SELECT version FROM pml_store").fetchone() if ours else None
        version, known = int(found[0]) if found else 0, schema.BASE + len(schema.STEPS)
        if version > known:
            problem = f"{self.place} was written by schema {version}, this version knows {known}"
            raise self.error(problem, f"upgrade pml-store-postgres or {ELSEWHERE}")
        return version

    def _migrate(self, connection: Connection[Any]) -> None:
        """Apply the steps that the schema has not had, in one transaction that keeps other gateways out."""
        wanted = schema.BASE + len(schema.STEPS)
        if self._version(connection) == wanted:
            return
        with connection.transaction():
            # Of much data a step may take long, and so may another gateway's.
            connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [self.lock])
            # Again: another gateway may have done it while this one waited.
            if (version := self._version(connection)) is None:
                connection.execute(f"CREATE SCHEMA {self.schema}")
            if not version:
                connection.execute("CREATE TABLE pml_store AS SELECT 0 AS version")
            if (version := version or 0) < schema.BASE:
                schema.bring_up(connection, self.schema, version)
            for statement in itertools.chain(*schema.STEPS[max(0, version - schema.BASE) :]):
                connection.execute(statement.format(schema=self.schema))
            connection.execute(f"UPDATE pml_store SET version = {wanted}")  # noqa: S608 - a number


class ServerSession(pml_stores.sql.database.Session["Connection[Any]"]):
    """A connection that is made again when it is lost.

    Gateways that share a schema write one after the other, each batch under an advisory lock: so none of them waits
    for rows of another in the wrong order, and what is read before a write still holds when it is written.
    """

    def __init__(self, database: Database, rows: ExecutionRows) -> None:
        """Connects to nothing."""
        super().__init__(database, rows)
        self._lock = database.lock
        self._committing = False

    def write(self, batch: Sequence[Any]) -> dict[int, Exception]:
        """Write ``batch``, twice if the connection was lost while nobody looked."""
        used = self.connection is not None
        try:
            return super().write(batch)
        except Exception:
            lost = self.connection is not None and self.connection.broken
            self.close()
            # A connection may have died of old age. After a commit that nobody answered, it may have been done.
            if not used or not lost or self._committing:
                raise
        try:
            return super().write(batch)
        except Exception:
            self.close()
            raise

    def transaction(self, connection: Connection[Any], work: Callable[[], object]) -> None:
        self._committing = False
        try:
            # In one message, as a server may be far away.
            connection.execute(f"BEGIN; SELECT pg_advisory_xact_lock({self._lock})")
            work()
            self._committing = True
            connection.execute("COMMIT")
            self._committing = False
        finally:
            if not connection.closed and connection.info.transaction_status:
                connection.rollback()
