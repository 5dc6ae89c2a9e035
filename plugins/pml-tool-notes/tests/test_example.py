from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_tool_notes.example import example_of, kind_of_text

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "state": {"enum": ["open", "closed"]},
        "order": {"anyOf": [{"type": "null"}, {"enum": ["asc", "desc"]}]},
        "limit": {"type": "integer"},
        "account_id": {"type": "integer"},
        "since": {"type": "string"},
        "deep": {"type": "boolean"},
        "where": {"$ref": "#/$defs/where"},
        "paths": {"type": "array", "items": {"type": "string"}},
        "lang": {"type": "string", "examples": ["en", "x" * 60]},
    },
    "required": ["query"],
    "$defs": {"where": {"type": "object", "properties": {"city": {"type": "string"}, "near": {"const": "sea"}}}},
}


def test_what_the_schema_has_stays_and_of_all_else_the_kind_is_told():
    given = {
        "query": "the divorce papers of Ann",
        "state": "open",
        "order": "desc",
        "limit": 20,
        "account_id": 12,
        "since": "2026-11-26",
        "deep": True,
        "where": {"city": "Bonn", "near": "sea", "secret": 1},
        "paths": ["/home/ann/papers.pdf", "b"],
        "lang": "en",
    }
    assert example_of(given, SCHEMA) == {
        "query": "<text>",
        "state": "open",
        "order": "desc",
        "limit": 20,
        "account_id": "<integer>",
        "since": "<YYYY-MM-DD>",
        "deep": True,
        "where": {"city": "<text>", "near": "sea"},
        "paths": ["<absolute path>"],
        "lang": "en",
    }


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ann@example.com", "<email>"),
        ("2026-11-26T10:00:00Z", "<YYYY-MM-DDThh:mm:ssZ>"),
        ("https://example.com/a?b=c", "<url>"),
        ("/etc/passwd", "<absolute path>"),
        ("~/notes.txt", "<absolute path>"),
        ("C:\\Users\\ann", "<absolute path>"),
        ("src/main.py", "<relative path>"),
        ("notes.txt", "<relative path>"),
        (".", "<relative path>"),
        ("+49 228 123456", "<digits>"),
        ("0b9c2f9e-0d5c-4c1f-9f43-000000000000", "<uuid>"),
        ('{"a": 1}', "<JSON>"),
        ("anything", "<text>"),
        ("a@" + "." * 5000, "<text>"),
    ],
)
def test_kinds_of_texts(text, kind):
    assert kind_of_text(text) == kind


def test_what_tells_no_more_than_the_schema_is_left_out():
    assert example_of({"query": "a"}, SCHEMA) is None
    assert example_of({"query": "a.txt"}, SCHEMA) == {"query": "<relative path>"}
    assert example_of({}, SCHEMA) is None
    assert example_of({"query": "a.txt"}, None) is None


def test_arguments_of_another_definition_are_left_out():
    assert example_of({"query": "a", "older": 1}, SCHEMA) is None
    assert example_of({"limit": 1}, SCHEMA) is None


def test_large_and_private_numbers_are_left_out():
    schema = {"properties": {name: {} for name in ("limit", "pin", "lat", "phone")}}
    given = {"limit": 4_000_000, "pin": 123, "lat": 52, "phone": 112}
    assert example_of(given, schema) == dict.fromkeys(given, "<integer>")
    assert example_of({"limit": 52.52}, schema) == {"limit": "<number>"}


@pytest.mark.parametrize(
    "schema", [{"properties": []}, {"properties": {"a": True}}, {"properties": {"a": {"enum": 3}}}]
)
def test_odd_schemas_are_no_reason_to_fail(schema):
    assert "private" not in json.dumps(example_of({"a": "private"}, schema))


@given(
    st.dictionaries(st.sampled_from(sorted(SCHEMA["properties"])), st.text(min_size=9) | st.integers(min_value=9999))
)
def test_no_free_value_is_ever_told(arguments):
    shown = json.dumps(example_of(arguments, SCHEMA))
    for value in arguments.values():
        assert json.dumps(value) not in shown
