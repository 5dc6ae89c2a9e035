"""What passes between one client and the servers besides tools: resources, prompts, completion, logging, extensions."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import EMPTY, RawObject, RpcError, TransportError
from pml_hookspecs.protocol import INVALID_PARAMS

from .exchange import LEVELS, LegacyExchange, ModernExchange
from .lengths import bounded
from .members import META, meta_of, with_member
from .paging import page

if TYPE_CHECKING:
    from .conversation import Conversation
    from .downstream import Server
    from .downstream.calls import Sink
    from .features import Kind
    from .gateway import Gateway
    from .listeners import Listener

UNREACHED = (RpcError, TransportError, TimeoutError)
"""A server cannot be asked, or refuses."""
STATUS_URI = "pml://status"
STATUS = {
    "uri": STATUS_URI,
    "name": "status",
    "title": "PML status",
    "description": "The gateway's servers: which are up, which are not and why.",
    "mimeType": "application/json",
}
Exchange = LegacyExchange | ModernExchange
Method = Callable[[RawObject, Exchange], Coroutine[Any, Any, Mapping[str, Any]]]
LegacyMethod = Callable[[RawObject, LegacyExchange], Coroutine[Any, Any, Mapping[str, Any]]]


class Relay:
    """Carries messages for one client."""

    def __init__(self, gateway: Gateway, conversation: Conversation) -> None:
        self._gateway, self._conversation = gateway, conversation
        self.methods: Mapping[str, Method] = {
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
        }
        """Of both eras."""
        self.legacy_methods: Mapping[str, LegacyMethod] = {
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "logging/setLevel": self._set_level,
        }

    # Lists

    async def _listed(self, kind: Kind, member: str, params: RawObject, *more: Any) -> Mapping[str, Any]:
        items = [*await self._gateway.features.listed(kind), *more]
        shown, cursor = page(items, params.get("cursor"), self._gateway.config.gateway.page_size)
        return {member: shown} if cursor is None else {member: shown, "nextCursor": cursor}

    async def _list_resources(self, params: RawObject, _client: Exchange) -> Mapping[str, Any]:
        return await self._listed("resources", "resources", params, STATUS)

    async def _list_templates(self, params: RawObject, _client: Exchange) -> Mapping[str, Any]:
        return await self._listed("templates", "resourceTemplates", params)

    async def _list_prompts(self, params: RawObject, _client: Exchange) -> Mapping[str, Any]:
        return await self._listed("prompts", "prompts", params)

    # Requests for one server

    async def _read_resource(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        uri = _text(params, "uri")
        if uri == STATUS_URI:
            text = json.dumps(self._gateway.status(self._conversation.session), indent=2, ensure_ascii=False)
            return {"contents": [{"uri": STATUS_URI, "mimeType": "application/json", "text": text}]}
        server, own = await self._gateway.features.resource(uri)
        return await _asked(server, "resources/read", with_member(params, "uri", own), client)

    async def _get_prompt(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        server, own = await self._gateway.features.prompt(_text(params, "name"))
        return await _asked(server, "prompts/get", with_member(params, "name", own), client)

    async def _complete(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        ref = params.get("ref")
        if isinstance(ref, Mapping):
            bounded(ref.get("name"), "ref.name")
            bounded(ref.get("uri"), "ref.uri")
        if isinstance(ref, Mapping) and isinstance(ref.get("name"), str):
            server, own = await self._gateway.features.prompt(ref["name"])
            return await _asked(server, "completion/complete", with_member(params, "ref", {**ref, "name": own}), client)
        if isinstance(ref, Mapping) and isinstance(ref.get("uri"), str):
            server = await self._gateway.features.template(ref["uri"])
            return await _asked(server, "completion/complete", params, client)
        raise RpcError(INVALID_PARAMS, "completion/complete: ref must name a prompt or give a uri")

    async def pass_through(self, method: str, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        """A method that the gateway does not know, such as an extension's: it goes as it is to the server it is for.

        Raises:
            RpcError: No server can be told to be the one.
        """
        server = self._gateway.extensions.server_for(method, params)
        result = await _asked(server, method, params, client)
        self._gateway.extensions.learn(server, result)
        return result

    # Subscriptions and logging

    async def _subscribe(self, params: RawObject, _client: LegacyExchange) -> Mapping[str, Any]:
        uri, held = _text(params, "uri"), self._conversation.subscribed
        server, own = await self._gateway.features.resource(uri)
        before = held.get(uri)
        held[uri] = (server, own)  # before the server knows, which may tell of a change at once
        try:
            return await server.subscribe(own, with_member(params, "uri", own))
        except BaseException:
            if before is None:
                held.pop(uri, None)
            raise

    async def _unsubscribe(self, params: RawObject, _client: LegacyExchange) -> Mapping[str, Any]:
        uri = _text(params, "uri")
        held = self._conversation.subscribed.pop(uri, None)
        if held is None:
            return EMPTY
        server, own = held
        return await server.unsubscribe(own, with_member(params, "uri", own))

    async def hear_of(self, listener: Listener) -> None:
        """Subscribe to the resources that a stream asks for; what cannot be had is left out."""
        await asyncio.gather(*(self._hear_of(listener, uri) for uri in listener.uris))

    async def _hear_of(self, listener: Listener, uri: str) -> None:
        try:
            server, own = await self._gateway.features.resource(uri)
            listener.resources[uri] = (server, own)
            await server.subscribe(own, RawObject.of({"uri": own}))
        except BaseException as exc:
            listener.resources.pop(uri, None)
            if not isinstance(exc, UNREACHED):
                raise
            self._gateway.log.info("a resource cannot be subscribed to", uri=uri, reason=str(exc))

    async def hear_no_more(self, listener: Listener) -> None:
        """Take the subscriptions of a stream back."""
        for server, own in listener.resources.values():
            with contextlib.suppress(*UNREACHED):
                await server.unsubscribe(own, RawObject.of({"uri": own}))

    async def _set_level(self, params: RawObject, _client: LegacyExchange) -> Mapping[str, Any]:
        level = _text(params, "level")
        if level not in LEVELS:
            raise RpcError(INVALID_PARAMS, f"logging/setLevel: {level!r} is none of {', '.join(LEVELS)}")
        self._conversation.log_level = level
        servers = list(self._gateway.servers.values())
        # Servers that several clients share log for the one that wants most; what the others get is sorted out here.
        wanted = [c.log_level for c in self._gateway.conversations if c.log_level is not None]
        lowest = min(wanted, key=LEVELS.index, default=level)
        outcomes = await asyncio.gather(*(s.set_level(lowest) for s in servers), return_exceptions=True)
        for server, outcome in zip(servers, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._gateway.log.warning("a server keeps its log level", server=server.name, reason=str(outcome))
        return EMPTY

    # Notifications of the client's

    def heard(self, method: str, params: RawObject) -> None:
        """A notification of the client's for servers."""
        if method == "notifications/roots/list_changed":
            for server in self._gateway.servers.values():
                server.tell(method, params, self._conversation)
        elif method == "notifications/progress":
            token = params.get("progressToken")
            if isinstance(token, (str, int)) and (asker := self._conversation.askers.get(token)) is not None:
                asker.tell(method, params)


async def _asked(server: Server, method: str, params: RawObject, client: Exchange) -> Mapping[str, Any]:
    """What the server answers; of its progress the client hears under its own token."""
    return await server.ask(method, params, _sink(params, client))


def _sink(params: RawObject, client: Exchange) -> Sink | None:
    token = meta_of(params).get("progressToken") if META in params.raw else None
    if token is None:
        return None
    return lambda note: client.progress({**note, "progressToken": token})


def _text(params: RawObject, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{name} must be text")
    return bounded(value, name)
