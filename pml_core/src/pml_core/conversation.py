"""One connected client: its requests, method by method (MCP, revisions with a handshake)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pml_hookspecs import (
    EMPTY,
    Failure,
    Link,
    Origin,
    Outcome,
    Peer,
    RawObject,
    RpcError,
    Session,
    ToolCall,
    ToolId,
    TransportError,
    encode,
)
from pml_hookspecs.protocol import HANDSHAKE_REVISIONS, INVALID_PARAMS, METHOD_NOT_FOUND

from .direct import tool_result
from .relay import Method, Relay
from .upstream import current_client

if TYPE_CHECKING:
    from .downstream import Server
    from .gateway import Gateway

CAPABILITIES: Mapping[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
"""What servers may offer. The handshake does not wait for them, so it cannot say what they do offer."""
META_INTENT, META_DRY_RUN = "pml/intent", "pml/dry_run"
"""Keys of ``_meta`` by which a client may say what it is up to, and ask for a rehearsal of one call."""
INSTRUCTIONS = (
    "Gateway to several MCP servers. Tools that are not listed can be found with search_tools and called with "
    "call_tool; execute_workflow runs several calls at once, and rehearses them with dry_run."
)
SERVERS_OWN = "tool.failed"
"""Code of the failure that a result with ``isError`` becomes: the result itself says it better."""
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Conversation:
    """Answers one client. Implements :class:`pml_hookspecs.Handler`."""

    def __init__(self, gateway: Gateway, link: Link, peer: Peer, endpoint: str) -> None:
        self._gateway, self._link, self._peer, self._endpoint = gateway, link, peer, endpoint
        self._session = self._identity("", "", gateway.config.gateway.intent)
        self._listed: bytes | None = None
        self._initialized = False
        self._relay = Relay(gateway, link)
        self._methods: dict[str, Method] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            **self._relay.methods,
        }

    def _identity(self, client: str, protocol: str, intent: str) -> Session:
        peer = self._peer
        return Session(
            key=f"{self._endpoint}\n{peer.principal}\n{intent}",
            endpoint=self._endpoint,
            principal=peer.principal,
            scopes=peer.scopes,
            client=client,
            protocol=protocol,
            intent=intent,
        )

    # pml_hookspecs.Handler

    async def request(self, method: str, params: RawObject, origin: Origin) -> Mapping[str, Any]:
        """Answer one request."""
        answer = self._methods.get(method)
        if answer is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")
        current_client.set(self)
        return await answer(params)

    def notification(self, method: str, params: RawObject) -> None:
        """The end of the handshake, or something for servers; the listener takes requests back itself."""
        if method == "notifications/initialized":
            self._initialized = True
        else:
            self._relay.heard(method, params)

    def closed(self, error: TransportError | None) -> None:
        """The client is gone."""
        self._gateway.conversations.discard(self)

    # Life

    async def _initialize(self, params: RawObject) -> Mapping[str, Any]:
        asked = params.get("protocolVersion")
        about = params.get("clientInfo")
        client = f"{about.get('name', '')}/{about.get('version', '')}" if isinstance(about, dict) else ""
        protocol = asked if asked in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1]
        self._session = self._identity(client, protocol, self._session.intent)
        able = params.get("capabilities")
        able = able if isinstance(able, dict) else {}
        self._relay.learn(able)
        self._gateway.upstream.said_hello(able)
        self._gateway.log.debug("client connected", client=client, protocol=protocol)
        return {
            "protocolVersion": protocol,
            "capabilities": CAPABILITIES,
            "serverInfo": {"name": "pml", "title": "PML gateway", "version": self._gateway.version},
            "instructions": INSTRUCTIONS,
        }

    async def _ping(self, _params: RawObject) -> Mapping[str, Any]:
        return EMPTY

    # What servers have for this client

    @property
    def answers_servers(self) -> bool:
        """Whether a server may ask this client something that a human answers."""
        return self._relay.answers_servers

    async def ask(self, server: Server, method: str, params: RawObject) -> Mapping[str, Any]:
        """Have the client answer a server's request."""
        return await self._relay.ask(server, method, params)

    def tell(self, method: str, params: RawObject) -> None:
        """Hand a server's notification to the client."""
        if self._initialized:
            self._relay.tell(method, params)

    def subscribes(self, uri: str) -> bool:
        """Whether the client wants to hear of changes of a resource."""
        return self._relay.subscribes(uri)

    async def tools_changed(self) -> None:
        """Tell the client when what *it* sees has changed."""
        if self._listed is None or not self._initialized:
            return
        now = (await self._gateway.exposure.tools(self._session)).raw
        if now != self._listed:
            self._listed = now
            self._link.notify("notifications/tools/list_changed", EMPTY)

    # Tools

    async def _list_tools(self, params: RawObject) -> Mapping[str, Any]:
        await self._gateway.servers_tried()
        session = self._session
        if (hint := _meta_of(params).get(META_INTENT)) and isinstance(hint, str):
            session = self._identity(session.client, session.protocol, hint)
        listed = await self._gateway.exposure.tools(session)
        if session is self._session:
            self._listed = listed.raw
        return listed

    async def _call_tool(self, params: RawObject) -> Mapping[str, Any]:
        try:
            members = _members.decode(params.raw)
            name = msgspec.json.decode(members.pop("name"), type=str)
            arguments = bytes(members.pop("arguments", b"{}"))
        except (msgspec.MsgspecError, KeyError) as exc:
            raise RpcError(INVALID_PARAMS, f"tools/call needs a name: {exc}") from exc
        if arguments[:1] != b"{":
            if arguments != b"null":
                raise RpcError(INVALID_PARAMS, "tools/call: arguments must be an object")
            arguments = b"{}"
        meta = _meta_of(params) if "_meta" in members else {}
        if (token := meta.pop("progressToken", None)) is not None:
            members["_meta"] = msgspec.Raw(encode(meta))
        task = ToolCall(
            id="call",
            tool=ToolId(name),
            arguments=RawObject(arguments),
            extra=_object(members) if members else {},
        )
        ran, outcome = await self._gateway.dispatcher.start_resolved(
            task,
            self._session,
            intent=_text(meta.get(META_INTENT)) or self._session.intent,
            dry_run=self._dry_run(meta),
            progress=None if token is None else self._progress_to(token),
        )
        return _tool_answer(outcome) if isinstance(ran, ToolCall) else _task_answer(outcome)

    def _dry_run(self, meta: Mapping[str, Any]) -> bool | None:
        asked = meta.get(META_DRY_RUN)
        if asked is not None and not isinstance(asked, bool):
            raise RpcError(INVALID_PARAMS, f"_meta[{META_DRY_RUN!r}] must be true or false, not {asked!r}")
        return asked

    def _progress_to(self, token: Any) -> Callable[[float, float | None, str], None]:
        def tell(done: float, total: float | None, message: str) -> None:
            note: dict[str, Any] = {"progressToken": token, "progress": done}
            if total is not None:
                note["total"] = total
            if message:
                note["message"] = message
            self._link.notify("notifications/progress", note)

        return tell


