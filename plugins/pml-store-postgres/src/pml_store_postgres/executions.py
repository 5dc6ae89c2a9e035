"""Executions: the part of the store that keeps history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pml_stores.executions import SqlExecutions

from . import queries
from .pruning import Pruning
from .rows import micros

if TYPE_CHECKING:
    from datetime import datetime

    from .connection import ServerConnection


class PostgresExecutions(SqlExecutions["ServerConnection"]):
    """Implements :class:`pml_hookspecs.Executions`."""

    statements = queries

    async def prune(self, *, before: datetime | None = None, keep_bytes: int | None = None) -> int:
        """Delete executions that have ended, oldest first; how many without a parent.

        Also those inside of executions that are not there any more, if they started before ``before``. In small steps,
        between which others write.

        Raises:
            StoreError: The database cannot be written just now; what is deleted by then is gone.
            ValueError: ``before`` has no time zone.
        """
        if before is not None and before.tzinfo is None:
            raise ValueError("`before` has no time zone; give a UTC time")
        pruning = Pruning(None if before is None else micros(before), keep_bytes)
        more = before is not None or keep_bytes is not None

        def step(connection: ServerConnection) -> None:
            nonlocal more
            more = pruning.step(connection)

        while more:
            await self._writer.write(apply=step)
        return pruning.gone
