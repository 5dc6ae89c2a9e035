"""Input schemas without what is fixed, and with what is given where a call does not give it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pml_kit.schema.members import properties
from pml_kit.schema.pointers import target_of

PARTS = ("allOf", "anyOf", "oneOf")
DEEPEST = 8
"""References after references that are followed."""


def declared(schema: Any) -> frozenset[str]:
    """Names of the arguments that an input schema declares, in any of its parts; empty where it is none."""
    found: set[str] = set()
    seen: set[int] = set()
    left = [schema]
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        followed = _followed(part, schema)
        if not isinstance(followed, Mapping):
            continue
        found |= {*properties(followed)}
        left += [one for key in PARTS for one in _parts(followed, key)]
    return frozenset(found)


def shown(schema: Any, fixed: Collection[str], defaults: Mapping[str, Any]) -> Any:
    """``schema`` as clients see it: without ``fixed``, and with ``defaults`` as defaults that need not be given."""
    return _SchemaView(schema, fixed, defaults).of(schema)


class _SchemaView:
    """The parts of one schema, each made once however often it is referred to; within itself it stays as it is."""

    def __init__(self, root: Any, fixed: Collection[str], defaults: Mapping[str, Any]) -> None:
        self._root, self._fixed, self._defaults = root, fixed, defaults
        self._made: dict[int, Any] = {}

    def of(self, part: Any) -> Any:
        if id(part) not in self._made:
            self._made[id(part)] = part
            self._made[id(part)] = self._one(_followed(part, self._root))
        return self._made[id(part)]

    def _one(self, schema: Any) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        fixed, defaults, made = self._fixed, self._defaults, dict(schema)
        if isinstance(named := schema.get("properties"), Mapping):
            made["properties"] = {n: _with_default(of, n, defaults) for n, of in named.items() if n not in fixed}
        if isinstance(schema.get("required"), list):
            made["required"] = [name for name in schema["required"] if name not in fixed and name not in defaults]
            if not made["required"]:
                del made["required"]
        if isinstance(needed := schema.get("dependentRequired"), Mapping):
            made["dependentRequired"] = {
                name: [one for one in others if one not in fixed and one not in defaults]
                for name, others in needed.items()
                if name not in fixed and isinstance(others, list)
            }
        for key in PARTS:
            if parts := _parts(schema, key):
                made[key] = [self.of(one) for one in parts]
        return made


def _with_default(schema: Any, name: str, defaults: Mapping[str, Any]) -> Any:
    if name not in defaults:
        return schema
    return {**(schema if isinstance(schema, Mapping) else {}), "default": defaults[name]}


def _parts(schema: Mapping[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


def _followed(schema: Any, root: Any) -> Any:
    """What a schema that refers to another one in the same document comes to; references to others stay."""
    for _ in range(DEEPEST):
        ref = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(ref, str) or not ref.startswith("#/"):
            return schema
        at = target_of(root, ref)
        if not isinstance(at, Mapping):
            return schema
        schema = {**at, **{name: value for name, value in schema.items() if name != "$ref"}}
    return schema
