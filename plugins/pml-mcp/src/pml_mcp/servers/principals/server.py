"""A server at which each principal has a login of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pml_catalog.listing import Kind
from pml_catalog.paging import ServerList
from pml_hookspecs import CatalogEntry, RawObject, Run, ServerRequest, ToolCall
from pml_kit.mcp.principal_logins import LoginRequiredError
from pml_mcp.servers.connection.feature_lists import WAIT_S
from pml_mcp.servers.server import Server
from pml_mcp.wire.client import Holder, current_client, current_principal
from pml_mcp.wire.tool_results import text_result

from .connections import PrincipalConnections
from .logins import Logins
from .tool_lists import LOG_IN, PrincipalToolLists

if TYPE_CHECKING:
    from pml_mcp.servers.connection.feature_lists import Items

T = TypeVar("T")
OWN = "each principal has a connection and a login of its own"


class PrincipalServer(Server):
    """Nothing of it is shared: neither connection nor list nor what was remembered of either."""

    connections = PrincipalConnections
    lists = PrincipalToolLists

    def __init__(self, *args: Any, **options: Any) -> None:
        """As :class:`Server`."""
        super().__init__(*args, **options)
        self._logins = Logins(self._context)

    async def run(self) -> None:
        """Have connections opened as they are needed, until cancelled."""
        self._main.tried.set()
        self._main.given_up = OWN
        self._down("idle", OWN)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.tools.close()
            self.client_lists.close()
            await self._extra.stop_all()

    def remember(self, entries: Sequence[CatalogEntry], description: str = "") -> None:
        """Nothing: what was listed was listed for somebody."""

    async def call_tool(self, name: str, task: ToolCall, run: Run) -> RawObject:
        """As :meth:`Server.call_tool`, with the login of the principal that ``run`` is for.

        Raises:
            LoginRequiredError: It has none, and nobody made one.
            TimeoutError, TransportError, RpcError, HeldError: As there.
        """
        if name == LOG_IN and not self._lists.gives(Holder.acting_for(run.session.principal), LOG_IN):
            await self._for_principal(run, self._connected)
            return text_result(f"Logged in to {self.name}. Its tools are listed now.")
        return await self._for_principal(run, partial(super().call_tool, name, task, run))

    async def request(self, task: ServerRequest, run: Run) -> RawObject:
        """As :meth:`call_tool`, for any other request."""
        return await self._for_principal(run, partial(super().request, task, run))

    async def features(
        self, kind: Kind, wait_s: float | None = None, max_age_s: float | None = None, *, undeclared: bool = False
    ) -> Items:
        """As :meth:`Server.features`; empty for whoever has no login."""
        holder = Holder.now()
        if holder is None:
            return ServerList()
        wait_s = WAIT_S if wait_s is None else wait_s
        try:
            connection = await self._own.of_holder(holder, wait_s)
        except LoginRequiredError:
            return ServerList()
        return await connection.lists.get(kind, wait_s, max_age_s, undeclared=undeclared)

    def offers(self, capability: str) -> bool:
        """Whether it declared ``capability`` to whoever is served."""
        holder = Holder.now()
        connection = None if holder is None else self._own.held(holder)
        return connection is not None and connection.offers(capability)

    async def wake(self) -> bool:
        """Nothing: whoever may have it is connected when it is asked for."""
        return False

    async def read_again(self, age_s: float, within_s: float) -> None:
        """Have its tools listed again for whoever is served."""
        if (holder := Holder.now()) is not None and (
            reading := self.client_lists.reading_of(holder, age_s)
        ) is not None:
            await asyncio.wait((reading.task,), timeout=within_s)

    @property
    def _own(self) -> PrincipalConnections:
        if not isinstance(self._extra, PrincipalConnections):
            raise TypeError(self._extra)
        return self._extra

    @property
    def _lists(self) -> PrincipalToolLists:
        if not isinstance(self.client_lists, PrincipalToolLists):
            raise TypeError(self.client_lists)
        return self.client_lists

    async def _for_principal(self, run: Run, work: Callable[[], Awaitable[T]]) -> T:
        """Have ``work`` done for the principal of ``run``, with nobody else's client in sight."""
        principal, client = run.session.principal, current_client.get()
        stranger = client is not None and client.conversation.peer.principal != principal
        tokens = current_client.set(None if stranger else client), current_principal.set(principal)
        try:
            return await self._logins.through(run, work)
        finally:
            current_client.reset(tokens[0])
            current_principal.reset(tokens[1])

    async def _connected(self) -> None:
        if (holder := Holder.now()) is not None:
            await self._own.of_holder(holder, self._call_timeout_s)
