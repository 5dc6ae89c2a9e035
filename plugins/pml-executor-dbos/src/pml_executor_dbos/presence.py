"""Which gateways are there: each holds a lock that the system, or PostgreSQL, takes from it when it is gone."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from .settings import Settings

KEEPALIVE = ("tcp_keepalives_idle = 5", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 3")
"""So that PostgreSQL notices within half a minute that a machine is gone."""
CONNECT_S, OLD_S = 5, 3600
_EARLIER = "SELECT id FROM pml_run WHERE state IN ('running', 'ready', 'paused')"
_OPEN = "SELECT status, executor_id FROM workflow_status WHERE status IN ('PENDING', 'ENQUEUED')"
_KEY = "hashtextextended('pml.durable ' || %s, 0)"


class Presence:
    """Of one gateway, in the view of which others are judged. Everything blocks."""

    def __init__(self, settings: Settings, me: str) -> None:
        self._settings, self._me = settings, me
        self._lock: Any = None
        self._free: dict[str, float] = {}
        """Since when a lock was seen free [s]."""

    def hold(self) -> None:
        """Take the lock, or make sure of it: a server that was started anew has forgotten it."""
        if self._settings.file is not None:
            if self._lock is None:
                self._lock = _locked(self._settings.file, self._me)
                _tidy(self._settings.file)
            return
        import psycopg

        if self._lock is not None:
            try:
                self._lock.execute("SELECT 1")
            except psycopg.Error:
                self._lock.close()
            else:
                return
        self._lock = psycopg.connect(self._settings.url, autocommit=True, connect_timeout=10)
        for setting in KEEPALIVE:
            self._lock.execute(f"SET {setting}")
        self._lock.execute(f"SELECT pg_advisory_lock({_KEY})", (self._me,))

    def gone(self, gateways: Iterable[str]) -> set[str]:
        """Those without their locks: on PostgreSQL for a whole lease, as one may only have to connect anew."""
        now = time.monotonic()
        free = {one for one in gateways if one != self._me and self._is_free(one)}
        self._free = {one: self._free.get(one, now) for one in free}
        lease_s = self._settings.lease if self._settings.file is None else 0
        return {one for one, since in self._free.items() if now - since >= lease_s}

    def _is_free(self, gateway: str) -> bool:
        if self._settings.file is None:
            row = self._lock.execute(f"SELECT pg_try_advisory_xact_lock({_KEY})", (gateway,)).fetchone()
            return bool(row and row[0])
        return is_free(self._settings.file, gateway)

    def release(self) -> None:
        """Let go."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._settings.file is not None:
            _file(self._settings.file, self._me).unlink(missing_ok=True)


def _file(database: Path, gateway: str) -> Path:
    return database.with_name(f"{database.name}.gateways") / gateway


def is_free(database: Path, gateway: str) -> bool:
    """Whether nobody holds the lock of ``gateway`` any more; its file is removed then."""
    file = _file(database, gateway)
    if not file.exists():
        return True
    try:
        _locked(database, gateway).close()
    except sqlite3.OperationalError:
        return False
    file.unlink(missing_ok=True)
    return True


def _tidy(database: Path) -> None:
    """Remove what gateways that were killed without a run left; one that is just starting has no lock yet."""
    for file in database.with_name(f"{database.name}.gateways").iterdir():
        if time.time() - file.stat().st_mtime > OLD_S:
            is_free(database, file.name)


def _locked(database: Path, gateway: str) -> sqlite3.Connection:
    """Raises sqlite3.OperationalError when another has it."""
    file = _file(database, gateway)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    connection = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = MEMORY")  # else there is a second file
        connection.execute("BEGIN EXCLUSIVE")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(database: Path) -> None:
    """Make the file, for its owner alone: arguments and results of tasks are nobody else's business."""
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(database, os.O_CREAT | os.O_RDWR, 0o600))


def is_work_left(file: Path | None) -> bool:
    """Whether there is a run that nobody has, or whose gateway is gone.

    Always on PostgreSQL, for which ``file`` is None: all gateways share its queue.
    """
    if file is None:
        return True
    if not file.exists():
        return False
    try:
        # Not read-only: the first to open a file after a crash mends its log.
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True, timeout=CONNECT_S)) as connection:
            runs = connection.execute(_OPEN).fetchall()
    except sqlite3.OperationalError as exc:
        if "no such table" in str(exc):
            return False
        raise
    return any(status == "ENQUEUED" or is_free(file, executor) for status, executor in runs)


def earlier_runs(settings: Settings) -> frozenset[str]:
    """Those that a gateway with tables of its own beside DBOS began and did not end: nobody can go on with them."""
    if settings.file is None:
        import psycopg

        with psycopg.connect(settings.url, connect_timeout=10) as connection:
            known = connection.execute("SELECT to_regclass('pml_run') IS NOT NULL").fetchone() == (True,)
            return frozenset(run for (run,) in connection.execute(_EARLIER)) if known else frozenset()
    with closing(sqlite3.connect(settings.file, timeout=CONNECT_S)) as found:
        known = found.execute("SELECT 1 FROM sqlite_master WHERE name = 'pml_run'").fetchone() is not None
        return frozenset(run for (run,) in found.execute(_EARLIER)) if known else frozenset()
