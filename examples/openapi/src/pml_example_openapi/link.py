"""The connection to a service."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import RawObject, RpcError, TransportError
from pml_hookspecs.protocol import HANDSHAKE_REVISIONS, METHOD_NOT_FOUND

if TYPE_CHECKING:
    from .service import Service


class OpenApiLink:
    """Answers as an MCP server would, with a handshake. Implements :class:`pml_hookspecs.Link`."""

    def __init__(self, name: str, service: Service) -> None:
        self._name, self._service = name, service
        self._working: set[asyncio.Task[Mapping[str, Any]]] | None = set()

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """HTTP services take no notice."""

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        if self._working is None:
            raise TransportError(f"the connection to server {self._name!r} is closed", retryable=True)
        work = asyncio.ensure_future(self._answer(method, params))
        self._working.add(work)
        try:
            await asyncio.wait([work], timeout=timeout_s)
            if work.done() and not work.cancelled():
                return RawObject.of(work.result())
        finally:
            work.cancel()
            if self._working is not None:
                self._working.discard(work)
        if self._working is None:
            raise TransportError(f"the connection to server {self._name!r} was closed", retryable=True)
        raise TimeoutError(f"server {self._name!r} did not answer {method} within {timeout_s:g} s")

    async def _answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method == "initialize":
            about = {"name": self._service.title, "version": self._service.version}
            revision = params.get("protocolVersion", HANDSHAKE_REVISIONS[-1])
            return {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": about}
        if method == "tools/list":
            return {"tools": [operation.definition for operation in self._service.operations.values()]}
        if method == "tools/call":
            return await self._service.call(params["name"], params.get("arguments") or {})
        if method == "ping":
            return {}
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def close(self) -> None:
        """What is being answered fails."""
        working, self._working = self._working or set(), None
        for work in working:
            work.cancel()
