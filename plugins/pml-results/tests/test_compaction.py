"""Fewer tokens for the same content: what goes in comes out again, or is labelled."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_kit.mcp.tokens import estimate
from pml_results.compaction import HTML_LABEL, TABLES_LABEL, compacted, expanded, tables_of

ROWS = [{"id": i, "name": f"name {i}", "owner": {"login": "x"}, "tags": ["a", "b"]} for i in range(100)]
NAMES = st.sampled_from(["a", "b", "columns", "rows"])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=30,
)


@given(ANY | st.lists(st.fixed_dictionaries({"a": ANY, "b": ANY}), min_size=3, max_size=6))
def test_tables_turn_back_into_what_they_were_made_of(value):
    text = json.dumps(value)
    label, made = tables_of(text)
    assert (expanded(made) if label else json.loads(made)) == value


def test_uniform_rows_take_far_fewer_tokens():
    text = json.dumps({"rows": ROWS}, separators=(",", ":"))
    shorter = compacted(text, ("tables",))
    assert shorter.startswith(TABLES_LABEL)
    assert estimate(shorter) < 0.75 * estimate(text)
    assert expanded(shorter) == {"rows": ROWS}


@pytest.mark.parametrize(
    "text",
    ["no JSON", "[1,2,3]", '[{"a":1},{"b":1},{"a":1}]', '[{"a":1},{"a":2}]', '{"columns":["a"],"rows":[[1],[2],[3]]}'],
)
def test_what_is_not_uniform_or_could_be_taken_for_a_table_stays(text):
    assert compacted(text, ("tables",)) is text


def test_html_becomes_markdown_without_its_scripts():
    page = (
        "<!DOCTYPE html><html><head><style>p{color:red}</style><script>alert(1)</script></head><body>"
        + "".join(f'<h2 class="x{i}">Part {i}</h2><p data-y="{i}">Some <b>bold</b> words.</p>' for i in range(20))
        + '<table><tr><th>n</th></tr><tr><td>7</td></tr></table><a href="https://example.org/a">link</a></body></html>'
    )
    shown = compacted(page, ("html",))
    assert shown.startswith(HTML_LABEL)
    assert "## Part 19" in shown
    assert "| 7 |" in shown
    assert "[link](https://example.org/a)" in shown
    assert "alert" not in shown
    assert "color" not in shown


@pytest.mark.parametrize("text", ["a < b and b > c", "<think>not a page</think>", '{"html": "<p>x</p>"}', "<p>x</p>"])
def test_what_is_no_page_or_gets_no_shorter_stays(text):
    assert compacted(text, ("html",)) is text


def test_base64_is_taken_out_and_its_size_told():
    data = base64.b64encode(bytes(range(256)) * 40).decode()
    shown = compacted(f'{{"name":"x","image":"data:image/png;base64,{data}","short":"QUJD"}}', ("base64",))
    assert json.loads(shown) == {"name": "x", "image": "[base64 left out: image/png, 10,240 bytes]", "short": "QUJD"}


def test_ways_are_done_one_after_the_other():
    rows = [{"id": i, "blob": "A" * 1000} for i in range(5)]
    shown = compacted(json.dumps(rows), ("base64", "tables"))
    assert expanded(shown)[0]["blob"] == "[base64 left out: 750 bytes]"


def test_deep_html_and_deep_json_are_left_as_they_are():
    for text in ("<div>" * 50_000, "[" * 100_000):
        assert compacted(text, ("tables", "html", "base64"))[:3] == text[:3]
