from __future__ import annotations

import json

import pytest

from pml_hookspecs import RawObject
from pml_mcp.servers.direct import says_error
from pml_mcp.wire.tool_results import text_of, tool_result


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b'{"isError":true}', True),
        (b'{"isError" : true}', True),
        (b'{"isError":false}', False),
        (b'{"isError":"true"}', False),
        (b'{"content":[{"text":"\\"isError\\":true"}]}', False),
        (b'{"structuredContent":{"isError":true}}', False),
        (b"{}", False),
    ],
)
def test_only_a_results_own_is_error_counts(raw, error):
    assert says_error(RawObject(raw)) is error


def test_a_result_that_is_not_read_is_not_decoded():
    assert says_error(RawObject(b"this is not JSON at all")) is False


def test_the_text_of_a_result_is_its_text_blocks():
    blocks = [{"type": "text", "text": "a"}, {"type": "image"}, "x", {"type": "text", "text": "b"}, {"text": 5}]
    assert text_of({"content": blocks}) == "a\nb"
    assert text_of({}) == text_of({"content": "x"}) == ""


def test_a_value_as_a_tool_result():
    assert tool_result({"a": RawObject(b'{"b":1}')}) == {
        "content": [{"type": "text", "text": '{\n  "a": {\n    "b": 1\n  }\n}'}],
        "structuredContent": {"a": {"b": 1}},
    }
    assert tool_result("x", is_error=True) == {"content": [{"type": "text", "text": '"x"'}], "isError": True}
    assert tool_result(RawObject(b'{"a":1}'), indented=False) == {
        "content": [{"type": "text", "text": '{"a":1}'}],
        "structuredContent": {"a": 1},
    }


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": [], "b": {}, "c": [{}, [[]]], "é": 'line\nfeed "quoted" \\ \x00 \u2028 ü'},
        {"big": 10**40, "small": -1e-9, "whole": 1.0, "nothing": None, "sure": True, "several": (1, 2)},
        {"surrogate": "\ud800"},
        [float("inf"), 1],
        "text",
        None,
    ],
)
def test_the_text_is_what_pythons_encoder_makes_of_it(value):
    expected = json.dumps(value, indent=2, ensure_ascii=False)
    assert tool_result(value)["content"] == [{"type": "text", "text": expected}]


def test_what_is_not_json_makes_no_result():
    with pytest.raises(TypeError):
        tool_result({"a": object()})
