"""The configured servers while the gateway runs: started, stopped, and changed with the configuration."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import EMPTY, CatalogEntry

from .downstream import Server

if TYPE_CHECKING:
    from .config import ServerSettings
    from .gateway import Gateway

POLL_S = 0.05
LISTS: Mapping[str, str] = {
    "resources": "notifications/resources/list_changed",
    "prompts": "notifications/prompts/list_changed",
}
"""What clients are told when what has these capabilities comes or goes."""


class Fleet:
    """Keeps the tasks of all servers; the servers themselves are ``gateway.servers``, which all others look into."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def make(self, servers: Mapping[str, ServerSettings]) -> None:
        """Know these servers; none starts."""
        gateway, limits = self._gateway, self._gateway.config.gateway
        for name, settings in servers.items():
            gateway.servers[name] = Server(
                name,
                settings,
                gateway.transport,
                gateway.catalog,
                gateway.log,
                start_timeout_s=limits.start_timeout_s,
                call_timeout_s=limits.call_timeout_s,
                upstream=gateway.upstream,
                redact=gateway.redactor.text,
                learn_secrets=gateway.redactor.learn,
            )
            if settings.prefix is not None:
                gateway.catalog.prefix(name, settings.prefix)

    def start(self, *, remote: bool) -> None:
        """Start those that run elsewhere, or those that do not, as far as they are enabled."""
        for name, server in self._gateway.servers.items():
            if server.settings.enabled and bool(server.settings.url) is remote and name not in self._tasks:
                task = asyncio.get_running_loop().create_task(server.run(), name=f"server:{name}")
                self._tasks[name] = task

    async def stop(self) -> None:
        """Stop all."""
        tasks, self._tasks = [*self._tasks.values(), *self._leaving], {}
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                self._gateway.log.error("a server's keeper failed", error=repr(outcome))

    async def tried(self, within_s: float) -> None:
        """Wait for servers whose tools were never seen."""
        servers = self._gateway.servers.values()
        waiting = [s for s in servers if s.status.state == "starting" and not s.status.tools]
        if waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await asyncio.gather(*(s.tried() for s in waiting))

    # While clients are served

    async def change(self, wanted: Mapping[str, ServerSettings]) -> None:
        """Have exactly these servers: what is new starts, what is gone stops, what changed is started anew.

        Calls that are under way end as they would have; a server that still answers some is stopped after them.
        """
        gateway = self._gateway
        known = {name: server.settings for name, server in gateway.servers.items()}
        new = {name: settings for name, settings in wanted.items() if known.get(name) != settings}
        entries = {}
        for name in [name for name in known if name in new or name not in wanted]:
            entries[name] = await self._retire(name)
        self.make(new)
        for name in new:
            self._take_over(gateway.servers[name], *entries.get(name, ("", [])))
        await gateway.remember({name: gateway.servers[name] for name in new})
        for remote in (False, True):
            self.start(remote=remote)
        for name in new:
            gateway.soon(self._tell_of_new, gateway.servers[name])

    async def _retire(self, name: str) -> tuple[str, list[CatalogEntry]]:
        """Take a server out; what it was started from, and its tools."""
        gateway = self._gateway
        server, task = gateway.servers.pop(name), self._tasks.pop(name, None)
        entries = [entry for entry in gateway.catalog if entry.server == name]
        server.retire()
        gateway.catalog.forget(name)
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
        for capability, method in LISTS.items():
            if server.offers(capability):
                self._gateway.upstream.tell_all(server.name, method, EMPTY)


async def _stopped(server: Server, task: asyncio.Task[Any]) -> None:
    """Stop a server after its calls."""
    try:
        while server.busy:  # noqa: ASYNC110 - nothing tells of it, and it happens once
            await asyncio.sleep(POLL_S)
    finally:
        task.cancel()
        await asyncio.wait((task,))
