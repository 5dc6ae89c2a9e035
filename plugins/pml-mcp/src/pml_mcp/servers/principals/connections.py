"""Connections to a server at which each principal has a login: each is one principal's, and none serves all.

A connection is opened for a holder, and its transport is told the holder's principal; so the token that goes with a
request follows from the connection, and which connection that is from whom the request is made for.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from pml_catalog.server_views import BusyError
from pml_hookspecs import Endpoint, TransportError, replace
from pml_kit.mcp.principal_logins import LoginRequiredError, PrincipalLogins, for_principal
from pml_mcp.servers.connection.connection import Connection
from pml_mcp.servers.extra_connections import ExtraConnections
from pml_mcp.wire.client import Client, Holder
from pml_mcp.wire.schemes import scheme_of
from pml_mcp.wire.upstream import Upstream

if TYPE_CHECKING:
    from pml_mcp.servers.connection.eras import Era
    from pml_mcp.servers.connection_context import ConnectionContext, ConnectionEvents

UNUSED_S = 60.0
"""How long a connection of a principal's stays open that no client waits for [s]."""


class PrincipalConnections(ExtraConnections):
    """Opened for whoever needs one first; closed when their client leaves."""

    def __init__(self, context: ConnectionContext, main: Connection, events: ConnectionEvents[Connection]) -> None:
        """``main`` is never opened."""
        super().__init__(context, main, events)
        self._unheard = replace(events, notified=lambda *_about: None, lists_changed=lambda *_about: None)
        """For connections that no client waits for: nobody else is told what comes by them."""
        self._held: dict[object, tuple[Holder, Connection, asyncio.Task[None]]] = {}

    def __iter__(self) -> Iterator[Connection]:
        return iter([connection for _, connection, _ in self._held.values()])

    def era_for(self, client: Client) -> Era:
        """That of the client's connection; before there is one, the client's own."""
        own, era = self.own(client), self._context.settings.era
        if own is not None and own.known:
            return own.offer.era
        return self._first_era(client) if era == "client" else era

    def _first_era(self, client: Client | None) -> Era:
        return "modern" if client is not None and client.modern else "legacy"

    def apply(self, client: Client | None) -> TypeGuard[Client]:
        """Always: no connection serves all."""
        return True

    def alone(self, _client: Client) -> bool:
        """Always: every client has one of its own."""
        return True

    def own(self, client: Client) -> Connection | None:
        """The connection that the client has by now."""
        return self.held(Holder.of(client))

    def held(self, holder: Holder) -> Connection | None:
        """The connection that there is for a holder by now."""
        found = self._held.get(holder.key)
        return None if found is None or found[0].principal != holder.principal else found[1]

    def holder_of(self, connection: Connection) -> Holder | None:
        """Whose a connection is; None once it is nobody's."""
        return next((holder for holder, one, _ in self._held.values() if one is connection), None)

    async def of(self, client: Client | None, within_s: float, *, bridged: bool = True) -> Connection:
        """The connection of the client, or without one of whoever is served; as :meth:`of_holder`."""
        holder = Holder.now() if client is None else Holder.of(client)
        if holder is None:
            raise TransportError("it is not known for whom this is, and each has a login of its own", retryable=False)
        return await self.of_holder(holder, within_s)

    async def of_holder(self, holder: Holder, within_s: float) -> Connection:
        """The holder's connection.

        Raises:
            LoginRequiredError: Its principal has to log in first.
            TransportError: It cannot be had; the message says why.
        """
        known = self._held.get(holder.key)
        if known is not None and (known[0].principal != holder.principal or known[1].given_up is not None):
            await self.stop(holder.key)
        if holder.key not in self._held:
            self._open(holder)
        connection = self._held[holder.key][1]
        try:
            await connection.link(within_s)
        except TransportError:
            if isinstance(connection.failure, LoginRequiredError):
                raise connection.failure from None
            raise
        return connection

    async def meet(self, client: Client, within_s: float) -> None:
        """Nothing: nobody is connected without a need."""

    def has(self, person: object) -> bool:
        """Whether there is a connection of this client's."""
        return person in self._held

    async def stop(self, person: object) -> None:
        """Close the connection of one client, or of one principal."""
        found = self._held.pop(person, None)
        if found is not None:
            await _ended([found[2]])

    async def stop_all(self) -> None:
        """Close everything."""
        self._closed = True
        tasks = [task for _, _, task in self._held.values()]
        self._held.clear()
        await _ended(tasks)

    def _open(self, holder: Holder) -> None:
        context, client = self._context, None
        if self._closed:
            raise TransportError("the gateway is stopping", retryable=False)
        if holder.client is not None:
            client = context.upstream.at_large(holder.key)
            if client is None:
                raise TransportError("its client has left", retryable=False)
        self._make_room()
        find_endpoint = context.find_endpoint

        async def of_principal() -> Endpoint:
            endpoint = await find_endpoint()
            keeps = isinstance(context.open_transport(scheme_of(endpoint.address)), PrincipalLogins)
            return for_principal(endpoint, holder.principal) if keeps else endpoint

        context = replace(context, find_endpoint=of_principal)
        if client is None:  # whoever else is connected is neither asked by it nor introduced to the server
            context = replace(context, upstream=Upstream(set(), one_client=False))
        idle_timeout_s = context.settings.idle_timeout_s or (UNUSED_S if client is None else None)
        configured = context.settings.era
        connection = Connection(
            context,
            self._unheard if client is None else self._events,
            era=self._first_era(client) if configured == "client" else configured,
            other_era=configured == "client",
            client=client,
            idle_timeout_s=idle_timeout_s,
        )
        # Not in the context of the request that needs it first: what the server says later is not about that one.
        task = asyncio.get_running_loop().create_task(
            connection.run(), name=f"server:{context.name}:principal", context=contextvars.Context()
        )
        self._held[holder.key] = holder, connection, task

    def _make_room(self) -> None:
        """Close what nobody uses, where there are as many as there may be.

        Raises:
            BusyError: All are in use.
        """
        most = self._context.settings.max_clients
        for key in [key for key, (_, one, _) in self._held.items() if one.asleep or one.given_up is not None]:
            if len(self._held) >= most:
                self._held.pop(key)[2].cancel()
        if len(self._held) >= most:
            raise BusyError(
                f"{most} clients have a connection of their own already; try again when one of them has left, or raise "
                f"max_clients in [servers.{self._context.name}]"
            )


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
