"""Start servers one time each, to see whether they do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
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


async def probe(
    config: Config, driver: Callable[[str], Any], watch: Callable[[Statuses], Awaitable[None]] | None
) -> Mapping[str, tuple[ServerStatus, int]]:
    """Start every enabled server in its turn, list its tools, stop it: how each was, and how many tools it has.

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
            redact=redactor.text, starts=starts,
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


async def _probe(server: Server) -> tuple[ServerStatus, int]:
    listed: list[CatalogEntry] = []
    server.on_listed = lambda _server, entries: listed.extend(entries)
    keeper = asyncio.get_running_loop().create_task(server.run())
    server.remember(())  # nothing is known of it, so that it starts even if it would wait for a call
    await server.tried()
    status = server.status
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)
    return status, len(listed)
