"""Whether a value fits a schema: for sure, for sure not, or nobody can tell without a real validator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from .budget import UnreadableError
from .document import Document, item_schemas, listed, mapped
from .intersection import Flat, canonical, same, type_names
from .patterns import finds

Verdict: TypeAlias = bool | None
"""True: it fits. False: it does not. None: there is no telling."""
_UNTOLD = frozenset(
    ("$dynamicRef", "$recursiveRef", "contains", "dependencies", "dependentSchemas", "unevaluatedItems")
)
_PARTS = frozenset(("$ref", "allOf", "anyOf", "oneOf", "not", "if"))
_UNTOLD_OF_OBJECTS = frozenset(("patternProperties", "propertyNames", "unevaluatedProperties"))
_TYPES: Mapping[str, Any] = {
    "string": str,
    "boolean": bool,
    "null": type(None),
    "array": (list, tuple),
    "object": Mapping,
}


def fits(document: Document, value: Any, schema: Any, depth: int = 0) -> Verdict:
    """Whether ``value`` fits ``schema``, which is of ``document``; ``format`` is left aside.

    Raises:
        UnreadableError: It is no schema, or too much work.
    """
    document.look(schema, depth)
    if not isinstance(schema, Mapping):
        return schema if isinstance(schema, bool) else None
    return _every(_verdicts(document, value, schema, depth + 1))


def _verdicts(document: Document, value: Any, schema: Flat, depth: int) -> Iterator[Verdict]:
    if "type" in schema:
        yield _fits_type(value, schema)
    if "const" in schema:
        yield same(value, schema["const"])
    if "enum" in schema:
        yield any(same(value, one) for one in listed(schema, "enum"))
    if not _UNTOLD.isdisjoint(schema):
        yield None
    if not _PARTS.isdisjoint(schema):
        yield from _of_parts(document, value, schema, depth)
    if isinstance(value, str):
        yield _fits_text(value, schema)
    elif isinstance(value, Mapping):
        yield from _of_members(document, value, schema, depth)
    elif isinstance(value, (list, tuple)):
        yield from _of_items(document, value, schema, depth)
    elif is_type(value, "number"):
        yield fits_number(value, schema)


def _of_parts(document: Document, value: Any, schema: Flat, depth: int) -> Iterator[Verdict]:
    if "$ref" in schema or "allOf" in schema:
        yield from (None if part is None else fits(document, value, part, depth) for part in document.every(schema))
    if "anyOf" in schema:
        yield _any(fits(document, value, part, depth) for part in listed(schema, "anyOf"))
    if "oneOf" in schema:
        yield _one([fits(document, value, part, depth) for part in listed(schema, "oneOf")])
    if "not" in schema:
        yield _not(fits(document, value, schema["not"], depth))
    if "if" in schema:
        met = fits(document, value, schema["if"], depth)
        yield None if met is None else fits(document, value, schema.get("then" if met else "else", True), depth)


def _of_members(document: Document, value: Mapping[str, Any], schema: Flat, depth: int) -> Iterator[Verdict]:
    yield _within(len(value), schema, "Properties")
    if "required" in schema:
        yield all(name in value for name in listed(schema, "required"))
    if value and not _UNTOLD_OF_OBJECTS.isdisjoint(schema):
        yield None
    if "dependentRequired" in schema:
        needed = mapped(schema, "dependentRequired")
        yield all(other in value for name in needed if name in value for other in listed(needed, name))
    named, others = mapped(schema, "properties"), schema.get("additionalProperties", True)
    if "patternProperties" in schema:
        others = True  # of which nobody can tell to which they apply
    yield from (fits(document, member, named.get(name, others), depth) for name, member in value.items())


def _of_items(document: Document, value: Sequence[Any], schema: Flat, depth: int) -> Iterator[Verdict]:
    yield _within(len(value), schema, "Items")
    if schema.get("uniqueItems"):
        yield len(set(map(canonical, value))) == len(value)
    first, others = item_schemas(schema)
    for position, item in enumerate(value):
        yield fits(document, item, first[position] if position < len(first) else others, depth)


def _every(verdicts: Iterable[Verdict]) -> Verdict:
    told: Verdict = True
    for one in verdicts:
        if one is False:
            return False
        told = told and one
    return told


def _any(verdicts: Iterable[Verdict]) -> Verdict:
    return _not(_every(map(_not, verdicts)))


def _one(verdicts: Sequence[Verdict]) -> Verdict:
    """Whether it is one of them and no other."""
    if verdicts.count(True) > 1 or all(one is False for one in verdicts):
        return False
    return None if None in verdicts else True


def _not(verdict: Verdict) -> Verdict:
    return None if verdict is None else not verdict


def is_type(value: Any, name: Any) -> bool:
    """Whether ``value`` is of a JSON Schema type; ``1.0`` is an integer, ``true`` is no number."""
    if name in ("integer", "number"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (name == "number" or float(value).is_integer())
    return name in _TYPES and isinstance(value, _TYPES[name])


def _fits_type(value: Any, schema: Flat) -> Verdict:
    names = type_names(schema)
    known = all(isinstance(name, str) for name in names)
    return any(is_type(value, name) for name in names) if known else None


def _fits_text(value: str, schema: Flat) -> Verdict:
    return _within(len(value), schema, "Length") and ("pattern" not in schema or finds(schema["pattern"], value))


def _within(size: int, schema: Flat, what: str) -> bool:
    least, most = _bound(schema, f"min{what}"), _bound(schema, f"max{what}")
    return (least is None or size >= least) and (most is None or size <= most)


def _bound(schema: Flat, word: str) -> Any:
    """A number; None when there is none.

    Raises:
        UnreadableError: What is there is none, as the booleans that draft 4 allowed.
    """
    bound = schema.get(word)
    if word in schema and (isinstance(bound, bool) or not isinstance(bound, (int, float))):
        raise UnreadableError(f"{word} is no number")
    return bound


def fits_number(value: float, schema: Flat) -> bool:
    """Whether ``value`` keeps the bounds.

    Raises:
        UnreadableError: A bound is no number.
    """
    low, high = _bound(schema, "exclusiveMinimum"), _bound(schema, "exclusiveMaximum")
    least, most, multiple = (_bound(schema, word) for word in ("minimum", "maximum", "multipleOf"))
    return (
        (least is None or value >= least)
        and (most is None or value <= most)
        and (low is None or value > low)
        and (high is None or value < high)
        and (multiple is None or Decimal(str(value)) % Decimal(str(multiple)) == 0)
    )
