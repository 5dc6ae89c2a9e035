"""Reads JSON Schema as far as types go: what cannot be told stays open rather than wrong."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pml_hookspecs import encode

from .budget import Budget, OverBudgetError, UnreadableError
from .document import CHOICES, Document, listed, mapped
from .intersection import Flat, type_names

DEEPEST = 6
"""Levels of nesting that are told; what lies deeper is of any type."""
MOST_STEPS = 2_000
"""Steps of reading one schema: a bounded depth is not bounded work."""
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
    default: str = ""
    """As JSON; ``""`` where there is none."""


@dataclass(frozen=True, slots=True)
class Object:
    """An object."""

    members: tuple[Member, ...] = ()
    rest: Type | None = None
    """Type of other members; None where the schema says that there are none, or says nothing."""
    open: bool = field(default=False)
    """Whether nothing is known of its members."""


Type: TypeAlias = Simple | Const | Array | Union | Object


def read(
    schema: Any,
    *,
    root: Any = None,
    deepest: int = DEEPEST,
    most_steps: int = MOST_STEPS,
    most_choices: int = MOST_CHOICES,
) -> Type:
    """The type that ``schema`` describes; ``"any"`` for what is no schema, or cannot be told within the bounds.

    Args:
        schema: What to read.
        root: The document that it is part of; None where it is the whole.
        deepest: As :data:`DEEPEST`.
        most_steps: As :data:`MOST_STEPS`.
        most_choices: As :data:`MOST_CHOICES`; of more, only the type is told.
    """
    document = Document(schema if root is None else root, Budget(most_steps))
    return _Reader(document, deepest, most_choices).read(schema, 0)


class _Reader:
    def __init__(self, document: Document, deepest: int, most_choices: int) -> None:
        self._document, self._deepest, self._most_choices = document, deepest, most_choices

    def read(self, schema: Any, depth: int) -> Type:
        if not isinstance(schema, Mapping) or self._document.budget.is_spent:
            return "any"
        # What stands elsewhere is a level deeper, so that what contains itself is told but a few times.
        depth += "$ref" in schema or "allOf" in schema
        if depth > self._deepest:
            return "any"
        try:
            return self._flat(self._document.flat(schema, depth), depth)
        except UnreadableError:
            return "any"

    def _flat(self, schema: Flat, depth: int) -> Type:
        if "const" in schema:
            return _constant(schema["const"])
        told: Type = "any"
        if len(choices := listed(schema, "enum")) <= self._most_choices:
            told = union([_constant(value) for value in choices])
        for word in CHOICES:
            if told == "any" and "enum" not in schema:
                told = union([self.read(option, depth + 1) for option in listed(schema, word)])
        return self._typed(schema, depth) if told == "any" else told

    def _typed(self, schema: Flat, depth: int) -> Type:
        names = dict.fromkeys(name for name in type_names(schema) if isinstance(name, str) and name in TYPES)
        if not names:
            return self._object(schema, depth) if isinstance(schema.get("properties"), Mapping) else "any"
        return union([self._of_type(name, schema, depth) for name in names])

    def _of_type(self, name: str, schema: Flat, depth: int) -> Type:
        match name:
            case "array":
                return Array(self.read(schema.get("items"), depth + 1))
            case "string" | "number" | "integer" | "boolean" | "null":
                return name
            case _:
                return self._object(schema, depth)

    def _object(self, schema: Flat, depth: int) -> Object:
        found, rest = schema.get("required"), schema.get("additionalProperties")
        required = {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()
        named = {str(name): of for name, of in mapped(schema, "properties").items() if of is not False}
        with suppress(OverBudgetError):  # of whose types no more is told
            self._document.budget.spend(len(named) // 2)
        members = tuple(self._member(name, of, depth, required=name in required) for name, of in named.items())
        of_rest = self.read(rest, depth + 1) if isinstance(rest, Mapping) else None
        return Object(members, of_rest, not members and rest is not False and of_rest is None)

    def _member(self, name: str, of: Any, depth: int, *, required: bool) -> Member:
        if self._document.budget.is_spent or not isinstance(of, Mapping):
            return Member(name, "any", required)
        return Member(name, self.read(of, depth + 1), required, description_of(of), _default(of))


def description_of(schema: Flat) -> str:
    """The first line of what a schema says about itself."""
    text = schema.get("description")
    return " ".join(text[:LONGEST_DESCRIPTION].split())[:160] if isinstance(text, str) else ""


def _constant(value: Any) -> Type:
    if isinstance(value, str) and len(value) > LONGEST_CONSTANT:
        return "string"
    return Const(value) if value is None or isinstance(value, (str, int, float)) else "any"


def _default(schema: Flat) -> str:
    if "default" not in schema:
        return ""
    try:
        return encode(schema["default"])[:LONGEST_CONSTANT].decode(errors="ignore")
    except (RecursionError, TypeError, ValueError):
        return ""


def union(options: list[Type]) -> Type:
    """Any of ``options``, each once; ``"any"`` for none."""
    members = tuple(dict.fromkeys(options))
    if not members or "any" in members:
        return "any"
    return members[0] if len(members) == 1 else Union(members)
