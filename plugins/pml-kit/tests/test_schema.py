"""The reader of schemas: what it concludes holds of every value, and is within its budget."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import jsonschema_rs
import pytest
from hypothesis import given, settings
from random_schemas import DEFS, SCHEMAS, VALUES, document, valid

from pml_kit.schema.budget import Budget, OverBudgetError, UnreadableError
from pml_kit.schema.document import Document
from pml_kit.schema.intersection import merged, same
from pml_kit.schema.members import parameters, part_at
from pml_kit.schema.patterns import finds
from pml_kit.schema.type_tree import Array, Const, Member, Object, Union, read
from pml_kit.schema.verdicts import fits
from pml_testing.hostile_schemas import unfair

LIMIT = settings(max_examples=200, deadline=None, derandomize=True)


@given(SCHEMAS, VALUES)
@LIMIT
def test_what_is_told_of_a_value_is_what_a_validator_says(schema, value):
    whole = document(schema)
    try:
        told = fits(Document(whole), value, whole)
    except UnreadableError:
        return
    assert told is None or told == valid(value, schema)


@given(SCHEMAS, SCHEMAS, VALUES)
@LIMIT
def test_what_fits_two_schemas_fits_both_in_one(one, other, value):
    if not (isinstance(one, dict) and isinstance(other, dict) and valid(value, one) and valid(value, other)):
        return
    both = merged(one, other)
    assert both is not None
    assert valid(value, both)


CLOSED = {"properties": {"a": {"type": "integer"}}, "additionalProperties": False}


def test_of_two_objects_of_which_one_is_closed_what_the_other_names_is_not_there():
    both = merged(CLOSED, {"properties": {"b": {"type": "string"}}, "required": ["b"]})
    assert both == {
        "properties": {"a": {"type": "integer"}, "b": False},
        "additionalProperties": False,
        "required": ["b"],
    }


def told(work, whole):
    """What is told of a schema; None where there is no telling, which these are too small for to be work."""
    try:
        return work(Document(whole), whole)
    except OverBudgetError:
        raise
    except UnreadableError:
        return None


@given(SCHEMAS, VALUES)
@LIMIT
def test_what_fits_a_schema_fits_one_of_its_branches_and_what_it_is_folded_into(schema, value):
    whole = document(schema)
    before = copy.deepcopy(whole)
    flats = told(Document.branches, whole)
    folded = told(Document.flat, whole)
    assert whole == before
    if valid(value, schema):
        assert flats is None or any(valid(value, flat) for flat in flats)
        assert folded is None or valid(value, folded)


def of_type(value, type_) -> bool:  # noqa: PLR0911 - one for each kind
    """Whether a value is of a type that was read."""
    match type_:
        case Const(value=constant):
            return same(constant, value)
        case Array(items=items):
            return isinstance(value, list) and all(of_type(item, items) for item in value)
        case Union(members=members):
            return any(of_type(value, member) for member in members)
        case Object(members=members, rest=rest):
            if not isinstance(value, Mapping):
                return False
            named = {member.name: member.type for member in members}
            return all(m.name in value for m in members if m.required) and all(
                of_type(value[name], named.get(name, rest or "any")) for name in value
            )
    names = {"string": str, "boolean": bool, "null": type(None), "any": object, "number": (int, float)}
    if type_ == "integer":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and float(value).is_integer()
    return isinstance(value, names[type_]) and not (type_ == "number" and isinstance(value, bool))


def test_types_are_read_with_references_and_parts_folded_in():
    node = {"$ref": "#/$defs/n"}
    schema = {
        "allOf": [{"properties": {"n": node}, "required": ["n"]}, {"properties": {"x": {"type": "integer"}}}],
        "properties": {"x": {"default": 3}},
        "$defs": {"n": {"type": ["array", "null"], "items": {"enum": ["a", 1]}}},
    }
    listed = Union((Array(Union((Const("a"), Const(1)))), "null"))
    # `default` stands where the member itself is written.
    assert read(schema) == Object((Member("x", "integer", False), Member("n", listed, True)))
    assert read(node, root=schema) == listed


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "enum": [str(i) for i in range(30)]},
        {"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "x"}]},
    ],
)
def test_what_has_too_many_choices_or_says_nothing_of_types_in_them_is_of_its_own_type(schema):
    assert read(schema) == "string"


@given(SCHEMAS, VALUES)
@LIMIT
def test_what_fits_a_schema_is_of_the_type_that_is_read(schema, value):
    if valid(value, schema):
        told = read(document(schema))
        # A schema that says nothing of the kind of its values is read as that of which it names members.
        assert of_type(value, told) or not isinstance(value, Mapping), told


def test_a_pattern_is_tried_by_a_linear_engine_or_not_at_all():
    assert finds("^(a+)+$", "a" * 5000 + "!") is False
    assert finds("^(a+)+$", "a") is True
    for pattern in ("^(?=(a+)+$)b", r"(a+)\1", "((a{100}){100}){100}", "(", 7):
        assert finds(pattern, "a" * 30 + "!") is None
    assert finds("a", "a" * 10_001) is None


def test_names_are_walked_through_outer_ones_first_and_no_deeper_and_no_more_than_asked():
    leaf = {"properties": {"d": {}}}
    schema = {"properties": {"a": {"properties": {"b": {"items": leaf}}}, "c": {"items": leaf}, "odd": 3}}
    assert [name for name, _ in parameters(schema, deepest=3, most=9)] == ["a", "b", "d", "c", "d"]
    assert [name for name, _ in parameters(schema, deepest=1, most=9)] == ["a", "c"]
    assert [name for name, _ in parameters(schema, deepest=3, most=2)] == ["a", "b"]


def test_what_a_validator_complains_of_is_found():
    schema = {"properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": DEFS, "allOf": [{"required": ["b"]}]}
    (error,) = jsonschema_rs.validator_for(schema).iter_errors({"b": 1, "a": {"b": "x"}})
    assert part_at(schema, error.schema_path[:-1]) == DEFS["node"]["properties"]["b"]
    (error,) = jsonschema_rs.validator_for(schema).iter_errors({})
    assert part_at(schema, error.schema_path[:-1]) == {"required": ["b"]}
    assert part_at(schema, []) is schema
    for path in (["nowhere", 3], ["allOf", 7], ["properties", "a", "$ref"]):
        assert part_at(schema, path) == {}


FAR = {"a": "a" * 30 + "!", "p0": {"a": 1}}


READERS = {
    "folded": Document.flat,
    "branches": Document.branches,
    "values": lambda of, whole: fits(of, FAR, whole),
    "types": lambda _of, whole: read(whole),
    "names": lambda _of, whole: list(parameters(whole, deepest=4, most=200)),
}


@pytest.mark.parametrize("reader", READERS)
def test_no_schema_is_more_work_than_its_budget(reader):
    def within(schema):
        return READERS[reader](Document(schema, Budget(2_000)), schema)

    assert list(unfair(within)) == []
