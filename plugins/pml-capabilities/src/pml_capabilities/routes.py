"""What listeners serve under ``/capabilities/``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_hookspecs import Scope

from .graph import graph, used_together
from .library import library_of
from .settings import Settings

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pml_hookspecs import Services


def routes(services: Services) -> list[Any]:
    """``GET /graph``: what the caller may know of."""
    try:
        from starlette.responses import JSONResponse
        from starlette.routing import Route
    except ModuleNotFoundError:
        return []  # no listener that has routes is installed

    async def serve(request: Request) -> Response:
        library = library_of(services)
        if library is None:
            return JSONResponse({"error": "the store keeps no documents"}, status_code=503)
        settings: Settings = services.settings or Settings()
        principal = getattr(request.state, "principal", "")
        known = [c for c in await library.all() if c.visible(principal, settings)]
        own = Scope(principals=frozenset({principal}))
        return JSONResponse(graph(known, await used_together(services.store.executions, own)))

    return [Route("/graph", serve, methods=["GET"])]
