"""One connection to a server, kept: opened, lost, opened again, stopped when nobody needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

from pml_hookspecs import EMPTY, Link, Origin, RawObject, RpcError, TransportError
from pml_kit.json_members import with_meta, without_envelope
from pml_kit.mcp.principal_logins import LoginRequiredError
from pml_kit.mcp.protocol import META_SUBSCRIPTION_ID, PROGRESS
from pml_mcp.servers.connection_context import ConnectionContext, ConnectionEvents
from pml_mcp.servers.failures import explained
from pml_mcp.wire.client import Client, current_client
from pml_mcp.wire.schemes import scheme_of

from .backoff import Backoff
from .calls import Calls, Sink
from .change_stream import ChangeStream
from .eras import Era, Offer, OtherEra, begin, envelope, say_again
from .feature_lists import FeatureLists
from .input_requests import answer_all, asked_for
from .subscriptions import Subscriptions

CHECK_S = 0.05
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
STREAM = frozenset({META_SUBSCRIPTION_ID})
STARTING = "it is still starting"
NOT_YET = "not started yet; its first call starts it"
UNUSED = "stopped because nobody used it; its next call starts it"


class Connection:
    """Keeps one connection. Implements :class:`pml_hookspecs.Handler`."""

    def __init__(
        self,
        context: ConnectionContext,
        events: ConnectionEvents[Connection],
        *,
        era: Era,
        other_era: bool,
        client: Client | None = None,
        idle_timeout_s: float | None = None,
    ) -> None:
        """Nothing starts before :meth:`run`.

        Args:
            context, events: What it needs, and who hears of it.
            era: The era to begin in.
            other_era: Whether it may begin in the other one if the server does not speak this.
            client: The client it is for, between its requests; None when it is for all.
            idle_timeout_s: Stop it after this long without a request; never if None [s].
        """
        self._context, self._events, self.client = context, events, client
        self._idle_timeout_s = idle_timeout_s
        self._first = self._era, self._other_era = era, other_era
        self.name, self._log, self.restarts = context.name, context.log, 0
        self.calls = Calls(context.name, context.settings, self.link)
        self.offer = Offer(era, "", {})
        self.failure: Exception | None = None
        """What came of the last attempt that failed; an :class:`RpcError` where it does not speak this era, say."""
        self.given_up: str | None = None
        """Why it will not be tried again."""
        self._link: Link | None = None
        self._loss: TransportError | None = None
        self._lost, self.tried, self.wanted = asyncio.Event(), asyncio.Event(), asyncio.Event()
        """The last: somebody asks for it, so it waits for no turn to start."""
        self._reason, self.asleep = STARTING, False
        self.backoff, self._next_attempt_s = Backoff(), 0.0
        self._up_since_s: float | None = None
        self.began_s: float | None = None
        """When its start began, in whichever era, on the loop's clock [s]; None while it waits for its turn."""
        self.level: str | None = None if client is None else client.log_level
        """From which level on it logs, as clients said."""
        self.change_stream = ChangeStream(self, context.log)
        self.subscriptions = Subscriptions()
        self._talks = 0
        """Requests that go to and fro with questions and answers."""
        self.lists = FeatureLists(self, context.call_timeout_s, self._lists_changed, context.log)

    @property
    def modern(self) -> bool:
        """Whether it speaks a revision without a handshake."""
        return self.offer.era == "modern"

    @property
    def connected(self) -> bool:
        """Whether requests can be sent right now."""
        return self._link is not None

    @property
    def known(self) -> bool:
        """Whether it has ever introduced itself."""
        return bool(self.offer.protocol)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What it declared; empty while it is neither connected nor asleep."""
        return self.offer.capabilities if self.connected or self.asleep else {}

    def offers(self, capability: str) -> bool:
        """Whether it declared ``capability``; False while it is neither connected nor asleep."""
        return (self._link is not None or self.asleep) and isinstance(self.offer.capabilities.get(capability), dict)

    # Life

    async def run(self, *, asleep: bool = False) -> None:
        """Keep a connection until cancelled, or until trying cannot help; ``asleep``: from its first request on."""
        try:
            await self._keep(asleep=asleep)
        finally:
            self.lists.close()
            self.tried.set()  # nothing more is to be waited for

    async def _keep(self, *, asleep: bool) -> None:
        if asleep:
            self.asleep = True
            await self._sleep(NOT_YET)
        refusal: TransportError | None = None  # of the era that was tried before this one
        while True:
            self._lost, self._loss, self._up_since_s, idle = asyncio.Event(), None, None, False
            try:
                await self._connected()
                reason, retryable, refusal = str(self._loss or "the connection closed"), True, None
                idle = self._loss is None and self.asleep
            except OtherEra as exc:
                self._log.debug("trying the other era", reason=str(exc))
                self._era, self._other_era, refusal = exc.era, False, exc.refusal
                continue
            except Exception as exc:
                self.failure = exc
                reason, retryable = explained(exc, self._context.start_timeout_s, self._log, refusal)
            finally:
                self._link = None
            if idle:
                self.backoff.rested()
                await self._sleep(UNUSED)
                continue
            self.asleep, self.began_s = False, None
            await self._after_failure(reason, retryable=retryable)
            if not retryable:
                return
            self.restarts += 1

    async def _sleep(self, reason: str) -> None:
        if not self.wanted.is_set():
            self._events.down("idle", reason)
            await self.wanted.wait()
        self.asleep, self._reason, self.began_s = False, STARTING, None
        self._events.down("starting", "")

    async def _after_failure(self, reason: str, *, retryable: bool) -> None:
        up_s, now_s = self._up_since_s, asyncio.get_running_loop().time()
        pause_s = self.backoff.failed() if up_s is None else self.backoff.lost(now_s - up_s)
        self._reason, self._next_attempt_s = reason, now_s + pause_s
        self.given_up = None if retryable else reason
        if not self.known:  # it spoke neither era, so nothing was learnt
            self._era, self._other_era = self._first
        said = self.backoff.pause(reason, pause_s) if retryable else reason
        self._events.down("down", said)
        self.tried.set()
        news = (self.backoff.news or not retryable) and not isinstance(self.failure, LoginRequiredError)
        (self._log.warning if news else self._log.debug)("server is not connected", reason=said, will_retry=retryable)
        if retryable:
            await asyncio.sleep(pause_s)

    async def _connected(self) -> None:
        """One connection from start to loss."""
        context = self._context
        endpoint = await context.find_endpoint()
        transport = context.open_transport(scheme_of(endpoint.address))
        async with AsyncExitStack() as stack:
            async with context.starts.turn(self.wanted), asyncio.timeout(context.start_timeout_s):
                self.began_s = self.began_s or asyncio.get_running_loop().time()
                link = await stack.enter_async_context(transport.connect(endpoint, self))
                await self._begin(link)
                await self._events.ready(self, link)
            if self._lost.is_set():
                return
            if not self.modern:
                await self._as_before(link)
            self._link, self._up_since_s = link, asyncio.get_running_loop().time()
            self.wanted.clear()
            self._events.up()
            if self.backoff.failures:
                self._log.info("server is connected again")
            self.lists.renew()
            self.tried.set()
            try:
                if self.modern:
                    self.change_stream.start(link)
                await self._until_lost_or_idle()
            finally:
                await self.change_stream.stop()

    async def _begin(self, link: Link) -> None:
        if self.client is not None:
            era, capabilities, info = self._era, self.client.capabilities, self.client.info
        else:
            hello = await self._context.upstream.hello()
            follows = self._context.settings.era == "client" and self._other_era and hello.modern
            era, capabilities, info = ("modern" if follows else self._era), hello.capabilities, hello.info
        within_s, redacted = self._context.start_timeout_s, self._context.redacted(link)
        self.offer = await begin(redacted, era, capabilities, within_s, other=self._other_era, info=info)

    async def _as_before(self, link: Link) -> None:
        """Tell a new connection what the one before it was told."""
        said = [("resources/subscribe", {"uri": uri}) for uri in self.subscriptions]
        if self.level is not None and isinstance(self.offer.capabilities.get("logging"), dict):
            said.append(("logging/setLevel", {"level": self.level}))
        await say_again(link, said, self._context.start_timeout_s, self._log)

    async def _until_lost_or_idle(self) -> None:
        idle_timeout_s = self._idle_timeout_s
        if idle_timeout_s is None:
            await self._lost.wait()
            return
        loop = asyncio.get_running_loop()
        self.calls.last_end_s = loop.time()
        while not self._lost.is_set():
            busy = self.calls.count or self._talks or self.subscriptions
            left_s = idle_timeout_s if busy else self.calls.last_end_s + idle_timeout_s - loop.time()
            if left_s <= 0:
                self.asleep, self._link = True, None
                self.tried.clear()
                self.wanted.clear()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(max(CHECK_S, left_s)):
                    await self._lost.wait()

    async def link(self, within_s: float) -> Link:
        """The connection; a call that comes while it starts, or sleeps, waits for it.

        Raises:
            TransportError: It is not connected; the message says why.
        """
        if self._link is None:
            self.wanted.set()
            await self._until_tried(within_s)
        if self._link is None:
            raise TransportError(self._why_not(), retryable=self.given_up is None)
        return self._link

    async def settled(self, within_s: float) -> None:
        """Wait for a connection that is being opened; one that is asleep is left so."""
        if self._link is None and not self.asleep:
            await self._until_tried(within_s)

    async def _until_tried(self, within_s: float) -> None:
        if not self.tried.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self.tried.wait()

    def _why_not(self) -> str:
        left_s = self._next_attempt_s - asyncio.get_running_loop().time()
        return self._reason if self.given_up is not None else self.backoff.explain_now(self._reason, left_s)

    # Requests

    def send(
        self, method: str, params: RawObject, limit_s: float, sink: Sink | None = None, *, hands_on: bool = True
    ) -> Awaitable[RawObject]:
        """Send a request for the current client.

        Args:
            params: As the client sent them.
            limit_s: Longest wait for each answer [s].
            sink: Hears of the request's progress.
            hands_on: Whether a modern client gets the server's questions as they are and comes back with the answers.
                Otherwise, and for clients of the other era, the questions are asked here and now.

        Raises:
            TimeoutError, TransportError, RpcError: As :class:`pml_hookspecs.Link` says.
        """
        if (link := self._link) is None or self.offer.era == "modern":
            return self._send(method, params, limit_s, sink, hands_on=hands_on)
        return self.calls.send(link, current_client.get(), method, without_envelope(params), limit_s, sink)

    async def _send(
        self, method: str, params: RawObject, limit_s: float, sink: Sink | None, *, hands_on: bool
    ) -> RawObject:
        link, client = self._link or await self.link(limit_s), current_client.get()
        if not self.modern:
            return await self.send(method, params, limit_s, sink)
        params = with_meta(without_envelope(params), envelope(client, {}))
        result = await self.calls.send(link, client, method, params, limit_s, sink)
        if client is not None and client.modern and hands_on:
            return result

        async def ask(question: str, about: RawObject) -> Mapping[str, Any]:
            return await (client or self.client_asked()).ask(self, question, about)

        async def again(answered: RawObject) -> RawObject:
            return await self.calls.send(await self.link(limit_s), client, method, answered, limit_s, sink)

        self._talks += 1
        try:
            return await answer_all(f"server {self.name!r}: {method}", params, result, ask, again)
        finally:
            self._talks -= 1

    def tell(self, method: str, params: RawObject) -> None:
        """Send a notification, if connected; servers without a handshake hear none."""
        if self._link is not None and not self.modern:
            self._link.notify(method, params)

    async def set_level(self, level: str) -> None:
        """Have it log from ``level`` on, now and after it was started again."""
        self.level = level
        if self.connected and not self.modern and self.offers("logging"):
            await self.send("logging/setLevel", RawObject.of({"level": level}), self._context.call_timeout_s)

    async def subscribe(self, uri: str, params: RawObject) -> RawObject:
        """Hear of changes of a resource.

        Raises:
            TimeoutError, TransportError, RpcError: As :class:`pml_hookspecs.Link` says.
        """
        await self.link(self._context.call_timeout_s)
        client, first = current_client.get(), uri not in self.subscriptions
        new = self.subscriptions.add(uri, client)
        try:
            if not self.modern:
                return await self.send("resources/subscribe", params, self._context.call_timeout_s)
            if first:
                await self.change_stream.add(uri)
        except BaseException:
            if new:
                self.subscriptions.remove(uri, client)
            raise
        return EMPTY

    async def unsubscribe(self, uri: str, params: RawObject) -> RawObject:
        """Hear no more of changes of a resource; the server is told when nobody else wants to hear of it.

        Raises:
            TimeoutError, TransportError, RpcError: As :class:`pml_hookspecs.Link` says.
        """
        self.subscriptions.remove(uri, current_client.get())
        return EMPTY if uri in self.subscriptions else await self._unheard(uri, params)

    async def _unheard(self, uri: str, params: RawObject) -> RawObject:
        """Nobody wants to hear of a resource any more."""
        if self.modern:
            await self.change_stream.remove(uri)
        elif self.connected:
            return await self.send("resources/unsubscribe", params, self._context.call_timeout_s)
        return EMPTY

    async def client_left(self, conversation: object) -> None:
        """A client is gone that may have wanted to hear of changes."""
        for uri in self.subscriptions.left(conversation):
            try:
                await self._unheard(uri, RawObject.of({"uri": uri}))
            except (RpcError, TransportError, TimeoutError) as exc:
                self._log.debug("a subscription stays", uri=uri, reason=str(exc))

    # pml_hookspecs.Handler

    async def request(self, method: str, params: RawObject, origin: Origin) -> Mapping[str, Any]:
        """Answer what the server asks of its client: we are alive; anything else, its client answers."""
        if method == "ping":
            return EMPTY
        client = asked_for(current_client.get(), origin, params) or self.client_asked()
        with self._context.quota.question(client, method, params), self.calls.standing_still(client):
            return await client.ask(self, method, params)

    def client_asked(self) -> Client:
        """Who is meant by a question that does not say which request it is about.

        Raises:
            RpcError: That cannot be known, or there is nobody.
        """
        if self.client is not None and not len(self.calls.callers):
            return self.client
        return self._context.upstream.client_for(self.calls.callers)

    def notification(self, method: str, params: RawObject) -> None:
        """Progress goes to whoever asked; the rest is the server's keeper's to hand on."""
        allowed = self._context.quota.allows(self, len(self.calls.callers), method, params)
        if allowed and method == PROGRESS:
            self.calls.progress(params)
        elif allowed and method != ACKNOWLEDGED:  # of a stream of ours
            self._events.notified(self, method, without_envelope(params, STREAM))

    def closed(self, error: TransportError | None) -> None:
        """The connection is over."""
        self._loss = error or self._loss
        if self._link is not None:
            self._link, self._reason = None, str(error or "the connection closed")
        self._lost.set()

    def _lists_changed(self, methods: Iterable[str]) -> None:
        for method in sorted(methods):
            self._events.lists_changed(self, method)
