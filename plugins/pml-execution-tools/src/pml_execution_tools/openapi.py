"""The routes, and the OpenAPI document that tells of them; made of the definitions of the tools that answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from .definitions import (
    GET_AGENT_ACTIVITY_SUMMARY,
    GET_EXECUTION_RESULT,
    LIST_RECENT_EXECUTIONS,
    SEARCH_EXECUTIONS,
)
from .shapes import LOG

if TYPE_CHECKING:
    from pml_kit.offers import ApiDescription

Answers: TypeAlias = Literal["Page", "Found", "Summary", "Result", "Log"]
INCLUDE_LOG = "include_log"
"""The parameter of a URL that is ``include_transcript`` to the tool."""


class RouteDescription(NamedTuple):
    """A route with what the OpenAPI document says of it."""

    path: str
    """Below ``/api``, as Starlette reads it. Agents may have slashes in their names."""
    operation: str
    about: str
    tool: Mapping[str, Any]
    """The definition of the tool that answers."""
    answers: Answers
    """Name of the schema."""
    query: Mapping[str, Mapping[str, Any]]
    """Parameters of the URL, each with its JSON Schema."""
    fixed: Mapping[str, Any] = {}
    """Arguments of the tool that are the same every time."""


def _query(definition: Mapping[str, Any], *without: str) -> dict[str, Any]:
    return {name: rule for name, rule in definition["inputSchema"]["properties"].items() if name not in without}


_ONE = "/agents/{agent_name:path}/executions/{execution_id}"
_LOG_RULE = GET_EXECUTION_RESULT["inputSchema"]["properties"]["include_transcript"]
_FOUND = "Executions with these words in what was asked, answered or went wrong, newest first"
_LISTED, _SUMMED_UP = "Executions that clients asked for, newest first", "What one agent did, or all of them together"
_LIST, _RESULT, _SUMMARY = LIST_RECENT_EXECUTIONS, GET_EXECUTION_RESULT, GET_AGENT_ACTIVITY_SUMMARY
_QUERY = _query(SEARCH_EXECUTIONS)
_OF_AGENT = "Executions of one agent, newest first"
ROUTES = (
    RouteDescription("/executions", "listExecutions", _LISTED, _LIST, "Page", _query(_LIST)),
    RouteDescription("/executions/summary", "getActivitySummary", _SUMMED_UP, _SUMMARY, "Summary", _query(_SUMMARY)),
    RouteDescription("/executions/search", "searchExecutions", _FOUND, SEARCH_EXECUTIONS, "Found", _QUERY),
    RouteDescription(
        f"{_ONE}/log", "getExecutionLog", "The transcript of one execution", _RESULT, "Log", {},
        {"include_transcript": True},
    ),
    RouteDescription(_ONE, "getExecution", "One execution, ended or not", _RESULT, "Result", {INCLUDE_LOG: _LOG_RULE}),
    RouteDescription(
        "/agents/{agent_name:path}/executions", "listAgentExecutions", _OF_AGENT, _LIST, "Page",
        _query(_LIST, "agent_name"),
    ),
)  # fmt: skip
"""The routes, in the order in which they are tried."""

_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string", "description": "What, where and what to do"},
                "retry_after_s": {"type": "number", "description": "When to try again [s]; with status 429"},
            },
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}
_ERRORS = {
    "401": "No key, or one that is not known",
    "403": "The key does not allow it",
    "404": "There is no such execution, or it is not the caller's to see; as text where nothing can be at the address",
    "422": "A parameter is wrong; the message names its limits",
    "429": "Too often; Retry-After says when to try again",
}
_MORE_OF_ERRORS: Mapping[str, Mapping[str, Any]] = {
    "404": {"content": {"text/plain": {"schema": {"type": "string"}}}},
    "429": {"headers": {"Retry-After": {"description": "[s]", "schema": {"type": "integer", "minimum": 1}}}},
}
_PATH_PARAMETERS = {
    "agent_name": ("Name of the agent; a slash in it as %2F", r"^[^\r\n]+$"),
    "execution_id": ("As lists and asynchronous calls tell it", r"^[^/\r\n]+$"),
}
"""With what may be in them."""


def document(others: Sequence[ApiDescription] = ()) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the routes, and of those of ``others``."""
    more = {name: schema for one in others for name, schema in one.schemas.items()}
    schemas = more | {route.answers: route.tool["outputSchema"] for route in ROUTES} | {"Log": LOG, "Error": _ERROR}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "PML gateway",
            "version": "1",
            "description": "What ran, who ran it, what it answered and what it cost, and what waits for humans. "
            "A caller sees what its key shows.",
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {}],
        "paths": {
            **{f"/api{_plain(route.path)}": {"get": _operation(route)} for route in ROUTES},
            **{path: item for one in others for path, item in one.paths.items()},
        },
        "components": {"schemas": schemas, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def _plain(path: str) -> str:
    return path.replace(":path}", "}")


def _operation(route: RouteDescription) -> dict[str, Any]:
    required = route.tool["inputSchema"].get("required", ())
    on_path = [_in_path(name) for name in _PATH_PARAMETERS if f"{{{name}}}" in _plain(route.path)]
    in_query = [_in_query(name, rule, required=name in required) for name, rule in route.query.items()]
    errors = {status: about for status, about in _ERRORS.items() if status != "404" or on_path}
    return {
        "operationId": route.operation,
        "summary": route.about,
        "parameters": [*on_path, *in_query],
        "responses": {
            "200": {"description": "The answer", "content": _json(route.answers)},
            **{status: _said(about, status) for status, about in errors.items()},
        },
    }


def _in_path(name: str) -> dict[str, Any]:
    about, pattern = _PATH_PARAMETERS[name]
    schema = {"type": "string", "minLength": 1, "pattern": pattern}
    return {"name": name, "in": "path", "required": True, "description": about, "schema": schema}


def _in_query(name: str, rule: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    schema = {member: value for member, value in rule.items() if member != "description"}
    if required:
        schema["minLength"] = 1
    about = str(rule.get("description", ""))
    return {"name": name, "in": "query", "required": required, "description": about, "schema": schema}


def _said(about: str, status: str) -> dict[str, Any]:
    more = dict(_MORE_OF_ERRORS.get(status, {}))
    return {"description": about, "content": {**_json("Error"), **more.pop("content", {})}, **more}


def _json(schema: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
