"""The client against servers made with the official SDK, in both eras."""

from __future__ import annotations

import asyncio

import pytest
from mcp import types
from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings

from pml_hookspecs import RpcError
from pml_kit.mcp.protocol import META_CLIENT_CAPABILITIES, META_PROTOCOL_VERSION
from pml_testing.transport_ends import SOON_S, Recorder

pytestmark = pytest.mark.anyio

META = {META_PROTOCOL_VERSION: "2026-07-28", META_CLIENT_CAPABILITIES: {}}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


async def list_tools(ctx, params):
    return types.ListToolsResult(
        tools=[
            types.Tool(name="echo", input_schema={"type": "object"}),
            types.Tool(name="regional", input_schema=REGION),
        ]
    )


async def call_tool(ctx, params):
    arguments = params.arguments or {}
    if params.name == "count":
        for n in range(3):
            await ctx.session.send_progress_notification(
                ctx.meta["progress_token"], n, related_request_id=ctx.request_id
            )
    if params.name == "ask":
        answer = await ctx.session.list_roots()
        return types.CallToolResult(content=[types.TextContent(text=str([str(r.uri) for r in answer.roots]))])
    await asyncio.sleep(arguments.get("sleep", 0))
    return types.CallToolResult(content=[types.TextContent(text="done")], structured_content=arguments)


def app(**options):
    server = Server("sdk", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    return server.streamable_http_app(
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False), **options
    )


async def handshake(link, **capabilities):
    params = {**INITIALIZE, "capabilities": capabilities}
    result = await link.request("initialize", params, timeout_s=SOON_S)
    link.notify("notifications/initialized", {})
    return result


@pytest.mark.parametrize("options", [{}, {"json_response": True}, {"stateless_http": True}], ids=str)
async def test_a_server_with_a_handshake_answers(web, connect, options):
    url = await web.serve(app(**options), lifespan="on")
    async with connect(url) as link:
        assert (await handshake(link))["protocolVersion"] == "2025-11-25"
        listed = await link.request("tools/list", {}, timeout_s=SOON_S)
        assert [tool["name"] for tool in listed["tools"]] == ["echo", "regional"]
        calls = [
            link.request("tools/call", {"name": "echo", "arguments": {"n": n, "sleep": 0.05}}, timeout_s=SOON_S)
            for n in range(20)
        ]
        answers = await asyncio.gather(*calls)
        assert [answer["structuredContent"]["n"] for answer in answers] == list(range(20))


async def test_a_server_without_a_handshake_answers(web, connect):
    url = await web.serve(app(), lifespan="on")
    async with connect(url) as link:
        discovered = await link.request("server/discover", {"_meta": META}, timeout_s=SOON_S)
        assert "2026-07-28" in discovered["supportedVersions"]
        answer = await link.request(
            "tools/call", {"name": "echo", "arguments": {"a": "é"}, "_meta": META}, timeout_s=SOON_S
        )
        assert answer["structuredContent"] == {"a": "é"}
        with pytest.raises(RpcError) as caught:
            await link.request("no/such", {"_meta": META}, timeout_s=SOON_S)
        assert caught.value.code == -32601


async def test_arguments_are_repeated_in_headers_once_the_tools_were_listed(web, connect):
    url = await web.serve(app(), lifespan="on")
    async with connect(url) as link:
        await link.request("tools/list", {"_meta": META}, timeout_s=SOON_S)
        params = {"name": "regional", "arguments": {"region": "Zürich "}, "_meta": META}
        answer = await link.request("tools/call", params, timeout_s=SOON_S)
        assert answer["structuredContent"] == {"region": "Zürich "}


async def test_arguments_are_repeated_in_headers_when_the_server_misses_them(web, connect):
    url = await web.serve(app(), lifespan="on")
    async with connect(url) as link:
        params = {"name": "regional", "arguments": {"region": "eu"}, "_meta": META}
        answer = await link.request("tools/call", params, timeout_s=SOON_S)
        assert answer["structuredContent"] == {"region": "eu"}


async def test_what_a_server_says_while_it_answers_arrives_in_order(web, connect):
    url = await web.serve(app(), lifespan="on")
    handler = Recorder()
    async with connect(url, handler=handler) as link:
        await handshake(link)
        params = {"name": "count", "arguments": {}, "_meta": {"progressToken": "t"}}
        await link.request("tools/call", params, timeout_s=SOON_S)
    progress = [params["progress"] for method, params in handler.notifications if method == "notifications/progress"]
    assert progress == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:The roots capability is deprecated")
async def test_a_server_s_question_is_answered(web, connect):
    class Roots(Recorder):
        async def request(self, method, params, origin):
            return {"roots": [{"uri": "file:///here"}]}

    url = await web.serve(app(), lifespan="on")
    async with connect(url, handler=Roots()) as link:
        await handshake(link, roots={})
        answer = await link.request("tools/call", {"name": "ask", "arguments": {}}, timeout_s=SOON_S)
        assert answer["content"][0]["text"] == "['file:///here']"
