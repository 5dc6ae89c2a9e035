"""Reading JSON Schema: following references, folding ``allOf``, and checking a value cautiously."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from pml_hookspecs.schemas import target_of

from .budget import Budget, OverBudgetError
from .patterns import finds

DEEPEST = 64
_UNSURE = frozenset(
    (
        *("$dynamicRef", "$recursiveRef", "contains", "dependencies", "dependentRequired", "dependentSchemas"),
        *("if", "not", "unevaluatedItems", "unevaluatedProperties"),
    )
)
_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


class CannotSampleError(Exception):
    """No value is sure to fit the schema."""


class Document:
    """One schema with everything it refers to. Also counts steps, so that no schema takes forever."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._budget = Budget()

    def step(self, depth: int, schema: Mapping[str, Any] | None = None, steps: int = 1) -> None:
        """Count a look at ``schema``, or some steps.

        Raises:
            CannotSampleError: There were too many, or they lie too deep within one another.
        """
        try:
            if schema is None:
                self._budget.spend(steps)
            else:
                self._budget.look_at(schema)
        except OverBudgetError as exc:
            raise CannotSampleError(str(exc)) from None
        if depth > DEEPEST:
            raise CannotSampleError("the schema nests too deep, or refers to itself without end")

    def flat(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """``schema`` with ``$ref`` and ``allOf`` folded in.

        Raises:
            CannotSampleError: A reference leads nowhere or out of the document, or the parts contradict each other.
        """
        self.step(depth, schema)
        if "$ref" not in schema and "allOf" not in schema:
            return schema
        folded: Mapping[str, Any] = {k: v for k, v in schema.items() if k not in ("$ref", "allOf")}
        parts = list(schema.get("allOf", ()))
        if "$ref" in schema:
            parts.insert(0, self._target(schema["$ref"]))
        for part in parts:
            if part is True:
                continue
            if not isinstance(part, Mapping):
                raise CannotSampleError("a part of the schema allows nothing")
            folded = merged(folded, self.flat(part, depth + 1))
        return folded

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise CannotSampleError("the schema refers to another document")
        found = target_of(self._root, reference) if reference[1:2] in ("", "/") else None
        if found is None:
            raise CannotSampleError("the schema refers to a part that it does not have")
        return found

    def fits(self, value: Any, schema: Any, depth: int = 0) -> bool:
        """Whether ``value`` certainly fits ``schema``, ``format`` left aside. False when unsure."""
        self.step(depth, schema if isinstance(schema, Mapping) else None)
        if not isinstance(schema, Mapping):
            return schema is True
        return (
            _UNSURE.isdisjoint(schema)
            and _fits_plainly(value, schema)
            and _fits_pattern(value, schema)
            and self._parts_fit(value, schema, depth + 1)
            and self._members_fit(value, schema, depth + 1)
            and self._items_fit(value, schema, depth + 1)
        )

    def _parts_fit(self, value: Any, schema: Mapping[str, Any], depth: int) -> bool:
        every = [*schema.get("allOf", ()), *([self._target(schema["$ref"])] if "$ref" in schema else ())]
        return (
            all(self.fits(value, part, depth) for part in every)
            and ("anyOf" not in schema or any(self.fits(value, part, depth) for part in schema["anyOf"]))
            and ("oneOf" not in schema or self._fits_one(value, schema["oneOf"], depth))
        )

    def _fits_one(self, value: Any, parts: Sequence[Any], depth: int) -> bool:
        # A part that does not fit for sure may fit all the same; only a wrong type or constant rules it out.
        fitting = [self.fits(value, part, depth) for part in parts]
        others = [part for part, fits in zip(parts, fitting, strict=True) if not fits]
        return sum(fitting) == 1 and all(self._ruled_out(value, part, depth) for part in others)

    def _ruled_out(self, value: Any, schema: Any, depth: int) -> bool:
        if not isinstance(schema, Mapping):
            return schema is False
        schema = self.flat(schema, depth)
        if not _fits_plainly(value, schema):
            return True
        named = schema.get("properties", {})
        return isinstance(value, Mapping) and any(
            name in value and self._ruled_out(value[name], part, depth + 1) for name, part in named.items()
        )

    def _members_fit(self, value: Any, schema: Mapping[str, Any], depth: int) -> bool:
        if not isinstance(value, Mapping):
            return True
        if value and ("patternProperties" in schema or "propertyNames" in schema):
            return False
        named, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        return all(self.fits(member, named.get(name, others), depth) for name, member in value.items())

    def _items_fit(self, value: Any, schema: Mapping[str, Any], depth: int) -> bool:
        if not isinstance(value, list):
            return True
        if schema.get("uniqueItems") and len({_text(item) for item in value}) < len(value):
            return False
        first, others = item_schemas(schema)
        schemas = [*first, *[others] * max(0, len(value) - len(first))]
        return all(self.fits(item, part, depth) for item, part in zip(value, schemas, strict=False))


def item_schemas(schema: Mapping[str, Any]) -> tuple[Sequence[Any], Any]:
    """Schemas of the first items and of all others, as the older drafts or the newest write them."""
    items = schema.get("items", True)
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return schema.get("prefixItems", ()), items


def is_type(value: Any, name: Any) -> bool:
    """Whether ``value`` is of a JSON Schema type; ``1.0`` is an integer, ``true`` is no number."""
    if name in ("integer", "number"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (name == "number" or float(value).is_integer())
    types = {"string": str, "boolean": bool, "null": type(None), "array": list, "object": Mapping}
    return name in types and isinstance(value, types[name])


def types_of(schema: Mapping[str, Any]) -> list[Any]:
    """The types it names; empty when it names none."""
    type_ = schema.get("type", [])
    return list(type_) if isinstance(type_, list) else [type_]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _fits_plainly(value: Any, schema: Mapping[str, Any]) -> bool:
    """What needs no look into other schemas."""
    types = types_of(schema)
    return (
        (not types or any(is_type(value, name) for name in types))
        and ("const" not in schema or _text(value) == _text(schema["const"]))
        and ("enum" not in schema or _text(value) in map(_text, schema["enum"]))
        and _fits_size(value, schema)
    )


def _fits_pattern(value: Any, schema: Mapping[str, Any]) -> bool:
    """Unsure, and so False, where the pattern is none for a linear engine."""
    pattern = schema.get("pattern")
    return pattern is None or not isinstance(value, str) or finds(pattern, value)


def _fits_size(value: Any, schema: Mapping[str, Any]) -> bool:
    if is_type(value, "number"):
        return fits_number(value, schema)
    if isinstance(value, Mapping):
        return _within(len(value), schema, "Properties") and all(name in value for name in schema.get("required", ()))
    for type_, what in ((str, "Length"), (list, "Items")):
        if isinstance(value, type_):
            return _within(len(value), schema, what)
    return True


def _within(size: int, schema: Mapping[str, Any], what: str) -> bool:
    least, most = schema.get(f"min{what}", 0), schema.get(f"max{what}")
    return bool(size >= least and (most is None or size <= most))


def fits_number(value: float, schema: Mapping[str, Any]) -> bool:
    """Whether ``value`` keeps the bounds. The booleans that draft 4 allowed as exclusive bounds are refused."""
    low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if isinstance(low, bool) or isinstance(high, bool):
        return False
    multiple = schema.get("multipleOf")
    return (
        value >= schema.get("minimum", value)
        and value <= schema.get("maximum", value)
        and (low is None or value > low)
        and (high is None or value < high)
        and (multiple is None or Decimal(str(value)) % Decimal(str(multiple)) == 0)
    )


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A schema for values that fit both, as nearly as one flat schema can say it; ``one`` wins where it cannot.

    Raises:
        CannotSampleError: They name no type in common.
    """
    both = {**other, **one}
    for key in one.keys() & other.keys():
        a, b = one[key], other[key]
        if key == "properties":
            both[key] = {name: _both(a, b, name) for name in (*a, *(n for n in b if n not in a))}
        elif key == "required":
            both[key] = list(dict.fromkeys((*a, *b)))
        elif key in _AT_LEAST:
            both[key] = max(a, b)
        elif key in _AT_MOST:
            both[key] = min(a, b)
        elif key == "enum":
            both[key] = [value for value in a if _text(value) in map(_text, b)]
        elif key == "items" and isinstance(a, Mapping) and isinstance(b, Mapping):
            both[key] = {"allOf": [a, b]}
        elif key == "type":
            both[key] = _common_types(types_of(one), types_of(other))
    return both


def _both(a: Mapping[str, Any], b: Mapping[str, Any], name: str) -> Any:
    if name in a and name in b:
        return {"allOf": [a[name], b[name]]}
    return a[name] if name in a else b[name]


def _common_types(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    common = [name for name in a if name in b or (name == "integer" and "number" in b)]
    common += ["integer"] if "integer" in b and "number" in a and "integer" not in common else []
    if not common:
        raise CannotSampleError("parts of the schema name no type in common")
    return common
