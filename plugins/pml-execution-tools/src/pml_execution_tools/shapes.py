"""JSON Schemas of what the tools, and with them the REST routes, take and answer: made of the types."""

from __future__ import annotations

import typing
from types import UnionType
from typing import Any

from .client_results import AgentSummary, ExecutionList, ExecutionLog, ExecutionResult, FleetSummary, SearchResult

_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}


def schema_of(hint: Any, *, nulls: bool = True) -> dict[str, Any]:
    """The JSON Schema of a type; a text in ``Annotated`` is its description, a pair a member of its own.

    Args:
        hint: A ``TypedDict``, or what its members can be.
        nulls: Whether ``X | None`` may be null; as an argument it is left out instead.
    """
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        made = schema_of(parts[0], nulls=nulls)
        for said in parts[1:]:
            made |= [("description", said) if isinstance(said, str) else said]
        return made
    if origin in (typing.NotRequired, typing.Required):
        return schema_of(parts[0], nulls=nulls)
    if origin in (UnionType, typing.Union):
        made = schema_of(parts[0], nulls=nulls)
        return _or_null(made) if nulls else made
    if typing.is_typeddict(hint):
        return _object(hint, nulls=nulls)
    return _of_one(hint, origin, parts)


def _of_one(hint: Any, origin: Any, parts: tuple[Any, ...]) -> dict[str, Any]:
    if origin is typing.Literal:
        return {"type": "string", "enum": list(parts)}
    if origin is list:
        return {"type": "array", "items": schema_of(parts[0])}
    return {} if hint is Any else {"type": _NAMES[origin or hint]}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    choices = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **choices}


def _object(hint: Any, *, nulls: bool) -> dict[str, Any]:
    members = typing.get_type_hints(hint, include_extras=True)
    origins = {name: typing.get_origin(member) for name, member in members.items()}
    if hint.__total__:
        needed = [name for name, origin in origins.items() if origin is not typing.NotRequired]
    else:
        needed = [name for name, origin in origins.items() if origin is typing.Required]
    properties = {name: schema_of(member, nulls=nulls) for name, member in members.items()}
    return {"type": "object", "properties": properties, **({"required": needed} if needed else {})}


PAGE, FOUND, RESULT, LOG = map(schema_of, (ExecutionList, SearchResult, ExecutionResult, ExecutionLog))
SUMMARY = {"type": "object", "anyOf": [schema_of(AgentSummary), schema_of(FleetSummary)]}
"""MCP wants an object at the top of an output schema."""
