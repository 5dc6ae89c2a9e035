"""``/api/definitions``: what is held of servers until somebody has looked at it, and taking it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from pml_hookspecs import InvalidArguments, ToolId
from pml_kit.offers import REVIEW, MissingScopeError, required

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from pml_hookspecs import Services

CLIENT = "rest"
LONGEST_BYTES = 10_000
UNAUTHENTICATED, FORBIDDEN, CONFLICT, INVALID = 401, 403, 409, 422
SHAPE = 'send {"tool": "server:tool", "digest": "sha256:…"}, as GET tells of it'


def routes(services: Services) -> list[Route]:
    """To list and to take."""
    return [Route("/definitions", HeldDefinitions(services), methods=["GET", "POST"])]


class HeldDefinitions:
    """The route. A class, so that Starlette takes it for an application and hands it every request."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        from starlette.requests import Request

        response = await self._answer(Request(scope, receive))
        response.headers["cache-control"] = "no-store"
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        identity = getattr(request.state, "identity", None)
        if identity is None:
            return _refused(UNAUTHENTICATED, "access.unauthenticated", "MCP API key authentication required")
        session, review = self._services.session(identity, client=CLIENT), required(self._services, REVIEW)
        if request.method != "POST":
            return JSONResponse({"held": [asdict(one) for one in review.held(session)]})
        try:
            tool, digest = await _asked(request)
            await review.accept(session, tool, digest)
        except ValueError as exc:
            return _refused(INVALID, "arguments.invalid", str(exc))
        except MissingScopeError as exc:
            return _refused(FORBIDDEN, "access.denied", str(exc))
        except InvalidArguments as exc:
            return _refused(CONFLICT, "definitions.changed", str(exc))
        return JSONResponse({"accepted": tool, "digest": digest})


async def _asked(request: Request) -> tuple[ToolId, str]:
    """Raises ValueError."""
    # A page of another site can send any other type without asking first.
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise ValueError(f"The body is no application/json: {SHAPE}")
    body = await request.body()
    given: Any = json.loads(body) if len(body) <= LONGEST_BYTES else None
    if not isinstance(given, dict) or not all(isinstance(given.get(name), str) for name in ("tool", "digest")):
        raise ValueError(f"The body does not fit: {SHAPE}")
    return ToolId(given["tool"]), given["digest"]


def _refused(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status)
