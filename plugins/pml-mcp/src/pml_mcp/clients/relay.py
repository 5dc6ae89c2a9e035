"""What passes between one client and the servers besides tools: resources, prompts, completion, logging, extensions."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_catalog.lengths import bounded
from pml_catalog.naming import name_of
from pml_catalog.paging import page, servers_page
from pml_catalog.server_views import is_operator
from pml_hookspecs import EMPTY, RawObject, RpcError, ServerRequest, TransportError
from pml_kit.json_members import with_member
from pml_kit.mcp.protocol import INVALID_PARAMS, METHOD_NOT_FOUND, PROGRESS, RESOURCE_NOT_FOUND
from pml_kit.offers import AccessEvent
from pml_mcp.servers.extensions import LONGEST_ID, TASK_METHODS, Route, no_task

from .exchange import LEVELS, LegacyExchange, ModernExchange
from .requests import read, send

if TYPE_CHECKING:
    from pml_catalog.listing import Kind
    from pml_hookspecs import Session
    from pml_kit.offers import ResourceTool
    from pml_mcp.clients.guides import Guides
    from pml_mcp.ports import AccessWatchers, ActiveConfig, Dispatcher, Rehearsals
    from pml_mcp.servers import Server
    from pml_mcp.servers.extensions import Allows, Extensions
    from pml_mcp.servers.features import Features, Keeps
    from pml_mcp.wire.client import ConnectedClient
    from pml_mcp.wire.listeners import Listener

    from .introduction import ServerInfo

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
    """Resources, prompts and completion."""

    def __init__(
        self,
        features: Features,
        guides: Guides,
        dispatcher: Dispatcher,
        server_info: ServerInfo,
        log: Any,
        allows: Allows,
        status: Callable[[Session], dict[str, Any]],
        active: ActiveConfig,
    ) -> None:
        """Make one for all clients.

        Args:
            allows: Says whether a session may have what patterns call by a name.
            status: Gives what the status resource shows a session.
            active: Has the number of items on a page.
        """
        self._features, self._guides, self._dispatcher = features, guides, dispatcher
        self._server_info, self._log = server_info, log
        self._allows, self._status, self._active = allows, status, active
        self.resource_tools: Sequence[ResourceTool] = ()
        """Set once by the gateway: what plugins have to be read."""
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
            "resources/unsubscribe": _unsubscribe,
        }

    # Lists

    def _keeps(self, kind: str, session: Session) -> Keeps:
        """Which resources or prompts of which servers a client may have."""
        allows = self._allows

        def keeps(server: str, own: str) -> bool:
            return allows(name_of(server, kind, own), session)

        return keeps

    async def _listed(
        self, kind: Kind, member: str, params: RawObject, client: Exchange, *more: Any
    ) -> Mapping[str, Any]:
        """A list of all servers; a client's only server says itself that it cannot give one, as it would directly.

        Its pages are the client's, too, and for how long they are fresh, where all that is listed is the servers'.

        Raises:
            RpcError: That server's, or no such page.
        """
        session = client.conversation.session
        keeps = self._keeps("prompt" if kind == "prompts" else "resource", session)
        listed = await self._features.listed(kind, keeps, self._server_info.only_server(session))
        items, size, cursor = [*listed, *more], self._active.config.gateway.page_size, params.get("cursor")
        alone = self._server_info.shown_alone(session)
        its_pages = alone is not None and listed.ends and not size
        pages = servers_page(items, cursor, listed.ends) if its_pages else page(items, cursor, size)
        fresh_ms = listed.fresh_ms(alone.settings.relist_s) if client.modern and alone is not None else 0
        said = (member, "nextCursor", "ttlMs"), (*pages, fresh_ms or None)
        return {name: value for name, value in zip(*said, strict=True) if value is not None}

    async def _list_resources(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        return await self._listed("resources", "resources", params, client, STATUS, *self._guides.resources())

    async def _list_templates(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        session = client.conversation.session
        own = (one.template for one in self.resource_tools if one.listed(session))
        return await self._listed("templates", "resourceTemplates", params, client, *own)

    async def _list_prompts(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        return await self._listed("prompts", "prompts", params, client, *self._guides.prompts())

    # Requests for one server

    async def _read_resource(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        uri = _text(params, "uri")
        if uri == STATUS_URI:
            text = json.dumps(self._status(client.conversation.session), indent=2, ensure_ascii=False)
            return {"contents": [{"uri": STATUS_URI, "mimeType": "application/json", "text": text}]}
        if (guide := self._guides.resource(uri)) is not None:
            return guide
        for one in self.resource_tools:
            if uri.startswith(one.prefix):
                return await read(self._dispatcher, client.conversation.session, one.tool, uri, _no_resource(uri))
        server, own = await self._resource(uri, client)
        request = _of_resource("resources/read", server, own, with_member(params, "uri", own))
        return await self._send(request, client, _no_resource(uri))

    async def _get_prompt(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        name = _text(params, "name")
        if (guide := self._guides.prompt(name)) is not None:
            return guide
        server, own = await self._prompt(name, client)
        request = _of_prompt("prompts/get", server, own, with_member(params, "name", own))
        return await self._send(request, client, _no_prompt(name))

    async def _complete(self, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        ref, method = params.get("ref"), "completion/complete"
        if isinstance(ref, Mapping):
            bounded(ref.get("name"), "ref.name")
            bounded(ref.get("uri"), "ref.uri")
        if isinstance(ref, Mapping) and isinstance(name := ref.get("name"), str):
            server, own = await self._prompt(name, client)
            request = _of_prompt(method, server, own, with_member(params, "ref", {**ref, "name": own}))
            return await self._send(request, client, _no_prompt(name))
        if isinstance(ref, Mapping) and isinstance(uri := ref.get("uri"), str):
            keeps = self._keeps("resource", client.conversation.session)
            server, own = await self._features.template(uri, keeps)
            changed = params if own == uri else with_member(params, "ref", {**ref, "uri": own})
            return await self._send(_of_resource(method, server, own, changed), client, _no_resource(uri))
        raise RpcError(INVALID_PARAMS, "completion/complete: ref must name a prompt or give a uri")

    async def _resource(self, uri: str, client: Exchange) -> tuple[Server, str]:
        return await self._features.resource(uri, self._keeps("resource", client.conversation.session))

    async def _prompt(self, name: str, client: Exchange) -> tuple[Server, str]:
        return await self._features.prompt(name, self._keeps("prompt", client.conversation.session))

    async def _send(self, request: ServerRequest, client: Exchange, unknown: RpcError) -> Mapping[str, Any]:
        """Have the chain send a request."""
        return await send(self._dispatcher, client.conversation.session, request, client, unknown)

    # Subscriptions

    async def _subscribe(self, params: RawObject, client: LegacyExchange) -> Mapping[str, Any]:
        uri, held = _text(params, "uri"), client.conversation.subscribed
        server, own = await self._resource(uri, client)
        before = held.get(uri)
        held[uri] = (server, own)  # before the server knows, which may tell of a change at once
        try:
            request = _of_resource("resources/subscribe", server, own, with_member(params, "uri", own))
            return await self._send(request, client, _no_resource(uri))
        except BaseException:
            if before is None:
                held.pop(uri, None)
            raise

    async def hear_of(self, listener: Listener, conversation: ConnectedClient) -> None:
        """Subscribe to the resources that a stream asks for; what cannot be had is left out."""
        await asyncio.gather(*(self._hear_of(listener, conversation, uri) for uri in listener.uris))

    async def _hear_of(self, listener: Listener, conversation: ConnectedClient, uri: str) -> None:
        try:
            server, own = await self._features.resource(uri, self._keeps("resource", conversation.session))
            listener.resources[uri] = (server, own)
            request = _of_resource("resources/subscribe", server, own, RawObject.of({"uri": own}))
            await send(self._dispatcher, conversation.session, request, None, _no_resource(uri))
        except BaseException as exc:
            listener.resources.pop(uri, None)
            if not isinstance(exc, UNREACHED):
                raise
            self._log.info("a resource cannot be subscribed to", uri=uri, reason=str(exc))


async def _unsubscribe(params: RawObject, client: LegacyExchange) -> Mapping[str, Any]:
    uri = _text(params, "uri")
    held = client.conversation.subscribed.pop(uri, None)
    if held is None:
        return EMPTY
    server, own = held
    return await server.unsubscribe(own, with_member(params, "uri", own))


async def hear_no_more(listener: Listener) -> None:
    """Take the subscriptions of a stream back."""
    for server, own in listener.resources.values():
        with contextlib.suppress(*UNREACHED):
            await server.unsubscribe(own, RawObject.of({"uri": own}))


class OtherMethods:
    """Methods that the gateway does not answer itself: about tasks of servers, and those that a section allows."""

    def __init__(
        self, extensions: Extensions, dispatcher: Dispatcher, access_watchers: AccessWatchers, allows: Allows
    ) -> None:
        """``allows`` says whether a session may have what patterns call by a name."""
        self._extensions, self._dispatcher = extensions, dispatcher
        self._access_watchers, self._allows = access_watchers, allows

    async def pass_through(self, method: str, params: RawObject, client: Exchange) -> Mapping[str, Any]:
        """Have a server answer.

        Raises:
            RpcError: No server gets it, or the task is not the client's.
        """
        session, extensions = client.conversation.session, self._extensions
        try:
            route = extensions.route(method, params, session, self._allows)
        except RpcError as exc:
            await self._tell_refused(method, str(params.get("taskId") or "")[:LONGEST_ID], session, exc)
            raise
        target = params.get("taskId") if method in TASK_METHODS else ""
        unknown = no_task(target) if target else RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")
        request = _request(method, route, target if isinstance(target, str) else "", params)
        result = await send(self._dispatcher, client.conversation.session, request, client, unknown)
        if method == "tasks/list" and isinstance(tasks := result.get("tasks"), list):
            may = partial(extensions.may_have, session=session, server=route.server.name, allows=self._allows)
            return {**result, "tasks": [t for t in tasks if isinstance(t, dict) and may(t.get("taskId"))]}
        return result

    async def _tell_refused(self, method: str, task: str, session: Session, error: RpcError) -> None:
        """Have it noted that the client asked for what no server gets from it."""
        await self._access_watchers.tell(
            AccessEvent(
                kind="refused",
                target=method[:LONGEST_METHOD],
                session=session,
                execution=task,
                code="task.unknown" if error.code == INVALID_PARAMS else "method.unknown",
                message=NO_TASK if error.code == INVALID_PARAMS else error.message[:LONGEST_METHOD],
            )
        )


class LogLevels:
    """``logging/setLevel`` of clients with a handshake."""

    def __init__(
        self,
        servers: Mapping[str, Server],
        clients: Collection[ConnectedClient],
        rehearsals: Rehearsals,
        log: Any,
        may_know: Callable[[str, Session], bool],
    ) -> None:
        """``may_know`` says whether a session may have anything of a server."""
        self._servers, self._clients, self._rehearsals, self._log = servers, clients, rehearsals, log
        self._may_know = may_know

    async def set(self, params: RawObject, client: LegacyExchange) -> Mapping[str, Any]:
        """Note the level that a client wants, and tell the servers that it may know."""
        level = _text(params, "level")
        if level not in LEVELS:
            raise RpcError(INVALID_PARAMS, f"logging/setLevel: {level!r} is none of {', '.join(LEVELS)}")
        client.conversation.log_level = level
        session = client.conversation.session
        if self._rehearsals.mode(session, None):
            return EMPTY  # what comes is sorted out here all the same
        servers = [s for s in self._servers.values() if is_operator(session) or self._may_know(s.name, session)]
        # Servers that several clients share log for the one that wants most; what the others get is sorted out here.
        wanted = [c.log_level for c in self._clients if c.log_level is not None]
        lowest = min(wanted, key=LEVELS.index, default=level)
        outcomes = await asyncio.gather(*(s.set_level(lowest) for s in servers), return_exceptions=True)
        for server, outcome in zip(servers, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._log.warning("a server keeps its log level", server=server.name, reason=str(outcome))
        return EMPTY


def tell_servers(
    servers: Mapping[str, Server], conversation: ConnectedClient, method: str, params: RawObject
) -> None:  # fmt: skip
    """Hand on a notification of a client's that is for servers."""
    if method == "notifications/roots/list_changed":
        for server in servers.values():
            server.tell(method, params, conversation)
    elif method == PROGRESS:
        token = params.get("progressToken")
        if isinstance(token, (str, int)) and (asker := conversation.askers.get(token)) is not None:
            asker.tell(method, params)


def _request(method: str, route: Route, target: str, params: RawObject) -> ServerRequest:
    return ServerRequest(
        id="request", server=route.server.name, method=method, name=route.name, target=target, params=params
    )


def _of_resource(method: str, server: Server, own: str, params: RawObject) -> ServerRequest:
    return _request(method, Route(server, name_of(server.name, "resource", own)), own, params)


def _of_prompt(method: str, server: Server, own: str, params: RawObject) -> ServerRequest:
    return _request(method, Route(server, name_of(server.name, "prompt", own)), own, params)


def _no_resource(uri: str) -> RpcError:
    return RpcError(RESOURCE_NOT_FOUND, f"Resource not found: {uri}", {"uri": uri})


def _no_prompt(name: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"Unknown prompt: {name}")


def _text(params: RawObject, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{name} must be text")
    return bounded(value, name)
