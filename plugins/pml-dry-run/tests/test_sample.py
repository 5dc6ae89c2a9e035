from __future__ import annotations

import copy
import json

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_dry_run.sample import FORMATS, CannotSampleError, sample
from pml_testing.work import counted

PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 18}}}


def closed(**properties) -> dict:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


COMMON = {
    "anything": ({}, "simulated"),
    "types": (
        closed(**{t[0]: {"type": t} for t in ("string", "integer", "boolean", "null")}),
        {"s": "simulated", "i": 1, "b": True, "n": None},
    ),
    "optional members": (PERSON, {"name": "simulated", "age": 18}),
    "required but not described": ({"type": "object", "required": ["x"]}, {"x": "simulated"}),
    "described for all others": ({"required": ["x"], "additionalProperties": {"type": "integer"}}, {"x": 1}),
    "constant": ({"const": {"a": [1]}}, {"a": [1]}),
    "enumeration": ({"type": "string", "enum": ["red", "green"]}, "red"),
    "enumeration with bounds": ({"enum": [1, 5, 9], "minimum": 3}, 5),
    "example": ({"type": "string", "examples": ["Ada"]}, "Ada"),
    "example that breaks the type": ({"type": "string", "examples": [3, "Ada"]}, "Ada"),
    "default": ({"type": "integer", "default": 7}, 7),
    "default that breaks the rest": ({**PERSON, "required": ["name"], "default": {}}, {"name": "simulated", "age": 18}),
    "pattern with an example": ({"type": "string", "pattern": "^a+$", "examples": ["aa"]}, "aa"),
    "array": ({"type": "array", "items": {"type": "integer"}}, [1]),
    "array with least items": ({"type": "array", "items": {"const": "x"}, "minItems": 3}, ["x", "x", "x"]),
    "array of nothing": ({"type": "array", "maxItems": 0}, []),
    "tuple": ({"prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": False}, [1, True]),
    "array that cannot be filled": ({"type": "array", "items": False}, []),
    "short text": ({"type": "string", "maxLength": 3}, "sim"),
    "long text": ({"type": "string", "minLength": 12}, "simulatedsim"),
    "date": ({"type": "string", "format": "date"}, "2026-01-01"),
    "unknown format": ({"type": "string", "format": "color"}, "simulated"),
    "bounds": ({"type": "integer", "minimum": 5, "maximum": 9}, 5),
    "exclusive bounds": ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}, 0.25),
    "below zero": ({"type": "integer", "maximum": -1}, -1),
    "multiple": ({"type": "integer", "multipleOf": 5, "minimum": 11}, 15),
    "nullable by type": ({"type": ["null", "string"]}, "simulated"),
    "nullable by choice": ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
    "first of any": ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, 1),
    "a choice of which one allows nothing": ({"anyOf": [False, {"type": "string", "pattern": "x"}]}, "x"),
    "not": ({"type": "string", "not": {"maxLength": 3}}, "simulated"),
    "one of": ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "simulated"),
    "one of, told apart by a constant": (
        {"oneOf": [closed(kind={"const": "a"}, x={"type": "integer"}), closed(kind={"const": "b"})]},
        {"kind": "a", "x": 1},
    ),
    "a choice beside members": (
        {**PERSON, "anyOf": [{"required": ["name"]}, {"required": ["age"]}]},
        {"name": "simulated", "age": 18},
    ),
    "all of": (
        {"allOf": [PERSON, {"properties": {"age": {"maximum": 20}, "id": {"type": "integer"}}, "required": ["id"]}]},
        {"name": "simulated", "age": 18, "id": 1},
    ),
    "number and integer": ({"allOf": [{"type": "number"}, {"type": "integer"}]}, 1),
    "reference": ({"$ref": "#/$defs/p", "$defs": {"p": PERSON}}, {"name": "simulated", "age": 18}),
    "old reference": ({"items": {"$ref": "#/definitions/a~1b"}, "definitions": {"a/b": {"const": 1}}}, [1]),
    "a list that ends": (
        {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}},
        {"next": {"next": {"next": {"next": {"next": {"next": {}}}}}}},
    ),
}


@pytest.mark.parametrize(("schema", "value"), COMMON.values(), ids=COMMON)
def test_common_schemas_get_a_fitting_value(schema, value):
    assert json.dumps(sample(schema)) == json.dumps(value)
    assert jsonschema_rs.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize("name", FORMATS)
