"""Reads JSON Schema as far as types go: what cannot be told stays open rather than wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pml_hookspecs.schemas import target_of

DEEPEST = 6
"""Levels of nesting that are told; what lies deeper is of any type."""
MOST_STEPS = 2_000
"""Schemas that are read of one, each as often as it is reached: a bounded depth is not bounded work."""
PER_STEP = 16
"""Names that are gone through in the time of one step."""
MOST_CHOICES = 24
"""Values of an enumeration that are told."""

TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
LONGEST_CONSTANT = 200
"""Text that is told as it is; a longer one is some text [characters]."""
LONGEST_DESCRIPTION = 1_000
"""Longest description of a member that is read whole [characters]."""
Simple: TypeAlias = Literal["any", "string", "number", "integer", "boolean", "null"]


@dataclass(frozen=True, slots=True)
class Const:
    """Exactly this value: a text, a number, true, false or null."""

    value: Any


@dataclass(frozen=True, slots=True)
class Array:
    """An array."""

    items: Type


@dataclass(frozen=True, slots=True)
class Union:
    """Any of these; at least two."""

    members: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One property of an object."""

    name: str
    type: Type
    required: bool
    description: str = ""


@dataclass(frozen=True, slots=True)
class Object:
    """An object."""

    members: tuple[Member, ...] = ()
    rest: Type | None = None
    """Type of other members; None where the schema says that there are none, or says nothing."""
    open: bool = field(default=False)
    """Whether nothing is known of its members."""


Type: TypeAlias = Simple | Const | Array | Union | Object


def read(schema: Any) -> Type:
    """The type that ``schema`` describes; ``"any"`` for what is no schema."""
    return _Reader(schema).read(schema, 0)


class _Reader:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = MOST_STEPS

    def read(self, schema: Any, depth: int) -> Type:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > DEEPEST or self._left < 0:
            return "any"
        if isinstance(reference := schema.get("$ref"), str):
            self._left -= len(reference) // PER_STEP
            return self.read(target_of(self._root, reference) if reference.startswith("#") else None, depth + 1)
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, Sequence) and not isinstance(choices, str):
            return _union([_constant(value) for value in choices]) if len(choices) <= MOST_CHOICES else "any"
        for word in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(word), Sequence):
                return _union([self.read(option, depth + 1) for option in options])
        if isinstance(parts := schema.get("allOf"), Sequence) and "properties" not in schema:
            return self._merged([self.read(part, depth + 1) for part in parts])
        return self._typed(schema, depth)

    @staticmethod
    def _merged(parts: list[Type]) -> Type:
        objects = [part for part in parts if isinstance(part, Object)]
        if len(objects) != len(parts) or not parts:
            return parts[0] if len(parts) == 1 else "any"
        members = {member.name: member for part in objects for member in part.members}
        return Object(tuple(members.values()), open=not members)

    def _typed(self, schema: Mapping[str, Any], depth: int) -> Type:
        type_ = schema.get("type")
        if isinstance(type_, Sequence) and not isinstance(type_, str):
            names = dict.fromkeys(one for one in type_ if isinstance(one, str) and one in TYPES)
            return _union([self._typed({**schema, "type": one}, depth) for one in names])
        if type_ == "array":
            return Array(self.read(schema.get("items"), depth + 1))
        if type_ == "object" or (type_ is None and isinstance(schema.get("properties"), Mapping)):
            return self._object(schema, depth)
        match type_:
            case "string" | "number" | "integer" | "boolean" | "null":
                return type_
            case _:
                return "any"

    def _object(self, schema: Mapping[str, Any], depth: int) -> Object:
        properties, rest = schema.get("properties"), schema.get("additionalProperties")
        members: tuple[Member, ...] = ()
        if isinstance(properties, Mapping):
            listed = schema.get("required")
            required = set(map(str, listed)) if isinstance(listed, (list, tuple)) else set()
            self._left -= (len(required) + len(properties)) // PER_STEP
            members = tuple(
                Member(str(name), self.read(of, depth + 1), name in required, description_of(of))
                for name, of in properties.items()
            )
        of_rest = self.read(rest, depth + 1) if isinstance(rest, Mapping) else None
        return Object(members, of_rest, not members and rest is not False and of_rest is None)


def loosened(type_: Type) -> Type:
    """``type_`` as wide as what a checker takes a variable for that was made of a value which fits.

    An object put together over several lines is some dictionary to it, and the text in one some text.
    """
    match type_:
        case Object():
            return Object(open=True)
        case Array(items=items):
            inner = loosened(items)
            return Array(inner if inner in ("string", "integer", "boolean") else "any")
        case Const(value=str()):
            return "string"
        case Union(members=members):
            return _union([loosened(member) for member in members])
    return type_


def description_of(schema: Any) -> str:
    """The first line of what a schema says about itself."""
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return " ".join(text[:LONGEST_DESCRIPTION].split())[:160] if isinstance(text, str) else ""


def _constant(value: Any) -> Type:
    if isinstance(value, str) and len(value) > LONGEST_CONSTANT:
        return "string"
    return Const(value) if value is None or isinstance(value, (str, int, float)) else "any"


def _union(options: list[Type]) -> Type:
    members = tuple(dict.fromkeys(options))
    if not members or "any" in members:
        return "any"
    return members[0] if len(members) == 1 else Union(members)
