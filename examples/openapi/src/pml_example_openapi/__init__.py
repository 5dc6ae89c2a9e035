"""PML transport ``openapi``: an HTTP service that has an OpenAPI document is an MCP server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from pml_hookspecs import Transport

if TYPE_CHECKING:
    from pml_hookspecs import Endpoint, Handler, Link, Services

__all__ = ["OpenApi"]
OPTIONS = ("base_url", "headers")


class OpenApi(Transport):
    """Servers at addresses such as ``openapi:https://host/openapi.json``: their operations are tools."""

    def __init__(self, settings: None = None, services: Services | None = None) -> None:
        """There are no settings: what differs from server to server are options of ``[servers.<name>]``."""

    def connect(self, endpoint: Endpoint, handler: Handler) -> AbstractAsyncContextManager[Link]:
        """Options: ``headers`` for each request, and ``base_url`` where the document does not say it."""
        where, table = endpoint.address.partition(":")[2], f"[servers.{endpoint.name}]"
        if unknown := sorted(endpoint.options.keys() - set(OPTIONS)):
            raise ValueError(f"{table} {', '.join(unknown)}: not an option of openapi servers, which are {OPTIONS}")
        if not where:
            raise ValueError(f"{table} address: say which document, such as openapi:https://host/openapi.json")
        return self._connected(endpoint, where, handler)

    @asynccontextmanager
    async def _connected(self, endpoint: Endpoint, where: str, handler: Handler) -> AsyncIterator[Link]:
        from .link import OpenApiLink
        from .service import opened

        async with opened(f"server {endpoint.name!r}", where, endpoint.options) as service:
            link = OpenApiLink(endpoint.name, service)
            try:
                yield link
            finally:
                link.close()
                handler.closed(None)
