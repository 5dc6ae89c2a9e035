"""What a server lists for some clients only: in a session of their own, or for what they can do.

A list belongs to whom it was read for. What is read on the connection that serves all is for all; what a client's own
connection says is for that client, and goes with it; and what a client can do, which a server may make its list
depend on, is asked about once for all clients that can do the same.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from itertools import islice
from typing import Any, NamedTuple

from pml_catalog.definitions import HeldError
from pml_catalog.live import LiveCatalog
from pml_catalog.paging import ServerList
from pml_catalog.tool_tables import ToolList
from pml_hookspecs import CatalogEntry, Link, RawObject, RpcError, TransportError, encode
from pml_mcp.wire.client import Client, ConnectedClient, Holder, current_client

from .connection.connection import Connection
from .connection.eras import Era
from .connection_context import ConnectionContext
from .extra_connections import ExtraConnections
from .tools import Difference, Tools, read_once, read_over

MOST_ABLE = 8
"""Kinds of clients, by what they can do, whose lists are kept of one server."""
MOST_READ = 4 * MOST_ABLE
"""Kinds of clients for which a list was asked for within the last :data:`AGAIN_S`."""
LONGEST_ABLE = 4096
"""More of what a client can do than this makes no difference [bytes of JSON]."""
AGAIN_S = 30.0
"""Pause before a list that could not be read is asked for again [s]."""
Able = tuple[Era, bytes]
"""What a client can do, and in which era its server is told."""


class KeptList(NamedTuple):
    """A list that was read."""

    listed: ServerList[CatalogEntry]
    """As the server says, accepted or not."""
    read_s: float
    """When, on the loop's clock [s]."""
    shown: ToolList
    held: frozenset[str]


class ListFetch(NamedTuple):
    """A list that is being read, or was."""

    task: asyncio.Task[None]
    began_s: float
    told: bool
    """Whether nothing was read before, or the server said that what was read has changed."""


