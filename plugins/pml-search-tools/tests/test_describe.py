from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_search_tools.describe import first_sentence, signature


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("", ""),
        ("Read a file", "Read a file"),
        ("Read a file. Fails for folders.", "Read a file."),
        ("\n   Read a file\n   from disk.\n\n   Args: path", "Read a file from disk."),
        ("Read a file\n\nArgs: path", "Read a file"),
        ("Search docs, e.g. of React. Slow.", "Search docs, e.g. of React."),
        ("Version 3.11 only! Really?", "Version 3.11 only!"),
        ("读取文件。第二句。", "读取文件。"),
    ],
)
def test_the_first_sentence_is_taken(description: str, expected: str) -> None:
    assert first_sentence(description) == expected


@pytest.mark.parametrize("word", ["word ", "x", "字"])
def test_a_long_sentence_is_cut_and_says_so(word: str) -> None:
    text = first_sentence(word * 200)
    assert len(text) <= 160
    assert text.endswith("…")


def schema(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or []}


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ""),
        (schema(), ""),
        (schema(["path"], head={"type": "integer"}, path=STRING), "path: string, head?: integer"),
        (schema(mode={"enum": ["a", "b", None]}), 'mode?: "a"|"b"|null'),
        (schema(mode={"const": 1}), "mode?: 1"),
        (schema(mode={"type": "string", "enum": ["x" * 50, "y" * 50, "z" * 50]}), "mode?: string"),
        (schema(tags={"type": "array", "items": STRING}), "tags?: string[]"),
        (schema(tags={"type": "array", "items": {"enum": [1, 2]}}), "tags?: (1|2)[]"),
        (schema(tags={"type": "array"}), "tags?: any[]"),
        (schema(n={"type": ["integer", "null"]}), "n?: integer"),
        (schema(n={"anyOf": [{"type": "integer"}, STRING, {"type": "null"}]}), "n?: integer|string"),
        (schema(n={"oneOf": []}), "n?: any"),
        (schema(n={"type": "null"}), "n?: null"),
        (schema(edits={"type": "array", "items": schema(["old"], old=STRING)}), "edits?: {old: string}[]"),
        (schema(o={"type": "object"}), "o?: object"),
        (schema(o=schema(**{f"parameter_{n}": STRING for n in range(20)})), "o?: object"),
        ({**schema(o={"$ref": "#/$defs/O"}), "$defs": {"O": schema(["a"], a=STRING)}}, "o?: {a: string}"),
        (schema(o={"$ref": "#/$defs/O"}), "o?: any"),
        (schema(o={"$ref": "https://example.com/o"}), "o?: any"),
        (schema(o=True), "o?: any"),
    ],
)
def test_parameters_are_shown_with_their_types(given: dict[str, Any], expected: str) -> None:
    assert signature(given) == expected


def test_what_does_not_fit_is_left_out_after_the_required_ones() -> None:
    many = {f"optional_{n}": STRING for n in range(40)}
    text = signature(schema(["zz"], **many, zz=STRING))
    assert text.startswith("zz: string, optional_0?: string")
    assert text.endswith(", …")
    assert len(text) <= 403


def test_one_parameter_that_does_not_fit_is_only_hinted_at() -> None:
    assert signature(schema(**{"x" * 500: STRING})) == "…"


def test_a_schema_that_contains_itself_ends() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}, "required": "child"}
    assert signature(tree).startswith("child?: {child?: ")


MEMBERS = st.sampled_from(["type", "properties", "items", "anyOf", "enum", "$ref", "required", "a"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner),
)


@given(JSON)
def test_no_schema_is_too_odd(odd: Any) -> None:
    assert isinstance(signature(odd), str)
    assert isinstance(signature({"properties": {"a": odd}}), str)
