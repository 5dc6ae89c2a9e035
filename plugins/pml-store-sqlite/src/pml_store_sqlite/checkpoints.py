"""Moves what was written from the write-ahead log into the file, beside the thread that writes."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .database import Database

LARGE_BYTES = 4 * 1024 * 1024
"""A log that is no larger is left as it is: closing the store moves it."""
LONG_PAGES = 4096
"""With more, the log should begin anew: who reads looks for each page in all of it, and a file that gets longer while
another waits for the disk makes its writer wait as well."""
FEW_PAGES = 128
"""The writer may wait for so many, some 5 ms."""
MOST_ROUNDS = 4
"""Attempts at having so few left."""
BETWEEN_S = 0.5


class Checkpoints:
    """A thread of its own: moving waits for the disk, and who writes or reads must not wait for it.

    The log begins anew with the first transaction after all of it has been moved. While many are written that never
    comes by itself, so the last few pages are moved while the writer waits: what came while the others were moved.
    """

    def __init__(self, database: Database) -> None:
        """Starts nothing."""
        self._database = database
        self.writing = threading.Lock()
        """Held by the writer while it is in a transaction."""
        self._written, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="pml-store-sqlite-checkpoint", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

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
            # What goes wrong here goes wrong for the writer as well, who says so.
            with contextlib.suppress(sqlite3.Error, OSError):
                self._move()

    def _move(self) -> None:
        if Path(f"{self._database.path}-wal").stat().st_size <= LARGE_BYTES:
            return
        with contextlib.closing(self._database.open_checkpointer()) as connection:
            pages = _moved(connection)
            if pages <= LONG_PAGES:
                return
            # Each takes as long as what was written during the one before.
            for _ in range(MOST_ROUNDS):
                before, pages = pages, _moved(connection)
                if pages - before <= FEW_PAGES:
                    break
            with self.writing:
                _moved(connection)


def _moved(connection: sqlite3.Connection) -> int:
    """Move what no reader stands in the way of; how many pages the log has, those that were moved before included."""
    _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return int(pages)
