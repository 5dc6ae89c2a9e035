"""Approvals over HTTP: routes that answer through the tools, so that policies, limits and the audit see them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from pml_hookspecs import GATEWAY_SERVER, RunOptions, ToolCall, ToolId, encode
from pml_kit.json_line import well_formed

from .tool import DEFINITION, LIST_DEFINITION, NONE_SUCH, SCOPE

if TYPE_CHECKING:
    from starlette.requests import Request

    from pml_hookspecs import Failure, Services

CLIENT = "rest"
LONGEST_BODY = 16 * 1024
"""Of an answer [bytes]."""
PRIVATE = {"cache-control": "no-store"}
EXPECTED = 'the body must be JSON, {"approve": true or false}, and may have a "reason" that is text'


def routes(services: Services) -> list[Route]:
    """What is mounted under ``/api``: the list of what waits, and the answer to one of them."""

    async def listed(request: Request) -> Response:
        return await _answer(services, request, LIST_DEFINITION, {})

    async def answered(request: Request) -> Response:
        try:
            given = _given(request.headers.get("content-type", ""), await _body(request))
        except ValueError:
            return _error(422, "arguments.invalid", f"{EXPECTED}.")
        return await _answer(services, request, DEFINITION, {**given, "approval_id": request.path_params["id"]})

    return [
        Route("/approvals", listed, methods=["GET"]),
        Route("/approvals/{id}", answered, methods=["POST"]),
    ]


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_BODY:
            raise ValueError("too long")
    return body


def _given(content_type: str, body: bytes) -> dict[str, Any]:
    given = json.loads(body)
    # No page of another origin can send this type without being asked about first.
    plain = content_type.partition(";")[0].strip().lower() == "application/json"
    if not plain or not isinstance(given, dict) or not given.keys() <= {"approve", "reason"}:
        raise ValueError(EXPECTED)
    fits = isinstance(given.get("approve"), bool) and isinstance(given.get("reason", ""), str)
    if not fits:
        raise ValueError(EXPECTED)
    return given


async def _answer(
    services: Services, request: Request, tool: Mapping[str, Any], arguments: Mapping[str, Any]
) -> Response:
    identity = getattr(request.state, "identity", None)
    if identity is None:
        return _error(401, "access.unauthenticated", "MCP API key authentication required")
    if SCOPE not in identity.scopes:
        return _error(403, "access.forbidden", f"This key lacks the scope {SCOPE!r}.")
    task = ToolCall(id="call", tool=ToolId(f"{GATEWAY_SERVER}:{tool['name']}"), arguments=arguments)
    session = services.session(identity, client=CLIENT)
    outcome = await services.run(task, session, RunOptions(trigger="agent" if identity.agent else "manual"))
    if outcome.failure is not None:
        return _failed(outcome.failure)
    output: Any = outcome.output
    content = output["structuredContent"]
    return _json(getattr(content, "value", content))


def _failed(failure: Failure) -> Response:
    retry_after_s = failure.details.get("retry_after_s")
    if isinstance(retry_after_s, (int, float)):
        return _error(429, failure.code, failure.message, {"retry-after": str(max(1, math.ceil(retry_after_s)))})
    if failure.code == "arguments.invalid":
        return _error(404 if NONE_SUCH in failure.message else 409, "approval.not_pending", failure.message)
    status = 403 if failure.code in ("policy.denied", "tool.unknown") else 500
    return _error(status, failure.code, failure.message)


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    more = {"www-authenticate": "Bearer"} if status == 401 else {}  # noqa: PLR2004 - RFC 9110, 15.5.2
    return _json({"error": {"code": code, "message": message}}, status, {**more, **(headers or {})})


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(well_formed(encode(value)), status, {**PRIVATE, **(headers or {})}, "application/json")
