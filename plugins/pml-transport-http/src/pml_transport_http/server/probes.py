"""What is answered to probes and scrapers, which call the gateway by whatever address it has, mostly without a key."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING

from pml_hookspecs import encode
from pml_kit.mcp.protocol import INVALID_REQUEST

from .http import JSON, OK, Headers, HttpError, Scope, Send, reply
from .listener.connections import networks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from pml_kit.offers import MetricsPage, Readiness
    from pml_transport_http.settings import Settings

    CheckCaller: TypeAlias = Callable[[], Awaitable[object]]

ALIVE, READY, METRICS = "healthz", "readyz", "metrics"
PROBES = (ALIVE, READY, METRICS)
NOT_READY = 503
CALLER_S = 2.0
"""Longest that it may take to find out who asks, before it is told what a stranger is [s]."""
NOT_KEPT: Headers = ((b"cache-control", b"no-store"),)
METRICS_TYPE = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
NO_METRICS = "There are no metrics: name a tracer that has them among the tracers in [gateway], such as otel"


class Probes:
    """Answers ``/healthz``, ``/readyz`` and ``/metrics``."""

    def __init__(self, settings: Settings, readiness: Readiness | None, metrics: MetricsPage | None) -> None:
        self._readiness, self._metrics = readiness, metrics
        self._scrapers = networks(settings.metrics_networks)

    async def serve(self, path: str, scope: Scope, send: Send, check_caller: CheckCaller) -> None:
        """Answer one of :data:`PROBES`; ``check_caller`` raises HttpError for whom the gateway does not serve.

        Raises:
            HttpError: The metrics are not for this one, or there are none.
        """
        if path == ALIVE:
            await reply(send, OK, (b'{"status":"ok"}',), (JSON, *NOT_KEPT))
        elif path == READY:
            await self._ready(send, check_caller)
        else:
            await self._page(scope, send, check_caller)

    async def _ready(self, send: Send, check_caller: CheckCaller) -> None:
        parts = [] if self._readiness is None else await self._readiness.parts()
        known = await _is_let_in(check_caller)
        ready = all(part.ready for part in parts)
        said = {
            "status": "ready" if ready else "not ready",
            "parts": {
                part.name: {"ready": part.ready, **({"detail": part.detail} if known and part.detail else {})}
                for part in parts
            },
        }
        await reply(send, OK if ready else NOT_READY, (encode(said),), (JSON, *NOT_KEPT))

    async def _page(self, scope: Scope, send: Send, check_caller: CheckCaller) -> None:
        if not self._is_scraper(scope):
            await check_caller()
        if self._metrics is None:
            refusal = HttpError(404, INVALID_REQUEST, NO_METRICS)
            refusal.plain = True
            raise refusal
        await reply(send, OK, ((await self._metrics.page()).encode(),), (METRICS_TYPE, *NOT_KEPT))

    def _is_scraper(self, scope: Scope) -> bool:
        client = scope.get("client")
        if not client or not self._scrapers:
            return False
        address = ipaddress.ip_address(client[0].partition("%")[0])
        return any(address in network for network in self._scrapers)


async def _is_let_in(check_caller: CheckCaller) -> bool:
    try:
        async with asyncio.timeout(CALLER_S):
            await check_caller()
    except (HttpError, TimeoutError):
        return False
    return True
