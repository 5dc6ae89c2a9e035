"""What may stand in the tables, and what is told of what may not."""

from __future__ import annotations

import datetime as dt

import pytest

from pml_kit.errors import OperatorError
from pml_presentation.settings import Settings
from pml_settings.validation import validate_table


def read(table):
    return validate_table(Settings, table, "presentation", ())


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"tools": {"s:a": {"name": "a b"}}}, "name 'a b' is none that clients take"),
        ({"tools": {"s:a": {"name": "s:b"}}}, "name 's:b' is none that clients take"),
        ({"tools": {"s:a": {"name": "x" * 65}}}, "1 to 64 letters"),
        ({"tools": {"s:a": {"nmae": "b"}}}, "unknown key"),
        (
            {"tools": {"s:a": {"arguments": {"at": dt.date(2026, 1, 1)}}}},
            "arguments.at cannot be written as JSON",
        ),
        ({"tools": {"s:a": {"defaults": {"at": float("nan")}}}}, "defaults.at cannot be written as JSON"),
        ({"tools": {"s:a": {"arguments": {"x": 1}, "defaults": {"x": 1}}}}, "x has both a fixed value and a default"),
        ({"tools": {"a": {"hidden": True}}}, "no tool is called 'a'; give SERVER:TOOL"),
        ({"tools": {"s:*": {"hidden": True}}}, "'s:*' is a pattern; a table is about one tool"),
        ({"tools": {"pml:call_tool": {"hidden": True}}}, "'pml:call_tool' is the gateway's own"),
        ({"tools": {"s:a": {"name": "x"}, "t:b": {"name": "x"}}}, "'s:a' and 't:b' would both be called 'x'"),
        ({"tools": {"s:a": {"name": "t__b"}, "t:b": {"title": "B"}}}, "'s:a' and 't:b' would both be called 't__b'"),
        ({"toolsets": {"r": {}}}, "nothing is in it"),
        ({"toolsets": {"r": {"tools": ["list"]}}}, "no tool is called 'list'; give SERVER:TOOL"),
        ({"toolsets": {"r": {"servers": ["s*"]}}}, "'s*' is no server's name"),
        ({"toolsets": {"r": {"tags": ["t"]}}}, "toolsets.r.tags: no tool has 't'"),
        ({"toolsets": {"a b": {"servers": ["s"]}}}, "'a b' is no name"),
        ({"endpoints": {"work": ["r"]}}, "endpoints.work: there is no toolset 'r'; there are: none"),
        ({"keys": {"ada": ["r"]}, "toolsets": {"q": {"servers": ["s"]}}}, "keys.ada: there is no toolset 'r'"),
    ],
)
def test_mistakes_are_told(table, told):
    with pytest.raises(OperatorError) as refused:
        read(table)
    assert told in str(refused.value)
    assert "presentation" in str(refused.value)


def test_every_mistake_is_told_at_once():
    with pytest.raises(OperatorError) as refused:
        read({"tools": {"s:*": {}, "pml:x": {}}, "endpoints": {"work": ["r"]}})
    assert all(part in str(refused.value) for part in ("s:*", "pml:x", "endpoints.work"))


def test_what_fits_is_taken():
    tool = {"name": "b", "arguments": {"x": None, "y": [1, {"z": 1.5}]}, "tags": ["t"]}
    settings = read({"tools": {"s:a": tool}, "toolsets": {"r": {"tags": ["t"]}}, "keys": {"*": ["r"]}})
    assert settings.tools["s:a"].arguments == {"x": None, "y": [1, {"z": 1.5}]}
