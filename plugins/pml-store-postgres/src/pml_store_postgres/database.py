"""Connects, brings the schema up to date, and says in words when that cannot be."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from .arrays import allow
from .errors import StoreError
from .migrations import MIGRATIONS

if TYPE_CHECKING:
    from psycopg import Connection

    from .connection import ServerConnection
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


def is_storage_fault(exc: BaseException) -> bool:
    """Whether the database is to blame (gone, full, read-only, locked) and not the data being written."""
    import psycopg

    if isinstance(exc, StoreError):
        return True
    of_data = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)
    return isinstance(exc, psycopg.Error) and not isinstance(exc, of_data)


def in_words(exc: BaseException) -> str:
    """The first line of what the server says."""
    return (str(exc).strip() or repr(exc)).splitlines()[0]


class Database:
    """Where the data are, and how to connect to them."""

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
            raise StoreError("there is no address of a database", "set [plugins.postgres] url to postgresql://…")
        try:
            given = conninfo_to_dict(self._settings.url)
        except (psycopg.Error, ValueError):
            # Not `from` it: what it says quotes the address, password and all.
            remedy = "write it as postgresql://user:password@host:port/database, with %40 for @ in a password"
            raise StoreError("[plugins.postgres] url is not an address of PostgreSQL", remedy) from None
        self._secrets = [str(given[key]) for key in ("password", "sslpassword") if given.get(key)]
        host, port = given.get("host") or given.get("hostaddr") or "the local server", given.get("port")
        self._place = f"{host}{f':{port}' if port else ''}/{given.get('dbname') or ''}, schema {self.schema}"
        more = {"connect_timeout": self._settings.connect_timeout_s, "application_name": APPLICATION, **LIFE_SIGNS}
        return {**more, **given, "client_encoding": "UTF8"}

    def without_secrets(self, text: str) -> str:
        """``text`` without the password, should a message ever have it."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def unwell(self, exc: Exception) -> StoreError:
        """What to tell those who wanted to write."""
        if isinstance(exc, StoreError):
            return exc
        problem = f"{self.place} cannot be written just now ({self.without_secrets(in_words(exc))})"
        return StoreError(problem, "start the server, make room or end what locks it")

    def open_writer(self) -> ServerConnection:
        """A connection that may write, to a schema of the current version.

        Raises:
            StoreError: The address is none, nobody answers, the server refuses, or the schema belongs to another
                program or was written by a newer version.
        """
        connection = self._connect()
        try:
            self._set_up(connection, lock_timeout=self._settings.busy_timeout_ms)
            connection.execute(
                f"SET synchronous_commit = {'on' if self._settings.synchronous == 'FULL' else 'off'}; "
                f"SET idle_in_transaction_session_timeout = {ABANDONED_S * 1000}"
            )
            self._check_server(connection)
            self._migrate(connection)
            allow(connection)
        except BaseException as exc:
            connection.close()
            self._explain(exc)
            raise
        return connection

    def open_reader(self) -> ServerConnection:
        """A connection that can only read; may be handed from thread to thread.

        Raises:
            StoreError: The address is none, nobody answers or the server refuses.
        """
        connection = self._connect()
        try:
            self._set_up(connection, lock_timeout=0)
            # Of a question that takes milliseconds, starting workers is the longest part; and they begin with all parts
            # of a search at once, of which the first may be enough.
            connection.execute(
                "SET default_transaction_read_only = on; SET default_transaction_isolation = 'repeatable read'; "
                "SET max_parallel_workers_per_gather = 0; SET work_mem = '32MB'"
            )
            connection.plan_anew()
            allow(connection)
        except BaseException as exc:
            connection.close()
            self._explain(exc)
            raise
        return connection

    def _connect(self) -> ServerConnection:
        import psycopg

        from .connection import ServerConnection

        try:
            return ServerConnection.connect(**self._parameters(), autocommit=True)
        except psycopg.Error as exc:
            said = self.without_secrets(in_words(exc))
            remedy = next((remedy for part, remedy in REMEDIES.items() if part in said), UNREACHABLE)
            raise StoreError(f"{self.place} cannot be reached ({said})", remedy) from None

    def _set_up(self, connection: Connection[Any], *, lock_timeout: int) -> None:
        connection.execute(
            f"SET search_path TO {self.schema}; SET jit = off; SET statement_timeout = {STATEMENT_S * 1000}; "
            f"SET lock_timeout = {lock_timeout}; SET client_min_messages = error"
        )

    def _check_server(self, connection: Connection[Any]) -> None:
        if connection.info.server_version < OLDEST_SERVER:
            version = connection.info.server_version // 10000
            raise StoreError(f"{self.place} is PostgreSQL {version}", f"use version {OLDEST_SERVER // 10000} or newer")
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            remedy = "create one with ENCODING 'UTF8' and name it in [plugins.postgres] url"
            raise StoreError(f"{self.place} is a database with encoding {encoding}", remedy)
        if connection.execute("SELECT current_setting('transaction_read_only')::boolean").fetchone() == (True,):
            raise StoreError(
                f"{self.place} is read-only, as a standby is", "name the server that writes in [plugins.postgres] url"
            )

    def _version(self, connection: Connection[Any]) -> int | None:
        """Version of the schema; 0 for an empty one, None without.

        Raises:
            StoreError: It belongs to another program, or was written by a newer version of this one.
        """
        row = connection.execute(
            "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = n.oid), "
            "(SELECT count(*) FROM pg_class WHERE relnamespace = n.oid AND relname = 'pml_store') "
            "FROM pg_namespace AS n WHERE nspname = %s",
            [self._settings.schema],
        ).fetchone()
        if row is None:
            return None
        anything, ours = row
        if not ours:
            if anything:
                raise StoreError(
                    f"{self.place} has the tables of another program", "set [plugins.postgres] schema to another name"
                )
            return 0
        found = connection.execute("SELECT version FROM pml_store").fetchone()
        version, known = int(found[0]) if found else 0, len(MIGRATIONS)
        if version > known:
            problem = f"{self.place} was written by schema {version}, this version knows {known}"
            raise StoreError(problem, f"upgrade pml-store-postgres or {ELSEWHERE}")
        return version

    def _migrate(self, connection: Connection[Any]) -> None:
        """Apply the steps that the schema has not had, in one transaction that keeps other gateways out."""
        if self._version(connection) == len(MIGRATIONS):
            return
        with connection.transaction():
            # Of much data a step may take long, and so may another gateway's.
            connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [self.lock])
            # Again: another gateway may have done it while this one waited.
            self._apply(connection, self._version(connection))

    def _apply(self, connection: Connection[Any], version: int | None) -> None:
        if version is None:
            connection.execute(f"CREATE SCHEMA {self.schema}")
        for step in MIGRATIONS[version or 0 :]:
            for statement in step:
                connection.execute(statement.format(schema=self.schema))
        if not version:
            connection.execute("CREATE TABLE pml_store (version integer NOT NULL)")
            connection.execute("INSERT INTO pml_store VALUES (0)")
        connection.execute(f"UPDATE pml_store SET version = {len(MIGRATIONS)}")  # noqa: S608

    def _explain(self, exc: BaseException) -> None:
        """Say in words what the server said; nothing of what is none of its errors.

        Raises:
            StoreError: ``exc`` is one of its errors.
        """
        import psycopg

        if not isinstance(exc, psycopg.Error):
            return
        said = self.without_secrets(in_words(exc))
        if isinstance(exc, psycopg.errors.InsufficientPrivilege):
            remedy = f"let an administrator run: CREATE SCHEMA {self.schema} AUTHORIZATION <the user of the url>"
            raise StoreError(f"the user may not use {self.place} ({said})", remedy) from exc
        raise StoreError(f"{self.place} cannot be used ({said})", UNREACHABLE) from exc
