"""What a server lists at which each principal has a login: for each holder of a connection, and for nobody else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pml_catalog.live import make_entry
from pml_catalog.paging import ServerList
from pml_hookspecs import RpcError, TransportError
from pml_kit.mcp.principal_logins import LoginRequiredError
from pml_mcp.servers.client_tool_lists import AGAIN_S, ClientToolLists, KeptList, ListFetch
from pml_mcp.wire.client import Client, Holder

from .connections import PrincipalConnections

if TYPE_CHECKING:
    from pml_catalog.tool_tables import ToolList
    from pml_hookspecs import CatalogEntry, Link
    from pml_mcp.servers.connection.connection import Connection

LOG_IN = "log_in"
"""The one tool of a server for whoever has no login there."""


class PrincipalToolLists(ClientToolLists):
    """Those of one server. A holder without a login is shown how to get one."""

    @property
    def private(self) -> bool:
        """Always."""
        return True

    def gives(self, holder: Holder, tool: str) -> bool:
        """Whether the server itself lists a tool for the holder."""
        kept = self._own.get(holder.key)
        return kept is not None and any(entry.name == tool for entry in kept.listed)

    def reading_of(self, holder: Holder, max_age_s: float) -> ListFetch | None:
        """What is being read for a holder, or begins to be, because it was not for so long; None for nothing."""
        key, connection = holder.key, self._connections.held(holder)
        kept, now_s = self._own.get(key), asyncio.get_running_loop().time()
        if kept is not None and connection is not None and connection.connected:
            if self._is_older(key, kept, max_age_s):
                self._begin(key, self._read_own(connection), told=False)
        elif kept is None or connection is None or connection.given_up is not None:
            before = self._readings.get(key)
            if before is None or (before.task.done() and now_s - before.began_s >= min(AGAIN_S, max_age_s)):
                self._begin(key, self._connect(holder), told=kept is None)
        reading = self._readings.get(key)
        return None if reading is None or reading.task.done() else reading

    def reading_for(self, client: Client, max_age_s: float) -> ListFetch | None:
        """As :meth:`reading_of`."""
        return self.reading_of(Holder.of(client), max_age_s)

    @property
    def _connections(self) -> PrincipalConnections:
        if not isinstance(self._extra, PrincipalConnections):
            raise TypeError(self._extra)
        return self._extra

    async def _connect(self, holder: Holder) -> None:
        try:
            await self._connections.of_holder(holder, self._context.start_timeout_s)
        except LoginRequiredError:
            self._have(holder, ServerList(), self._without_login())
        except (RpcError, TransportError, TimeoutError) as exc:
            self._log.info("what is listed for a principal could not be read", reason=str(exc))
            if holder.key not in self._own:  # whoever calls something then is told why
                self._have(holder, ServerList(), self._without_login())

    def _without_login(self) -> ToolList:
        about = {
            "name": LOG_IN,
            "title": f"Log in to {self._name}",
            "description": f"Log in to {self._name}, in the browser. Its tools are listed after that.",
            "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
            "annotations": {"readOnlyHint": True},
        }
        return self._catalog.tables.lists.of(self._name, [make_entry(self._name, about)])

    def _of_current(self) -> ToolList | None:
        holder = Holder.now()
        kept = None if holder is None else self._own.get(holder.key)
        return None if kept is None else kept.shown

    def _kept(self, client: Client) -> KeptList | None:
        return self._own.get(client.conversation)

    def _able_of(self, _client: Client) -> None:
        """Nothing is listed for what a client can do, whoever it is."""

    async def ready(self, connection: Connection, link: Link) -> None:
        """A connection is open: see what it lists."""
        await self._read_own(connection, link)

    def _have_own(self, connection: Connection, entries: ServerList[CatalogEntry]) -> None:
        holder = self._connections.holder_of(connection)
        if holder is None or self._closed:
            return
        definitions = self._tools.definitions
        if definitions is not None and definitions.holds and definitions.accepted is None:
            definitions.judge(entries)  # what is seen first is what all later lists are compared with
        self._have(holder, entries)

    def _have(self, holder: Holder, entries: ServerList[CatalogEntry], shown: ToolList | None = None) -> None:
        before, read_s = self._own.get(holder.key), asyncio.get_running_loop().time()
        kept = KeptList(entries, read_s, shown, frozenset()) if shown is not None else self._judged(entries, read_s)
        self._own[holder.key] = kept
        self.compare()
        if holder.client is not None and (before is None or before.shown is not kept.shown):
            holder.client.conversation.list_may_differ()
