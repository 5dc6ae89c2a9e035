"""Executions: the part of the store that keeps history."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import TYPE_CHECKING

from pml_stores.executions import SqlExecutions

from . import history, pruning
from .row_values import micros

if TYPE_CHECKING:
    from datetime import datetime


class SqliteExecutions(SqlExecutions[sqlite3.Connection]):
    """Implements :class:`pml_hookspecs.Executions`."""

    statements = history

    async def prune(self, *, before: datetime | None = None, keep_bytes: int | None = None) -> int:
        """Delete what has ended, oldest first, a few hundred rows to a transaction.

        What takes part in ``keep_bytes`` is every page of the file that is in use.

        Raises:
            StoreError: The file cannot be written just now.
            ValueError: ``before`` has no time zone, or ``keep_bytes`` is less than 0.
        """
        if before is not None and before.tzinfo is None:
            raise ValueError("`before` has no time zone; give a UTC time")
        if keep_bytes is not None and keep_bytes < 0:
            raise ValueError(f"`keep_bytes` must be 0 or more, not {keep_bytes}")
        gone = 0
        if before is not None:
            gone += await self._prune(pruning.Pruning(before=micros(before)))
        if keep_bytes is not None:
            gone += await self._prune(pruning.Pruning(keep_bytes=keep_bytes))
        return gone

    async def _prune(self, pruned: pruning.Pruning) -> int:
        while not pruned.done:
            await self._writer.write(apply=partial(pruning.Pruning.step, pruned))
        return pruned.gone
