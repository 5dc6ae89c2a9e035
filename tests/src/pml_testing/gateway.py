"""A gateway in this process, with exactly the plugins and servers that a test gives it. Discovers nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pml_clients.configuration.files import Source
from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_hookspecs import Handler, Identity, Origin, Peer, RawObject, encode
from pml_kit.mcp.protocol import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROTOCOL_VERSION,
    MODERN_REVISIONS,
)
from pml_kit.system.logs import Logs
from pml_settings.config import Config, GatewaySettings, ServerSettings

from .scripted import ScriptedLink, ScriptedServer, ScriptedTransport, asks, echo, error_of, until

__all__ = [
    "Client",
    "ScriptedLink",
    "ScriptedServer",
    "ScriptedTransport",
    "asks",
    "configuration",
    "echo",
    "error_of",
    "provided",
    "running",
    "until",
    "value_of",
]

ABOUT_CLIENT = {"name": "test", "version": "1"}


def members_of(identity: Identity) -> dict[str, Any]:
    """What a listener says of a client with that key."""
    return identity.members()


class RequestLink(ScriptedLink):
    """What a client hears while one request of its is being answered."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.peer)
        self._client = client
        self.over = False

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        super().notify(method, params)
        (self._client.late if self.over else self._client.link.notified).append((method, params))


class Client:
    """An MCP client of the gateway, without a wire between them."""

    def __init__(  # noqa: PLR0913 - each is one thing that clients differ in
        self,
        gateway: Gateway,
        *,
        modern: bool = False,
        capabilities: Mapping[str, Any] | None = None,
        info: Mapping[str, Any] | None = None,
        log_level: str | None = None,
        stateless: bool = False,
        principal: str = "local",
        behind: Client | None = None,
        mode: str = "",
        intent: str = "",
        scopes: frozenset[str] = frozenset(),
        endpoint: str = "default",
        identity: Identity | None = None,
    ) -> None:
        """A client that has just connected.

        Args:
            gateway: Whose client it is.
            modern: Its requests carry the envelope of a revision without a handshake.
            capabilities: What the envelope says that it can do.
            info: Who the handshake or the envelope says that it is.
            log_level: From which level on it wants servers' messages, in the envelope.
            stateless: Its requests come on connections of their own, as over HTTP.
            principal: Who the listener says that it is.
            mode: The exposure mode of its key.
            intent: The hint of its key.
            scopes: What its key allows.
            endpoint: Which one it addresses.
            identity: Whose key it has; principal, mode, intent and scopes are its own then.
            behind: A client whose requests the listener cannot tell from this one's: the same principal, stateless.
        """
        self.peer = ScriptedServer()
        """What the client answers when it is asked: give it ``others``."""
        self.link = ScriptedLink(self.peer)
        """Has everything that the client was told."""
        self.late: list[tuple[str, Mapping[str, Any]]] = []
        """What it was told about a request that was answered already, which must not happen."""
        who = identity or Identity(principal=principal, scopes=scopes, mode=mode, intent=intent)
        peer = Peer(address="test", endpoint=endpoint, stateless=stateless, **members_of(who))
        self._handler: Handler = gateway.accept(self.link, peer) if behind is None else behind._handler
        self._requests = 0
        self.modern, self.capabilities, self.info, self.log_level = modern, capabilities, info, log_level

    def meta(self) -> dict[str, Any]:
        """The envelope of its requests."""
        meta: dict[str, Any] = {
            META_PROTOCOL_VERSION: MODERN_REVISIONS[-1],
            META_CLIENT_CAPABILITIES: self.capabilities or {},
            META_CLIENT_INFO: self.info or ABOUT_CLIENT,
        }
        return meta if self.log_level is None else {**meta, META_LOG_LEVEL: self.log_level}

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send any request; the answer decoded. Raises RpcError."""
        params = dict(params or {})
        if self.modern:
            params["_meta"] = {**self.meta(), **params.get("_meta", {})}
        return (await self.send(method, encode(params))).value

    async def send(self, method: str, raw: bytes) -> RawObject:
        """Send a request as it is; the answer as its bytes come. Raises RpcError."""
        self._requests += 1
        link = RequestLink(self)
        try:
            origin = Origin(self._requests, link)
            work: Coroutine[Any, Any, Mapping[str, Any]] = self._handler.request(method, RawObject(raw), origin)
            answer = await asyncio.get_running_loop().create_task(work)
            return RawObject(encode(answer))
        finally:
            link.over = True

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self._handler.notification(method, RawObject(encode(params or {})))

    def leave(self) -> None:
        """Close the connection."""
        self._handler.closed(None)

    async def initialize(
        self, capabilities: Mapping[str, Any] | None = None, *, protocol: str = "2025-11-25"
    ) -> dict[str, Any]:
        """The handshake."""
        info = self.info or ABOUT_CLIENT
        hello = {"protocolVersion": protocol, "capabilities": capabilities or {}, "clientInfo": info}
        answer = await self.request("initialize", hello)
        self._handler.notification("notifications/initialized", RawObject(b"{}"))
        return answer

    async def tools(self) -> list[str]:
        """Names listed."""
        return [tool["name"] for tool in (await self.request("tools/list"))["tools"]]

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """Call a tool; the CallToolResult."""
        return await self.request("tools/call", {"name": name, "arguments": arguments or {}, **params})


def value_of(answer: Mapping[str, Any]) -> Any:
    """The JSON that an answer to ``tools/call`` holds: as structured content, or as its only text."""
    structured = answer.get("structuredContent")
    return json.loads(answer["content"][0]["text"]) if structured is None else structured


def configuration(
    servers: Sequence[str],
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
    words: Mapping[str, str] | None = None,
    **gateway: Any,
) -> Config:
    """A configuration of scripted servers; ``gateway`` are fields of ``[gateway]``, ``settings`` of each server.

    ``words`` are those of ``[servers.<name>]``, by name.
    """
    own: dict[str, dict[str, Any]] = {name: {"words": said} for name, said in (words or {}).items()}
    return Config(
        gateway=GatewaySettings(**{"log_level": "warning", **gateway}),
        servers={
            name: ServerSettings(address=f"scripted:{name}", **(settings or {}), **own.get(name, {}))
            for name in servers
        },
        tables=tables or {},
        sources=(Source("test", {"gateway": gateway, "plugins": dict(tables or {})}),),
    )


def provided(kind: str, name: str, plugin: Any) -> registry.Record:
    """A plugin as if installed: a driver of ``kind``, ``hooks``, or ``guards`` for one that is there to forbid."""
    record = registry.provide("pml.plugins" if kind in {"hooks", "guards"} else f"pml.{kind}", name, plugin)
    record.guard = kind == "guards"
    return record


def drivers_in(plugins: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Fields of ``[gateway]`` that name the first store and all tracers among plugins; none for kinds without any."""
    given = list(plugins)
    named = {kind: [name for one, name in given if one == kind] for kind in ("store", "tracer")}
    store = {"store": named["store"][0]} if named["store"] else {}
    return {**store, "tracers": tuple(named["tracer"])} if named["tracer"] else store


