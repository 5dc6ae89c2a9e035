"""Start servers one time each, to see whether they do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_catalog.live import LiveCatalog
from pml_hookspecs import CatalogEntry, ServerStatus, TransportError
from pml_kit.errors import OperatorError
from pml_kit.system.logs import Logs
from pml_kit.system.redaction import Redactor
from pml_mcp.servers import Server
from pml_mcp.servers.connection.starts import Starts
from pml_settings.endpoints import found_endpoint

if TYPE_CHECKING:
    from pml_settings.config import Config
    from pml_settings.installation import Statuses


@dataclass(frozen=True, slots=True)
class Probe:
    """How a server was when it was tried."""

    status: ServerStatus
    entries: Sequence[CatalogEntry] = ()
    """What it lists."""
    instructions: str = ""
    """What it says of its use, as it is handed on."""


async def probe(
    config: Config, driver: Callable[[str], Any], watch: Callable[[Statuses], Awaitable[None]] | None
) -> Mapping[str, Probe]:
    """Start every enabled server in its turn, list its tools, stop it: how each was.

    Args:
        driver: The transport of a scheme; raises OperatorError.
        watch: Looks on while they are tried.
    """
    log, redactor = Logs("error").get(), Redactor()
    redactor.learn(config.secrets())
    catalog, starts = LiveCatalog(log), Starts()

    def transport(scheme: str) -> Any:
        try:
            return driver(scheme)
        except OperatorError as exc:
            raise TransportError(str(exc), retryable=False) from exc

    servers = [
        Server(
            name, settings, partial(found_endpoint, name, settings, redactor.learn), transport, catalog, log,
            start_timeout_s=config.gateway.start_timeout_s, call_timeout_s=config.gateway.call_timeout_s,
            redactor=redactor, starts=starts,
        )
        for name, settings in config.servers.items() if settings.enabled
    ]  # fmt: skip
    watching = asyncio.ensure_future(watch(catalog.servers)) if watch is not None else None
    try:
        found = await asyncio.gather(*map(_probe, servers))
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    return {server.name: one for server, one in zip(servers, found, strict=True)}


async def _probe(server: Server) -> Probe:
    listed: list[CatalogEntry] = []

    def take(_server: Server, entries: list[CatalogEntry]) -> None:
        listed[:] = entries

    server.on_listed = take
    keeper = asyncio.get_running_loop().create_task(server.run())
    server.remember(())  # nothing is known of it, so that it starts even if it would wait for a call
    await server.tried()
    found = Probe(server.status, listed, server.greeting.words.instructions)
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)
    return found
