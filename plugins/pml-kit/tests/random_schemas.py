"""Schemas and values at random, for what must hold of any."""

from __future__ import annotations

import jsonschema_rs
from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["x", "sy", ""]), st.just(1.5), st.just(1.0)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
DEFS = {
    "text": {"type": "string", "minLength": 1},
    "list": {"type": "array", "items": {"$ref": "#/$defs/text"}},
    "node": {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}, "b": {"type": "integer"}}},
}
LEAVES = st.one_of(
    st.sampled_from([{}, True, False, {"type": "string", "pattern": "^s"}, {"type": "string", "pattern": "(?=s)"}]),
    TYPES.map(lambda name: {"type": name}),
    st.lists(TYPES, min_size=1, max_size=3, unique=True).map(lambda names: {"type": names}),
    SCALARS.map(lambda value: {"const": value}),
    st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr).map(lambda values: {"enum": values}),
    st.sampled_from([{"$ref": f"#/$defs/{name}"} for name in DEFS]),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": st.integers(-3, 3),
            "exclusiveMaximum": st.integers(-3, 3),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
        },
    ),
)


def _more(inner: st.SearchStrategy) -> st.SearchStrategy:
    objects = st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, unique=True, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, min_size=1, max_size=1),
            "minProperties": st.integers(0, 2),
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, unique=True, max_size=1), max_size=1),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
        },
    )
    arrays = st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("array"),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": st.integers(0, 2),
            "uniqueItems": st.booleans(),
            "contains": inner,
        },
    )
    parts = st.lists(inner, min_size=1, max_size=3)
    joined = st.builds(lambda word, of: {word: of}, st.sampled_from(["anyOf", "oneOf", "allOf"]), parts)
    conditions = st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, inner, inner, inner)
    return objects | arrays | joined | conditions | st.builds(lambda of: {"not": of}, inner)


SCHEMAS = st.recursive(LEAVES, _more, max_leaves=8)


def document(schema: object) -> dict:
    """A whole of it, with what it may refer to."""
    return {"$defs": DEFS, **schema} if isinstance(schema, dict) else {"$defs": DEFS, "allOf": [schema]}


def valid(value: object, schema: object) -> bool:
    """What a real validator says of a value."""
    return jsonschema_rs.validator_for(document(schema)).is_valid(value)
