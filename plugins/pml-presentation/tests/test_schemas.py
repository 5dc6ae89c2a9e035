"""Schemas as clients see them."""

from __future__ import annotations

from copy import deepcopy

import pytest

from pml_presentation import schemas

PATH, MODE = {"type": "string"}, {"enum": ["a", "b"]}


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (
            {"type": "object", "properties": {"path": PATH, "mode": MODE}, "required": ["path", "mode"]},
            {"type": "object", "properties": {"mode": {**MODE, "default": "a"}}},
        ),
        (
            {"allOf": [{"properties": {"path": PATH}, "required": ["path", "x"]}, {"properties": {"x": {}}}]},
            {"allOf": [{"properties": {}, "required": ["x"]}, {"properties": {"x": {}}}]},
        ),
        (
            {"dependentRequired": {"path": ["x"], "x": ["path", "y", "mode"]}},
            {"dependentRequired": {"x": ["y"]}},
        ),
        (
            {"$ref": "#/$defs/In", "$defs": {"In": {"type": "object", "properties": {"path": PATH, "x": {}}}}},
            {
                "type": "object",
                "properties": {"x": {}},
                "$defs": {"In": {"type": "object", "properties": {"path": PATH, "x": {}}}},
            },
        ),
        ({"$ref": "#/$defs/Missing"}, {"$ref": "#/$defs/Missing"}),
        ({"$ref": "#"}, {"$ref": "#"}),
        ({"properties": {"mode": True}}, {"properties": {"mode": {"default": "a"}}}),
        ({}, {}),
        (True, True),
        (None, None),
        ({"properties": [], "required": "path", "allOf": {}}, {"properties": [], "required": "path", "allOf": {}}),
    ],
)
def test_what_is_fixed_is_not_shown(schema, shown):
    before = deepcopy(schema)
    assert schemas.shown(schema, {"path"}, {"mode": "a"}) == shown
    assert schema == before


def test_a_schema_that_refers_to_itself_ends():
    schema = {"$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}], "properties": {"path": {}}}}, "$ref": "#/$defs/A"}
    assert "path" in schemas.declared(schema)
    assert schemas.shown(schema, {"path"}, {})["properties"] == {}


def test_declared_arguments():
    schema = {"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}, {"$ref": "#/$defs/C"}]}
    schema["$defs"] = {"C": {"properties": {"c": {}}}}
    assert schemas.declared(schema) == {"a", "b", "c"}
    assert schemas.declared(None) == frozenset()
