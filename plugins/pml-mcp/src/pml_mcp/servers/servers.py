"""The configured servers while the gateway runs: started, stopped, and changed with the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_catalog.naming import servers_of
from pml_hookspecs import EMPTY, CatalogEntry
from pml_kit.mcp.protocol import LIST_CHANGED
from pml_mcp.wire.client import Holder

from . import Server
from .connection.feature_lists import GLANCE_S
from .connection.starts import Starts
from .features import LOOKED_S

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_mcp.ports import GatewaySettings
    from pml_mcp.server_settings import ServerSettings
    from pml_mcp.wire.upstream import Upstream

POLL_S = 0.05
LEAST_PATIENCE_S = 3.0
"""How long after its start every server is waited for by who needs the whole catalog [s]."""
MANY = 1000
"""Servers that run elsewhere are started side by side: that takes no processor of ours."""
SLOWER = 2.0
"""How many times as long as the slowest of the others a server may take before only those wait who need it."""
LISTS = ("resources", "prompts")
"""Capabilities of which clients are told when a server that has them comes or goes."""


class Servers:
    """Keeps the tasks of all servers."""

    def __init__(
        self,
        servers: MutableMapping[str, Server],
        catalog: LiveCatalog,
        upstream: Upstream,
        log: Any,
        *,
        settings: Callable[[], GatewaySettings],
        make_server: Callable[[str, ServerSettings, Starts], Server],
        remember: Callable[[Mapping[str, Server]], Awaitable[None]],
        spawn: Callable[..., None],
    ) -> None:
        """No server is known before :meth:`make`.

        Args:
            servers: Where they are kept, by name, and all others look for them.
            catalog: Forgets what is gone.
            upstream: The clients, who are told of what comes and goes.
            log: The gateway's.
            settings: Gives those that are in force.
            make_server: Makes one from its name and its table; the last says whose turn it is to start.
            remember: Shows what is known of servers that are not up yet, and keeps what they list.
            spawn: Does something in the background.
        """
        self._servers, self._catalog, self._upstream, self._log = servers, catalog, upstream, log
        self._settings, self._make_server, self._remember, self._spawn = settings, make_server, remember, spawn
        self._starts = {remote: Starts(MANY if remote else None, opened=False) for remote in (False, True)}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def names(self) -> Collection[str]:
        """Of all that are configured."""
        return self._servers.keys()

    def make(self, servers: Mapping[str, ServerSettings]) -> None:
        """Know these servers; none starts."""
        for name, settings in servers.items():
            self._servers[name] = self._make_server(name, settings, self._starts[bool(settings.url)])
            if settings.prefix is not None:
                self._catalog.prefix(name, settings.prefix)

    def start(self) -> None:
        """Have those that are enabled start, each in its turn; the first come after :meth:`open`."""
        for name, server in self._servers.items():
            if server.settings.enabled and name not in self._tasks:
                task = asyncio.get_running_loop().create_task(server.run(), name=f"server:{name}")
                self._tasks[name] = task

    def open(self) -> None:
        """Let them start: the client has been greeted, or none will be."""
        for starts in self._starts.values():
            starts.open()

    async def stop(self) -> None:
        """Stop all."""
        tasks, self._tasks = [*self._tasks.values(), *self._leaving], {}
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                self._log.error("a server's keeper failed", error=repr(outcome))

    async def tried(self, within_s: float) -> None:
        """Wait for servers whose tools were never seen."""
        await _tried(self._unseen(), within_s)

    async def settled(self, within_s: float, tool: str | None = None, *, listing: bool = False) -> None:
        """Wait for what a request needs, and for nobody else: for servers that start, and lists that are read again.

        Args:
            within_s: Longest wait; for the whole catalog, counted from the start of each server or reading.
            tool: A name. The servers that it names are waited for; where it names none, those are whose tools' names
                begin with nothing. Where there are none either, or it is None, the whole catalog is, but for servers
                that were waited for in vain last time, and for those that take far longer than others.
            listing: What is missing may not be asked for again: those that take longer are waited for as well.
        """
        unseen = self._unseen()
        if tool is not None and (named := self._servers_of(tool)):
            missing = [server for server in unseen if server in named]
            for server in missing:
                server.hurry()
            await _tried(missing, within_s)
            await _read(named, within_s, within_s)
            return
        self.open()
        loop = asyncio.get_running_loop()
        while waiting := [server for server in unseen if _is_unseen(server) and not server.slow]:
            began_s = [loop.time() if server.began_s is None else server.began_s for server in waiting]
            left_s = max(began_s) + (within_s if listing else self._patience_s(within_s)) - loop.time()
            if left_s <= 0:
                for server in waiting:
                    server.waited_in_vain()
                break
            await _tried(waiting, left_s, until=asyncio.FIRST_COMPLETED)
        for server in self._servers.values():
            server.look_again()
        most_s = within_s if listing else self._patience_s(within_s)
        await _read(self._servers.values(), most_s, min(most_s, GLANCE_S))

    async def settled_for_client(self, tool: str | None) -> None:
        """Wait a moment for what servers list for whoever is served only: those that ``tool`` names, or all."""
        if (holder := Holder.now()) is None:
            return
        named = [] if tool is None else self._servers_of(tool)
        found = [
            server.client_lists.reading_of(holder, LOOKED_S if named else server.settings.relist_s)
            for server in named or self._servers.values()
        ]
        patience_s = self._patience_s(self._settings().list_wait_s)
        waits_s = {True: patience_s, False: patience_s if named else min(patience_s, GLANCE_S)}
        for told, most_s in waits_s.items():
            if readings := [one for one in found if one is not None and one.told is told]:
                left_s = max(one.began_s for one in readings) + most_s - asyncio.get_running_loop().time()
                await asyncio.wait([one.task for one in readings], timeout=max(0.0, left_s))

    def is_new(self, server: Server) -> bool:
        """Whether it is being started and was never seen, nor waited for in vain."""
        return server in self._unseen() and not (server.greeting.words.about or server.slow or server.in_vain)

    async def met(self, server: Server, within_s: float) -> None:
        """Wait until a server has said who it is, counted from its start."""
        self.open()
        server.hurry()
        now_s = asyncio.get_running_loop().time()
        since_s = now_s if server.began_s is None else server.began_s
        if not await server.greeting.heard(max(0.0, since_s + within_s - now_s)):
            server.waited_in_vain()

    def _servers_of(self, tool: str) -> list[Server]:
        """The servers that a tool of such a name would be of."""
        servers = self._servers
        named, bare = servers_of(tool, {name: server.settings.prefix for name, server in servers.items()})
        return [servers[name] for name in named or bare]

    async def read_again(self, name: str) -> None:
        """Have a server's list of tools read again, unless that was done a moment ago, and wait for it."""
        if name in self._tasks and (server := self._servers.get(name)) is not None:
            await server.read_again(LOOKED_S, self._settings().list_wait_s)

    def _unseen(self) -> list[Server]:
        """Those that are being started and whose tools were never seen."""
        servers = self._servers.items()
        return [server for name, server in servers if name in self._tasks and _is_unseen(server)]

    def _patience_s(self, most_s: float) -> float:
        """How long after its start a server counts as one that takes as long as others do [s]."""
        took = [server.took_s for server in self._servers.values() if server.took_s is not None]
        return min(most_s, max(LEAST_PATIENCE_S, SLOWER * max(took))) if took else most_s

    # While clients are served

    async def change(self, wanted: Mapping[str, ServerSettings]) -> None:
        """Have exactly these servers: what is new starts, what is gone stops, what changed is started anew.

        Calls that are under way end as they would have; a server that still answers some is stopped after them.
        """
        known = {name: server.settings for name, server in self._servers.items()}
        new = {name: settings for name, settings in wanted.items() if known.get(name) != settings}
        await self._replace([name for name in known if name in new or name not in wanted], new)

    async def restart(self, names: Sequence[str]) -> None:
        """Start servers anew as they are configured; calls that are under way end as they would have."""
        await self._replace(names, {name: self._servers[name].settings for name in names})

    async def _replace(self, old: Sequence[str], new: Mapping[str, ServerSettings]) -> None:
        entries = {name: await self._retire(name) for name in old}
        self.make(new)
        for name in new:
            self._take_over(self._servers[name], *entries.get(name, ("", [])))
        await self._remember({name: self._servers[name] for name in new})
        self.start()
        for name in new:
            self._spawn(self._tell_of_new, self._servers[name])

    async def _retire(self, name: str) -> tuple[str, list[CatalogEntry]]:
        """Take a server out; what it was started from, and its tools."""
        server, task = self._servers.pop(name), self._tasks.pop(name, None)
        entries = self._catalog.tables.listed(name)
        server.retire()
        self._catalog.forget(name)
        self._tell(server)
        if task is not None:
            leaving = asyncio.get_running_loop().create_task(_stopped(server, task), name=f"leaving:{name}")
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            if not server.busy:  # what takes its place may need what it holds
                await asyncio.wait((leaving,))
        return server.fingerprint, entries

    def _take_over(self, server: Server, fingerprint: str, entries: list[CatalogEntry]) -> None:
        """What was listed from the same program or address is shown until it is listed again."""
        if server.fingerprint == fingerprint and server.settings.enabled:
            server.remember(entries)

    async def _tell_of_new(self, server: Server) -> None:
        await server.tried()
        self._tell(server)

    def _tell(self, server: Server) -> None:
        for capability in filter(server.offers, LISTS):
            self._upstream.tell_all(server.name, LIST_CHANGED[capability], EMPTY)


def _is_unseen(server: Server) -> bool:
    return server.status.state == "starting" and not server.status.tools


async def _tried(servers: Sequence[Server], within_s: float, *, until: str = asyncio.ALL_COMPLETED) -> None:
    if servers:
        waiting = [asyncio.ensure_future(server.tried()) for server in servers]
        try:
            await asyncio.wait(waiting, timeout=within_s, return_when=until)
        finally:
            for one in waiting:
                one.cancel()


async def _read(servers: Iterable[Server], within_s: float, glance_s: float) -> None:
    """Wait for lists that are being read again, until so long after each reading began.

    Args:
        within_s: For those that have changed, as their servers said.
        glance_s: For those that are only read to see whether they have.
    """
    if reading := [server.tools for server in servers if server.tools.reading]:
        await asyncio.gather(*(tools.settled(within_s if tools.unread else glance_s) for tools in reading))


async def _stopped(server: Server, task: asyncio.Task[Any]) -> None:
    """Stop a server after its calls."""
    try:
        while server.busy:  # noqa: ASYNC110 - nothing tells of it, and it happens once
            await asyncio.sleep(POLL_S)
    finally:
        task.cancel()
        await asyncio.wait((task,))
