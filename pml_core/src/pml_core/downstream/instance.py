"""One connection to a server, kept: opened, lost, opened again, stopped when nobody needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_core.endpoints import endpoint_of, scheme_of
from pml_core.members import with_meta, without_envelope
from pml_core.upstream import Client, Upstream, current_client
from pml_hookspecs import EMPTY, Link, Origin, RawObject, RpcError, TransportError

from .calls import Calls, Sink
from .eras import Era, Offer, OtherEra, asks_for_input, begin, envelope
from .listening import Listening
from .pauses import Pauses

if TYPE_CHECKING:
    from pml_core.config import ServerSettings
    from pml_hookspecs import Transport

SILENT = "it did not answer within {:g} s; check that it speaks MCP, or raise [gateway] start_timeout_s"
MOST_ROUNDS = 16
"""Times in a row that a modern server may answer one request with questions."""
CHECK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What every connection to one server needs of its surroundings."""

    name: str
    settings: ServerSettings
    open_transport: Callable[[str], Transport]
    log: Any
    upstream: Upstream
    start_timeout_s: float
    call_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Who hears of what happens to a connection."""

    ready: Callable[[Instance, Link], Awaitable[None]]
    """Connected and introduced; raising ends the connection."""
    up: Callable[[], None]
    down: Callable[[str, str], None]
    """State (``down`` or ``idle``) and reason."""
    notified: Callable[[Instance, str, RawObject], None]


class Instance:
    """Keeps one connection. Implements :class:`pml_hookspecs.Handler`."""

    def __init__(
        self,
        wiring: Wiring,
        events: Events,
        *,
        era: Era,
        other_era: bool,
        client: Client | None = None,
        idle_timeout_s: float | None = None,
    ) -> None:
        """Nothing starts before :meth:`run`.

        Args:
            wiring: What it needs.
            events: Who hears of it.
            era: The era to begin in.
            other_era: Whether it may begin in the other one if the server does not speak this.
            client: The client it is for; None when it is for all.
            idle_timeout_s: Stop it after this long without a request; never if None [s].
        """
        self._wiring, self._events, self.client = wiring, events, client
        self._idle_timeout_s = idle_timeout_s
        self._era, self._other_era = era, other_era
        self.name, self._log = wiring.name, wiring.log
        self.calls = Calls(wiring.name, wiring.settings)
        self.offer = Offer(era, "", {})
        self.restarts = 0
        self.given_up: str | None = None
        """Why it will not be tried again."""
        self._link: Link | None = None
        self._loss: TransportError | None = None
        self._lost, self.tried, self._wanted = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._reason, self._sleeping = "", False
        self._pauses = Pauses()
        self._up_since_s: float | None = None
        self._level: str | None = None
        self.listening = Listening(self, wiring.log)
        self._needed = 0
        """Subscriptions that keep it from being idle."""

    @property
    def modern(self) -> bool:
        """Whether it speaks a revision without a handshake."""
        return self.offer.era == "modern"

    @property
    def connected(self) -> bool:
        """Whether requests can be sent right now."""
        return self._link is not None

    def offers(self, capability: str) -> bool:
        """Whether it declared ``capability``; False while it is not connected."""
        return self._link is not None and isinstance(self.offer.capabilities.get(capability), dict)

    # Life

    async def run(self, *, asleep: bool = False) -> None:
        """Keep a connection until cancelled, or until trying again cannot help.

        Args:
            asleep: Wait for the first request before connecting.
        """
        if asleep:
            await self._sleep("not started yet; its first call starts it")
        while True:
            self._lost, self._loss, self._up_since_s = asyncio.Event(), None, None
            try:
                await self._connected()
                reason, retryable = str(self._loss or "the connection closed"), True
                idle = self._loss is None and self._sleeping
            except OtherEra as exc:
                self._log.debug("trying the other era", reason=str(exc))
                self._era, self._other_era = exc.era, False
                continue
            except Exception as exc:
                idle = False
                reason, retryable = self._explain(exc)
            finally:
                self._link = None
            if idle:
                await self._sleep("stopped because nobody used it; its next call starts it")
                continue
            await self._after_failure(reason, retryable=retryable)
            if not retryable:
                return
            self.restarts += 1

    async def _sleep(self, reason: str) -> None:
        self._sleeping, self._reason = True, reason
        self._wanted.clear()
        self._events.down("idle", reason)
        await self._wanted.wait()
        self._sleeping = False

    async def _after_failure(self, reason: str, *, retryable: bool) -> None:
        up_since_s, now_s = self._up_since_s, asyncio.get_running_loop().time()
        pause_s = self._pauses.failed() if up_since_s is None else self._pauses.lost(now_s - up_since_s)
        self._reason = self._pauses.explain(reason, pause_s) if retryable else reason
        self.given_up = None if retryable else reason
        self._events.down("down", self._reason)
        self.tried.set()
        self._log.warning("server is not connected", reason=self._reason, will_retry=retryable)
        if retryable:
            await asyncio.sleep(pause_s)

    def _explain(self, exc: Exception) -> tuple[str, bool]:
        """Why a connection failed, and whether trying again can help."""
        if isinstance(exc, TransportError):
            return str(exc), exc.retryable
        if isinstance(exc, ValueError):  # the address or an option, which the next attempt would not change
            return str(exc), False
        if isinstance(exc, TimeoutError):
            return str(exc) or SILENT.format(self._wiring.start_timeout_s), True
        if isinstance(exc, RpcError):
            return f"it refused the handshake: {exc.message}", True
        self._log.error("a connection failed in a way that its transport does not know", exc_info=exc)
        return repr(exc), True

    async def _connected(self) -> None:
        """One connection from start to loss."""
        import os

        wiring = self._wiring
        endpoint = endpoint_of(wiring.name, wiring.settings, os.environ)
        transport = wiring.open_transport(scheme_of(endpoint.address))
        async with transport.connect(endpoint, self) as link:
            async with asyncio.timeout(wiring.start_timeout_s):
                await self._begin(link)
                await self._events.ready(self, link)
            self._link, self._up_since_s = link, asyncio.get_running_loop().time()
            self._events.up()
            self.tried.set()
            try:
                if self.modern:
                    self.listening.start(link)
                await self._until_lost_or_idle()
            finally:
                await self.listening.stop()

    async def _begin(self, link: Link) -> None:
        if self.client is not None:
            era, capabilities = self._era, self.client.capabilities
        else:
            hello = await self._wiring.upstream.hello()
            follows = self._wiring.settings.era == "client" and self._other_era and hello.modern
            era, capabilities = ("modern" if follows else self._era), hello.capabilities
        self.offer = await begin(link, era, capabilities, self._wiring.start_timeout_s, other=self._other_era)
        if self._level is not None and not self.modern and isinstance(self.offer.capabilities.get("logging"), dict):
            level = RawObject.of({"level": self._level})
            await link.request("logging/setLevel", level, timeout_s=self._wiring.start_timeout_s)

    async def _until_lost_or_idle(self) -> None:
        idle_timeout_s = self._idle_timeout_s
        if idle_timeout_s is None:
            await self._lost.wait()
            return
        loop = asyncio.get_running_loop()
        self.calls.last_end_s = loop.time()
        while not self._lost.is_set():
            busy = self.calls.count or self._needed
            left_s = idle_timeout_s if busy else self.calls.last_end_s + idle_timeout_s - loop.time()
            if left_s <= 0:
                self._sleeping, self._link = True, None
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(max(CHECK_S, left_s)):
                    await self._lost.wait()

    async def link(self, within_s: float) -> Link:
        """The connection; a call that comes while it starts, or sleeps, waits for it.

        Raises:
            TransportError: It is not connected; the message says why.
        """
        if self._link is None and self._sleeping:
            self.tried.clear()
            self._wanted.set()
        if self._link is None and not self.tried.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self.tried.wait()
        if self._link is None:
            raise TransportError(self._reason or "it is starting", retryable=self.given_up is None)
        return self._link

    # Requests

    async def send(
        self, method: str, params: RawObject, limit_s: float, sink: Sink | None = None, *, hands_on: bool = True
    ) -> RawObject:
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
        link = self._link or await self.link(limit_s)
        client = current_client.get()
        params = without_envelope(params)
        if not self.modern:
            return await self.calls.send(link, client, method, params, limit_s, sink)
        params = with_meta(params, envelope(client, {}))
        result = await self.calls.send(link, client, method, params, limit_s, sink)
        if client is not None and client.modern and hands_on:
            return result
        for _ in range(MOST_ROUNDS):
            if not asks_for_input(result):
                return result
            answered = await self._answers(client, params, result)
            result = await self.calls.send(link, client, method, answered, limit_s, sink)
        raise RpcError(-31998, f"server {self.name!r} answered {method} with questions {MOST_ROUNDS} times in a row")

    async def _answers(self, client: Client | None, params: RawObject, result: RawObject) -> RawObject:
        """The request once more, with the client's answers to the server's questions."""
        asked = result.get("inputRequests")
        questions = asked if isinstance(asked, dict) else {}
        asker = client or (self._wiring.upstream.client_for(self.calls.callers) if questions else None)

        async def ask(question: Any) -> Mapping[str, Any]:
            if asker is None or not isinstance(question, dict) or not isinstance(question.get("method"), str):
                raise RpcError(-31998, f"server {self.name!r} asked something that is no request: {question!r}"[:300])
            wanted = question.get("params")
            return await asker.ask(self, question["method"], RawObject.of(wanted if isinstance(wanted, dict) else {}))

        if not questions:
            await asyncio.sleep(CHECK_S)  # it only wants to be asked again
        answers = await asyncio.gather(*map(ask, questions.values()))
        members = {k: v for k, v in params.items() if k not in ("inputResponses", "requestState")}
        if questions:
            members["inputResponses"] = {k: dict(a) for k, a in zip(questions, answers, strict=True)}
        if "requestState" in result:
            members["requestState"] = result["requestState"]
        return RawObject.of(members)

    def tell(self, method: str, params: RawObject) -> None:
        """Send a notification, if connected; servers without a handshake hear none."""
        if self._link is not None and not self.modern:
            self._link.notify(method, params)

    async def set_level(self, level: str) -> None:
        """Have it log from ``level`` on, now and after it was started again."""
        self._level = level
        if not self.modern and self.offers("logging"):
            await self.send("logging/setLevel", RawObject.of({"level": level}), self._wiring.call_timeout_s)

    async def subscribe(self, uri: str, params: RawObject) -> RawObject:
        """Hear of changes of a resource.

        Raises:
            TimeoutError, TransportError, RpcError: As :class:`pml_hookspecs.Link` says.
        """
        await self.link(self._wiring.call_timeout_s)
        self._needed += 1
        if not self.modern:
            return await self.send("resources/subscribe", params, self._wiring.call_timeout_s)
        await self.listening.add(uri)
        return EMPTY

    async def unsubscribe(self, uri: str, params: RawObject) -> RawObject:
        """Hear no more of changes of a resource.

        Raises:
            TimeoutError, TransportError, RpcError: As :class:`pml_hookspecs.Link` says.
        """
        self._needed = max(0, self._needed - 1)
        if not self.modern:
            return await self.send("resources/unsubscribe", params, self._wiring.call_timeout_s)
        await self.listening.remove(uri)
        return EMPTY

    # pml_hookspecs.Handler

    async def request(self, method: str, params: RawObject, origin: Origin) -> Mapping[str, Any]:
        """Answer what the server asks of its client: we are alive; anything else, its client answers."""
        if method == "ping":
            return EMPTY
        client = current_client.get() or self.client or self._wiring.upstream.client_for(self.calls.callers)
        with self.calls.standing_still(client):
            return await client.ask(self, method, params)

    def notification(self, method: str, params: RawObject) -> None:
        """Progress goes to whoever asked; the rest is the server's keeper's to hand on."""
        if method == "notifications/progress":
            self.calls.progress(params)
        else:
            self._events.notified(self, method, params)

    def closed(self, error: TransportError | None) -> None:
        """The connection is over."""
        self._loss = error or self._loss
        self._link = None
        self._lost.set()
