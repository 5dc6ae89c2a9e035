"""What listeners serve under ``/otel/``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .prometheus import CONTENT_TYPE

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from .active_tracers import ActiveTracer
    from .prometheus import GatewayMetrics


def routes(tracer: ActiveTracer, found: GatewayMetrics) -> list[Any]:
    """``GET /metrics`` for Prometheus, if wanted, and ``GET /health``."""
    try:
        from starlette.responses import JSONResponse, PlainTextResponse
        from starlette.routing import Route
    except ModuleNotFoundError:
        return []  # no listener that has routes is installed

    async def metrics(_request: Request) -> Response:
        return PlainTextResponse(await found.page(), media_type=CONTENT_TYPE)

    async def health(_request: Request) -> Response:
        return JSONResponse(dict(await tracer.health()))

    served = [Route("/health", health, methods=["GET"])]
    return [Route("/metrics", metrics, methods=["GET"]), *served] if tracer.options.prometheus else served
