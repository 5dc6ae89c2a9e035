"""Headers of requests of the era without a handshake, compared with what the SDK makes and takes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import decode_header_value, encode_header_value, mcp_param_headers, x_mcp_header_map

from pml_hookspecs import RawObject, encode
from pml_kit.mcp.protocol import META_PROTOCOL_VERSION
from pml_transport_http.headers import encode_value
from pml_transport_http.stateless_headers import ParameterHeaders, headers_of, revision_of

META = {META_PROTOCOL_VERSION: "2026-07-28"}
SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "deep": {"type": "object", "properties": {"er": {"type": "string", "x-mcp-header": "Deeper"}}},
        "list": {"type": "array", "items": {"type": "string", "x-mcp-header": "Never"}},
        "plain": {"type": "string", "default": {"x-mcp-header": "Neither"}},
    },
}


def headers(method, params, *tools, learned=None):
    parameters = learned or ParameterHeaders()
    if tools:
        parameters.learn(RawObject.of({"tools": list(tools)}), first_page=True)
    return headers_of(method, encode({**params, "_meta": META}), parameters)


@given(st.text())
def test_values_are_written_as_the_sdk_writes_them(text):
    assert encode_value(text) == encode_header_value(text)
    assert decode_header_value(encode_value(text)) == text


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "échø"}, "=?base64?w6ljaMO4?="),
        ("prompts/get", {"name": "plain"}, "plain"),
        ("resources/read", {"uri": "file:///a b"}, "file:///a b"),
        ("resources/subscribe", {"uri": "file:///a"}, None),
        ("tools/call", {"name": 7}, None),
        ("tools/list", {}, None),
    ],
)
def test_a_request_says_what_it_is_in_headers(method, params, name):
    expected = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    assert headers(method, params) == expected | ({} if name is None else {"Mcp-Name": name})


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"_meta": {}},
        {"_meta": None, "x": META_PROTOCOL_VERSION},
        {"arguments": {"_meta": META}, "_meta": {"a": 1}},
        {"_meta": {META_PROTOCOL_VERSION: None}},
    ],
)
def test_only_the_meta_of_a_request_makes_it_modern(params):
    assert revision_of(encode(params)) is None
    assert headers_of("tools/call", encode(params), ParameterHeaders()) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {"region": "eu", "count": 3, "dry": True, "deep": {"er": "x"}, "list": ["a"], "plain": "b"},
        {"region": "größe ", "count": 2**70, "dry": False},
        {"region": None, "deep": None},
        {"region": {"not": "a text"}, "count": [1]},
        {},
    ],
)
def test_arguments_are_repeated_as_the_sdk_repeats_them(arguments):
    made = headers("tools/call", {"name": "t", "arguments": arguments}, {"name": "t", "inputSchema": SCHEMA})
    made = {name: value for name, value in made.items() if name.startswith("Mcp-Param-")}
    assert made == mcp_param_headers(x_mcp_header_map(SCHEMA), json.loads(json.dumps(arguments)))


def test_the_first_page_forgets_and_later_ones_add():
    learned = ParameterHeaders()
    call = {"name": "t", "arguments": {"region": "eu"}}
    learned.learn(RawObject.of({"tools": [{"name": "t", "inputSchema": SCHEMA}]}), first_page=True)
    learned.learn(RawObject.of({"tools": [{"name": "u", "inputSchema": SCHEMA}]}), first_page=False)
    assert "Mcp-Param-Region" in headers("tools/call", call, learned=learned)
    learned.learn(RawObject.of({"tools": []}), first_page=True)
    assert "Mcp-Param-Region" not in headers("tools/call", call, learned=learned)


@pytest.mark.parametrize("tool", [None, 7, {}, {"name": "t"}, {"name": "t", "inputSchema": {"properties": [1]}}])
def test_a_tool_that_is_none_is_passed_over(tool):
    good = {"name": "good", "inputSchema": SCHEMA}
    made = headers("tools/call", {"name": "good", "arguments": {"region": "eu"}}, tool, good)
    assert made["Mcp-Param-Region"] == "eu"


def test_a_name_that_is_no_header_is_passed_over():
    schema = {"properties": {"a": {"x-mcp-header": "a b"}, "c": {"x-mcp-header": "C"}}}
    made = headers("tools/call", {"name": "t", "arguments": {"a": "1", "c": "2"}}, {"name": "t", "inputSchema": schema})
    assert {name for name in made if name.startswith("Mcp-Param-")} == {"Mcp-Param-C"}


def test_a_number_that_is_too_long_is_sent_as_it_is_and_hides_no_tool():
    digits = "9" * 5000
    odd = f'{{"name":"odd","inputSchema":{{"properties":{{"a":{{"x-mcp-header":{digits}}}}}}}}}'
    listing = f'{{"tools":[{odd},{json.dumps({"name": "t", "inputSchema": SCHEMA})}]}}'
    learned = ParameterHeaders()
    learned.learn(RawObject(listing.encode()), first_page=True)
    assert learned.of("t", f'{{"count":{digits},"other":{digits}}}'.encode()) == {"Mcp-Param-Count": digits}
    assert learned.of("odd", b'{"a":1}') == {}
