"""MCP servers of a test's making, of either era, reached without a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar
from typing import Any

from pml_hookspecs import Endpoint, Handler, Link, Origin, RawObject, RpcError, TransportError, encode
from pml_kit.mcp.protocol import (
    META_CLIENT_CAPABILITIES,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    META_SUBSCRIPTION_ID,
    MODERN_REVISIONS,
)

Answer = Callable[[str, dict[str, Any]], Awaitable[Mapping[str, Any]]]
Other = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]
ABOUT = {"name": "scripted", "version": "1"}


async def echo(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answers any call with its name and arguments."""
    return {"content": [{"type": "text", "text": f"{name} {arguments}"}], "structuredContent": arguments}


async def until(condition: Callable[[], object], within_s: float = 120.0) -> None:
    """Wait for what nothing tells of. Raises TimeoutError."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


async def error_of(request: Awaitable[object]) -> RpcError:
    """The error that a request is answered with.

    Raises:
        AssertionError: It is not answered with one.
    """
    try:
        answer = await request
    except RpcError as error:
        return error
    raise AssertionError(f"answered with {answer!r}")


def asks(state: str | None = None, **questions: Mapping[str, Any]) -> dict[str, Any]:
    """A result that is a question: requests by key, and the server's ``requestState``."""
    result: dict[str, Any] = {"resultType": "input_required"}
    if questions:
        result["inputRequests"] = questions
    return result if state is None else {**result, "requestState": state}


answering: ContextVar[ScriptedLink | None] = ContextVar("answering", default=None)
"""The connection whose request is being answered."""


