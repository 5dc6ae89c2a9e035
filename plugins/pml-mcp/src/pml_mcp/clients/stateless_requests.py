"""Requests of clients without a handshake (MCP 2026-07-28)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Origin, RawObject, RpcError, encode
from pml_kit.json_members import enclosed, join, meta_of, object_in, split, with_meta
from pml_kit.mcp.protocol import (
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
from pml_mcp.wire.client import current_client
from pml_mcp.wire.listeners import Listener

from .exchange import LEVELS, ModernExchange
from .mcp_tasks import LONGEST_ID, METHODS, Tasks, check_declared, with_tasks
from .pending_input import RequestIdentity, Work, given_back, given_on
from .relay import hear_no_more

if TYPE_CHECKING:
    from pml_hookspecs import Session
    from pml_mcp.wire.upstream import Upstream

    from .conversation import Conversation
    from .introduction import Introduction
    from .pending_input import PendingInput
    from .relay import OtherMethods, Relay
    from .tool_calls import ToolCalls

CACHEABLE = frozenset(
    {"server/discover", "tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list"}
)
DISCOVER = "server/discover"
INTERACTIVE = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests that a server may answer with a question."""
Answer = Callable[[RawObject, ModernExchange, Origin], Coroutine[Any, Any, Mapping[str, Any]]]
NOT_MODERN = frozenset({"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""Methods of the other era, which this one does not have (MCP 2026-07-28, changes)."""
COMPLETE = b'"resultType":"complete"'
PUBLIC = b'"cacheScope":"public"'
"""Of a list that is the same for all clients of an endpoint; other lists are ``private`` (MCP 2026-07-28, caching)."""
FRESH_MS = 0
"""How long clients may keep what they are told: the gateway's lists change when a server's do [ms]."""


class StatelessRequests:
    """Answers requests, each on its own."""

    def __init__(
        self,
        call_tool: ToolCalls,
        tasks: Tasks,
        pending: PendingInput,
        relay: Relay,
        others: OtherMethods,
        introduction: Introduction,
        upstream: Upstream,
        soon: Callable[..., None],
    ) -> None:
        """``soon`` does something in the background."""
        self._tool_calls, self._tasks, self._pending = call_tool, tasks, pending
        self._relay, self._others, self._introduction, self._upstream = relay, others, introduction, upstream
        self._soon = soon
        self._methods: dict[str, Answer] = {
            DISCOVER: self._discover,
            "subscriptions/listen": self._listen,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            **{method: partial(self._about_task, method) for method in METHODS},
        }
        self._about: Mapping[str, Any] = {}
        """Who answered last, and how that is written into results."""
        self._stamp = b""

    async def request(
        self, conversation: Conversation, method: str, params: RawObject, meta: Mapping[str, Any], origin: Origin
    ) -> Mapping[str, Any]:
        """Answer one request; ``meta`` is its ``_meta``.

        Raises:
            RpcError: Sent as it is.
        """
        if method in NOT_MODERN:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method} (not in revision {MODERN_REVISIONS[-1]})")
        exchange = self._exchange(conversation, method, meta, origin)
        current_client.set(exchange)
        answer = self._methods.get(method)
        try:
            if answer is not None and method not in INTERACTIVE:
                result = await answer(params, exchange, origin)
            else:
                result = await self._maybe_asked(method, params, exchange, meta, origin)
        except RpcError as exc:
            # This revision has no code of its own for it (MCP 2026-07-28, resources).
            if exc.code == RESOURCE_NOT_FOUND and method == "resources/read":
                raise RpcError(INVALID_PARAMS, str(exc), exc.data) from exc
            raise
        return self._completed(conversation.session, method, result)

    def _exchange(
        self, conversation: Conversation, method: str, meta: Mapping[str, Any], origin: Origin
    ) -> ModernExchange:
        version, able = meta.get(META_PROTOCOL_VERSION), meta.get(META_CLIENT_CAPABILITIES)
        if not isinstance(version, str):
            raise RpcError(INVALID_PARAMS, f"_meta[{META_PROTOCOL_VERSION!r}] must be text")
        if version not in MODERN_REVISIONS:
            data = {"supported": list(MODERN_REVISIONS), "requested": version}
            raise RpcError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)
        if not isinstance(able, Mapping):
            raise RpcError(INVALID_PARAMS, f"_meta[{META_CLIENT_CAPABILITIES!r}] must be an object")
        if (level := meta.get(META_LOG_LEVEL)) is not None and level not in LEVELS:
            raise RpcError(INVALID_PARAMS, f"_meta[{META_LOG_LEVEL!r}] must be one of {', '.join(LEVELS)}")
        info = meta.get(META_CLIENT_INFO)
        about = info if isinstance(info, Mapping) else None
        if conversation.met_modern(able, about) and method != DISCOVER:  # servers start behind one that greets
            self._upstream.said_hello(able, about, modern=True)
        return ModernExchange(conversation, origin.link, meta, capabilities=able, askable=method in INTERACTIVE)

    def _completed(self, session: Session, method: str, result: Mapping[str, Any]) -> RawObject:
        """``result`` with what every result of this revision says, where it does not say it already."""
        answer = RawObject.of(result)
        raw = answer.raw
        if b'"resultType"' in raw or b'"_meta"' in raw or method in CACHEABLE:
            return self._completed_slowly(session, method, answer)
        self._keep_up(session)
        return enclosed(COMPLETE, answer, self._stamp)

    def _keep_up(self, session: Session) -> None:
        """See to it that results say who answers now."""
        if self._about is not (now := self._introduction.server_info.about(session)):
            self._about, self._stamp = now, b'"_meta":' + encode({META_SERVER_INFO: now})

    def _completed_slowly(self, session: Session, method: str, result: RawObject) -> RawObject:
        missing: dict[str, Any] = {} if "resultType" in result else {"resultType": "complete"}
        if method in CACHEABLE and result.get("resultType", "complete") == "complete":
            missing |= {k: v for k, v in (("ttlMs", FRESH_MS), ("cacheScope", "private")) if k not in result}
        if missing:
            result = enclosed(encode(missing)[1:-1], result)
        if META_SERVER_INFO in meta_of(result):
            return result
        self._keep_up(session)
        return with_meta(result, {META_SERVER_INFO: self._about})

    # Methods of this revision

    async def _discover(self, _params: RawObject, exchange: ModernExchange, _origin: Origin) -> Mapping[str, Any]:
        hello = partial(self._upstream.said_hello, exchange.capabilities, exchange.info, modern=True)
        said, meta = await self._introduction.greeting(exchange.conversation.session, hello)
        answer = {
            "supportedVersions": list(MODERN_REVISIONS),
            "capabilities": with_tasks(self._introduction.capabilities(exchange.session)),
            **said,
            **({"_meta": meta} if meta else {}),
        }
        hello()
        return answer

    async def _listen(self, params: RawObject, exchange: ModernExchange, origin: Origin) -> Mapping[str, Any]:
        wanted = params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise RpcError(INVALID_PARAMS, "subscriptions/listen: notifications must be an object")
        listener, conversation = Listener(origin, wanted), exchange.conversation
        listeners = conversation.listeners
        listeners.add(listener)
        try:
            await self._relay.hear_of(listener, conversation)
            await conversation.remember_list()
            listener.acknowledge()
            await listener.ended.wait()
        finally:
            listeners.discard(listener)
            if listener.resources:
                self._soon(hear_no_more, listener)
        return {"_meta": listener.meta}

    async def _list_tools(self, params: RawObject, exchange: ModernExchange, _origin: Origin) -> Mapping[str, Any]:
        listed, alike, fresh_ms = await exchange.conversation.list_tools(params)
        said = [PUBLIC] * alike + [b'"ttlMs":%d' % fresh_ms] * bool(fresh_ms)
        return enclosed(b",".join(said), RawObject.of(listed)) if said else listed

    async def _call_tool(self, params: RawObject, exchange: ModernExchange, _origin: Origin) -> Mapping[str, Any]:
        answer = await self._tool_calls(params, exchange)
        return self._tasks.made_of(answer, exchange.capabilities)

    async def _about_task(
        self, method: str, params: RawObject, exchange: ModernExchange, _origin: Origin
    ) -> Mapping[str, Any]:
        answer = await self._tasks.answer(method, params, exchange.session, exchange.capabilities)
        if answer is not None:
            return answer
        try:
            return await self._others.pass_through(method, params, exchange)
        except RpcError as exc:
            if exc.code not in (METHOD_NOT_FOUND, INVALID_PARAMS):
                raise
        # It was no server's either; and the method itself is there, for the gateway's own tasks.
        check_declared(exchange.capabilities)
        raise RpcError(INVALID_PARAMS, f"There is no task {str(params.get('taskId'))[:LONGEST_ID]!r}")

    # Requests that may be answered with a question

    async def _maybe_asked(
        self, method: str, params: RawObject, exchange: ModernExchange, meta: Mapping[str, Any], origin: Origin
    ) -> Mapping[str, Any]:
        if method not in INTERACTIVE:
            return await self._work(method, params, exchange, origin)
        bound_to = _bound_to(method, params, exchange)
        state = params.get("requestState") if b'"requestState"' in params.raw else None
        if (pending := self._pending.take(state, bound_to)) is not None:
            pending.exchange.come_back(object_in(split(params.raw), "inputResponses"), origin.link, meta)
            return await self._until_asked(pending.exchange, pending.work, bound_to)
        params = given_back(params)
        if not exchange.capabilities:  # then no server gets to ask it anything
            return given_on(RawObject.of(await self._work(method, params, exchange, origin)))
        work = asyncio.get_running_loop().create_task(
            self._work(method, params, exchange, origin), name=f"modern:{method}"
        )
        work.add_done_callback(exchange.stir)
        return await self._until_asked(exchange, work, bound_to)

    def _work(
        self, method: str, params: RawObject, exchange: ModernExchange, origin: Origin
    ) -> Coroutine[Any, Any, Mapping[str, Any]]:
        answer = self._methods.get(method)
        if answer is not None:
            return answer(params, exchange, origin)
        if (shared := self._relay.methods.get(method)) is not None:
            return shared(params, exchange)
        return self._others.pass_through(method, params, exchange)

    async def _until_asked(self, exchange: ModernExchange, work: Work, bound_to: RequestIdentity) -> Mapping[str, Any]:
        try:
            while not work.done() and not exchange.asks:
                await exchange.stirred()
                await asyncio.sleep(0)  # questions that come together are asked together
        except asyncio.CancelledError:
            exchange.give_up("the client took its request back")
            work.cancel()
            await asyncio.wait((work,))
            raise
        # Also when the work is done: the question may be about another request of the same person's.
        if exchange.asks:
            state = self._pending.keep(exchange, work, bound_to)
            asked = {"inputRequests": exchange.questions().raw, "requestState": encode(state)}
            return join({"resultType": b'"input_required"', **asked})
        return given_on(RawObject.of(work.result()))


def _bound_to(method: str, params: RawObject, exchange: ModernExchange) -> RequestIdentity:
    name = params.get("uri") if method == "resources/read" else params.get("name")
    return RequestIdentity(exchange.session.principal, exchange.session.endpoint, method, str(name))
