"""A page of the plugin's own under `/routes/` (its name) on HTTP listeners: how each server is doing, for a dashboard.
Starlette comes with pml-transport-http, and is imported when there is a listener."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Services, hookimpl

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


@hookimpl
def pml_routes(services: Services) -> Iterable[Any]:
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def servers(request: Request) -> Response:
        known = services.catalog.servers()
        return JSONResponse({one.name: {"state": one.state, "tools": one.tools} for one in known})

    return [Route("/servers", servers)]
