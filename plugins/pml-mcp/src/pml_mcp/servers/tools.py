"""The tools of one server: listed again when it says that they changed, and compared with what was accepted."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pml_catalog.definitions import Change, Definitions, HeldError
from pml_catalog.listing import is_private, tools_of
from pml_catalog.paging import ServerList
from pml_hookspecs import EMPTY, CatalogEntry, Link, Origin, RawObject, RpcError, TransportError, encode
from pml_kit.json_members import with_meta
from pml_kit.mcp.protocol import METHOD_NOT_FOUND
from pml_mcp.wire.client import Client
from pml_mcp.wire.schemes import scheme_of

from .connection.connection import Connection
from .connection.eras import Era, OtherEra, begin, envelope
from .connection_context import ConnectionContext

EVERYTHING: Mapping[str, Any] = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
}
"""All that a client can declare (MCP 2025-11-25)."""
MORE, SAME = "more", "same"


class Tools:
    """What a server lists, and what of that is shown and may be called."""

    def __init__(
        self, context: ConnectionContext, publish: Callable[[list[CatalogEntry], list[Change]], None], log: Any
    ) -> None:
        """``publish`` is given what is shown from now on, and the changes that were not told of before."""
        self._context, self._publish, self._log = context, publish, log
        self.definitions: Definitions | None = None
        """What was accepted; None before that was looked up, when no client can call anything yet."""
        self.guarded = False
        """Whether by these a tool may be refused."""
        self.listed: ServerList[CatalogEntry] = ServerList()
        """As the server says, accepted or not."""
        self.private = False
        """Whether the server says that its list is only for whom it was sent to."""
        self._stale: Connection | None = None
        """The connection that told of a change of the list which was not read yet."""
        self._relist: asyncio.Task[None] | None = None
        self.unread = False
        """Whether what is listed is known to be old, as the server said so."""
        self._began_s = 0.0
        """When the last reading began, on the loop's clock [s]."""

    async def read(self, connection: Connection, link: Link) -> ServerList[CatalogEntry]:
        """Ask for the list, for the client that the connection is for, or for all."""
        able = None
        if connection.modern:
            able = (connection.client or await self._context.upstream.hello()).capabilities
        self._began_s = asyncio.get_running_loop().time()
        entries, self.private = await read_over(self._context, link, able, connection.offer.info)
        return entries

    def have(self, entries: ServerList[CatalogEntry]) -> None:
        """Take what was read."""
        self.listed, self.unread = entries, self.unread and self._stale is not None
        shown, changes = (list(entries), []) if self.definitions is None else self.definitions.judge(entries)
        self._publish(shown, changes)

    def judge_by(self, definitions: Definitions) -> None:
        """Have what is listed, now and from now on, compared with what was accepted."""
        self.definitions, self.guarded = definitions, definitions.holds or definitions.guard is not None
        if self.listed:
            self._publish(*definitions.judge(self.listed))

    def changed(self, connection: Connection) -> None:
        """The server says that its list has changed."""
        self._stale, self.unread = connection, True
        self.read_again()

    def read_again(self) -> None:
        """Read the list if it has changed and that can be done."""
        waiting = self._stale is not None and self._stale.connected
        if waiting and (self._relist is None or self._relist.done()):
            self._began_s = asyncio.get_running_loop().time()
            # Not in the context of the client that asks first: the list is for all.
            self._relist = asyncio.get_running_loop().create_task(
                self._list_again(), name=f"relist:{self._context.name}", context=contextvars.Context()
            )

    def read_if_older(self, age_s: float, connection: Connection) -> None:
        """Have the list read again over this connection if the last reading began so long ago."""
        if connection.connected and not self.reading and asyncio.get_running_loop().time() - self._began_s >= age_s:
            self._stale = connection
            self.read_again()

    @property
    def reading(self) -> bool:
        """Whether the list is being read again."""
        return self._relist is not None and not self._relist.done()

    async def settled(self, within_s: float) -> None:
        """Wait for the reading of the list that is under way, if there is one, until so long after it began."""
        if self._relist is not None:
            left_s = self._began_s + within_s - asyncio.get_running_loop().time()
            await asyncio.wait((self._relist,), timeout=max(0.0, left_s))

    async def _list_again(self) -> None:
        # The list may change again while it is being read; then what was read is old.
        while (connection := self._stale) is not None and connection.connected:
            self._stale = None
            try:
                entries = await self.read(connection, await connection.link(0))
            except (RpcError, TransportError, TimeoutError) as exc:
                self._log.warning("the tool list could not be read again", reason=str(exc))
                continue
            if [(one.name, one.digest) for one in entries] == [(one.name, one.digest) for one in self.listed]:
                self.listed = entries  # in other pages, say
                self.unread = self.unread and self._stale is not None
            else:
                self.have(entries)

    async def check(self, tool: str, connection: Connection, limit_s: float) -> None:
        """See that a tool is still what was accepted, as far as the server says.

        Raises:
            HeldError: It is not, or that cannot be known now.
            TransportError: Not connected.
        """
        await connection.link(limit_s)  # a server that starts lists its tools first
        if self.definitions is None:
            raise HeldError("what was accepted of it is not known yet")
        if self.unread and self._relist is not None:
            await asyncio.wait((self._relist,), timeout=limit_s)
        if self.unread:
            raise HeldError("its server said that its tools have changed, and does not say how")
        self.definitions.check(tool)

    def close(self) -> None:
        """Nothing more is read."""
        if self._relist is not None:
            self._relist.cancel()


