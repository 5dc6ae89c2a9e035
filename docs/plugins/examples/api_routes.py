"""A route under `/api/`, which plugins share: call a tool with `POST /api/call/SERVER:TOOL` and its arguments as JSON.
The call is made for whoever sent the request and takes the same chain as all others, so policies, limits and history
see it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Services, ToolCall, ToolId, encode, hookimpl

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


@hookimpl
def pml_api_routes(services: Services) -> Iterable[Any]:
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def call(request: Request) -> Response:
        session = services.session(request.state.identity, client="rest")
        task = ToolCall(id="call", tool=ToolId(request.path_params["tool"]), arguments=await request.json())
        outcome = await services.run(task, session, trigger="manual")
        if outcome.failure is not None:
            return JSONResponse({"code": outcome.failure.code, "message": outcome.failure.message}, 400)
        return Response(encode(outcome.output), media_type="application/json")

    return [Route("/call/{tool}", call, methods=["POST"])]
