"""Revisions without handshake: arguments of calls that headers repeat, as the schema says."""

from __future__ import annotations

import asyncio
import json

import pytest
from listening import (
    COMPLETE,
    META,
    PROGRESS,
    Script,
    as_body,
    as_lines,
    echo,
    listening,
    messages,
    text,
    wire,
)

from pml_hookspecs import RawObject, RpcError
from pml_transport_http.headers import checked_parameters, decode_value
from pml_transport_http.server import exchange, headers, stateless

pytestmark = pytest.mark.anyio
MISMATCH, INVALID_PARAMS, UNSUPPORTED = -32020, -32602, -32022


ROUTED_TOOL = {
    "name": "routed",
    "inputSchema": {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            "deep": {"type": "object", "properties": {"id": {"type": "string", "x-mcp-header": "Deep-Id"}}},
        },
    },
}


class PagedTools(Script):
    """Lists its tools one a page."""

    def __init__(self):
        super().__init__(routed=echo)
        self.listing = [{"name": "echo", "inputSchema": {}}, ROUTED_TOOL, "no tool", {"name": "x", "inputSchema": 5}]
        self.paged = True
        self.broken = False

    async def answer(self, method, params, origin):
        if method != "tools/list" or not self.paged:
            return await super().answer(method, params, origin)
        if self.broken:
            raise RpcError(-32603, "no list today")
        assert params["_meta"] == META
        at = int(params.get("cursor", 0))
        more = {"nextCursor": str(at + 1)} if at + 1 < len(self.listing) else {}
        return {"tools": [self.listing[at]], **COMPLETE, **more}


@pytest.mark.parametrize(
    ("arguments", "headers", "accepted"),
    [
        ({}, {}, True),
        ({"region": "eu"}, {"mcp_param_region": "eu"}, True),
        ({"region": "eu"}, {"MCP_Param_REGION": "eu"}, True),
        ({"region": "é"}, {"mcp_param_region": "=?base64?w6k=?="}, True),
        ({"region": "w6k="}, {"mcp_param_region": "w6k="}, True),
        ({"region": "=?base64?w6k="}, {"mcp_param_region": "=?base64?w6k="}, True),
        ({"region": None}, {}, True),
        ({"region": ["eu"]}, {}, True),
        ({"count": 42}, {"mcp_param_count": "42"}, True),
        ({"count": 42}, {"mcp_param_count": "42.0"}, True),
        ({"count": 42.0}, {"mcp_param_count": "42"}, True),
        ({"dry": True}, {"mcp_param_dry": "true"}, True),
        ({"deep": {"id": "x"}}, {"mcp_param_deep-id": "x"}, True),
        ({"other": 1}, {"mcp_param_other": "2"}, True),
        ({"region": "eu"}, {}, False),
        ({"region": "eu"}, {"mcp_param_region": "us"}, False),
        ({"region": "é"}, {"mcp_param_region": "=?base64?w6k?="}, False),
        ({"region": ["eu"]}, {"mcp_param_region": "eu"}, False),
        ({}, {"mcp_param_region": "eu"}, False),
        ({"count": 42}, {"mcp_param_count": "42.5"}, False),
        ({"count": "42"}, {"mcp_param_count": "42.0"}, False),
        ({"dry": True}, {"mcp_param_dry": "True"}, False),
        ({"deep": {"id": "x"}}, {}, False),
        ({"deep": 5}, {"mcp_param_deep-id": "x"}, False),
    ],
)
async def test_arguments_and_the_headers_that_repeat_them_agree(services, arguments, headers, accepted):
    async with listening(services, PagedTools()) as listener, listener.client() as client:
        response = await client.modern("tools/call", {"name": "routed", "arguments": arguments}, **headers)
        if accepted:
            assert response.status_code == 200, response.text
        else:
            assert (response.status_code, response.json()["error"]["code"]) == (400, MISMATCH)
            assert response.json()["error"]["message"].startswith("Mcp-Param-")
            assert response.json()["id"] == 1


async def test_a_repeated_argument_comes_once(services):
    async with listening(services, PagedTools()) as listener, listener.client() as client:
        message, headers = client.alone("tools/call", {"name": "routed", "arguments": {"region": "eu"}})
        usual = {"host": f"localhost:{listener.port}", "content-type": "application/json"}
        lines = as_lines({**usual, **headers}) + 2 * as_lines({"mcp_param_region": "eu"})
        status, answer = await wire(listener.port, lines, message)
        assert (status, answer["error"]["message"]) == (400, "Mcp-Param-Region header appears more than once")


async def test_tools_that_say_nothing_about_headers_and_unknown_ones_are_called(services):
    async with listening(services, PagedTools()) as listener, listener.client() as client:
        assert (await client.modern("tools/call", {"name": "echo", "arguments": {"region": "eu"}})).status_code == 200
        assert (await client.modern("tools/call", {"name": "nope"})).status_code == 404
        nameless = await client.modern("tools/call", {"arguments": {}})
        assert nameless.status_code != 200 or "error" in nameless.json()


async def test_a_listing_that_fails_does_not_hinder_calls(services):
    script = PagedTools()
    script.broken = True
    async with listening(services, script) as listener, listener.client() as client:
        response = await client.modern("tools/call", {"name": "routed", "arguments": {"region": "eu"}})
        assert response.status_code == 200
    assert [event for _, event, _ in services.log.lines] == ["http.tools_not_listed"]


