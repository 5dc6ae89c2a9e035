"""Values that fit schemas, made by chance; whether they do is for a validator to say, not for what is measured."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from pml_hookspecs import CatalogEntry

FORMATS = {
    "date-time": ["2026-03-01T09:30:00Z", "2025-12-31T23:59:59+01:00"],
    "date": ["2026-03-01", "2024-02-29"],
    "email": ["ada@example.org", "g.hopper@example.com"],
    "uri": ["https://example.org/a?b=c", "https://example.com"],
    "uuid": ["2c5ea4c0-4067-11e9-8bad-9b1deb4d3b7d"],
    "time": ["09:30:00Z"],
}
PATTERNS = {
    r"^[a-z]{2,4}_[0-9a-f]{8}$": ["is_0a1b2c3d", "ord_deadbeef"],
    r"^v\d+\.\d+\.\d+$": ["v1.2.3", "v10.0.1"],
}
PLAIN = ["alpha", "Weekly report", "übergrößen", "a b c", "x"]


class NoValueError(Exception):
    """None that fits was found."""


def value_of(schema: Any, root: Any, chance: random.Random, depth: int = 0) -> Any:
    """A value for ``schema``.

    Raises:
        NoValueError: It asks for more than this knows.
    """
    if not isinstance(schema, Mapping) or not schema:
        return chance.choice(PLAIN)
    if depth > 8:
        raise NoValueError
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if "$ref" in schema or choices:
        inner = _target(root, schema["$ref"]) if "$ref" in schema else chance.choice(choices)
        return value_of(inner, root, chance, depth + 1)
    if "const" in schema or "enum" in schema:
        return chance.choice(schema.get("enum", [schema.get("const")]))
    return _of_type(schema, root, chance, depth)


def _of_type(schema: Mapping[str, Any], root: Any, chance: random.Random, depth: int) -> Any:
    types = schema.get("type", "object" if "properties" in schema else "string")
    type_ = chance.choice(types) if isinstance(types, list) else types
    if type_ == "object":
        return _object(schema, root, chance, depth)
    if type_ == "array":
        least, most = schema.get("minItems", 0), schema.get("maxItems", 3)
        count = chance.randint(least, max(least, min(most, least + 2)))
        return [value_of(schema.get("items", {}), root, chance, depth + 1) for _ in range(count)]
    return _scalar(type_, schema, chance)


def _object(schema: Mapping[str, Any], root: Any, chance: random.Random, depth: int) -> dict[str, Any]:
    named = schema.get("properties", {})
    wanted = [n for n in named if n in schema.get("required", ()) or (chance.random() < 0.4 and depth < 4)]
    return {name: value_of(named[name], root, chance, depth + 1) for name in wanted}


def _scalar(type_: str, schema: Mapping[str, Any], chance: random.Random) -> Any:
    if type_ == "boolean":
        return chance.random() < 0.5
    if type_ == "null":
        return None
    if type_ in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        high = schema.get("maximum", low + 50)
        whole = chance.randint(int(low) + 1 if low >= 0 else 0, max(int(low) + 1, int(high)))
        return min(whole, high) if type_ == "integer" else min(whole + 0.5, high)
    if "pattern" in schema:
        if schema["pattern"] not in PATTERNS:
            raise NoValueError
        return chance.choice(PATTERNS[schema["pattern"]])
    if schema.get("format") in FORMATS:
        return chance.choice(FORMATS[schema["format"]])
    return chance.choice(PLAIN)


def _target(root: Any, reference: str) -> Any:
    at = root
    for step in reference.removeprefix("#/").split("/"):
        at = at[step.replace("~1", "/").replace("~0", "~")]
    return at


def arguments_of(entry: CatalogEntry, chance: random.Random) -> dict[str, Any]:
    """Arguments that the tool takes.

    Raises:
        NoValueError: None were found.
    """
    schema = entry.definition["inputSchema"]
    for _ in range(5):
        try:
            made = value_of({"type": "object", **schema}, schema, chance)
        except (KeyError, TypeError, IndexError, AttributeError) as exc:
            raise NoValueError from exc
        try:
            validator = jsonschema_rs.validator_for(dict(schema), validate_formats=True)
            if isinstance(made, dict) and validator.is_valid(json.loads(json.dumps(made))):
                return made
        except ValueError as exc:
            raise NoValueError from exc
    raise NoValueError
