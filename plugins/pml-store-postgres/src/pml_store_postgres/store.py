"""The store and its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_stores.errors import StoreError
from pml_stores.sql.store import DatabaseStore

from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Json
    from pml_stores.sql.database import Session

HEALTH_S = 1.0
"""How long a self-check waits for the database."""


class PostgresStore(DatabaseStore):
    """Implements :class:`pml_hookspecs.Store` in one schema of PostgreSQL, which several gateways may share."""

    settings_type = Settings

    def _session(self, settings: Settings, log: Any) -> Session[Any]:
        # Imported here: `pml plugins list` loads the class and needs neither asyncio nor the statements.
        from .database import Database, ServerSession
        from .execution_rows import ExecutionRows

        self._database = Database(settings)
        return ServerSession(self._database, ExecutionRows())

    def _place(self) -> Mapping[str, Json]:
        from .schema import BASE, STEPS

        return {"database": self._database.place, "schema_version": BASE + len(STEPS)}

    async def _size_bytes(self) -> int | None:
        """None while the database is out of reach, or the store not entered."""
        import asyncio

        from .execution_rows import size_bytes

        if self._writer.trouble:
            return None
        try:
            async with asyncio.timeout(HEALTH_S):
                return await self._readers.read(size_bytes)
        except (StoreError, TimeoutError):
            return None