async def test_a_refusal_after_a_slow_listing_comes_on_the_stream(services, monkeypatch):
    monkeypatch.setattr(stateless, "PING_S", 0.01)
    monkeypatch.setattr(exchange, "WATCH_AFTER_S", 0.01)
    go_on = asyncio.Event()

    class Slow(PagedTools):
        async def answer(self, method, params, origin):
            origin.link.notify(PROGRESS, {"progressToken": 1, "progress": 1})
            await go_on.wait()
            return await super().answer(method, params, origin)

    async with listening(services, Slow()) as listener, listener.client() as client:
        message, headers = client.alone("tools/call", {"name": "routed", "arguments": {"region": "eu"}})
        async with client.stream(message, **headers) as response:
            go_on.set()
            (answer,) = await messages(response, 1)
        assert (answer["id"], answer["error"]["code"]) == (1, MISMATCH)


PLAIN = {"name": "routed", "inputSchema": {"type": "object"}}
CALL = {"name": "routed", "arguments": {"region": "eu"}}


async def test_what_tools_say_is_believed_for_a_while(services, monkeypatch):
    script = PagedTools()
    script.paged, script.listing = False, [PLAIN]
    async with listening(services, script) as listener, listener.client() as client:
        for _ in range(3):
            assert (await client.modern("tools/call", CALL)).status_code == 200
        assert [method for method, _ in script.requests].count("tools/list") == 1
        script.listing = [ROUTED_TOOL]
        monkeypatch.setattr(headers, "BELIEVED_S", 0)
        assert (await client.modern("tools/call", CALL, mcp_param_region="us")).status_code == 400
        script.listing = [PLAIN]
        assert (await client.modern("tools/call", CALL)).status_code == 200


async def test_nobody_is_refused_for_what_a_tool_said_before(services):
    script = PagedTools()
    script.paged = False
    async with listening(services, script) as listener, listener.client() as client:
        assert (await client.modern("tools/call", CALL, mcp_param_region="eu")).status_code == 200
        script.listing = [PLAIN]
        assert (await client.modern("tools/call", CALL)).status_code == 200
        assert [method for method, _ in script.requests].count("tools/list") == 2


async def test_calls_that_come_together_at_first_share_one_listing(services):
    script = PagedTools()
    script.paged, script.listing = False, [PLAIN]
    async with listening(services, script) as listener, listener.client() as client:
        responses = await asyncio.gather(*(client.modern("tools/call", CALL) for _ in range(8)))
        assert [response.status_code for response in responses] == [200] * 8
        assert [method for method, _ in script.requests].count("tools/list") == 1


DIGITS = "9" * 5000
"""More than Python reads as a number."""


class Unread(PagedTools):
    """Takes calls without reading them, and has a tool whose definition cannot be read as a whole."""

    def __init__(self):
        super().__init__()
        odd = {"name": "odd", "inputSchema": {"properties": {"n": {"type": "integer", "x-mcp-header": 0}}}}
        tools = json.dumps({"tools": [odd, ROUTED_TOOL], **COMPLETE}).replace(
            '"x-mcp-header": 0', f'"x-mcp-header": {DIGITS}'
        )
        self.answers = {"tools/call": text("taken"), "tools/list": RawObject(tools.encode())}

    async def answer(self, method, params, origin):
        return self.answers[method]


@pytest.mark.attack("HTTP has limits", "repeat an argument of 5,000 digits in a header")
@pytest.mark.parametrize(("header", "status"), [(DIGITS, 200), (DIGITS[1:], 400), (f"{DIGITS}.0", 400), (None, 400)])
async def test_a_number_that_is_too_long_is_compared_by_its_digits(services, header, status):
    async with listening(services, Unread()) as listener, listener.client() as client:
        message, headers = client.alone("tools/call", {"name": "routed", "arguments": {"count": 0}})
        body = as_body(message).replace(b'"count": 0', f'"count": {DIGITS}'.encode())
        assert (await client.post(body, **headers, mcp_param_count=header)).status_code == status
    assert not services.log.lines


async def test_a_tool_that_cannot_be_read_hides_nothing_of_others(services):
    async with listening(services, Unread()) as listener, listener.client() as client:
        assert (await client.modern("tools/call", CALL)).status_code == 400
        assert (await client.modern("tools/call", CALL, mcp_param_region="eu")).status_code == 200
    assert not services.log.lines


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"x-mcp-header": "Root", "type": "string"},
        {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": ["string"], "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "not a token"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": 5}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": ""}}},
        {"properties": {n: {"type": "string", "x-mcp-header": n} for n in ("a", "A")}},
        {"properties": {"a": {"items": {"type": "string", "x-mcp-header": "A"}}}},
        {"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]},
        {"$defs": {"d": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}}},
    ],
)
def test_a_schema_whose_annotations_are_against_the_rules_annotates_nothing(schema):
    assert checked_parameters(schema) == ()


def test_an_annotation_in_example_data_is_none():
    schema = {"properties": {"a": {"type": "string", "x-mcp-header": "A", "default": {"x-mcp-header": 1}}}}
    assert [(one.path, one.header) for one in checked_parameters(schema)] == [(("a",), "Mcp-Param-A")]


@pytest.mark.parametrize(
    ("given", "meant"),
    [(None, None), ("x", "x"), ("=?base64?eA==?=", "x"), ("=?base64?eB==?=", None), ("=?base64?/w==?=", None)],
)
def test_encoded_headers_have_one_form(given, meant):
    assert decode_value(given) == meant
