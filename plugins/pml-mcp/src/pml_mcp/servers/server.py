"""One configured server: its tools, its status, and its connections: one for all clients, or one for each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from pml_catalog.definitions import Change, fingerprint
from pml_catalog.listing import Kind
from pml_catalog.live import LiveCatalog
from pml_hookspecs import (
    CatalogEntry,
    Endpoint,
    Link,
    RawObject,
    Run,
    ServerRequest,
    ServerStatus,
    ToolCall,
    Transport,
    TransportError,
    encode,
    replace,
)
from pml_kit.system.redaction import Redactor
from pml_mcp.servers.connection.starts import Starts
from pml_mcp.servers.connection.time_limit import timeout_s
from pml_mcp.wire.client import Client, current_client
from pml_mcp.wire.upstream import Upstream

from .client_tool_lists import ClientToolLists
from .connection.calls import progress_of
from .connection.connection import Connection
from .connection.eras import Era
from .connection.feature_lists import WAIT_S, Items
from .connection.notifications import Notifications
from .connection.quota import Quota
from .connection_context import ConnectionContext, ConnectionEvents
from .extra_connections import ExtraConnections
from .greeting import Greeting
from .tools import Tools

if TYPE_CHECKING:
    from pml_mcp.server_settings import ServerSettings

LISTED_S = 5.0
"""How long the connection that lists the tools stays open where every client has one of its own [s]."""


class Server:
    """What the gateway knows of one server."""

    took_s: float | None = None
    """How long it took until it was up first; None while it was not [s]."""
    retired = False
    """Whether it is not configured any more."""
    slow = False
    """Whether somebody waited for it in vain when a gateway last ran."""
    in_vain = False
    """Whether somebody waited for it in vain in this run."""
    connections: type[ExtraConnections] = ExtraConnections
    lists: type[ClientToolLists] = ClientToolLists
    on_slow: Callable[[Server], None] | None = None
    on_listed: Callable[[Server, list[CatalogEntry]], None] | None = None
    on_changed: Callable[[Server, list[Change]], None] | None = None
    on_status: Callable[[ServerStatus], None] | None = None

    def __init__(  # noqa: PLR0913 - each is one thing that it depends on
        self,
        name: str,
        settings: ServerSettings,
        find_endpoint: Callable[[], Awaitable[Endpoint]],
        open_transport: Callable[[str], Transport],
        catalog: LiveCatalog,
        log: Any,
        *,
        start_timeout_s: float,
        call_timeout_s: float,
        upstream: Upstream | None = None,
        starts: Starts | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        """Nothing starts yet.

        Args:
            name: As in ``[servers.<name>]``.
            settings: Its table.
            find_endpoint: Gives where it is to be found now, or raises with the reason.
            open_transport: Gives the driver for a scheme or raises with the reason.
            catalog: Where its tools and its status go.
            log: The gateway's.
            start_timeout_s: Longest wait for it to start and list its tools.
            call_timeout_s: Longest wait for an answer.
            upstream: The clients, for what it asks of them; none if not given.
            starts: Whose turn it is to start; its own at once if not given.
            redactor: Takes secrets out of what it says of itself, its tools, and on stderr.
        """
        self.name, self.settings, self._catalog, self._log = name, settings, catalog, log.bind(server=name)
        self._call_timeout_s = settings.timeout_s or call_timeout_s
        self._upstream = upstream or Upstream(set(), one_client=False)
        self.quota, self.greeting = Quota(self._log), Greeting(self.tried)
        self._context = ConnectionContext(
            name=name,
            settings=settings,
            find_endpoint=find_endpoint,
            open_transport=open_transport,
            log=self._log,
            upstream=self._upstream,
            starts=starts or Starts(),
            start_timeout_s=settings.start_timeout_s or start_timeout_s,
            call_timeout_s=self._call_timeout_s,
            quota=self.quota,
            redactor=redactor or Redactor(),
        )
        self._remembered, self.tools = asyncio.Event(), Tools(self._context, self._published, self._log)
        self._untold: dict[str, RawObject] = {}
        """Notifications of clients that came before it was up first, the last of each method."""
        tells = partial(ConnectionEvents, notified=self._notified, lists_changed=self._lists_changed)
        self._only_lists = settings.sharing == "per_client" and not self._upstream.one_client
        configured_s = settings.idle_timeout_s
        idle_timeout_s = min(LISTED_S, configured_s or LISTED_S) if self._only_lists else configured_s
        mine, both = tells(ready=self._ready, up=self._up, down=self._down), settings.era == "client"
        first: Era = "modern" if settings.era == "modern" else "legacy"
        self._main = Connection(self._context, mine, era=first, other_era=both, idle_timeout_s=idle_timeout_s)
        # The status is that of the connection that serves all, as is the time at which it is tried again.
        self.backoff = self._main.backoff
        of_others = tells(ready=self._ready_apart, up=self._up_apart, down=lambda _state, _reason: None)
        self._extra = self.connections(self._context, self._main, of_others)
        self.client_lists = self.lists(self._context, self._main, self._extra, self.tools, catalog)
        self._notifications = Notifications(name, self._upstream, self._main, self.tools, self.client_lists)
        self.status = _first_status(name, enabled=settings.enabled)
        catalog.report(self.status)

    @property
    def fingerprint(self) -> str:
        """Changes with what is started or connected to."""
        return fingerprint(self.settings)

    @property
    def began_s(self) -> float | None:
        """When it began to start, on the loop's clock [s]; None while it waits for its turn."""
        return self._main.began_s

    def hurry(self) -> None:
        """Somebody asks for it: it waits for no turn."""
        self._main.wanted.set()

    async def tried(self) -> None:
        """Wait until the first attempt to connect has ended, well or badly, or it sleeps with its tools known."""
        await self._main.tried.wait()

    # Life

    async def run(self) -> None:
        """Keep the connection that serves all clients, until cancelled."""
        if lazy := self.settings.start == "lazy":
            await self._remembered.wait()
        try:
            await self._main.run(asleep=lazy and self.status.tools > 0)
        finally:
            self.tools.close()
            self.client_lists.close()
            await self._extra.stop_all()

    @property
    def busy(self) -> bool:
        """Whether it has requests to answer."""
        return any(connection.calls.count for connection in (self._main, *self._extra))

    def retire(self) -> None:
        """It is not configured any more: what it lists and how it is concerns nobody."""
        self.retired = True

    def has_of_its_own(self, conversation: object) -> bool:
        """Whether something runs that is only for this client."""
        shared = [connection for connection in (self._main, *self._extra) if connection.client is None]
        return self._extra.has(conversation) or any(connection.subscriptions.of(conversation) for connection in shared)

    async def client_left(self, conversation: object) -> None:
        """Stop what was only for one client, and what it wanted to hear of."""
        self.client_lists.left(conversation)
        await self._extra.stop(conversation)
        for connection in (self._main, *self._extra):
            await connection.client_left(conversation)

    async def _ready(self, connection: Connection, link: Link) -> None:
        self.greeting.hear(connection.offer.words, connection.offer.capabilities)
        entries = await self.tools.read(connection, link)
        self.status = replace(self.status, description=connection.offer.description)
        self.tools.have(entries)

    async def _ready_apart(self, connection: Connection, link: Link) -> None:
        await self.client_lists.ready(connection, link)

    def _up_apart(self) -> None:
        self.tools.read_again()
        self.client_lists.up()

    def waited_in_vain(self) -> None:
        """Somebody did; next time nobody waits for it who does not need it, unless it comes up meanwhile."""
        if not self.in_vain and not self.retired:
            self.in_vain = True
            if self.on_slow is not None:
                self.on_slow(self)

    def _up(self) -> None:
        if self.took_s is None and self.began_s is not None:
            self.took_s = asyncio.get_running_loop().time() - self.began_s
        if self.in_vain or self.slow:
            self.in_vain = self.slow = False
            if self.on_slow is not None:
                self.on_slow(self)
        self._say(replace(self.status, state="up", reason="", restarts=self._main.restarts))
        while self._untold:
            self._main.tell(*self._untold.popitem())
        self.tools.read_again()  # it may have changed while it was being read

    def _down(self, state: str, reason: str) -> None:
        known: Any = state
        if state == "idle" and self._only_lists:
            reason = "each client has one of its own, started by its first call"
        self._say(replace(self.status, state=known, reason=reason, restarts=self._main.restarts))

    def _say(self, status: ServerStatus) -> None:
        if self.retired:
            return
        self.status = replace(status, reason=self._context.redactor.text(status.reason))
        self._catalog.report(self.status)
        if self.on_status is not None:
            self.on_status(self.status)

    # Tools

    def remember(self, entries: Sequence[CatalogEntry], description: str = "") -> None:
        """Show what the server had, and said of itself, when last seen, until it is up."""
        if entries and self.status.state != "up":
            self.status = replace(self.status, tools=len(entries), description=description)
            self._catalog.report(self.status)
            self._catalog.publish(self.name, entries)
        self._remembered.set()

    def _published(self, entries: list[CatalogEntry], changes: list[Change]) -> None:
        if self.retired:
            return
        self.client_lists.judge_again()
        self._catalog.publish(self.name, entries)
        self.client_lists.compare()
        self.status = replace(self.status, tools=len(entries))
        self._catalog.report(self.status)
        if self.on_listed is not None:
            self.on_listed(self, entries)
        if self.on_changed is not None:
            self.on_changed(self, changes)

    async def read_again(self, age_s: float, within_s: float) -> None:
        """Have its tools listed again if the last reading began so long ago, and wait for that; it may be asleep."""
        with suppress(TransportError):
            await self._main.link(within_s)
        self.tools.read_if_older(age_s, self._main)
        await self.tools.settled(within_s)

    def look_again(self) -> None:
        """Somebody asks for a list: have its tools listed again if that was not done for so long."""
        self.tools.read_if_older(self.settings.relist_s, self._main)

    async def call_tool(self, name: str, task: ToolCall, run: Run) -> RawObject:
        """``tools/call``; arguments and other members go through as they came.

        Raises:
            TimeoutError: No answer in time.
            TransportError: Not connected.
            RpcError: The server answered with an error.
            HeldError: The tool is not what was accepted.
        """
        usual_s, deadline = self._call_timeout_s, run.deadline
        limit_s = usual_s if deadline is None else timeout_s(usual_s, deadline)
        client, others = current_client.get(), self._extra
        connection = await others.of(client, limit_s) if others.apply(client) else self._main
        if self.tools.guarded or self.settings.on_change == "hold":
            await self.tools.check(name, connection, limit_s)
            await self.client_lists.check(name, client, limit_s)
        raw = _before_arguments(name) + encode(task.arguments)
        raw += b"," + encode(task.extra)[1:-1] + b"}" if task.extra else b"}"
        sink = progress_of(run) if run.wants_progress else None
        return await connection.send("tools/call", RawObject(raw), limit_s, sink, hands_on=run.parent is None)

    # Everything else

    async def request(self, task: ServerRequest, run: Run) -> RawObject:
        """Send any other request; params and result pass as they are.

        Raises:
            TimeoutError, TransportError, RpcError: As :meth:`call_tool`.
        """
        connection, params = await self._for_current(), RawObject.of(task.params)
        if task.method == "resources/subscribe":
            return await connection.subscribe(task.target, params)
        sink = progress_of(run) if run.wants_progress else None
        return await connection.send(task.method, params, self._call_timeout_s, sink)

    async def _for_current(self) -> Connection:
        """The connection to use for the current client."""
        client, others = current_client.get(), self._extra
        return await others.of(client, self._call_timeout_s) if others.apply(client) else self._main

    def tell(self, method: str, params: RawObject, conversation: object) -> None:
        """Send a client's notification over every connection but those of other clients, once the server is up."""
        if not self._main.tried.is_set():
            self._untold[method] = params
            return
        for connection in (self._main, *self._extra):
            if connection.client is None or connection.client.conversation is conversation:
                connection.tell(method, params)

    @property
    def modern(self) -> bool:
        """Whether its connection for all clients speaks a revision without a handshake."""
        return self._main.modern

    @property
    def declared(self) -> Sequence[Mapping[str, Any]]:
        """What it declared on each of its connections, which may differ by era; last time if it was not up yet."""
        return [i.capabilities if i.known else self.greeting.words.declared for i in (self._main, *self._extra)]

    async def meet(self, client: Client, within_s: float) -> None:
        """As :meth:`ExtraConnections.meet`."""
        await self._extra.meet(client, within_s)

    def offers(self, capability: str) -> bool:
        """Whether it declared ``capability``; False while it is neither connected nor stopped for want of use."""
        return self._main.offers(capability)

    async def features(
        self, kind: Kind, wait_s: float | None = None, max_age_s: float | None = None, *, undeclared: bool = False
    ) -> Items:
        """Its resources, templates or prompts, as it sent them to the current client; kept until they change.

        A server that was not needed yet (``start = "lazy"``) is not started for it, and has none until then.
        ``wait_s`` is for one that is starting, None for as long as usual [s]; the others are those of
        :class:`.FeatureLists`.

        Raises:
            TimeoutError, TransportError, RpcError: As :meth:`call_tool`.
        """
        client = current_client.get()
        own = self._extra.own(client) if client is not None and self._extra.alone(client) else None
        usual_s = 0.0 if self.slow else WAIT_S
        lists, wait_s = (own or self._main).lists, usual_s if wait_s is None else wait_s
        return await lists.get(kind, wait_s, max_age_s, undeclared=undeclared)

    async def wake(self) -> bool:
        """Start it to see what it has, if it was not needed yet; whether that was so."""
        if self._main.known or not self.settings.enabled or self._main.given_up is not None:
            return False
        with suppress(TransportError):
            await self._main.link(self._context.start_timeout_s)
            return True
        return False

    async def unsubscribe(self, uri: str, params: RawObject) -> RawObject:
        """Hear no more of changes of a resource.

        Raises:
            TimeoutError, TransportError, RpcError: As :meth:`call_tool`.
        """
        return await (await self._for_current()).unsubscribe(uri, params)

    async def set_level(self, level: str) -> None:
        """Have it log from ``level`` on for the current client, now and after it was started again."""
        client = current_client.get()
        if client is not None and self._extra.alone(client):
            own = self._extra.own(client)  # without one, it is told the level when it starts
            connections = [] if own is None else [own]
        else:
            connections = [i for i in (self._main, *self._extra) if i.client is None]
        for connection in connections:
            await connection.set_level(level)

    def _notified(self, connection: Connection, method: str, params: RawObject) -> None:
        self._notifications.heard(connection, method, params)

    def _lists_changed(self, connection: Connection, method: str) -> None:
        self._notifications.lists_changed(connection, method)


@lru_cache(4096)  # not of all: names of tools that no server lists are whatever clients write
def _before_arguments(name: str) -> bytes:
    return b'{"name":' + encode(name) + b',"arguments":'


def _first_status(name: str, *, enabled: bool) -> ServerStatus:
    if enabled:
        return ServerStatus(name=name, state="starting")
    reason = f"it is disabled; set enabled = true in [servers.{name}]"
    return ServerStatus(name=name, state="disabled", reason=reason)
