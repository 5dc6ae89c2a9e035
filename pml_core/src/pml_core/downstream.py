"""The user's servers: connect, list, call, connect again."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

from pml_hookspecs import (
    EMPTY,
    CatalogEntry,
    Link,
    Origin,
    RawObject,
    RpcError,
    Run,
    ServerStatus,
    ToolCall,
    Transport,
    TransportError,
    encode,
)
from pml_hookspecs.protocol import HANDSHAKE_REVISIONS

from .catalog import LiveCatalog, make_entry
from .clock import Clock, timeout_s
from .endpoints import endpoint_of, scheme_of
from .features import LISTINGS, Kind
from .listing import every_item, usable_tools
from .upstream import Callers, Upstream, current_client

if TYPE_CHECKING:
    from .config import ServerSettings

SILENT = "it did not answer within {:g} s; check that it speaks MCP, or raise [gateway] start_timeout_s"
FOREVER_S = 86_400.0
"""Limit given to the link where a clock of our own keeps the time [s]."""
CHANGED: Mapping[str, tuple[Kind, ...]] = {
    "notifications/resources/list_changed": ("resources", "templates"),
    "notifications/prompts/list_changed": ("prompts",),
}
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0


class Server:
    """One configured server: keeps a connection to it. Implements :class:`pml_hookspecs.Handler`."""

    def __init__(  # noqa: PLR0913 - each is one thing that it depends on
        self,
        name: str,
        settings: ServerSettings,
        open_transport: Callable[[str], Transport],
        catalog: LiveCatalog,
        log: Any,
        *,
        start_timeout_s: float,
        call_timeout_s: float,
        upstream: Upstream | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        """Nothing starts yet.

        Args:
            name: As in ``[servers.<name>]``.
            settings: Its table.
            open_transport: Gives the driver for a scheme or raises with the reason.
            catalog: Where its tools and its status go.
            log: The gateway's.
            start_timeout_s: Longest wait for it to start and list its tools.
            call_timeout_s: Longest wait for an answer.
            upstream: The clients, for what it asks of them; none if not given.
            redact: Takes secrets out of what its status says, which may quote its stderr.
        """
        self.name, self.settings = name, settings
        self._open_transport, self._catalog, self._log = open_transport, catalog, log.bind(server=name)
        self._start_timeout_s = start_timeout_s
        self._call_timeout_s = settings.timeout_s or call_timeout_s
        self._link: Link | None = None
        self._lost: asyncio.Event = asyncio.Event()
        self._loss: TransportError | None = None
        self._tried = asyncio.Event()
        self._relist: asyncio.Task[None] | None = None
        self._stale = False
        self._prefixes: dict[str, bytes] = {}
        self._progress: dict[int, Run] = {}
        self._tokens = 0
        self._redact = redact
        self._upstream = upstream or Upstream(set(), one_client=False)
        self._callers = Callers()
        self._clocks: set[tuple[object, Clock]] = set()
        self._offered: Mapping[str, Any] = {}
        self._lists: dict[str, asyncio.Task[list[dict[str, Any]]]] = {}
        self._level: str | None = None
        self.on_listed: Callable[[Server, list[CatalogEntry]], None] | None = None
        self.on_status: Callable[[ServerStatus], None] | None = None
        self.status = ServerStatus(name=name, state="starting" if settings.enabled else "disabled")
        catalog.report(self.status)

    @property
    def fingerprint(self) -> str:
        """Changes with what is started or connected to."""
        parts = [self.settings.command, list(self.settings.args), self.settings.url, self.settings.address]
        return hashlib.sha256(encode([*parts, self.settings.cwd or ""])).hexdigest()[:16]

    async def tried(self) -> None:
        """Wait until the first attempt to connect has ended, well or badly."""
        await self._tried.wait()

    # Life

    async def run(self) -> None:
        """Keep a connection until cancelled."""
        failures = 0
        while True:
            self._lost, self._loss = asyncio.Event(), None
            try:
                await self._connected()
                failures = 0
                reason = str(self._loss or "the connection closed")
                retryable = True
            except TransportError as exc:
                reason, retryable = str(exc), exc.retryable
            except ValueError as exc:  # the address or an option, which the next attempt would not change
                reason, retryable = str(exc), False
            except TimeoutError as exc:
                reason, retryable = str(exc) or SILENT.format(self._start_timeout_s), True
            except RpcError as exc:
                reason, retryable = f"it refused the handshake: {exc.message}", True
            except Exception as exc:
                self._log.exception("a connection failed in a way that its transport does not know")
                reason, retryable = repr(exc), True
            finally:
                self._link = None
            failures += 1
            self._say(replace(self.status, state="down", reason=reason))
            self._tried.set()
            self._log.warning("server is not connected", reason=reason, will_retry=retryable)
            if not retryable:
                return
            pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (failures - 1)) * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
            await asyncio.sleep(pause_s)
            self.status = replace(self.status, restarts=self.status.restarts + 1)

    async def _connected(self) -> None:
        """One connection from start to loss."""
        import os

        endpoint = endpoint_of(self.name, self.settings, os.environ)
        transport = self._open_transport(scheme_of(endpoint.address))
        async with transport.connect(endpoint, self) as link:
            async with asyncio.timeout(self._start_timeout_s):
                await self._handshake(link)
                entries = await self._list_tools(link)
            self._link = link
            self._published(entries)
            self._say(replace(self.status, state="up", reason=""))
            self._tried.set()
            if self._stale:  # it changed while it was being read
                self._read_again()
            try:
                await self._lost.wait()
            finally:
                for task in (self._relist, *self._lists.values()):
                    if task is not None:
                        task.cancel()

    async def _handshake(self, link: Link) -> None:
        about = {"name": "pml", "version": metadata.version("pml-core")}
        able = await self._upstream.capabilities()
        hello = {"protocolVersion": HANDSHAKE_REVISIONS[-1], "capabilities": able, "clientInfo": about}
        answer = await link.request("initialize", hello, timeout_s=self._start_timeout_s)
        offered = answer.get("capabilities")
        self._offered = offered if isinstance(offered, dict) else {}
        self._lists.clear()
        link.notify("notifications/initialized", EMPTY)
        if self._level is not None and self.offers("logging"):
            await link.request("logging/setLevel", {"level": self._level}, timeout_s=self._start_timeout_s)

    def _say(self, status: ServerStatus) -> None:
        self.status = replace(status, reason=self._redact(status.reason))
        self._catalog.report(self.status)
        if self.on_status is not None:
            self.on_status(self.status)

    # Tools

    async def _list_tools(self, link: Link) -> list[CatalogEntry]:
        async def ask(method: str, params: RawObject) -> RawObject:
            return await link.request(method, params, timeout_s=self._start_timeout_s)

        definitions = usable_tools(await every_item(ask, "tools/list", "tools"), self._log)
        return [make_entry(self.name, definition) for definition in definitions]

    def remember(self, entries: Sequence[CatalogEntry]) -> None:
        """Show what the server had when last seen, until it is up."""
        if not entries or self.status.state == "up":
            return
        self._catalog.publish(self.name, entries)
        self.status = replace(self.status, tools=len(entries))
        self._catalog.report(self.status)

    def _published(self, entries: list[CatalogEntry]) -> None:
        self._catalog.publish(self.name, entries)
        self.status = replace(self.status, tools=len(entries))
        self._catalog.report(self.status)
        if self.on_listed is not None:
            self.on_listed(self, entries)

    async def call_tool(self, name: str, task: ToolCall, run: Run) -> RawObject:
        """``tools/call``; arguments and other members go through as they came.

        Raises:
            TimeoutError: No answer in time.
            TransportError: Not connected.
            RpcError: The server answered with an error.
        """
        link = self._link
        if link is None:
            link = await self._wait_for_link(timeout_s(self._call_timeout_s, run.deadline))
        prefix = self._prefixes.get(name)
        if prefix is None:
            prefix = self._prefixes[name] = b'{"name":' + encode(name) + b',"arguments":'
        raw = prefix + encode(task.arguments)
        token = self._watch(run)
        try:
            raw += self._extra(task.extra, token) + b"}"
            return await self._ask(link, "tools/call", RawObject(raw), timeout_s(self._call_timeout_s, run.deadline))
        finally:
            if token is not None:
                del self._progress[token]

    async def _ask(self, link: Link, method: str, params: RawObject, limit_s: float) -> RawObject:
        """Send a request for the current client. The time its human takes to answer the server does not count."""
        client = current_client.get()
        if client is None:
            return await link.request(method, params, timeout_s=limit_s)
        self._callers.begin(client)
        try:
            if not client.answers_servers:
                return await link.request(method, params, timeout_s=limit_s)
            async with Clock(limit_s, f"server {self.name!r} did not answer {method} within {limit_s:g} s") as clock:
                self._clocks.add((client, clock))
                try:
                    return await link.request(method, params, timeout_s=FOREVER_S)
                finally:
                    self._clocks.discard((client, clock))
        finally:
            self._callers.end(client)

    async def ask(self, method: str, params: RawObject) -> RawObject:
        """Send any other request for the current client; params and result pass as they are.

        Raises:
            TimeoutError, TransportError, RpcError: As :meth:`call_tool`.
        """
        link = self._link or await self._wait_for_link(self._call_timeout_s)
        return await self._ask(link, method, params, self._call_timeout_s)

    def tell(self, method: str, params: RawObject) -> None:
        """Send a notification, if connected."""
        if self._link is not None:
            self._link.notify(method, params)

    def offers(self, capability: str) -> bool:
        """Whether it declared ``capability`` in its handshake; False while it is not connected."""
        return self._link is not None and isinstance(self._offered.get(capability), dict)

    async def features(self, kind: Kind) -> list[dict[str, Any]]:
        """Its resources, templates or prompts, as it sent them; kept until it says that they changed.

        Raises:
            TimeoutError, TransportError, RpcError: As :meth:`call_tool`.
        """
        if not self.offers(LISTINGS[kind].capability):
            return []
        reading = self._lists.get(kind)
        if reading is None or (reading.done() and (reading.cancelled() or reading.exception() is not None)):
            reading = asyncio.get_running_loop().create_task(self._read_features(kind), name=f"{kind}:{self.name}")
            self._lists[kind] = reading
        return await asyncio.shield(reading)

    async def _read_features(self, kind: Kind) -> list[dict[str, Any]]:
        listing = LISTINGS[kind]
        items = await every_item(self.ask, listing.method, listing.member)
        return [i for i in items if isinstance(i, dict) and isinstance(i.get(listing.key), str)]

    async def set_level(self, level: str) -> None:
        """Have it log from ``level`` on, now and after it was started again."""
        self._level = level
        if self.offers("logging"):
            await self.ask("logging/setLevel", RawObject.of({"level": level}))

    async def _wait_for_link(self, within_s: float) -> Link:
        """A call that comes while the server is still starting waits for it."""
        if self.status.state == "starting":
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._tried.wait()
        if self._link is None:
            raise TransportError(self.status.reason or self.status.state, retryable=True)
        return self._link

    def _watch(self, run: Run) -> int | None:
        """A progress token for a run whose client wants to know."""
        if not run.wants_progress:
            return None
        self._tokens += 1
        self._progress[self._tokens] = run
        return self._tokens

    def _extra(self, extra: Mapping[str, Any], token: int | None) -> bytes:
        """The other members of ``params``, with our own progress token instead of the client's."""
        if token is not None:
            extra = {**extra, "_meta": {**extra.get("_meta", {}), "progressToken": token}}
        return b"," + encode(extra)[1:-1] if extra else b""

    # pml_hookspecs.Handler

    async def request(self, method: str, params: RawObject, origin: Origin) -> Mapping[str, Any]:
        """Answer what the server asks of its client: we are alive; anything else, its client answers."""
        if method == "ping":
            return EMPTY
        client = self._upstream.client_for(self._callers)
        clocks = [clock for waiting, clock in self._clocks if waiting is client]
        for clock in clocks:
            clock.stop()
        try:
            return await client.ask(self, method, params)
        finally:
            for clock in clocks:
                clock.go_on()

    def notification(self, method: str, params: RawObject) -> None:
        """Progress goes to whoever asked, a changed list is fetched again, the rest goes to clients as it is."""
        if method == "notifications/progress":
            token = params.get("progressToken")
            run = self._progress.get(token) if isinstance(token, int) else None
            if run is not None:
                run.progress(params.get("progress", 0), params.get("total"), params.get("message") or "")
        elif method == "notifications/tools/list_changed":
            self._stale = True
            self._read_again()
        elif method in CHANGED:
            for kind in CHANGED[method]:
                self._lists.pop(kind, None)
            self._upstream.tell_all(method, params)
        elif method == "notifications/resources/updated":
            self._upstream.tell_all(method, params)
        else:
            self._upstream.tell(self._callers, method, params)

    def _read_again(self) -> None:
        if self._link is not None and (self._relist is None or self._relist.done()):
            self._relist = asyncio.get_running_loop().create_task(self._list_again(), name=f"relist:{self.name}")

    async def _list_again(self) -> None:
        # The list may change again while it is being read; then what was read is old.
        while self._stale and self._link is not None:
            self._stale = False
            try:
                self._published(await self._list_tools(self._link))
            except (RpcError, TransportError, TimeoutError) as exc:
                self._log.warning("the changed tool list could not be read", reason=str(exc))

    def closed(self, error: TransportError | None) -> None:
        """The connection is over."""
        self._loss = error
        self._link = None
        self._lost.set()


class Downstream:
    """All configured servers."""

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self.servers = servers

    async def call_tool(self, server: str, name: str, task: ToolCall, run: Run) -> RawObject:
        """See :meth:`Server.call_tool`."""
        known = self.servers.get(server)
        if known is None:
            raise TransportError("it is not configured", retryable=False)
        return await known.call_tool(name, task, run)
