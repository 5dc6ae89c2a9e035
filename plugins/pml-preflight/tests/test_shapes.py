"""What the pre-flight concludes from schemas holds of every value that fits them."""

from __future__ import annotations

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from pml_preflight.references import scan
from pml_preflight.shapes import ANYTHING, MissingPath, SubSchema, clash, follow, of_value, types

NAMES = st.sampled_from(["a", "b", "c", "due date"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["x", "y", ""]), st.just(1.5))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
DEFS = {"text": {"type": "string"}, "list": {"type": "array", "items": {"$ref": "#/$defs/text"}}}


def nodes(inner):
    members = st.dictionaries(NAMES, inner, max_size=3)
    return st.one_of(
        st.builds(
            lambda named, wanted, closed: {
                "type": "object",
                "properties": named,
                "required": [name for name in named if wanted],
                **({"additionalProperties": False} if closed else {}),
            },
            members,
            st.booleans(),
            st.booleans(),
        ),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(
            lambda items: {"type": "array", "prefixItems": items, "items": False},
            st.lists(inner, min_size=1, max_size=2),
        ),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"allOf": parts}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda more: {"type": "object", "additionalProperties": more}, inner),
    )


LEAVES = st.one_of(
    st.just({}),
    st.just(True),
    TYPES.map(lambda name: {"type": name}),
    st.lists(TYPES, min_size=1, max_size=3, unique=True).map(lambda names: {"type": names}),
    SCALARS.map(lambda value: {"const": value}),
    st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr).map(lambda values: {"enum": values}),
    st.sampled_from([{"$ref": "#/$defs/text"}, {"$ref": "#/$defs/list"}]),
)
SCHEMAS = st.recursive(LEAVES, nodes, max_leaves=6)


def document(schema):
    return {"$defs": DEFS, "allOf": [schema]} if schema is True else {**schema, "$defs": DEFS}


def fits(value, schema):
    return jsonschema_rs.validator_for(document(schema)).is_valid(value)


def part(schema):
    made = document(schema)
    return SubSchema(made, made)


def below(value, path):
    """What stands there; raises LookupError or TypeError when nothing does."""
    for key in path:
        if isinstance(value, str):  # whose characters are no parts of it
            raise TypeError(value)
        value = value[str(key)] if isinstance(value, dict) else value[int(key)]
    return value


@given(SCHEMAS, SCHEMAS, VALUES)
def test_a_clash_is_only_told_where_no_value_fits_both(out, into, value):
    if clash(part(out), part(into)) and fits(value, out):
        # Empty arrays and objects whose members are left out fit everything; nobody hands them on for that.
        hollow = isinstance(value, (list, dict))
        assert hollow or not fits(value, into)


@given(SCHEMAS, VALUES, st.lists(st.one_of(NAMES, st.integers(0, 2)), min_size=1, max_size=3))
def test_what_is_certainly_lost_is_in_no_value_and_what_is_found_says_its_type(schema, value, path):
    found = follow(part(schema), tuple(path))
    if not fits(value, schema):
        return
    try:
        there = below(value, path)
    except (LookupError, TypeError, ValueError):
        return
    if isinstance(found, MissingPath):
        assert not found.certain
        return
    allowed = types(found)
    if allowed is not None:
        assert any(jsonschema_rs.validator_for({"type": name}).is_valid(there) for name in allowed)


@given(VALUES)
def test_the_schema_of_a_value_fits_it(value):
    assert jsonschema_rs.validator_for(of_value(value)).is_valid(value)


@given(st.text(alphabet='a{}\\.[]" ', max_size=20))
def test_any_text_can_be_scanned(text):
    scanned = scan({"x": [text]})
    assert isinstance(scanned.value["x"][0], str)
    assert all(slot.path == ("x", 0) for slot in scanned.slots)


def test_schemas_that_refer_to_themselves_or_elsewhere_say_nothing():
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "name": {"type": "string"}}}
    assert types(follow(SubSchema(tree, tree), ("next",) * 5 + ("name",))) == {"string"}
    for odd in ({"$ref": "#"}, {"$ref": "#/nowhere"}, {"$ref": "http://example.org/x"}, {"$dynamicRef": "#x"}):
        assert follow(SubSchema(odd, odd), ("a",)) is ANYTHING
        assert clash(SubSchema(odd, odd), SubSchema(tree, tree)) == ""
    deep = {"anyOf": [{"anyOf": [{"type": "string"}] * 9}] * 9}
    assert types(SubSchema(deep, deep)) is None
