from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pml_tool_notes.shape import MOST_NAMES, is_plain, observed, type_texts

ROWS = {"items": [{"id": 1, "name": "a", "tags": ["x"]}, {"id": 2, "tags": []}], "total": 2}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
)


def text(*values):
    return next(type_texts(observed(list(values))), "")


def test_what_two_answers_have_is_told_with_kinds_and_no_value():
    both = ROWS, {"items": [{"id": 3, "name": "b", "tags": ["y"]}], "total": 1}
    assert text(*both) == "{items: {id: number, name?: string, tags: string[]}[], total: number}"


def test_a_name_that_was_there_once_is_not_told():
    assert text({"alice": 1}) == ""
    assert text({"id": 1, "alice": 1}, {"id": 2}) == "{id: number, [more: string]: any}"


def test_names_that_are_data_are_not_told():
    for names in ({"alice@example.com": 1}, {"2026-11-26": 1}, {"u10023456": 1}, {"do this now": 1}, {"a" * 33: 1}):
        assert text(names, names) == ""
    many = {f"n{number}": number for number in range(MOST_NAMES + 1)}
    assert text(many, many) == ""


def test_members_that_few_objects_have_are_data():
    people = [{name: 1, f"{name}x": 2} for name in ("ann", "bob", "cid", "dan", "eve")]
    assert text([*people, {"ann": 1}]) == ""


def test_scalars_and_arrays():
    assert text("plain") == "string"
    assert text([1, 2], [3.5]) == "number[]"
    assert text([1, "a"]) == "(number | string)[]"
    assert text(None) == text([]) == ""


def test_less_is_told_where_there_is_less_room():
    texts = list(type_texts(observed([ROWS, ROWS])))
    assert texts[0].startswith("{items: {id: number")
    assert "{items: object[], total: number}" in texts
    assert "{items: object[], [more: string]: any}" in texts


def test_a_value_as_large_as_can_be_costs_little():
    deep = []
    for _ in range(500):
        deep = [deep]
    wide = [{f"n{n}": [{"a": 1}] * 50 for n in range(30)}] * 10_000
    assert observed([deep, wide])


@given(st.lists(JSON, max_size=4))
def test_every_value_fits_and_no_odd_name_is_told(values):
    schema = observed(values)
    names = list(_names(schema))
    assert all(map(is_plain, names))
    assert all(len(one) < 20_000 for one in type_texts(schema))


def _names(schema):
    for name, inside in schema.get("properties", {}).items():
        yield name
        yield from _names(inside)
    for inside in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])):
        yield from _names(inside)