class ClientToolLists:
    """Those of one server."""

    def __init__(
        self, context: ConnectionContext, main: Connection, others: ExtraConnections, tools: Tools, catalog: LiveCatalog
    ) -> None:
        """``tools`` is what is listed for all, and knows what was accepted."""
        self._context, self._main, self._extra = context, main, others
        self._tools, self._catalog = tools, catalog
        self._name, self._log = context.name, context.log
        self.difference = Difference(context, main, tools, self._told_apart)
        self._own: dict[object, KeptList] = {}
        self._able: dict[Able, KeptList] = {}
        self._private: set[Able] = set()
        """Those whose lists are only for whom they were sent to, as the server says."""
        self._readings: dict[object, ListFetch] = {}
        self._one_at_a_time = asyncio.Lock()
        self._changed_own: set[Connection] = set()
        """Clients' own connections that told of a change which was not read yet."""
        self._closed = False

    def of(self, client: Client) -> ToolList | None:
        """What is listed for a client; None stands for what is listed for all."""
        kept = self._kept(client)
        return None if kept is None else kept.shown

    def _of_current(self) -> ToolList | None:
        client = current_client.get()
        return None if client is None else self.of(client)

    def given(self, client: Client | None) -> ServerList[CatalogEntry]:
        """What the server lists for a client, as it gave it, accepted or not."""
        kept = None if client is None else self._kept(client)
        return self._tools.listed if kept is None else kept.listed

    def serves(self, connection: Connection, client: Client) -> bool:
        """Whether a connection is the one by which a client hears of the server."""
        alone = self._extra.alone(client)
        used = self._extra.own(client) if alone else self._shared(self._extra.era_for(client))
        return connection is (used or self._main)

    @property
    def private(self) -> bool:
        """Whether the server says of any of them that it is only for whom it was sent to."""
        return bool(self._private)

    def _kept(self, client: Client) -> KeptList | None:
        own = self._own.get(client.conversation)
        if own is not None and self._extra.alone(client):
            return own
        able = self._able_of(client) if self._able else None
        return None if able is None else self._able.get(able)  # nothing yet: the list for all is the best there is

    def _able_of(self, client: Client) -> Able | None:
        """Under what its list is kept; None where the list for all is its list."""
        if self._context.upstream.one_client:
            return None
        era = self._extra.era_for(client)
        if era == "legacy" and not self._extra.alone(client):
            return None
        if era == self._main.offer.era and not client.capabilities:
            return None
        raw = encode(client.capabilities)
        return (era, raw) if len(raw) <= LONGEST_ABLE else None

    # Reading

    async def ready(self, connection: Connection, link: Link) -> None:
        """A connection is open that does not serve all: see what it lists."""
        if connection.client is not None:
            await self._read_own(connection, link)

    def heard(self, connection: Connection) -> None:
        """A list has changed, as that connection says."""
        if connection.client is not None:
            self._changed_own.add(connection)
            self._read_changed()
            return
        for able in {*self._able, *self._of_connected()}:
            self._begin(able, self._read_able(able, None))

    def up(self) -> None:
        """A connection is open that does not serve all."""
        self._read_changed()
        for able in self._of_connected():
            if able not in self._able and not self._apart(able) and self._may_read(able):
                self._begin(able, self._read_able(able, None))

    def _read_changed(self) -> None:
        """Read the lists of clients' own connections that have changed, of those that are open."""
        for connection in tuple(self._changed_own):
            client = connection.client
            if client is None or self._extra.own(client) is not connection:
                self._changed_own.discard(connection)
            elif connection.connected:
                self._changed_own.discard(connection)
                self._begin(client.conversation, self._read_own(connection))

    def _of_connected(self) -> set[Able]:
        """What the clients that are there can do, where that makes a difference and is no matter of their own."""
        found = (self._able_of(client) for client in self._context.upstream.clients() if not self._extra.alone(client))
        return set(islice((able for able in found if able is not None), MOST_ABLE))

    def reading_of(self, holder: Holder, max_age_s: float) -> ListFetch | None:
        """As :meth:`reading_for`; what is listed for all is the list of whoever is no client."""
        return None if holder.client is None else self.reading_for(holder.client, max_age_s)

    def reading_for(self, client: Client, max_age_s: float) -> ListFetch | None:
        """What is being read for a client, or begins to be, because it was not for so long; None for nothing."""
        if not self._main.known or not (self._main.connected or self._main.asleep):
            return None
        self.difference.look(client)
        key: object = client.conversation
        if (kept := self._own.get(key)) is not None:
            connection = self._extra.own(client)
            if self._is_older(key, kept, max_age_s) and connection is not None and connection.connected:
                self._begin(key, self._read_own(connection), told=False)
        else:
            if (able := self._able_of(client)) is None:
                return None
            kept = self._able.get(able)
            wanted = kept is None or (self._is_older(able, kept, max_age_s) and not self._takes_a_start(able))
            if wanted and self._may_read(able, max_age_s):
                self._begin(able, self._read_able(able, client), told=kept is None)
            key = able
        reading = self._readings.get(key)
        return None if reading is None or reading.task.done() else reading

    def _told_apart(self) -> None:
        """What clients can do makes a difference to a program that they shared until now."""
        self._extra.differs = True
        for able in {
            able for client in self._context.upstream.clients() if (able := self._able_of(client)) is not None
        }:
            if able not in self._able and self._may_read(able):
                self._begin(able, self._read_able(able, None))

    def _is_older(self, key: object, kept: KeptList, max_age_s: float) -> bool:
        """Whether a list was last read, or begun to be, so long ago."""
        before = self._readings.get(key)
        began_s = kept.read_s if before is None else max(kept.read_s, before.began_s)
        return (before is None or before.task.done()) and asyncio.get_running_loop().time() - began_s >= max_age_s

    def compare(self) -> None:
        """Have the catalog ask what is listed for whom, if that is not the same for all."""
        listed = self._listed_for_all()
        differs = any(kept.shown is not listed for kept in (*self._own.values(), *self._able.values()))
        self._catalog.tables.apart(self._name, self._of_current if differs else None)

    def _may_read(self, able: Able, pause_s: float = AGAIN_S) -> bool:
        now_s = asyncio.get_running_loop().time()
        before = self._readings.get(able)
        if before is not None and now_s < before.began_s + (AGAIN_S if able not in self._able else pause_s):
            return False
        of_able = {key: reading for key, reading in self._readings.items() if isinstance(key, tuple)}
        for key, reading in of_able.items():
            if reading.task.done() and key not in self._able and now_s > reading.began_s + AGAIN_S:
                del self._readings[key]
        return len(of_able) < MOST_READ and self._reachable(able)

    def _reachable(self, able: Able) -> bool:
        """Whether reading it does not start a program that everybody shares."""
        return self._apart(able) or bool(self._context.settings.url) or self._shared(able[0]) is not None

    def _apart(self, able: Able) -> bool:
        """Whether clients that can do that have connections of their own."""
        return able[0] == "legacy" or self._context.settings.sharing == "per_client"

    def _takes_a_start(self, able: Able) -> bool:
        """Whether a program is started for reading it."""
        return self._apart(able) and not self._context.settings.url

    def _shared(self, era: Era) -> Connection | None:
        """The connection of that era that serves all, if it is open."""
        shared = [one for one in (self._main, *self._extra) if one.client is None]
        return next((one for one in shared if one.offer.era == era and one.connected), None)

    def _begin(self, key: object, work: Coroutine[Any, Any, None], *, told: bool = True) -> None:
        if self._closed:
            work.close()
            return
        if (before := self._readings.pop(key, None)) is not None:
            before.task.cancel()
        loop = asyncio.get_running_loop()
        # Not in the context of the client that asks first: the list may be for others as well.
        task = loop.create_task(work, name=f"own-list:{self._name}", context=contextvars.Context())
        self._readings[key] = ListFetch(task, loop.time(), told)

    async def _read_own(self, connection: Connection, link: Link | None = None) -> None:
        """Read what a client's own connection lists; ``link`` while that is being opened."""
        try:
            self._have_own(connection, await self._tools.read(connection, link or await connection.link(0)))
        except (RpcError, TransportError, TimeoutError) as exc:
            self._log.warning("the tools of a client's own connection could not be read", reason=str(exc))

    async def _read_able(self, able: Able, client: Client | None) -> None:
        era, raw = able
        capabilities = RawObject(raw)
        try:
            if self._apart(able):
                async with self._one_at_a_time:
                    entries, private = await read_once(self._context, era, capabilities)
            else:
                shared = self._shared(era)
                if shared is None and client is not None:
                    shared = await self._extra.of(client, self._context.start_timeout_s)
                if shared is None or shared.offer.era != era or shared.client is not None:
                    return
                link = await shared.link(0)
                entries, private = await read_over(self._context, link, capabilities if shared.modern else None)
        except (RpcError, TransportError, TimeoutError, ValueError) as exc:
            self._log.info("what is listed for some clients could not be read", reason=str(exc))
            return
        (self._private.add if private else self._private.discard)(able)
        before = self._able.pop(able, None)
        shown_before = self._listed_for_all() if before is None else before.shown
        self._able[able] = kept = self._judged(entries, asyncio.get_running_loop().time())
        while len(self._able) > MOST_ABLE:
            oldest = next(iter(self._able))
            del self._able[oldest]
            self._private.discard(oldest)
            self._readings.pop(oldest, None)
        self._changed(None, shown_before, kept.shown)

    def _have_own(self, connection: Connection, entries: ServerList[CatalogEntry]) -> None:
        client = connection.client
        if client is None or self._closed or self._extra.own(client) is not connection:
            return
        before = self.of(client) or self._listed_for_all()
        self._own[client.conversation] = kept = self._judged(entries, asyncio.get_running_loop().time())
        self._changed(client.conversation, before, kept.shown)

    def _listed_for_all(self) -> ToolList | None:
        return self._catalog.tables.theirs.get(self._name)

    def _changed(self, conversation: ConnectedClient | None, before: ToolList | None, now: ToolList) -> None:
        if self._closed:
            return
        self.compare()
        if before is now:
            return
        if conversation is None:
            self._catalog.changed()
        else:
            conversation.list_may_differ()

    # What was accepted

    def _judged(self, entries: ServerList[CatalogEntry], read_s: float) -> KeptList:
        definitions = self._tools.definitions
        if definitions is not None:
            shown, held = definitions.compare(entries)
        elif self._context.settings.on_change == "hold":
            shown, held = [], frozenset(entry.name for entry in entries)
        else:
            shown, held = list(entries), frozenset()
        return KeptList(entries, read_s, self._catalog.tables.lists.of(self._name, shown), held)

    def judge_again(self) -> None:
        """What was accepted may be something else now."""
        if self._tools.guarded:
            self._own = {one: self._judged(kept.listed, kept.read_s) for one, kept in self._own.items()}
            self._able = {able: self._judged(kept.listed, kept.read_s) for able, kept in self._able.items()}

    async def check(self, tool: str, client: Client | None, limit_s: float) -> None:
        """See that a tool is what was accepted, also as the client's own list says.

        Raises:
            HeldError: It is not, or that cannot be known now.
        """
        if client is None:
            return
        reading = self._readings.get(client.conversation)
        if reading is not None and reading.told and not reading.task.done():
            await asyncio.wait((reading.task,), timeout=limit_s)
            if not reading.task.done():
                raise HeldError("its server said that its tools have changed, and does not say how")
        kept = self._kept(client)
        if kept is not None and tool in kept.held:
            raise HeldError("its server lists it otherwise for this client than it was accepted for all")

    # Life

    def left(self, conversation: object) -> None:
        """A client is gone, and what was listed for it."""
        if (reading := self._readings.pop(conversation, None)) is not None:
            reading.task.cancel()
        self._changed_own = {one for one in self._changed_own if one.client and one.client.conversation != conversation}
        if self._own.pop(conversation, None) is not None:
            self.compare()
            self._catalog.tables.sweep()

    def close(self) -> None:
        """Nothing is listed any more."""
        self._closed = True
        self.difference.close()
        for reading in self._readings.values():
            reading.task.cancel()
        self._readings.clear()
        self._own.clear()
        self._able.clear()
        self._catalog.tables.apart(self._name, None)
        self._catalog.tables.sweep()