@asynccontextmanager
async def running(
    servers: Mapping[str, ScriptedServer],
    *,
    plugins: Mapping[tuple[str, str], Any] | None = None,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    logs: Logs | None = None,
    one_client: bool = False,
    settings: Mapping[str, Any] | None = None,
    words: Mapping[str, str] | None = None,
    **gateway: Any,
) -> AsyncIterator[Gateway]:
    """A started gateway.

    Args:
        servers: By name.
        plugins: ``(kind, name)`` to driver class, or ``("hooks", name)`` to module or object with hooks; ``("guards",
            name)`` to one that is there to forbid. A store and tracers are used unless others are named.
        tables: ``[plugins.<name>]``.
        logs: Where to log.
        one_client: Servers wait for the client to say what it can do.
        settings: Fields of ``[servers.<name>]``, for each of them.
        words: ``words`` of ``[servers.<name>]``, by name.
        **gateway: Fields of ``[gateway]``.
    """
    records = [registry.provide("pml.transport", "scripted", ScriptedTransport(servers))]
    for (kind, name), plugin in (plugins or {}).items():
        records.append(provided(kind, name, plugin))
    config = configuration(list(servers), tables, settings, words, **{**drivers_in(plugins or ()), **gateway})
    async with Gateway(config, logs, records, one_client=one_client) as started:
        if not one_client:
            await started.servers_tried()
        yield started
