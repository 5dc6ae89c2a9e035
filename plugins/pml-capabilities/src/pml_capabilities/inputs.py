"""What a capability takes, as a JSON Schema made of the inputs it has seen. Values are not kept, only their kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DEEPEST = 4
MOST_MEMBERS = 50
ANYTHING: Mapping[str, Any] = {}


def schema_of(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Schema that takes ``inputs`` and others of their kinds; all of them required."""
    found = {"type": "object", "properties": _members(inputs, DEEPEST), "required": sorted(map(str, inputs))}
    return {**found, "additionalProperties": False}


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Schema that takes what either takes; required is what both require."""
    both = dict(_either(one, other))
    both["required"] = sorted(set(one.get("required", ())) & set(other.get("required", ())))
    return {**both, "additionalProperties": False}


def _kind(value: Any, depth: int) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, (int, float)):
        return {"type": "integer" if isinstance(value, int) else "number"}
    if isinstance(value, str):
        return {"type": "string"}
    if isinstance(value, Mapping):
        return {"type": "object", "properties": _members(value, depth - 1)} if depth else {"type": "object"}
    if isinstance(value, Sequence):
        items = [_kind(item, depth - 1) for item in value[:MOST_MEMBERS]] if depth else []
        kind = items[0] if items else ANYTHING
        for item in items[1:]:
            kind = _either(kind, item)
        return {"type": "array", "items": dict(kind)} if kind else {"type": "array"}
    return {}


def _members(value: Mapping[str, Any], depth: int) -> dict[str, Any]:
    names = sorted(map(str, value))[:MOST_MEMBERS]
    return {name: _kind(value[name], depth) for name in names if name in value}


def _either(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    kinds = {one.get("type"), other.get("type")}
    if kinds == {"integer", "number"}:
        return {"type": "number"}
    if len(kinds) > 1 or None in kinds:
        return ANYTHING
    if kinds == {"object"}:
        ours, theirs = one.get("properties", {}), other.get("properties", {})
        names = sorted({*ours, *theirs})
        return {
            "type": "object",
            "properties": {
                name: _either(ours[name], theirs[name])
                if name in ours and name in theirs
                else ours.get(name, theirs.get(name))
                for name in names
            },
        }
    if kinds == {"array"}:
        items = _either(one.get("items", ANYTHING), other.get("items", ANYTHING))
        return {"type": "array", "items": items} if items else {"type": "array"}
    return one
