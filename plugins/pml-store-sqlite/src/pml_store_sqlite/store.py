"""The store and its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_stores.sql.store import DatabaseStore

from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Json
    from pml_stores.sql.database import Session


class SqliteStore(DatabaseStore):
    """Implements :class:`pml_hookspecs.Store` in one SQLite file, which several gateways may share."""

    settings_type = Settings

    def _session(self, settings: Settings, log: Any) -> Session[Any]:
        # Imported here: `pml plugins list` loads the class and needs neither asyncio nor sqlite3.
        from .database import Database, FileSession
        from .execution_rows import ExecutionRows

        self._database = Database(settings, log)
        return FileSession(self._database, ExecutionRows())

    def _place(self) -> Mapping[str, Json]:
        from .schema import BASE, STEPS

        return {"path": self._database.path, "schema_version": BASE + len(STEPS)}

    async def _size_bytes(self) -> int:
        return self._database.size_bytes()
