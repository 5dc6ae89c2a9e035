"""Requests of clients without a handshake (MCP 2026-07-28)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import Origin, RawObject, RpcError, Session, encode
from pml_hookspecs.protocol import (
    INVALID_PARAMS,
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    METHOD_NOT_FOUND,
    MODERN_REVISIONS,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
)

from .exchange import LEVELS, ModernExchange
from .listeners import Listener
from .members import meta_of, with_meta
from .tool_calls import call_tool
from .upstream import current_client

if TYPE_CHECKING:
    from .conversation import Conversation
    from .gateway import Gateway

STATE_PREFIX = "pml."
"""Begins the ``requestState`` of requests that wait here; any other is a server's and goes on to it."""
CACHEABLE = frozenset(
    {"server/discover", "tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list"}
)
INTERACTIVE = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests that a server may answer with a question."""
Answer = Callable[[RawObject, ModernExchange, Origin], Coroutine[Any, Any, Mapping[str, Any]]]
NOT_MODERN = frozenset({"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""Methods of the other era, which this one does not have (MCP 2026-07-28, changes)."""
FRESH_MS = 0
"""How long clients may keep what they are told: the gateway's lists change when a server's do [ms]."""


class Parked(NamedTuple):
    """A request that waits for its client to come back."""

    exchange: ModernExchange
    work: asyncio.Task[Mapping[str, Any]]
    bound_to: tuple[str, str, str, str]
    """Principal, endpoint, method and name: what the request that comes back must agree with."""
    expiry: asyncio.TimerHandle


class Parking:
    """All requests that wait for their clients, by ``requestState``."""

    def __init__(self, answer_wait_s: float, most: int) -> None:
        """Wait ``answer_wait_s`` seconds for each; ``most`` wait at a time, and the oldest is given up for another."""
        self._answer_wait_s, self._most = answer_wait_s, most
        self._waiting: dict[str, Parked] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def park(self, exchange: ModernExchange, work: asyncio.Task[Mapping[str, Any]], bound_to: Any) -> str:
        """Leave a request waiting; the state by which it is found again."""
        if len(self._waiting) >= self._most:
            self._give_up(next(iter(self._waiting)))
        state = STATE_PREFIX + secrets.token_urlsafe(24)
        expiry = asyncio.get_running_loop().call_later(self._answer_wait_s, self._give_up, state)
        self._waiting[state] = Parked(exchange, work, bound_to, expiry)
        return state

    def take(self, state: object, bound_to: tuple[str, str, str, str]) -> Parked | None:
        """The request that waits under ``state``, once; None when it is not one of ours."""
        if not isinstance(state, str) or state not in self._waiting:
            return None
        if self._waiting[state].bound_to != bound_to:
            raise RpcError(INVALID_PARAMS, "requestState belongs to another request")
        parked = self._waiting.pop(state)
        parked.expiry.cancel()
        return parked

    def _give_up(self, state: str) -> None:
        parked = self._waiting.pop(state, None)
        if parked is not None:
            parked.expiry.cancel()
            parked.exchange.give_up("the client did not come back with an answer")

    async def close(self) -> None:
        """Give up everything."""
        works = [parked.work for parked in self._waiting.values()]
        for state in list(self._waiting):
            self._give_up(state)
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)


