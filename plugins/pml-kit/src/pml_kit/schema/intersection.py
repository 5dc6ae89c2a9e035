"""What holds of values that fit two schemas at once, said as one; and the types that schemas and values have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Flat: TypeAlias = Mapping[str, Any]
"""A schema without references and parts."""
NUMBERS = frozenset({"integer", "number"})
_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_NAMES = {bool: "boolean", int: "integer", str: "string", type(None): "null"}


def type_of(value: Any) -> str:
    """The JSON type of a value; whole numbers are integers."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _NAMES.get(type(value), "object" if isinstance(value, Mapping) else "array")


def type_names(schema: Flat) -> list[Any]:
    """What ``type`` says, in its order; empty when it says nothing."""
    named = schema.get("type", [])
    return list(named) if isinstance(named, list) else [named]


def types_in(flat: Flat) -> frozenset[str] | None:
    """The JSON types that a flat schema allows, by its constants too; None for all."""
    if "const" in flat:
        return frozenset({type_of(flat["const"])})
    if isinstance(flat.get("enum"), list):
        return frozenset(type_of(value) for value in flat["enum"])
    named = [name for name in type_names(flat) if isinstance(name, str)]
    return frozenset(named) if named else None


def common_types(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    """What is of both: integers are numbers."""
    both = one & other
    return both | {"integer"} if "integer" in one | other and NUMBERS & one and NUMBERS & other else both


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON, where 1.0 is 1 and true is not."""
    kind = type_of(one)
    if kind != type_of(other):
        return False
    return canonical(one) == canonical(other) if kind in ("array", "object") else bool(one == other)


def canonical(value: Any) -> str:
    """The same text for values that are the :func:`same`."""
    return json.dumps(_whole(value), sort_keys=True)


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(name): _whole(member) for name, member in value.items()}
    return [_whole(item) for item in value] if isinstance(value, (list, tuple)) else value


def merged(one: Flat, other: Flat) -> dict[str, Any] | None:
    """A schema for values that fit both, as nearly as one flat schema can say it; None when nothing does.

    ``one`` wins where it cannot: of choices in both, those of ``other`` are left out.
    """
    both = {**other, **one}
    if not one or not other:
        return both
    for word in one.keys() & other.keys():
        ours, theirs = one[word], other[word]
        if word == "required" and isinstance(ours, list) and isinstance(theirs, list):
            both[word] = [*ours, *(name for name in theirs if name not in ours)]
        elif word in _AT_LEAST and _are_numbers(ours, theirs):
            both[word] = max(ours, theirs)
        elif word in _AT_MOST and _are_numbers(ours, theirs):
            both[word] = min(ours, theirs)
        elif word == "items" and isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            both[word] = {"allOf": [ours, theirs]}
    if isinstance(one.get("properties"), Mapping) or isinstance(other.get("properties"), Mapping):
        both |= _members(one, other)
    return both if _constants(one, other, both) and _types(one, other, both) else None


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _members(one: Flat, other: Flat) -> dict[str, Any]:
    """``properties`` and ``additionalProperties`` of both: what one names, the other may have closed."""
    ours, theirs = ({} if not isinstance(p := s.get("properties"), Mapping) else p for s in (one, other))
    rests = [_rest(one), _rest(other)]
    named = {name: _both(ours.get(name, rests[0]), theirs.get(name, rests[1])) for name in (*ours, *theirs)}
    made: dict[str, Any] = {"properties": named}
    if one.keys() | other.keys() >= {"additionalProperties"}:
        made["additionalProperties"] = _both(*rests)
    return made


def _rest(schema: Flat) -> Any:
    """What members are that a schema does not name, which its patterns may name all the same."""
    return schema.get("additionalProperties", True) if not schema.get("patternProperties") else True


def _both(ours: Any, theirs: Any) -> Any:
    if ours is False or theirs is False:
        return False
    if ours in (True, {}):
        return theirs
    return ours if theirs in (True, {}) else {"allOf": [ours, theirs]}


def _constants(one: Flat, other: Flat, both: dict[str, Any]) -> bool:
    """Fold what both list; False when they have nothing in common."""
    if "const" in one and "const" in other:
        return same(one["const"], other["const"])
    if isinstance(one.get("enum"), list) and isinstance(other.get("enum"), list):
        allowed = set(map(canonical, other["enum"]))
        both["enum"] = [value for value in one["enum"] if canonical(value) in allowed]
        return bool(both["enum"])
    return True


def _types(one: Flat, other: Flat, both: dict[str, Any]) -> bool:
    if (mine := types_in(one)) is None or (theirs := types_in(other)) is None:
        return True
    common = common_types(mine, theirs)
    ordered: Sequence[str] = [name for name in type_names(one) if name in common]
    both["type"] = [*ordered, *sorted(common.difference(ordered))]
    return bool(common)
