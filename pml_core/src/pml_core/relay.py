"""What passes between one client and the servers besides tools: resources, prompts, completion, logging, extensions."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_hookspecs import EMPTY, AccessEvent, RawObject, RpcError, ServerRequest, TransportError
from pml_hookspecs.protocol import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND

from .exchange import LEVELS, LegacyExchange, ModernExchange
from .extensions import LONGEST_ID, TASK_METHODS, Route, no_task
from .introduction import only_server
from .lengths import bounded
from .members import with_member
from .naming import name_of
from .paging import page, servers_page
from .requests import send
from .server_views import is_operator

if TYPE_CHECKING:
    from .conversation import Conversation
    from .downstream import Server
    from .features import Keeps
    from .gateway import Gateway
    from .listeners import Listener
    from .listing import Kind
    from .tool_calls import Told

UNREACHED = (RpcError, TransportError, TimeoutError)
"""A server cannot be asked, or refuses."""
LONGEST_METHOD = 200
"""Characters of a method, and of why it was refused, that are noted."""
NO_TASK = "There is no such task, or none that the caller may see"
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

    def _keeps(self, kind: str) -> Keeps:
        """Which resources or prompts of which servers the client may have."""
        gateway, session = self._gateway, self._conversation.session

        def keeps(server: str, own: str) -> bool:
            return gateway.allows(name_of(server, kind, own), session)

        return keeps

    async def _listed(
        self, kind: Kind, member: str, params: RawObject, client: Exchange, *more: Any
    ) -> Mapping[str, Any]:  # fmt: skip
        """A list of all servers; a client's only server says itself that it cannot give one, as it would directly.

        Its pages are the client's, too, and for how long they are fresh, where all that is listed is the servers'.

        Raises:
            RpcError: That server's, or no such page.
        """
        keeps = self._keeps("prompt" if kind == "prompts" else "resource")
        session = self._conversation.session
        only = only_server(self._gateway, session)
        listed = await self._gateway.features.listed(kind, keeps, only)
        items, size, cursor = [*listed, *more], self._gateway.config.gateway.page_size, params.get("cursor")
        plain = only is not None and not (await self._gateway.exposures.of(session)).lists_meta_tools
        its_pages = plain and listed.ends and not size
        pages = servers_page(items, cursor, listed.ends) if its_pages else page(items, cursor, size)
        fresh_ms = listed.fresh_ms(only.settings.relist_s) if only is not None and plain and client.modern else 0
        said = (member, "nextCursor", "ttlMs"), (*pages, fresh_ms or None)
        return {name: value for name, value in zip(*said, strict=True) if value is not None}

    async def _list_resources(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        return await self._listed("resources", "resources", params, client, STATUS, *self._gateway.guides.resources())

    async def _list_templates(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        return await self._listed("templates", "resourceTemplates", params, client)

    async def _list_prompts(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        return await self._listed("prompts", "prompts", params, client, *self._gateway.guides.prompts())

    # Requests for one server

    async def _read_resource(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        uri = _text(params, "uri")
        if uri == STATUS_URI:
            text = json.dumps(self._gateway.status(self._conversation.session), indent=2, ensure_ascii=False)
            return {"contents": [{"uri": STATUS_URI, "mimeType": "application/json", "text": text}]}
        if (guide := self._gateway.guides.resource(uri)) is not None:
            return guide
        server, own = await self._gateway.features.resource(uri, self._keeps("resource"))
        return await self._of_resource("resources/read", server, own, uri, with_member(params, "uri", own), client)

    async def _get_prompt(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        name = _text(params, "name")
        if (guide := self._gateway.guides.prompt(name)) is not None:
            return guide
        server, own = await self._gateway.features.prompt(name, self._keeps("prompt"))
        return await self._of_prompt("prompts/get", server, own, name, with_member(params, "name", own), client)

    async def _complete(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        ref, method = params.get("ref"), "completion/complete"
        if isinstance(ref, Mapping):
            bounded(ref.get("name"), "ref.name")
            bounded(ref.get("uri"), "ref.uri")
        if isinstance(ref, Mapping) and isinstance(name := ref.get("name"), str):
            server, own = await self._gateway.features.prompt(name, self._keeps("prompt"))
            changed = with_member(params, "ref", {**ref, "name": own})
            return await self._of_prompt(method, server, own, name, changed, client)
        if isinstance(ref, Mapping) and isinstance(uri := ref.get("uri"), str):
            server, own = await self._gateway.features.template(uri, self._keeps("resource"))
            changed = params if own == uri else with_member(params, "ref", {**ref, "uri": own})
            return await self._of_resource(method, server, own, uri, changed, client)
        raise RpcError(INVALID_PARAMS, "completion/complete: ref must name a prompt or give a uri")

    async def _of_resource(
        self, method: str, server: Server, own: str, uri: str, params: RawObject, client: Exchange | None
    ) -> Mapping[str, Any]:
        unknown = RpcError(RESOURCE_NOT_FOUND, f"Resource not found: {uri}", {"uri": uri})
        return await self._send(
            method, Route(server, name_of(server.name, "resource", own)), own, params, client, unknown
        )

    async def _of_prompt(
        self, method: str, server: Server, own: str, name: str, params: RawObject, client: Exchange
    ) -> Mapping[str, Any]:
        unknown = RpcError(INVALID_PARAMS, f"Unknown prompt: {name}")
        return await self._send(
            method, Route(server, name_of(server.name, "prompt", own)), own, params, client, unknown
        )

    async def _send(
        self, method: str, route: Route, target: str, params: RawObject, client: Told | None, unknown: RpcError
    ) -> Mapping[str, Any]:
        """Have the chain send a request."""
        request = ServerRequest(
            id="request", server=route.server.name, method=method, name=route.name, target=target, params=params
        )
        return await send(self._gateway.dispatcher, self._conversation.session, request, client, unknown)

    async def pass_through(self, method: str, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        """A method that the gateway does not answer itself: about a task of a server's, or one that a section allows.

        Raises:
            RpcError: No server gets it, or the task is not the client's.
        """
        session, extensions = self._conversation.session, self._gateway.extensions
        try:
            route = extensions.route(method, params, session, self._gateway.allows)
        except RpcError as exc:
            await self._tell_refused(method, str(params.get("taskId") or "")[:LONGEST_ID], exc)
            raise
        target = params.get("taskId") if method in TASK_METHODS else ""
        unknown = no_task(target) if target else RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")
        result = await self._send(method, route, target if isinstance(target, str) else "", params, client, unknown)
        if method == "tasks/list" and isinstance(tasks := result.get("tasks"), list):
            may = partial(extensions.may_have, session=session, server=route.server.name, allows=self._gateway.allows)
            return {**result, "tasks": [t for t in tasks if isinstance(t, dict) and may(t.get("taskId"))]}
        return result

    async def _tell_refused(self, method: str, task: str, error: RpcError) -> None:
        """Have it noted that the client asked for what no server gets from it."""
        await self._gateway.access_watchers.tell(
            AccessEvent(
                kind="refused",
                target=method[:LONGEST_METHOD],
                session=self._conversation.session,
                execution=task,
                code="task.unknown" if error.code == INVALID_PARAMS else "method.unknown",
                message=NO_TASK if error.code == INVALID_PARAMS else error.message[:LONGEST_METHOD],
            )
        )

    # Subscriptions and logging

    async def _subscribe(self, params: RawObject, client: LegacyExchange) -> Mapping[str, Any]:
        uri, held = _text(params, "uri"), self._conversation.subscribed
        server, own = await self._gateway.features.resource(uri, self._keeps("resource"))
        before = held.get(uri)
        held[uri] = (server, own)  # before the server knows, which may tell of a change at once
        try:
            changed = with_member(params, "uri", own)
            return await self._of_resource("resources/subscribe", server, own, uri, changed, client)
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
            server, own = await self._gateway.features.resource(uri, self._keeps("resource"))
            listener.resources[uri] = (server, own)
            params = RawObject.of({"uri": own})
            await self._of_resource("resources/subscribe", server, own, uri, params, None)
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
        gateway, session = self._gateway, self._conversation.session
        if gateway.dispatcher.rehearsals.mode(session, None):
            return EMPTY  # what comes is sorted out here all the same
        servers = [s for s in gateway.servers.values() if is_operator(session) or gateway.may_know(s.name, session)]
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


def _text(params: RawObject, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{name} must be text")
    return bounded(value, name)
