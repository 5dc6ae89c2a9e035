"""Which arguments decide where a tool sends, writes or deletes."""

from __future__ import annotations

import pytest

from pml_flows.arguments import MOST_LEAVES, Arguments
from pml_flows.settings import Settings
from pml_hookspecs import CatalogEntry, ToolId

SCHEMA = {
    "type": "object",
    "$defs": {"person": {"type": "object", "properties": {"name": {"type": "string"}, "email": {"type": "string"}}}},
    "properties": {
        "to": {"type": "array", "items": {"$ref": "#/$defs/person"}},
        "color": {"enum": ["red", "blue"]},
        "urgent": {"type": "boolean"},
        "amount": {"type": "number"},
        "row_id": {"type": "integer"},
        "channel_id": {"type": "string"},
        "filePath": {"type": "string"},
        "body": {"type": "string"},
        "where": {"type": "string", "format": "uri"},
        "x": {"type": "string", "description": "The URL that is opened"},
        "y": {"type": ["string", "null"]},
        "emailBody": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}
GIVEN = {
    "to": [{"name": "n", "email": "e@x"}],
    "color": "red",
    "urgent": True,
    "amount": 5,
    "row_id": 7,
    "channel_id": "C1",
    "filePath": "/a",
    "body": "b",
    "where": "w",
    "x": "u",
    "y": "z",
    "emailBody": "t",
}


def counted(settings=None, **hints):
    entry = CatalogEntry(ToolId("s:t"), "s", {"name": "t", "inputSchema": SCHEMA, "annotations": hints}, 1)
    found = Arguments(settings or Settings()).counting("s:t", entry, (), GIVEN)
    return sorted({str(place[0]) for place, _ in found})


@pytest.mark.parametrize(
    ("hints", "names"),
    [
        ({"readOnlyHint": True, "openWorldHint": False}, []),
        ({"readOnlyHint": True}, ["channel_id", "to", "where", "x"]),
        ({"destructiveHint": False}, ["channel_id", "filePath", "to", "where", "x"]),
        ({"destructiveHint": True}, ["channel_id", "filePath", "row_id", "to", "where", "x", "y"]),
        ({}, ["channel_id", "filePath", "row_id", "to", "where", "x", "y"]),
    ],
)
def test_by_schema_and_annotations(hints, names):
    assert counted(**hints) == names


def test_a_tool_that_nobody_knows_may_do_anything():
    found = dict(
        Arguments(Settings()).counting("s:t", None, ("a", 0), {"b": "text", "on": True, "n": 3, "nothing": None})
    )
    assert found == {("a", 0, "b"): "text"}


def test_the_operator_says_which():
    chosen = Settings(arguments={"s:*": ("amount", "body")})
    assert counted(settings=chosen) == ["amount", "body"]
    assert counted(settings=Settings(arguments={"s:t": ()})) == []
    assert counted(settings=Settings(arguments={"other:*": ("body",)}), destructiveHint=False)[0] == "channel_id"


def test_of_too_many_values_all_count_as_one():
    many = {"to": ["a"] * (MOST_LEAVES + 1)}
    found = list(Arguments(Settings()).counting("s:t", None, (), many))
    assert found == [((), many)]
