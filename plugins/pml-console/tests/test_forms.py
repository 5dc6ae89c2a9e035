from __future__ import annotations

import pytest

from pml_console.pages.forms import MOST_FIELDS, FieldError, arguments_of, fields_of

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where it is"},
        "head": {"type": "integer"},
        "deep": {"type": "boolean"},
        "unit": {"enum": ["C", "F", 1]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["unit"],
}


def filled(**values):
    return arguments_of(fields_of(SCHEMA, {f"argument.{name}": value for name, value in values.items()}))


def test_a_form_asks_for_what_is_required_first_and_in_its_kind():
    fields = fields_of(SCHEMA, {"argument.path": "/x"})
    assert [(one.name, one.kind) for one in fields] == [
        ("unit", "choice"), ("path", "text"), ("head", "number"), ("deep", "boolean"), ("tags", "json")
    ]  # fmt: skip
    assert (fields[0].choices, fields[1].about, fields[1].value) == (('"C"', '"F"', "1"), "Where it is", "/x")


def test_what_is_filled_in_becomes_arguments():
    assert filled(path="a b", head="7", deep="true", unit='"C"', tags='["x"]') == {
        "unit": "C", "path": "a b", "head": 7, "deep": True, "tags": ["x"]
    }  # fmt: skip
    assert filled(unit="1", head=" ", tags="") == {"unit": 1}


@pytest.mark.parametrize(("name", "value"), [("head", "seven"), ("head", "true"), ("tags", "[1"), ("head", '"7"')])
def test_what_is_no_value_is_said_by_name(name, value):
    with pytest.raises(FieldError, match=name):
        filled(**{name: value})


@pytest.mark.parametrize(
    "schema", [None, True, [], {"properties": 5}, {"properties": {"a": 5}, "required": "a"}, {"required": [1]}]
)
def test_schemas_of_any_quality_have_a_form(schema):
    assert arguments_of(fields_of(schema, {})) == {}


def test_a_form_is_no_longer_than_anybody_fills_in():
    assert len(fields_of({"properties": {f"p{n}": {} for n in range(10_000)}}, {})) == MOST_FIELDS
