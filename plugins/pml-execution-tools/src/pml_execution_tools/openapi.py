"""The routes, and the OpenAPI document that tells of them; made of the definitions of the tools that answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from .definitions import (
    GET_AGENT_ACTIVITY_SUMMARY,
    GET_EXECUTION_RESULT,
    LIST_RECENT_EXECUTIONS,
    SEARCH_EXECUTIONS,
)
from .shapes import FOUND, LOG, PAGE, RESULT, SUMMARY

Answers: TypeAlias = Literal["page", "found", "summary", "result", "log"]
INCLUDE_LOG = "include_log"
"""The parameter of a URL that is ``include_transcript`` to the tool."""


@dataclass(frozen=True, kw_only=True)
class RouteDescription:
    """A route with what the OpenAPI document says of it."""

    path: str
    """Below ``/api``, as Starlette reads it. Agents may have slashes in their names."""
    operation: str
    about: str
    tool: str
    answers: Answers
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameters of the URL, each with its JSON Schema."""
    required: tuple[str, ...] = ()
    """Names of the parameters that must be given."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the tool that are the same every time."""


def _query(definition: Mapping[str, Any], *without: str) -> dict[str, Any]:
    return {name: rule for name, rule in definition["inputSchema"]["properties"].items() if name not in without}


_LOG_RULE = GET_EXECUTION_RESULT["inputSchema"]["properties"]["include_transcript"]
ROUTES = (
    RouteDescription(
        path="/executions",
        operation="listExecutions",
        about="Executions that clients asked for, newest first",
        tool=LIST_RECENT_EXECUTIONS["name"],
        answers="page",
        query=_query(LIST_RECENT_EXECUTIONS),
    ),
    RouteDescription(
        path="/executions/summary",
        operation="getActivitySummary",
        about="What one agent did, or all of them together",
        tool=GET_AGENT_ACTIVITY_SUMMARY["name"],
        answers="summary",
        query=_query(GET_AGENT_ACTIVITY_SUMMARY),
    ),
    RouteDescription(
        path="/executions/search",
        operation="searchExecutions",
        about="Executions with these words in what was asked, answered or went wrong, newest first",
        tool=SEARCH_EXECUTIONS["name"],
        answers="found",
        query=_query(SEARCH_EXECUTIONS),
        required=("query",),
    ),
    RouteDescription(
        path="/agents/{agent_name:path}/executions/{execution_id}/log",
        operation="getExecutionLog",
        about="The transcript of one execution",
        tool=GET_EXECUTION_RESULT["name"],
        answers="log",
        fixed={"include_transcript": True},
    ),
    RouteDescription(
        path="/agents/{agent_name:path}/executions/{execution_id}",
        operation="getExecution",
        about="One execution, ended or not",
        tool=GET_EXECUTION_RESULT["name"],
        answers="result",
        query={INCLUDE_LOG: _LOG_RULE},
    ),
    RouteDescription(
        path="/agents/{agent_name:path}/executions",
        operation="listAgentExecutions",
        about="Executions of one agent, newest first",
        tool=LIST_RECENT_EXECUTIONS["name"],
        answers="page",
        query=_query(LIST_RECENT_EXECUTIONS, "agent_name"),
    ),
)
"""The routes, in the order in which they are tried."""

_SCHEMAS = {"Page": PAGE, "Found": FOUND, "Summary": SUMMARY, "Result": RESULT, "Log": LOG}
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
_PATH_PARAMETERS = {
    "agent_name": ("Name of the agent; a slash in it as %2F", r"^[^\r\n]+$"),
    "execution_id": ("As lists and asynchronous calls tell it", r"^[^/\r\n]+$"),
}
"""With what may be in them."""


@cache
def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document of the routes. Not to be changed."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "PML execution history",
            "version": "1",
            "description": "What ran, who ran it, what it answered and what it cost. A caller sees what its key shows.",
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {}],
        "paths": {f"/api{_plain(route.path)}": {"get": _operation(route)} for route in ROUTES},
        "components": {
            "schemas": {**_SCHEMAS, "Error": _ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _plain(path: str) -> str:
    return path.replace(":path}", "}")


def _operation(route: RouteDescription) -> dict[str, Any]:
    on_path = [_in_path(name) for name in _PATH_PARAMETERS if f"{{{name}}}" in _plain(route.path)]
    in_query = [_in_query(name, rule, required=name in route.required) for name, rule in route.query.items()]
    errors = {status: about for status, about in _ERRORS.items() if status != "404" or on_path}
    return {
        "operationId": route.operation,
        "summary": route.about,
        "parameters": [*on_path, *in_query],
        "responses": {
            "200": {"description": "The answer", "content": _json(route.answers.capitalize())},
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
    said: dict[str, Any] = {"description": about, "content": _json("Error")}
    if status == "404":
        said["content"]["text/plain"] = {"schema": {"type": "string"}}
    if status == "429":
        said["headers"] = {"Retry-After": {"description": "[s]", "schema": {"type": "integer", "minimum": 1}}}
    return said


def _json(schema: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