def test_texts_in_a_format_are_in_it(name):
    checked = jsonschema_rs.Draft202012Validator({"format": name}, validate_formats=True)
    assert checked.is_valid(sample({"type": "string", "format": name}))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": r"^(?=x)y$"},
        {"type": "string", "pattern": r"^a{1000}$"},
        {"type": "object", "properties": {"a": {"pattern": "("}}, "required": ["a"]},
        {"not": {"type": "string"}},
        {"type": "object", "minProperties": 2},
        {"type": "array", "minItems": 100},
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "uniqueItems": True},
        {"type": "string", "minLength": 10**9},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#"},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"allOf": [False]},
        {"enum": []},
        {"enum": ["a"], "type": "integer"},
        {"anyOf": [False, {"type": "string", "pattern": "(?=x)"}]},
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        {"type": "file"},
        {"if": {}, "then": False},
        {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}}},
        {"minimum": "low"},
        {"properties": 3},
        {"type": {"a": 1}},
        {"allOf": 1},
        {"anyOf": {"a": 1}},
        {"type": "integer", "minimum": 1e400},
        {"type": "integer", "multipleOf": 0, "minimum": 3},
        {"patternProperties": {"^a": {"type": "integer"}}, "properties": {"a": {}}},
    ],
    ids=str,
)
def test_when_no_value_is_sure_to_fit_there_is_none(schema):
    with pytest.raises(CannotSampleError):
        sample(schema)


def test_a_schema_that_would_take_forever_is_given_up():
    branches = {"anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x"}], "required": ["a"]}
    explosive = {"$ref": "#/$defs/x", "$defs": {"x": {**branches, "properties": {"a": {"$ref": "#/$defs/x"}}}}}
    with counted() as work, pytest.raises(CannotSampleError):
        sample(explosive)
    assert work.calls < 1_000_000


def test_a_very_wide_schema_gets_what_it_requires():
    wide = closed(**{f"p{i}": {"type": "integer"} for i in range(3000)})
    assert len(sample(wide)) == 3000
    assert len(sample({**wide, "required": []})) == 499


def schemas():
    scalars = st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("string")},
            optional={
                "minLength": st.integers(0, 20),
                "maxLength": st.integers(0, 20),
                "format": st.sampled_from(["date", "email", "uuid", "other"]),
                "pattern": st.just("^s"),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.sampled_from(["integer", "number"])},
            optional={
                "minimum": st.integers(-50, 50) | st.floats(-50, 50, width=16),
                "maximum": st.integers(-50, 50),
                "exclusiveMinimum": st.integers(-50, 50),
                "exclusiveMaximum": st.floats(-50, 50, width=16),
                "multipleOf": st.sampled_from([1, 2, 5, 0.5, 0.1]),
            },
        ),
        st.fixed_dictionaries({"enum": st.lists(st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=3))}),
        st.fixed_dictionaries({"const": st.integers(0, 3) | st.booleans()}),
        st.fixed_dictionaries({"default": st.integers(0, 3)}, optional={"type": st.just("string")}),
        st.sampled_from([{}, True, False, {"type": "boolean"}, {"type": ["string", "null"]}, {"$ref": "#/$defs/d"}]),
    )
    names = st.sampled_from("abc")

    def more(inner):
        objects = st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(names, inner, max_size=3)},
            optional={
                "required": st.lists(names, unique=True),
                "additionalProperties": st.booleans() | inner,
                "minProperties": st.integers(0, 3),
                "maxProperties": st.integers(0, 3),
                "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1),
                "anyOf": st.lists(inner, min_size=1, max_size=2),
                "default": st.dictionaries(names, st.integers(0, 3)),
            },
        )
        arrays = st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={
                "items": inner,
                "prefixItems": st.lists(inner, min_size=1, max_size=2),
                "minItems": st.integers(0, 4),
                "maxItems": st.integers(0, 4),
                "uniqueItems": st.booleans(),
                "contains": inner,
            },
        )
        parts = st.lists(inner, min_size=1, max_size=3)
        joined = st.builds(lambda key, parts: {key: parts}, st.sampled_from(["anyOf", "oneOf", "allOf"]), parts)
        return objects | arrays | joined | st.builds(lambda s: {"not": s}, inner)

    return st.recursive(scalars, more, max_leaves=8)


def test_a_part_whose_pattern_the_value_does_not_match_does_not_count_as_fitting():
    parts = [{"properties": {"b": {"type": "string", "pattern": "^s"}}}]
    schema = {"type": "object", "properties": {"b": {"enum": [""]}}, "required": ["b"], "anyOf": parts}
    with pytest.raises(CannotSampleError):
        sample(schema)
    assert sample({**schema, "properties": {"b": {"enum": ["so"]}}}) == {"b": "so"}


@given(schema=schemas(), definition=schemas())
def test_what_is_made_up_is_always_valid_and_always_the_same(schema, definition):
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"], "$defs": {"d": definition}}
    before = copy.deepcopy(whole)
    try:
        value = sample(whole)
    except CannotSampleError:
        return
    validator = jsonschema_rs.Draft202012Validator(whole)
    assert validator.is_valid(value), value
    assert json.dumps(value) == json.dumps(sample(copy.deepcopy(whole)))
    assert whole == before
