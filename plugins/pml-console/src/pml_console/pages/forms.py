"""Forms made of a tool's schema, and arguments made of what people fill in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pml_kit.schema.members import properties, required

Kind: TypeAlias = Literal["text", "number", "boolean", "choice", "json"]
MOST_FIELDS = 100
PREFIX = "argument."
"""In front of an argument's name in a form, which has fields of its own as well."""


@dataclass(frozen=True, slots=True)
class Field:
    """One argument."""

    name: str
    kind: Kind
    required: bool
    about: str
    choices: Sequence[str] = ()
    """As JSON."""
    value: str = ""
    """What was filled in."""

    @property
    def id(self) -> str:
        """Its name in the form."""
        return PREFIX + self.name


class FieldError(ValueError):
    """What was filled in is no value of its kind; says of which field, and why."""


def fields_of(schema: Any, form: Mapping[str, str]) -> list[Field]:
    """A field for each argument that a schema names, required ones first; what is no plain value is written as JSON."""
    needed = required(schema)
    found = [
        Field(
            name,
            _kind(inner),
            name in needed,
            inner["description"] if isinstance(inner.get("description"), str) else "",
            tuple(json.dumps(choice, ensure_ascii=False) for choice in _choices(inner)),
            form.get(PREFIX + name, ""),
        )
        for name, inner in list(properties(schema).items())[:MOST_FIELDS]
        if isinstance(name, str) and isinstance(inner, Mapping)
    ]
    return sorted(found, key=lambda field: not field.required)


def arguments_of(fields: Sequence[Field]) -> dict[str, Any]:
    """What was filled in, as the tool gets it. An empty field is left out, but for a text that is required.

    Raises:
        FieldError: A number is none, or JSON cannot be read.
    """
    arguments: dict[str, Any] = {}
    for field in fields:
        if field.value.strip() or (field.kind == "text" and field.required):
            arguments[field.name] = _value(field)
    return arguments


def _value(field: Field) -> Any:
    if field.kind == "text":
        return field.value
    try:
        value = json.loads(field.value)
    except ValueError as exc:
        raise FieldError(f"{field.name}: {field.value!r} is not JSON ({exc}); texts are in quotes") from None
    if field.kind == "number" and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise FieldError(f"{field.name}: {field.value!r} is no number")
    return value


def _kind(schema: Mapping[str, Any]) -> Kind:
    if _choices(schema):
        return "choice"
    match schema.get("type"):
        case "string":
            return "text"
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
    return "json"


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    found = schema.get("enum")
    return found[:MOST_FIELDS] if isinstance(found, list) else []