def _tool_answer(outcome: Outcome) -> Mapping[str, Any]:
    """What a tool's server answered, as it came; a failure of the gateway's own never looks like a success."""
    failure, output = outcome.failure, outcome.output
    if isinstance(output, Mapping) and (failure is None or failure.code == SERVERS_OWN):
        return output
    if failure is None:
        return tool_result(output)
    if isinstance(rpc := failure.details.get("rpc"), Mapping):
        code: Any = rpc["code"]
        raise RpcError(code, str(rpc["message"]), rpc.get("data"))
    if failure.code == "tool.unknown":
        raise RpcError(INVALID_PARAMS, failure.message, dict(failure.details))
    return failed_result(failure)


def _task_answer(outcome: Outcome) -> Mapping[str, Any]:
    """The value of a workflow or a piece of code, wrapped as a ``CallToolResult``."""
    failure = outcome.failure
    if failure is not None and outcome.output is None:
        return failed_result(failure)
    return tool_result(outcome.output, is_error=failure is not None)


def failed_result(failure: Failure) -> RawObject:
    """A failure of the gateway's own as a tool result that a model can act on."""
    about = {"code": failure.code, "retryable": failure.retryable, "details": failure.details}
    content = [{"type": "text", "text": failure.message}]
    return RawObject.of({"content": content, "isError": True, "_meta": {"pml/failure": about}})


def _object(members: Mapping[str, msgspec.Raw]) -> RawObject:
    return RawObject(b"{" + b",".join(encode(k) + b":" + bytes(v) for k, v in members.items()) + b"}")


def _meta_of(params: RawObject) -> dict[str, Any]:
    meta = params.get("_meta")
    return dict(meta) if isinstance(meta, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


async def tell_all(conversations: set[Conversation]) -> None:
    """Tell every client whose list has changed."""
    await asyncio.gather(*(c.tools_changed() for c in tuple(conversations)))