async def read_over(
    context: ConnectionContext,
    link: Link,
    capabilities: Mapping[str, Any] | None,
    info: Mapping[str, Any] | None = None,
) -> tuple[ServerList[CatalogEntry], bool]:
    """What a server lists over a connection, and whether that is only for whom it was sent to.

    Args:
        capabilities: What it is told that its client can do, where there was no handshake; None where there was one.
        info: Who it is told that its client is, where there was no handshake; None for the gateway.

    Raises:
        TimeoutError, TransportError, RpcError: As :class:`pml_hookspecs.Link` says.
    """
    private, link = False, context.redacted(link)

    async def ask(method: str, params: RawObject) -> RawObject:
        nonlocal private
        if capabilities is not None:
            params = with_meta(params, envelope(None, capabilities, info))
        page = await link.request(method, params, timeout_s=context.start_timeout_s)
        private = private or (capabilities is not None and is_private(page))
        return page

    return await tools_of(context.name, ask, context.log), private


class _Reader:
    """Answers nothing but that it is there. Implements :class:`pml_hookspecs.Handler`."""

    async def request(self, method: str, _params: RawObject, _origin: Origin) -> Mapping[str, Any]:
        if method == "ping":
            return EMPTY
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method} (nobody can be asked while tools are listed)")

    def notification(self, method: str, params: RawObject) -> None:
        """Whoever uses a server hears of it on a connection of their own."""

    def closed(self, error: TransportError | None) -> None:
        """What was read was read."""


async def read_once(
    context: ConnectionContext, era: Era, capabilities: Mapping[str, Any]
) -> tuple[ServerList[CatalogEntry], bool]:  # fmt: skip
    """As :func:`read_over`, for a client that can do this much, over a connection that is closed again.

    Raises:
        TimeoutError, TransportError, RpcError: It cannot be had.
        ValueError: Nor ever will be.
    """
    endpoint = await context.find_endpoint()
    transport = context.open_transport(scheme_of(endpoint.address))
    async with asyncio.timeout(context.start_timeout_s), transport.connect(endpoint, _Reader()) as link:
        try:
            await begin(link, era, capabilities, context.start_timeout_s, other=False)
        except OtherEra as exc:
            raise TransportError(str(exc), retryable=True) from exc
        return await read_over(context, link, capabilities if era == "modern" else None)


class Difference:
    """Whether a shared program lists other tools for clients that can be asked something.

    Found out by starting it once more, for a client that can do everything, and kept.
    """

    on_found: Callable[[str, str], None] | None = None
    """Is told of which program, as it introduced itself, what it lists for such clients: :data:`MORE` or the same."""

    def __init__(self, context: ConnectionContext, main: Connection, tools: Tools, differs: Callable[[], None]) -> None:
        """``differs`` is called once, when it does; ``main`` and ``tools`` are of the connection that serves all."""
        self._context, self._main, self._tools, self._differs = context, main, tools, differs
        self._looked = False
        self._task: asyncio.Task[None] | None = None
        self.remembered: tuple[str, str] | None = None
        """What :attr:`on_found` was told last, in this run or before."""

    def look(self, client: Client) -> None:
        """Find it out, if that was not done, for a client that it may matter to. Nobody waits for it."""
        settings, main = self._context.settings, self._main
        apart = settings.sharing != "auto" or settings.url or self._context.upstream.one_client
        if self._looked or apart or client.modern or not client.capabilities or main.modern or not main.connected:
            return
        self._looked = True
        program = encode(main.offer.words.about).decode()
        if self.remembered is not None and self.remembered[0] == program:
            self._take()
            return
        self._task = asyncio.get_running_loop().create_task(
            self._find(program), name=f"difference:{self._context.name}", context=contextvars.Context()
        )

    async def _find(self, program: str) -> None:
        try:
            found = await self._listed(EVERYTHING)
            # What it lists for all may have changed with what clients did, so that is read anew as well.
            differs = found != _of(self._tools.listed) and found != await self._listed({})
        except (RpcError, TransportError, TimeoutError, ValueError) as exc:
            self._context.log.debug("it is not known whether it lists more for clients that can more", reason=str(exc))
            return
        self.remembered = program, MORE if differs else SAME
        if self.on_found is not None:
            self.on_found(*self.remembered)
        self._take()

    async def _listed(self, capabilities: Mapping[str, Any]) -> frozenset[str]:
        async with self._context.starts.turn(asyncio.Event()):
            return _of((await read_once(self._context, "legacy", capabilities))[0])

    def _take(self) -> None:
        if self.remembered is not None and self.remembered[1] == MORE:
            self._context.log.info("it lists something else for clients that can be asked: each has one of its own")
            self._differs()

    def close(self) -> None:
        """Nobody looks any more."""
        self._looked = True
        if self._task is not None:
            self._task.cancel()


def _of(tools: Iterable[CatalogEntry]) -> frozenset[str]:
    """By name: some programs describe a tool in other words at each start."""
    return frozenset(tool.name for tool in tools)
