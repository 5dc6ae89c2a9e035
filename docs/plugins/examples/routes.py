"""A page of the plugin's own under `/routes/` (its name) on HTTP listeners: how each server is doing, for a dashboard.
And a route under `/api/`, which plugins share: `POST /api/call/SERVER:TOOL` calls a tool, with its arguments as JSON,
for whoever sent the request and through the same chain as all others, so policies, limits and history see it.

Starlette comes with pml-transport-http, and is imported when there is a listener."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import RunOptions, Services, SharedRoute, ToolCall, ToolId, encode, hookimpl

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


@hookimpl
def pml_routes(services: Services) -> Iterable[Any]:
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def servers(request: Request) -> Response:
        known = services.catalog.servers()
        return JSONResponse({one.name: {"state": one.state, "tools": one.tools} for one in known})

    async def call(request: Request) -> Response:
        session = services.session(request.state.identity, client="rest")
        task = ToolCall(id="call", tool=ToolId(request.path_params["tool"]), arguments=await request.json())
        outcome = await services.run(task, session, RunOptions(trigger="manual"))
        if outcome.failure is not None:
            return JSONResponse({"code": outcome.failure.code, "message": outcome.failure.message}, 400)
        return Response(encode(outcome.output), media_type="application/json")

    return [Route("/servers", servers), SharedRoute(Route("/call/{tool}", call, methods=["POST"]))]