class ScriptedServer:
    """An MCP server of the test's making, reached without a process."""

    def __init__(
        self,
        tools: Sequence[str | Mapping[str, Any]] = ("read_file", "write_file"),
        answer: Answer = echo,
        *,
        eras: Collection[str] = ("legacy",),
    ) -> None:
        """``tools`` are names or whole definitions; ``answer`` gets name and arguments of each call.

        ``eras`` are those that it speaks, of ``legacy`` (with a handshake) and ``modern`` (without).
        """
        self.tools = [{"name": t, "inputSchema": {"type": "object"}} if isinstance(t, str) else dict(t) for t in tools]
        self.answer, self.eras = answer, frozenset(eras)
        self.script: list[Mapping[str, Any] | Exception] = []
        """Answers to the next calls of tools, in order, before ``answer`` is asked; see :func:`asks`."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.params: list[dict[str, Any]] = []
        """Of each call of a tool."""
        self.raw: list[tuple[str, bytes]] = []
        """Every request as its bytes came."""
        self.metas: list[tuple[str, dict[str, Any]]] = []
        """``_meta`` of every request that had one."""
        self.handler: Handler | None = None
        self.link: ScriptedLink
        """The newest connection."""
        self.links: list[ScriptedLink] = []
        """All connections there ever were."""
        self.streams: list[tuple[ScriptedLink, dict[str, Any]]] = []
        """Open streams of changes, and what each asked for."""
        self.said_once = 0
        """Streams of changes that there ever were."""
        self._questions = 0
        self.offers: dict[str, Any] = {"tools": {}}
        """Capabilities declared."""
        self.about: dict[str, Any] = dict(ABOUT)
        """How it introduces itself."""
        self.instructions: Any = None
        """What it says that it is for; nothing if None."""
        self.hello: dict[str, Any] = {}
        """Params of the last handshake."""
        self.others: dict[str, Other] = {}
        """Answers to other methods, from their params."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Those other requests, in order."""
        self.refuse: str = ""
        """Why a connection fails; ``""`` lets it through."""

    def use(self, link: ScriptedLink) -> None:
        """Speak over ``link`` from now on, but for what is said while a request from another is being answered."""
        self.link, self.handler = link, link.handler

    async def serve(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        """Answer one request."""
        meta = params.get("_meta") or {}
        if META_PROTOCOL_VERSION not in meta or "modern" not in self.eras:
            return await self._serve_legacy(method, params)
        if meta[META_PROTOCOL_VERSION] not in MODERN_REVISIONS or not isinstance(meta[META_CLIENT_CAPABILITIES], dict):
            raise RpcError(-32602, f"no envelope: {meta}")
        result = await self._serve_modern(method, params)
        if isinstance(result, RawObject):
            return result
        return {"resultType": "complete", "_meta": {META_SERVER_INFO: self.about}, **result}

    async def _serve_legacy(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        if "legacy" not in self.eras:
            raise RpcError(-32022, "Unsupported protocol version", {"supported": list(MODERN_REVISIONS)})
        if method == "initialize":
            self.hello = params
            said = {"protocolVersion": params["protocolVersion"], "capabilities": self.offers, "serverInfo": self.about}
            return said if self.instructions is None else {**said, "instructions": self.instructions}
        return await self._serve_both(method, params)

    async def _serve_modern(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        if method == "server/discover" and method not in self.others:
            said = {"supportedVersions": list(MODERN_REVISIONS), "capabilities": self.offers}
            return said if self.instructions is None else {**said, "instructions": self.instructions}
        if method == "subscriptions/listen" and method not in self.others:
            return await self._tell_changes(params["notifications"])
        if method in ("initialize", "ping", "logging/setLevel", "resources/subscribe"):
            raise RpcError(-32601, f"Method not found: {method}")
        return await self._serve_both(method, params)

    async def _serve_both(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        if method == "tools/list":
            return {"tools": self.tools}
        if method == "tools/call":
            self.params.append(params)
            self.calls.append((params["name"], params["arguments"]))
            if self.script:
                scripted = self.script.pop(0)
                if isinstance(scripted, Exception):
                    raise scripted
                return scripted
            return await self.answer(params["name"], params["arguments"])
        if method in self.others:
            self.asked.append((method, params))
            return await self.others[method](params)
        raise RpcError(-32601, f"Method not found: {method}")

    async def _tell_changes(self, wanted: dict[str, Any]) -> Mapping[str, Any]:
        self.said_once += 1
        stream = (answering.get() or self.link, wanted)
        meta = {META_SUBSCRIPTION_ID: self.said_once}
        self.streams.append(stream)
        self.tell("notifications/subscriptions/acknowledged", {"notifications": wanted, "_meta": meta})
        try:
            await asyncio.Event().wait()
        finally:
            self.streams.remove(stream)
        raise AssertionError

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client something. As over a pipe, nothing tells which request it is about. Raises RpcError."""
        link = answering.get() or self.link
        self._questions += 1
        work = link.handler.request(method, RawObject(encode(params)), Origin(self._questions, link))
        answer = await asyncio.get_running_loop().create_task(work, context=Context())
        return RawObject(encode(answer)).value

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification. As over a pipe, nothing tells which request it is about."""
        handler = link.handler if (link := answering.get()) is not None else self.handler
        if handler is not None:
            Context().run(handler.notification, method, RawObject(encode(params)))

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

    handler: Handler

    def __init__(self, server: ScriptedServer) -> None:
        self._server, self.open = server, True
        self.notified: list[tuple[str, Mapping[str, Any]]] = []
        self.requested: list[str] = []
        """Methods of all requests."""

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        sent = RawObject(encode(params))
        self.requested.append(method)
        self._server.raw.append((method, sent.raw))
        if b'"_meta"' in sent.raw and "_meta" in sent:
            self._server.metas.append((method, sent["_meta"]))
        before = answering.set(self if hasattr(self, "handler") else None)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._server.serve(method, sent.value)
        except TimeoutError:
            raise TimeoutError(f"no answer to {method} within {timeout_s:g} s") from None
        finally:
            answering.reset(before)
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
        link = ScriptedLink(server)
        link.handler = handler
        server.links.append(link)
        server.use(link)
        try:
            yield link
        finally:
            link.open = False
            if others := [known for known in server.links if known.open]:
                server.use(others[-1])

    async def serve(self, endpoint: Endpoint, accept: Any, *, started: Any, routes: Any = None) -> None:
        raise NotImplementedError("scripted servers only")


def offering(*uris: str, eras: Sequence[str] = ("legacy",), **others: Any) -> ScriptedServer:
    """A server with resources, and with answers to other methods: ``prompts__get=result``, or a function of params."""
    server = ScriptedServer(["read"], eras=eras)
    server.offers = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}}
    listed = {"resources": [{"uri": uri, "name": uri} for uri in uris]}
    answers: dict[str, Any] = {
        "resources__list": listed,
        "resources__subscribe": {},
        "resources__unsubscribe": {},
        **others,
    }

    def answer(value: Any) -> Other:
        async def fixed(params: dict[str, Any]) -> dict[str, Any]:
            made: dict[str, Any] = value(params) if callable(value) else value
            return made

        return fixed

    server.others = {method.replace("__", "/"): answer(value) for method, value in answers.items()}
    return server
