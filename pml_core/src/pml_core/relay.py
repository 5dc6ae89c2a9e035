"""What passes between one client and the servers besides tools: resources, prompts, completion, logging, questions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import EMPTY, Link, RawObject, RpcError
from pml_hookspecs.protocol import INVALID_PARAMS, METHOD_NOT_FOUND

if TYPE_CHECKING:
    from .downstream import Server
    from .gateway import Gateway

STATUS_URI = "pml://status"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Levels of log messages, least severe first (MCP, logging; RFC 5424)."""
HUMAN_S = 86_400.0
"""Longest wait for a client's answer to a server: a human may be part of it [s]."""
NEEDS: Mapping[str, str] = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""Requests of servers and the capability that a client needs for them; others pass without."""

Method = Callable[[RawObject], Awaitable[Mapping[str, Any]]]


class Relay:
    """Carries messages for one client."""

    def __init__(self, gateway: Gateway, link: Link) -> None:
        self._gateway, self._link = gateway, link
        self._able: Mapping[str, Any] = {}
        self._level = 0
        self._subscribed: set[str] = set()
        self._tokens: dict[Any, Server] = {}
        """Progress tokens of questions that this client is answering, and who asked."""
        self.methods: Mapping[str, Method] = {
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
        }

    def learn(self, capabilities: Mapping[str, Any]) -> None:
        """What the client said that it can do."""
        self._able = capabilities

    @property
    def answers_servers(self) -> bool:
        """Whether the client may be asked something that a human answers."""
        return any(isinstance(self._able.get(name), Mapping) for name in ("sampling", "elicitation"))

    # From the client

    async def _list_resources(self, _params: RawObject) -> Mapping[str, Any]:
        about = {
            "uri": STATUS_URI,
            "name": "status",
            "title": "PML status",
            "description": "The gateway's servers: which are up, which are not and why.",
            "mimeType": "application/json",
        }
        return {"resources": [*await self._gateway.features.listed("resources"), about]}

    async def _list_templates(self, _params: RawObject) -> Mapping[str, Any]:
        return {"resourceTemplates": await self._gateway.features.listed("templates")}

    async def _read_resource(self, params: RawObject) -> Mapping[str, Any]:
        uri = _text(params, "uri")
        if uri == STATUS_URI:
            text = json.dumps(self._gateway.status(), indent=2, ensure_ascii=False)
            return {"contents": [{"uri": STATUS_URI, "mimeType": "application/json", "text": text}]}
        server, own = await self._gateway.features.resource(uri)
        return await server.ask("resources/read", _with(params, "uri", own))

    async def _subscribe(self, params: RawObject) -> Mapping[str, Any]:
        uri = _text(params, "uri")
        server, own = await self._gateway.features.resource(uri)
        self._subscribed.add(own)
        return await server.ask("resources/subscribe", _with(params, "uri", own))

    async def _unsubscribe(self, params: RawObject) -> Mapping[str, Any]:
        uri = _text(params, "uri")
        server, own = await self._gateway.features.resource(uri)
        self._subscribed.discard(own)
        if self._gateway.subscribed(own):  # another client still wants to hear of it
            return EMPTY
        return await server.ask("resources/unsubscribe", _with(params, "uri", own))

    def subscribes(self, uri: str) -> bool:
        """Whether the client wants to hear of changes of a resource."""
        return uri in self._subscribed

    async def _list_prompts(self, _params: RawObject) -> Mapping[str, Any]:
        return {"prompts": await self._gateway.features.listed("prompts")}

    async def _get_prompt(self, params: RawObject) -> Mapping[str, Any]:
        server, own = await self._gateway.features.prompt(_text(params, "name"))
        return await server.ask("prompts/get", _with(params, "name", own))

    async def _complete(self, params: RawObject) -> Mapping[str, Any]:
        ref = params.get("ref")
        if isinstance(ref, Mapping) and isinstance(ref.get("name"), str):
            server, own = await self._gateway.features.prompt(ref["name"])
            return await server.ask("completion/complete", _with(params, "ref", {**ref, "name": own}))
        if isinstance(ref, Mapping) and isinstance(ref.get("uri"), str):
            server = await self._gateway.features.template(ref["uri"])
            return await server.ask("completion/complete", params)
        raise RpcError(INVALID_PARAMS, "completion/complete: ref must name a prompt or give a uri")

    async def _set_level(self, params: RawObject) -> Mapping[str, Any]:
        level = _text(params, "level")
        if level not in LEVELS:
            raise RpcError(INVALID_PARAMS, f"logging/setLevel: {level!r} is none of {', '.join(LEVELS)}")
        self._level = LEVELS.index(level)
        servers = list(self._gateway.servers.values())
        outcomes = await asyncio.gather(*(s.set_level(level) for s in servers), return_exceptions=True)
        for server, outcome in zip(servers, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._gateway.log.warning("a server keeps its log level", server=server.name, reason=str(outcome))
        return EMPTY

    def heard(self, method: str, params: RawObject) -> None:
        """A notification of the client's for servers."""
        if method == "notifications/roots/list_changed":
            for server in self._gateway.servers.values():
                server.tell(method, params)
        elif method == "notifications/progress":
            token = params.get("progressToken")
            if isinstance(token, (str, int)) and (asker := self._tokens.get(token)) is not None:
                asker.tell(method, params)

    # From a server

    async def ask(self, server: Server, method: str, params: RawObject) -> Mapping[str, Any]:
        """Have the client answer a server's request.

        Raises:
            RpcError: It cannot do that, or answered with an error.
        """
        needed = NEEDS.get(method)
        if needed is not None and not isinstance(self._able.get(needed), Mapping):
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method} (the client does not offer {needed})")
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, Mapping) else None
        if isinstance(token, (str, int)):
            self._tokens[token] = server
        try:
            return await self._link.request(method, params, timeout_s=HUMAN_S)
        finally:
            self._tokens.pop(token, None)

    def tell(self, method: str, params: RawObject) -> None:
        """Hand a server's notification to the client, if it wants it."""
        if method == "notifications/message" and _level_of(params) < self._level:
            return
        if method == "notifications/resources/updated" and not self.subscribes(str(params.get("uri"))):
            return
        self._link.notify(method, params)


def _level_of(params: RawObject) -> int:
    level = params.get("level")
    return LEVELS.index(level) if level in LEVELS else len(LEVELS)


def _text(params: RawObject, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{name} must be text")
    return value


def _with(params: RawObject, name: str, value: Any) -> RawObject:
    """``params`` with one member changed; as it came when that changes nothing."""
    return params if params.get(name) == value else RawObject.of({**params, name: value})
