"""Moves what was written from the write-ahead log into the file, beside the thread that writes."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from typing import TYPE_CHECKING

from . import database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .database import Database

LONG_PAGES = 4096
"""With more, the log should begin anew: who reads looks for each page in all of it, and a file that gets longer while
another waits for the disk makes its writer wait as well."""
QUICK_S = 0.01
"""The last pages are moved while the writer waits, if those before them took no longer."""
PAUSE_S = 0.015
"""Longest that it waits; then it goes on, as what is recorded may not stay in memory because a disk is slow."""
MOST_ROUNDS = 4
"""Attempts at having so few left."""
BETWEEN_S = 0.5


class Checkpoints:
    """A thread of its own: moving waits for the disk, and who writes or reads must not wait for it.

    The log begins anew with the first transaction after all of it has been moved. While many are written that never
    comes by itself, so the last few pages are moved while the writer waits: what came while the others were moved.
    """

    def __init__(self, where: Database) -> None:
        """Starts nothing."""
        self._database = where
        self._quiet = threading.Lock()
        """Held by who writes, and by who moves the last pages."""
        self._written, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="pml-store-sqlite-checkpoint", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @contextlib.contextmanager
    def held_off(self) -> Iterator[None]:
        """A transaction of the writer: the last pages are not moved meanwhile, or it waited for long enough."""
        waited = self._quiet.acquire(timeout=PAUSE_S)
        try:
            yield
        finally:
            if waited:
                self._quiet.release()

    def written(self) -> None:
        """Tell that the log has become longer."""
        if not self._written.is_set():
            self._written.set()

    def stop(self) -> None:
        """End, and wait for it."""
        self._closing.set()
        self._written.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._written.wait()
            if self._closing.wait(BETWEEN_S):
                return
            self._written.clear()
            # It may just have been set to say that this is the end.
            if self._closing.is_set():
                return
            # What goes wrong here goes wrong for the writer as well, who says so.
            with contextlib.suppress(sqlite3.Error):
                self._move()

    def _move(self) -> None:
        if self._database.log_bytes() <= database.WAL_LONG_BYTES:
            return
        with contextlib.closing(self._database.open_checkpointer()) as connection:
            if _moved(connection) <= LONG_PAGES:
                return
            # Each takes as long as what was written during the one before.
            for _ in range(MOST_ROUNDS):
                began = time.monotonic()
                _moved(connection)
                if time.monotonic() - began <= QUICK_S:
                    with self._quiet:
                        _moved(connection)
                    return


def _moved(connection: sqlite3.Connection) -> int:
    """Move what no reader stands in the way of; how many pages the log has, those that were moved before included."""
    _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return int(pages)
