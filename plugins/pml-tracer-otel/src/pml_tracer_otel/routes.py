"""What listeners serve under ``/otel/``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .prometheus import CONTENT_TYPE, page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from .active_tracers import ActiveTracer


def routes(tracer: ActiveTracer) -> list[Any]:
    """``GET /metrics`` for Prometheus, if wanted, and ``GET /health``."""
    try:
        from starlette.responses import JSONResponse, PlainTextResponse
        from starlette.routing import Route
    except ModuleNotFoundError:
        return []  # no listener that has routes is installed

    settings = tracer.options.settings
    about = {**settings.resource, "service.name": settings.service_name or os.environ.get("OTEL_SERVICE_NAME") or "pml"}

    async def metrics(_request: Request) -> Response:
        return PlainTextResponse(page(tracer.measures.now(), about), media_type=CONTENT_TYPE)

    async def health(_request: Request) -> Response:
        return JSONResponse(dict(await tracer.health()))

    found = [Route("/health", health, methods=["GET"])]
    return [Route("/metrics", metrics, methods=["GET"]), *found] if tracer.options.prometheus else found
