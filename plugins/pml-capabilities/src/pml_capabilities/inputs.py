"""What a capability takes, as a JSON Schema made of the inputs it has seen. Values are not kept, only their kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from pml_kit.schema.members import properties

DEEPEST = 4
MOST_MEMBERS = 50
ANYTHING: Mapping[str, Any] = {}
_TYPES = frozenset({"boolean", "integer", "number", "string", "object", "array"})
_SPOKEN = {"integer": "an integer", "object": "an object", "array": "an array", "null": "null"}


def schema_of(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Schema that takes ``inputs`` and others of their kinds; all of them required."""
    found = {"type": "object", "properties": _members(inputs, DEEPEST), "required": sorted(map(str, inputs))}
    return {**found, "additionalProperties": False}


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Schema that takes what either takes; required is what both require."""
    both = dict(either(one, other))
    both["required"] = sorted(set(one.get("required", ())) & set(other.get("required", ())))
    return {**both, "additionalProperties": False}


def kind_of(value: Any, depth: int = DEEPEST) -> dict[str, Any]:
    """Schema of ``value``; what is more than ``depth`` levels down may be anything."""
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, (int, float)):
        return {"type": "integer" if isinstance(value, int) else "number"}
    if isinstance(value, str):
        return {"type": "string"}
    if isinstance(value, Mapping):
        return {"type": "object", "properties": _members(value, depth - 1)} if depth else {"type": "object"}
    if isinstance(value, Sequence):
        items = [kind_of(item, depth - 1) for item in value[:MOST_MEMBERS]] if depth else []
        kind = items[0] if items else ANYTHING
        for item in items[1:]:
            kind = either(kind, item)
        return {"type": "array", "items": dict(kind)} if kind else {"type": "array"}
    return {}


def defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What is taken for inputs that are not given."""
    return {name: kind["default"] for name, kind in properties(schema).items() if "default" in kind}


def name_problems(schema: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """What is wrong with the names of inputs, in words."""
    given, known = list(names), properties(schema)
    missing = [f"{name!r} is missing" for name in schema.get("required", ()) if name not in given]
    return missing + [f"there is no {name!r}" for name in given if name not in known]


def problems(schema: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[str]:
    """What is wrong with ``inputs``, in words; values are not repeated."""
    known = properties(schema)
    kinds = [found for name, value in inputs.items() if name in known for found in _misfits(known[name], value, name)]
    return name_problems(schema, inputs) + kinds


def _misfits(schema: Mapping[str, Any], value: Any, at: str) -> Iterator[str]:
    wanted = schema.get("type")
    if wanted is None:
        return
    from pml_kit.schema.verdicts import is_type

    if not is_type(value, wanted):
        has = kind_of(value, 0).get("type", "null")
        yield f"{at!r} must be {_SPOKEN.get(wanted, f'a {wanted}')}, not {_SPOKEN.get(has, f'a {has}')}"
    elif wanted == "object":
        for name, kind in properties(schema).items():
            if name in value:
                yield from _misfits(kind, value[name], f"{at}.{name}")
    elif wanted == "array" and schema.get("items"):
        found = (one for n, item in enumerate(value) for one in _misfits(schema["items"], item, f"{at}[{n}]"))
        yield from islice(found, 3)


def is_one(schema: Any) -> bool:
    """Whether ``schema`` is written as :func:`schema_of` and :func:`merged` write them."""
    if (
        not isinstance(schema, Mapping)
        or schema.get("type") != "object"
        or not isinstance(schema.get("properties"), Mapping)
    ):
        return False
    required, closed = schema.get("required", ()), schema.get("additionalProperties", False)
    if not isinstance(required, Sequence) or isinstance(required, str) or closed is not False:
        return False
    known = schema["properties"]
    if not schema.keys() <= {"type", "properties", "required", "additionalProperties"}:
        return False
    return all(name in known for name in required) and all(_is_kind(kind, DEEPEST + 1) for kind in known.values())


def _is_kind(schema: Any, depth: int) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= {"type", "properties", "items", "default"} or not depth:
        return False
    if not schema.keys() - {"default"}:
        return True
    if not isinstance(schema.get("type"), str) or schema["type"] not in _TYPES:
        return False
    if "default" in schema and any(_misfits(schema, schema["default"], "")):
        return False
    below = schema.get("properties", {})
    return (
        isinstance(below, Mapping)
        and all(_is_kind(kind, depth - 1) for kind in below.values())
        and ("items" not in schema or _is_kind(schema["items"], depth - 1))
    )


def _members(value: Mapping[str, Any], depth: int) -> dict[str, Any]:
    names = sorted(map(str, value))[:MOST_MEMBERS]
    return {name: kind_of(value[name], depth) for name in names if name in value}


def either(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """Schema that takes what either takes."""
    kinds = {one.get("type"), other.get("type")}
    if kinds == {"integer", "number"}:
        return {"type": "number"}
    if len(kinds) > 1 or None in kinds:
        return ANYTHING
    if kinds == {"object"}:
        ours, theirs = properties(one), properties(other)
        names = sorted({*ours, *theirs})
        return {
            "type": "object",
            "properties": {
                name: either(ours[name], theirs[name])
                if name in ours and name in theirs
                else ours.get(name, theirs.get(name))
                for name in names
            },
        }
    if kinds == {"array"}:
        items = either(one.get("items", ANYTHING), other.get("items", ANYTHING))
        return {"type": "array", "items": items} if items else {"type": "array"}
    return one
