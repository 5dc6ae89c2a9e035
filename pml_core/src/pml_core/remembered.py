"""The catalog from last time, so that a start need not wait for servers, and what is kept for the next time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pml_hookspecs import CatalogEntry, ServerStatus, Store

if TYPE_CHECKING:
    from .catalog import LiveCatalog
    from .downstream import Server
    from .supervisor import Supervisor


class Remembered:
    """Keeps what servers list and how they are in the store."""

    def __init__(self, store: Store, supervisor: Supervisor) -> None:
        self._store, self._supervisor = store, supervisor

    async def begin(self, servers: Mapping[str, Server], catalog: LiveCatalog) -> None:
        """Show what is known of servers that are not up yet, and keep what they list from now on."""
        described = {status.name: status.description for status in await self._store.catalog.statuses()}
        for server in servers.values():
            server.on_listed, server.on_status = self._save_tools, self._save_status
            if server.status.state == "up":
                self._save_tools(server, [e for e in catalog if e.server == server.name])
                self._save_status(server.status)
            elif server.settings.enabled:
                entries = await self._store.catalog.entries(server.name, server.fingerprint)
                server.remember(entries, described.get(server.name, ""))

    def _save_tools(self, server: Server, entries: list[CatalogEntry]) -> None:
        arguments = (server.name, server.fingerprint, entries)
        self._supervisor.spawn("core", self._store.catalog.replace, arguments, f"save:{server.name}")

    def _save_status(self, status: ServerStatus) -> None:
        self._supervisor.spawn("core", self._store.catalog.report, (status,), f"report:{status.name}")
