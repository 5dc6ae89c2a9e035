"""Connections to a server besides the one that serves all: one for each client, or for clients of the other era."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeGuard

from pml_catalog.server_views import BusyError
from pml_hookspecs import RpcError, TransportError
from pml_mcp.wire.client import Client

from .connection.connection import Connection
from .connection.eras import Era
from .connection_context import ConnectionContext, ConnectionEvents

Key = tuple[object, Era]
EVERYONE = "everyone"


class ExtraConnections:
    """Started by the first call that needs one; stopped when their client leaves."""

    def __init__(self, context: ConnectionContext, main: Connection, events: ConnectionEvents[Connection]) -> None:
        """``main`` is the one that serves all; ``events`` are those of the others."""
        self._context, self._main, self._events = context, main, events
        self._closed = False
        self._running: dict[Key, tuple[Connection, asyncio.Task[None]]] = {}
        self._one_era = context.settings.era != "client"
        self._refused: set[Era] = set()
        """Eras that the server is known not to speak."""
        self._met: set[Era] = set()
        self.differs = False
        """Whether a program that all share lists something else for clients that can be asked something."""

    @property
    def _per_client(self) -> bool:
        sharing = self._context.settings.sharing
        return sharing == "per_client" or (sharing == "auto" and bool(self._context.settings.url))

    def __iter__(self) -> Iterator[Connection]:
        return iter([connection for connection, _ in self._running.values()])

    def era_for(self, client: Client) -> Era:
        """The era of the connection that is for a client."""
        main = self._main.offer
        wanted: Era = "modern" if client.modern else "legacy"
        return main.era if self._one_era or wanted == main.refused or wanted in self._refused else wanted

    def apply(self, client: Client | None) -> TypeGuard[Client]:
        """Whether there is a client, and it needs another connection than the one that serves all."""
        if client is None or self._context.upstream.one_client:
            return False
        return self.era_for(client) != self._main.offer.era or self.alone(client)

    def alone(self, client: Client) -> bool:
        """Whether the client has a connection of its own; where there are no sessions, only if that is configured."""
        if self._context.upstream.one_client:
            return False
        if not self._per_client:
            return self.differs and self._told_apart(client)
        return self._context.settings.sharing == "per_client" or self.era_for(client) == "legacy"

    def _told_apart(self, client: Client) -> bool:
        """Whether a shared program is started for a client that can do something, as long as there is room for it."""
        if not client.capabilities or self.era_for(client) != "legacy":
            return False
        return self.own(client) is not None or self._persons < self._context.settings.max_clients

    @property
    def _persons(self) -> int:
        return sum(person is not EVERYONE for person, _ in self._running)

    def own(self, client: Client) -> Connection | None:
        """The connection that the client has of its own by now."""
        running = self._running.get((client.conversation, self.era_for(client)))
        return None if running is None else running[0]

    async def of(self, client: Client, within_s: float, *, bridged: bool = True) -> Connection:
        """The client's connection; the one that serves all when the server does not speak the client's era.

        ``bridged`` opens the client's own one then, if it is to have one.

        Raises:
            TransportError: It cannot be had; the message says why.
        """
        if not self._main.known:  # it finds out which eras the server speaks
            await self._main.link(within_s)
        era, alone = self.era_for(client), self.alone(client)
        if era == self._main.offer.era and not alone:
            return self._main
        key: Key = (client.conversation if alone else EVERYONE, era)
        if key not in self._running:
            self._start(key, client.conversation if alone else None)
        connection = self._running[key][0]
        try:
            await connection.link(within_s)
        except TransportError:
            if connection.known or not connection.tried.is_set() or era == self._main.offer.era:
                raise
            await self.stop(key[0])
            if not isinstance(connection.failure, RpcError):  # it may be able to another time
                if alone:
                    raise
                return self._main
            self._refused.add(era)
            return await self.of(client, within_s) if bridged else self._main
        return connection

    async def meet(self, client: Client, within_s: float) -> None:
        """Connect for clients of another era to a server that runs elsewhere, once: it may declare other things there.

        What cannot be had so soon is had by the first call.
        """
        era = self.era_for(client)
        if self._context.settings.url and self.apply(client) and not self.alone(client) and era not in self._met:
            self._met.add(era)
            with suppress(TransportError):
                await self.of(client, within_s, bridged=False)

    def _start(self, key: Key, conversation: object | None) -> None:
        most, client = self._context.settings.max_clients, None
        if self._closed:
            raise TransportError("the gateway is stopping", retryable=False)
        if conversation is not None:
            client = self._context.upstream.at_large(conversation)
            if client is None:
                raise TransportError("its client has left", retryable=False)
            if self._persons >= most:
                raise BusyError(
                    f"{most} clients have one of their own already; try again when one of them has left, or raise "
                    f"max_clients in [servers.{self._context.name}]"
                )
        era = key[1]
        idle_timeout_s = self._context.settings.idle_timeout_s
        connection = Connection(
            self._context, self._events, era=era, other_era=False, client=client, idle_timeout_s=idle_timeout_s
        )
        if client is None:
            connection.level = self._main.level
        # Not in the context of the request that needs it first: what the server says later is not about that one.
        task = asyncio.get_running_loop().create_task(
            connection.run(), name=f"server:{self._context.name}:{era}", context=contextvars.Context()
        )
        self._running[key] = (connection, task)

    def has(self, person: object) -> bool:
        """Whether something runs that is only for this client."""
        return any(key[0] is person for key in self._running)

    async def stop(self, person: object) -> None:
        """Stop what is only for one client, or what is for everyone of the other era."""
        tasks = [self._running.pop(key)[1] for key in list(self._running) if key[0] is person]
        await _end(tasks)

    async def stop_all(self) -> None:
        """Stop everything."""
        self._closed = True
        tasks = [task for _, task in self._running.values()]
        self._running.clear()
        await _end(tasks)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