class Modern:
    """Answers the requests of one connection, or of one principal, each on its own."""

    def __init__(self, gateway: Gateway, conversation: Conversation) -> None:
        self._gateway, self._conversation = gateway, conversation
        self._methods: dict[
            str, Callable[[RawObject, ModernExchange, Origin], Coroutine[Any, Any, Mapping[str, Any]]]
        ] = {
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
        }
        about = {"name": "pml", "title": "PML gateway", "version": gateway.version}
        self._server_info = about
        self._complete = b'{"resultType":"complete",'
        self._stamp = b'"_meta":' + encode({META_SERVER_INFO: about}) + b"}"

    async def request(self, method: str, params: RawObject, meta: Mapping[str, Any], origin: Origin) -> Any:
        """Answer one request; ``meta`` is its ``_meta``.

        Raises:
            RpcError: Sent as it is.
        """
        if method in NOT_MODERN:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method} (not in revision {MODERN_REVISIONS[-1]})")
        exchange = self._exchange(meta, origin)
        current_client.set(exchange)
        answer = self._methods.get(method)
        try:
            if answer is not None and method not in INTERACTIVE:
                result = await answer(params, exchange, origin)
            else:
                result = await self._maybe_asked(method, params, exchange, origin)
        except RpcError as exc:
            # This revision has no code of its own for it (MCP 2026-07-28, resources).
            if exc.code == RESOURCE_NOT_FOUND and method == "resources/read":
                raise RpcError(INVALID_PARAMS, str(exc), exc.data) from exc
            raise
        return self._completed(method, result)

    def _exchange(self, meta: Mapping[str, Any], origin: Origin) -> ModernExchange:
        version, able = meta.get(META_PROTOCOL_VERSION), meta.get(META_CLIENT_CAPABILITIES)
        if not isinstance(version, str):
            raise RpcError(INVALID_PARAMS, f"_meta[{META_PROTOCOL_VERSION!r}] must be text")
        if version not in MODERN_REVISIONS:
            data = {"supported": list(MODERN_REVISIONS), "requested": version}
            raise RpcError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)
        if not isinstance(able, Mapping):
            raise RpcError(INVALID_PARAMS, f"_meta[{META_CLIENT_CAPABILITIES!r}] must be an object")
        level = meta.get(META_LOG_LEVEL)
        info = meta.get(META_CLIENT_INFO)
        conversation = self._conversation
        conversation.met_modern(able, info if isinstance(info, Mapping) else None)
        return ModernExchange(
            conversation,
            origin.link,
            person=None if conversation.peer.stateless else conversation,
            capabilities=able,
            info=info if isinstance(info, Mapping) else None,
            log_level=level if level in LEVELS else None,
        )

    def _completed(self, method: str, result: Mapping[str, Any]) -> RawObject:
        """``result`` with what every result of this revision says, where it does not say it already."""
        raw = RawObject.of(result).raw
        if b'"resultType"' in raw or b'"_meta"' in raw or method in CACHEABLE:
            return self._completed_slowly(method, RawObject.of(result))
        return RawObject(self._complete + (raw[1:-1] + b"," if len(raw) > len(b"{}") else b"") + self._stamp)

    def _completed_slowly(self, method: str, result: RawObject) -> RawObject:
        missing: dict[str, Any] = {} if "resultType" in result else {"resultType": "complete"}
        if method in CACHEABLE and result.get("resultType", "complete") == "complete":
            missing |= {k: v for k, v in (("ttlMs", FRESH_MS), ("cacheScope", "private")) if k not in result}
        if missing:
            head = encode(missing)
            result = RawObject(head[:-1] + (b"," + result.raw[1:] if len(result.raw) > len(b"{}") else b"}"))
        if META_SERVER_INFO in meta_of(result):
            return result
        return with_meta(result, {META_SERVER_INFO: self._server_info})

    # Methods of this revision

    async def _discover(self, _params: RawObject, _exchange: ModernExchange, _origin: Origin) -> Mapping[str, Any]:
        return {
            "supportedVersions": list(MODERN_REVISIONS),
            "capabilities": self._gateway.capabilities(),
            "instructions": self._gateway.instructions,
        }

    async def _listen(self, params: RawObject, _exchange: ModernExchange, origin: Origin) -> Mapping[str, Any]:
        wanted = params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise RpcError(INVALID_PARAMS, "subscriptions/listen: notifications must be an object")
        listener = Listener(origin, wanted)
        relay, listeners = self._conversation.relay, self._conversation.listeners
        listeners.add(listener)
        listener.acknowledge()
        subscribed: list[str] = []
        try:
            for uri in listener.uris:
                await relay.hear_of(uri)
                subscribed.append(uri)
            await self._conversation.remember_list()
            await listener.ended.wait()
        finally:
            listeners.discard(listener)
            for uri in subscribed:
                self._gateway.soon(relay.hear_no_more_of, uri)
        return {"_meta": listener.meta}

    async def _list_tools(self, params: RawObject, _exchange: ModernExchange, _origin: Origin) -> Mapping[str, Any]:
        return await self._conversation.list_tools(params)

    async def _call_tool(self, params: RawObject, exchange: ModernExchange, _origin: Origin) -> Mapping[str, Any]:
        return await call_tool(self._gateway.dispatcher, self._conversation.session, params, exchange)

    # Requests that may be answered with a question

    async def _maybe_asked(
        self, method: str, params: RawObject, exchange: ModernExchange, origin: Origin
    ) -> Mapping[str, Any]:
        if method not in INTERACTIVE or not exchange.capabilities:
            return await self._work(method, params, exchange, origin)
        bound_to = self._bound_to(method, params)
        state = params.get("requestState") if b'"requestState"' in params.raw else None
        if (parked := self._gateway.parking.take(state, bound_to)) is not None:
            answers = params.get("inputResponses")
            parked.exchange.take(answers if isinstance(answers, Mapping) else {}, origin.link)
            return await self._until_asked(parked.exchange, parked.work, bound_to)
        task = asyncio.get_running_loop().create_task(
            self._work(method, params, exchange, origin), name=f"modern:{method}"
        )
        return await self._until_asked(exchange, task, bound_to)

    def _work(
        self, method: str, params: RawObject, exchange: ModernExchange, origin: Origin
    ) -> Coroutine[Any, Any, Mapping[str, Any]]:
        answer = self._methods.get(method)
        if answer is not None:
            return answer(params, exchange, origin)
        if (shared := self._conversation.relay.methods.get(method)) is not None:
            return shared(params, exchange)
        return self._conversation.relay.pass_through(method, params, exchange)

    async def _until_asked(
        self, exchange: ModernExchange, work: asyncio.Task[Mapping[str, Any]], bound_to: tuple[str, str, str, str]
    ) -> Mapping[str, Any]:
        asked = asyncio.get_running_loop().create_task(exchange.asked())
        try:
            await asyncio.wait((work, asked), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            raise
        finally:
            asked.cancel()
        if work.done():
            return work.result()
        await asyncio.sleep(0)  # questions that come together are asked together
        state = self._gateway.parking.park(exchange, work, bound_to)
        return {"resultType": "input_required", "inputRequests": exchange.questions(), "requestState": state}

    def _bound_to(self, method: str, params: RawObject) -> tuple[str, str, str, str]:
        session: Session = self._conversation.session
        name = params.get("uri") if method == "resources/read" else params.get("name")
        return (session.principal, session.endpoint, method, str(name))
