"""The history over HTTP: routes that answer through the tools, so that policies, limits and the audit see them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from pml_hookspecs import (
    GATEWAY_SERVER,
    Failure,
    Outcome,
    RunOptions,
    Status,
    ToolCall,
    ToolId,
    UnauthenticatedError,
    encode,
)
from pml_kit.json_line import well_formed
from pml_kit.mcp.arguments import KINDS
from pml_kit.offers import ACCESS, API_DESCRIPTIONS, required

from .openapi import INCLUDE_LOG, ROUTES, Answers, RouteDescription, document

if TYPE_CHECKING:
    from starlette.requests import Request

    from pml_hookspecs import Services, Trigger

NO_KEY = "MCP API key authentication required"
CLIENT = "rest"
"""Whom the history names for what comes in by these routes, unless it is an agent."""
PRIVATE = {"cache-control": "no-store"}
BY_CODE = {
    "arguments.invalid": 422,
    "tool.unknown": 403,
    "policy.denied": 403,
    "limit.time_out": 504,
    "task.timed_out": 504,
}
BY_STATUS = {
    Status.DENIED: 403,
    Status.TIMED_OUT: 504,
    Status.CANCELLED: 503,
    Status.INPUT_REQUIRED: 403,
}

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
FLAGS = {"true": True, "1": True, "false": False, "0": False}


def routes(services: Services) -> list[Route]:
    """What is mounted under ``/api``."""
    answering = [Route(route.path, _Endpoint(services, route), methods=["GET"]) for route in ROUTES]

    async def openapi(_request: Request) -> Response:
        return _json(document([described() for _, described in services.find_all(API_DESCRIPTIONS)]))

    return [*answering, Route("/openapi.json", openapi, methods=["GET"])]


class _Endpoint:
    """Answers one route. A class, so that Starlette takes it for an application and asks for no method."""

    def __init__(self, services: Services, route: RouteDescription) -> None:
        self._services, self._route = services, route

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.requests import Request

        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        identity = getattr(request.state, "identity", None)
        if identity is None:
            return _error(401, "access.unauthenticated", NO_KEY)
        try:
            given = arguments_of(request.query_params.multi_items(), self._route.query)
        except InvalidParametersError as exc:
            return _error(422, "arguments.invalid", str(exc))
        if INCLUDE_LOG in given:
            given["include_transcript"] = given.pop(INCLUDE_LOG)
        task = ToolCall(
            id="call",
            tool=ToolId(f"{GATEWAY_SERVER}:{self._route.tool['name']}"),
            arguments={**given, **request.path_params, **self._route.fixed},
        )
        session = self._services.session(identity, client=CLIENT)
        trigger: Trigger = "agent" if identity.agent else "manual"
        outcome = await self._services.run(task, session, RunOptions(trigger=trigger))
        if outcome.failure is not None:
            try:
                await required(self._services, ACCESS).scope(session)
            except UnauthenticatedError as exc:  # a tool has no way to say so but in words
                return _error(401, "access.unauthenticated", str(exc))
            return _failed(outcome, outcome.failure, self._route.answers)
        return _json(_shown(outcome, self._route.answers), headers=PRIVATE)


def _shown(outcome: Outcome, answers: Answers) -> Any:
    output = outcome.output
    content = output.get("structuredContent") if isinstance(output, Mapping) else None
    plain: Any = getattr(content, "value", content)
    if answers != "Log":
        return plain
    execution = plain["execution"]
    return {name: execution[name] for name in ("id", "agent_name", "status", "transcript")}


def _failed(outcome: Outcome, failure: Failure, answers: Answers) -> Response:
    # All that a tool can have against the address of an execution is that there is none such.
    if failure.code == "arguments.invalid" and answers in ("Result", "Log"):
        return _error(404, "execution.not_found", failure.message)
    retry_after_s = failure.details.get("retry_after_s")
    if isinstance(retry_after_s, (int, float)) and outcome.status is not Status.TIMED_OUT:
        return _error(429, failure.code, failure.message, retry_after_s=retry_after_s)
    status = BY_CODE.get(failure.code) or BY_STATUS.get(outcome.status, 500)
    return _error(status, failure.code, failure.message)


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(well_formed(encode(value)), status, headers, "application/json")


def _error(status: int, code: str, message: str, *, retry_after_s: float | None = None) -> Response:
    headers = dict(PRIVATE)
    error: dict[str, Any] = {"code": code, "message": message}
    if status == 401:  # noqa: PLR2004 - RFC 9110, 15.5.2
        headers["www-authenticate"] = "Bearer"
    if retry_after_s is not None:
        error["retry_after_s"] = retry_after_s
        headers["retry-after"] = str(max(1, math.ceil(retry_after_s)))
    return _json({"error": error}, status, headers)


class InvalidParametersError(Exception):
    """Parameters of a URL are wrong; the message names every mistake."""


def arguments_of(items: Iterable[tuple[str, str]], rules: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The query of a URL, each value of the type that its rule in a JSON Schema says.

    An empty value counts as left out. Whether values are within their limits is for the tool to say.

    Raises:
        InvalidParametersError: A parameter is unknown, given twice, or not of its type.
    """
    made: dict[str, Any] = {}
    problems = []
    seen = set()
    for name, text in items:
        if name in seen:
            problems.append(f"{name!r} is given more than once")
        elif name not in rules:
            problems.append(f"unknown parameter {name!r}; known: {', '.join(rules) or 'none'}")
        elif text:
            kind = rules[name]["type"]
            made[name] = READERS[kind](text)
            if made[name] is None:
                problems.append(f"{name!r} must be {KINDS[kind][0]}, not {text[:40]!r}")
        seen.add(name)
    if problems:
        raise InvalidParametersError(f"{'; '.join(problems)}.")
    return made


def _number(text: str) -> float | None:
    value = float(text) if NUMBER.fullmatch(text) else math.inf
    if math.isinf(value):
        return None
    return int(value) if value.is_integer() else value


READERS: Mapping[str, Callable[[str], Any]] = {
    "string": str,
    "number": _number,
    "integer": _number,
    "boolean": lambda text: FLAGS.get(text.lower()),
}
