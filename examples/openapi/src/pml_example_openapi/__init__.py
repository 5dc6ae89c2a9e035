"""PML transport ``openapi``: an HTTP service that has an OpenAPI document is an MCP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

import httpx2

from pml_hookspecs import Endpoint, Handler, Link, RawObject, RpcError, Transport, TransportError
from pml_kit.mcp.protocol import HANDSHAKE_REVISIONS, INVALID_PARAMS

WIRE = {"mode": "json", "by_alias": True, "exclude_none": True, "exclude": {"meta", "title"}}
GONE = (httpx2.HTTPError, RuntimeError)


class OpenApi(Transport):
    """Servers at addresses such as ``openapi:https://host/openapi.json``: their operations are tools."""

    def __init__(self, settings: None = None, services: object = None) -> None:
        """What there is to set differs from server to server: it is in ``[servers.<name>]``."""

    def connect(self, endpoint: Endpoint, handler: Handler) -> AbstractAsyncContextManager[Link]:
        """Options: ``headers``, such as a bearer token; ``base_url`` of a service that is not where its document is."""
        if unknown := sorted(endpoint.options.keys() - {"base_url", "headers"}):
            raise ValueError(f"[servers.{endpoint.name}] {unknown[0]}: the options are base_url and headers")
        return self._connected(endpoint, handler)

    def _hint(self, route: Any, tool: Any) -> None:
        tool.annotations = {"readOnlyHint": route.method == "GET", "destructiveHint": route.method in ("PUT", "DELETE")}

    @asynccontextmanager
    async def _connected(self, endpoint: Endpoint, handler: Handler) -> AsyncIterator[Link]:
        name, where, told = endpoint.name, endpoint.address.partition(":")[2], dict[str, Any](endpoint.options)
        async with httpx2.AsyncClient(headers=told.get("headers"), timeout=None) as client, AsyncExitStack() as stack:
            try:
                fastmcp = await asyncio.to_thread(import_module, "fastmcp.server.providers.openapi")  # takes long
                found = (await client.get(where)).raise_for_status()
                document = found.json()
                path = found.url.join(document.get("servers", [{"url": "/"}])[0]["url"]).path
                client.base_url = str(told.get("base_url") or found.url.copy_with(path=path))
                tools = await fastmcp.OpenAPIProvider(document, client, mcp_component_fn=self._hint).list_tools()
            except Exception as exc:
                raise TransportError(f"server {name!r}: no OpenAPI document at {where}: {exc}", retryable=True) from exc
            stack.callback(handler.closed, None)
            yield OpenApiLink(name, tools)


class OpenApiLink:
    """Answers as an MCP server would. Implements :class:`pml_hookspecs.Link`."""

    def __init__(self, name: str, tools: Sequence[Any]) -> None:
        self._name, self._tools = name, {tool.name: tool for tool in tools}
        about: dict[str, Any] = {"protocolVersion": HANDSHAKE_REVISIONS[-1], "capabilities": {"tools": {}}}
        listed: dict[str, Any] = {"tools": [tool.to_mcp_tool().model_dump(**WIRE) for tool in tools]}
        self._answers = {"initialize": {**about, "serverInfo": {"name": name, "version": "1"}}, "tools/list": listed}

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """HTTP services take no notice."""

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        if method in self._answers:
            return RawObject.of(self._answers[method])
        try:
            async with asyncio.timeout(timeout_s):
                result = await self._tools[params["name"]].run(dict(params.get("arguments", {})))
        except TimeoutError:
            raise TimeoutError(f"server {self._name!r} did not answer {method} within {timeout_s:g} s") from None
        except httpx2.HTTPStatusError as exc:
            return RawObject.of({"content": [{"type": "text", "text": str(exc)}], "isError": True})
        except Exception as exc:  # also of fastmcp's own kinds
            if any(isinstance(one, GONE) for one in (exc, exc.__cause__)):
                raise TransportError(f"server {self._name!r} did not answer: {exc!r}", retryable=True) from exc
            raise RpcError(INVALID_PARAMS, f"server {self._name!r}: {exc!r}") from exc
        more = {"structuredContent": value} if (value := result.structured_content) is not None else {}
        return RawObject.of({"content": [block.model_dump(**WIRE) for block in result.content], **more})
