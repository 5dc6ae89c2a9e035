"""A gateway in this process, with exactly the plugins and servers that a test gives it. Discovers nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any

from pml_core import registry
from pml_core.config import Config, GatewaySettings, ServerSettings, Source
from pml_core.gateway import Gateway
from pml_core.logs import Logs
from pml_hookspecs import Endpoint, Handler, Link, Origin, Peer, RawObject, RpcError, TransportError, encode

Answer = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
Other = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def echo(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answers any call with its name and arguments."""
    return {"content": [{"type": "text", "text": f"{name} {arguments}"}], "structuredContent": arguments}


class ScriptedServer:
    """An MCP server of the test's making, reached without a process."""

    def __init__(
        self, tools: Sequence[str | Mapping[str, Any]] = ("read_file", "write_file"), answer: Answer = echo
    ) -> None:
        """``tools`` are names or whole definitions; ``answer`` gets name and arguments of each call."""
        self.tools = [{"name": t, "inputSchema": {"type": "object"}} if isinstance(t, str) else dict(t) for t in tools]
        self.answer = answer
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.params: list[dict[str, Any]] = []
        self.handler: Handler | None = None
        self.link: ScriptedLink
        self._questions = 0
        self.offers: dict[str, Any] = {"tools": {}}
        """Capabilities declared in the handshake."""
        self.hello: dict[str, Any] = {}
        """Params of the last handshake."""
        self.others: dict[str, Other] = {}
        """Answers to other methods, from their params."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Those other requests, in order."""
        self.refuse: str = ""
        """Why a connection fails; ``""`` lets it through."""

    async def serve(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        """Answer one request."""
        if method == "initialize":
            self.hello = params
            about = {"name": "scripted", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": self.offers, "serverInfo": about}
        if method == "tools/list":
            return {"tools": self.tools}
        if method == "tools/call":
            self.params.append(params)
            self.calls.append((params["name"], params["arguments"]))
            return await self.answer(params["name"], params["arguments"])
        if method in self.others:
            self.asked.append((method, params))
            return await self.others[method](params)
        raise RpcError(-32601, f"Method not found: {method}")

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client something. As over a pipe, nothing tells which request it is about. Raises RpcError."""
        if self.handler is None:
            raise RuntimeError("nobody is connected")
        self._questions += 1
        work = self.handler.request(method, RawObject(encode(params)), Origin(self._questions, self.link))
        answer = await asyncio.get_running_loop().create_task(work, context=Context())
        return RawObject(encode(answer)).value

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification. As over a pipe, nothing tells which request it is about."""
        if self.handler is not None:
            Context().run(self.handler.notification, method, RawObject(encode(params)))

    def lose(self, reason: str = "the server died") -> None:
        """Break the connection."""
        if self.handler is not None:
            self.handler.closed(TransportError(reason, retryable=True))

    def change(self, tools: Sequence[str]) -> None:
        """Have other tools, and say so."""
        self.tools = [{"name": t, "inputSchema": {"type": "object"}} for t in tools]
        if self.handler is not None:
            self.handler.notification("notifications/tools/list_changed", RawObject(b"{}"))


class ScriptedLink:
    """The link to a :class:`ScriptedServer`: every message goes through JSON, as on a wire."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self.notified: list[tuple[str, Mapping[str, Any]]] = []

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._server.serve(method, RawObject(encode(params)).value)
        except TimeoutError:
            raise TimeoutError(f"no answer to {method} within {timeout_s:g} s") from None
        return RawObject(encode(answer))

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.notified.append((method, params))


class ScriptedTransport:
    """Transport ``scripted:<name>``."""

    def __init__(self, servers: Mapping[str, ScriptedServer]) -> None:
        self._servers = servers

    def __call__(self, settings: Any, services: Any) -> ScriptedTransport:
        """Stand for the driver's class and its instance at once."""
        return self

    @asynccontextmanager
    async def connect(self, endpoint: Endpoint, handler: Handler) -> AsyncIterator[Link]:
        server = self._servers[endpoint.address.partition(":")[2]]
        if server.refuse:
            raise TransportError(server.refuse, retryable=True)
        server.handler, server.link = handler, ScriptedLink(server)
        yield server.link

    async def serve(self, endpoint: Endpoint, accept: Any, *, started: Any, routes: Any = None) -> None:
        raise NotImplementedError("scripted servers only")


class Client:
    """An MCP client of the gateway, without a wire between them."""

    def __init__(self, gateway: Gateway) -> None:
        self.peer = ScriptedServer()
        """What the client answers when it is asked: give it ``others``."""
        self.link = ScriptedLink(self.peer)
        self._handler = gateway.accept(self.link, Peer(address="test"))
        self._requests = 0

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send any request; the answer decoded. Raises RpcError."""
        self._requests += 1
        origin = Origin(self._requests, self.link)
        answer = await self._handler.request(method, RawObject(encode(params or {})), origin)
        return RawObject(encode(answer)).value

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self._handler.notification(method, RawObject(encode(params or {})))

    async def initialize(self, capabilities: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The handshake."""
        about = {"name": "test", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": capabilities or {}, "clientInfo": about}
        answer = await self.request("initialize", hello)
        self._handler.notification("notifications/initialized", RawObject(b"{}"))
        return answer

    async def tools(self) -> list[str]:
        """Names listed."""
        return [tool["name"] for tool in (await self.request("tools/list"))["tools"]]

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """Call a tool; the CallToolResult."""
        return await self.request("tools/call", {"name": name, "arguments": arguments or {}, **params})


def configuration(
    servers: Sequence[str], tables: Mapping[str, Mapping[str, Any]] | None = None, **gateway: Any
) -> Config:
    """A configuration of scripted servers; ``gateway`` are fields of ``[gateway]``."""
    return Config(
        gateway=GatewaySettings(**{"log_level": "warning", **gateway}),
        servers={name: ServerSettings(address=f"scripted:{name}") for name in servers},
        tables=tables or {},
        sources=(Source("test", {"gateway": gateway, "plugins": dict(tables or {})}),),
    )


@asynccontextmanager
async def running(
    servers: Mapping[str, ScriptedServer],
    *,
    plugins: Mapping[tuple[str, str], Any] | None = None,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    logs: Logs | None = None,
    one_client: bool = False,
    **gateway: Any,
) -> AsyncIterator[Gateway]:
    """A started gateway.

    Args:
        servers: By name.
        plugins: ``(kind, name)`` to driver class, or ``("hooks", name)`` to module or object with hooks.
        tables: ``[plugins.<name>]``.
        logs: Where to log.
        one_client: Servers wait for the client to say what it can do.
        **gateway: Fields of ``[gateway]``.
    """
    records = [registry.provide("pml.transport", "scripted", ScriptedTransport(servers))]
    for (kind, name), plugin in (plugins or {}).items():
        records.append(registry.provide("pml.plugins" if kind == "hooks" else f"pml.{kind}", name, plugin))
    config = configuration(list(servers), tables, **gateway)
    async with Gateway(config, logs, records, one_client=one_client) as started:
        if not one_client:
            await started.servers_tried()
        yield started
