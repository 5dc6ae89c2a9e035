"""Servers that speak HTTP+SSE of revision 2024-11-05, and those of which it is not known what they speak."""

from __future__ import annotations

import asyncio
import json

import pytest
from mcp import types
from mcp.server import Server
from mcp.server.sse import SseServerTransport
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

from pml_hookspecs import RpcError, TransportError
from pml_testing.transport_ends import LONG_S, SOON_S, Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:.*SSE.*:DeprecationWarning")]

AT_ONCE_S = 10.0
PARAMS = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema={"type": "object"})])


async def call_tool(ctx, params):
    await asyncio.sleep(0.02)
    return types.CallToolResult(content=[], structured_content=params.arguments or {})


def sdk_app():
    server = Server("old", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    transport = SseServerTransport("/messages/", security_settings=security)

    async def connected(request):
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/mcp", connected), Mount("/messages/", app=transport.handle_post_message)])


async def talk(link):
    result = await link.request("initialize", PARAMS, timeout_s=SOON_S)
    assert result["protocolVersion"] == "2024-11-05"
    link.notify("notifications/initialized", {})
    calls = [link.request("tools/call", {"name": "echo", "arguments": {"n": n}}, timeout_s=SOON_S) for n in range(20)]
    assert [answer["structuredContent"]["n"] for answer in await asyncio.gather(*calls)] == list(range(20))


@pytest.mark.parametrize("protocol", ["sse", "auto"])
async def test_an_old_server_of_the_sdk_answers(web, connect, protocol):
    url = await web.serve(sdk_app())
    async with connect(url, protocol=protocol) as link:
        await talk(link)


class Old:
    """An old server with one client."""

    def __init__(self, endpoint="/messages?session=1"):
        self.endpoint, self.stream, self.opened = endpoint, None, asyncio.Event()

    async def __call__(self, request, stream):
        if request.method == "GET":
            self.stream = stream
            await stream.open()
            await stream.chunk(f"event: endpoint\r\ndata: {self.endpoint}\r\n\r\n".encode())
            self.opened.set()
            return await asyncio.Event().wait()
        return await self.posted(request, stream)

    async def posted(self, request, stream):
        await stream.status("202 Accepted", b"Accepted")
        message = request.message
        if message.get("method") == "m":
            await self.stream.event({"jsonrpc": "2.0", "id": message["id"], "result": message["params"]})
        elif message.get("method") == "ask":
            await self.stream.event({"jsonrpc": "2.0", "id": "q", "method": "roots/list", "params": {}})
        elif message.get("method") == "refuse":
            error = {"code": -32601, "message": "no"}
            await self.stream.event({"jsonrpc": "2.0", "id": message["id"], "error": error})
        elif message.get("method") == "stop":
            await self.stream.close()


async def ask(link, method="m", params=None, *, timeout_s=SOON_S):
    return await link.request(method, params or {}, timeout_s=timeout_s)


async def until(condition):
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - the other end has no event to wait for
            await asyncio.sleep(0.01)


async def test_messages_go_both_ways(raw, connect):
    server = await raw(Old())
    async with connect(server.url, protocol="sse", bearer="abc") as link:
        assert await ask(link, params={"n": 1}) == {"n": 1}
        with pytest.raises(RpcError, match="no"):
            await ask(link, "refuse")
        asking = asyncio.ensure_future(ask(link, "ask", timeout_s=LONG_S))
        await until(lambda: [r for r in server.requests if r.method == "POST" and r.message.get("id") == "q"])
        asking.cancel()
        await until(lambda: server.posted("notifications/cancelled"))
    answers = [r.message for r in server.requests if r.method == "POST" and "result" in r.message]
    assert answers == [{"jsonrpc": "2.0", "id": "q", "result": {"method": "roots/list", "params": {}}}]
    assert {r.headers["authorization"] for r in server.requests} == {"Bearer abc"}


async def test_the_end_of_the_stream_is_the_end_of_the_link(raw, connect):
    server, handler = await raw(Old()), Recorder()
    async with connect(server.url, protocol="sse", handler=handler) as link:
        waiting = asyncio.ensure_future(ask(link, "hold", timeout_s=LONG_S))
        stopping = asyncio.ensure_future(ask(link, "stop", timeout_s=LONG_S))
        async with asyncio.timeout(AT_ONCE_S):
            failures = await asyncio.gather(waiting, stopping, return_exceptions=True)
        assert [type(failure) for failure in failures] == [TransportError] * 2
        assert "'git' closed its stream" in str(failures[0])
        with pytest.raises(TransportError):
            await ask(link)
    assert len(handler.closings) == 1
    assert handler.closings[0].retryable


async def test_a_session_that_the_server_does_not_know_ends_the_link(raw, connect):
    class Forgetful(Old):
        async def posted(self, request, stream):
            await stream.status("404 Not Found")

    handler = Recorder()
    async with connect((await raw(Forgetful())).url, protocol="sse", handler=handler) as link:
        with pytest.raises(TransportError, match="does not know the session") as caught:
            await ask(link)
        assert caught.value.retryable
    assert len(handler.closings) == 1


async def test_messages_are_sent_to_no_other_host(raw, connect):
    server = await raw(Old("http://127.0.0.1:9/messages"))
    with pytest.raises(TransportError, match=r"wants messages sent elsewhere, to http://127\.0\.0\.1:9"):
        async with connect(server.url, protocol="sse"):
            pass


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        ("200 OK", "text/html", "answers with text/html instead of events"),
        ("401 Unauthorized", "text/plain", "run: pml auth login git"),
        ("200 OK", "text/event-stream", "closed its stream of events"),
    ],
)
async def test_what_is_no_stream_fails_the_connection(raw, connect, status, kind, message):
    async def reply(request, stream):
        await stream.status(status, b"", kind=kind)

    handler = Recorder()
    with pytest.raises(TransportError, match=message):
        async with connect((await raw(reply)).url, protocol="sse", handler=handler):
            pass


async def test_a_server_that_names_no_address_is_given_up(raw, connect):
    async def reply(request, stream):
        await stream.open()
        await asyncio.Event().wait()

    with pytest.raises(TransportError, match=r"did not say where to send messages in 0\.2 s"):
        async with connect((await raw(reply)).url, protocol="sse", settings={"connect_timeout_s": 0.2}):
            pass


# Servers of which it is not known what they speak.


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed"])
async def test_the_old_protocol_is_taken_where_the_new_one_is_refused(raw, connect, status):
    class OldOnly(Old):
        async def __call__(self, request, stream):
            if request.method == "POST" and "session=1" not in request.target:
                return await stream.status(status)
            return await super().__call__(request, stream)

    handler = Recorder()
    async with connect((await raw(OldOnly())).url, protocol="auto", handler=handler) as link:
        answers = await asyncio.gather(*(ask(link, params={"n": n}) for n in range(5)))
        assert [answer["n"] for answer in answers] == list(range(5))
        link.notify("notifications/n", {})
    assert handler.closings == [None]


async def test_the_new_protocol_is_taken_where_it_is_spoken(raw, connect):
    async def reply(request, stream):
        if request.message["method"] == "refuse":
            error = {"jsonrpc": "2.0", "id": request.message["id"], "error": {"code": -32601, "message": "no"}}
            return await stream.status("404 Not Found", json.dumps(error).encode(), kind="application/json")
        return await stream.result(request, {})

    server = await raw(reply)
    async with connect(server.url, protocol="auto") as link:
        with pytest.raises(RpcError, match="no"):
            await ask(link, "refuse")
        assert await ask(link) == {}
    assert {request.method for request in server.requests} == {"POST"}


async def test_a_server_that_speaks_neither_says_what_it_said(raw, connect):
    async def reply(request, stream):
        await stream.status("404 Not Found", b"no such page")

    async with connect((await raw(reply)).url, protocol="auto") as link:
        with pytest.raises(TransportError, match=r"404 Not Found: no such page; and as for HTTP\+SSE: "):
            await ask(link)


async def test_waiting_for_what_a_server_speaks_counts_against_the_time_limit(raw, connect):
    async def reply(request, stream):
        await asyncio.Event().wait()

    async with connect((await raw(reply)).url, protocol="auto") as link:
        asked = [asyncio.ensure_future(ask(link, timeout_s=0.2)) for _ in range(3)]
        async with asyncio.timeout(AT_ONCE_S):
            failures = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(failure) for failure in failures] == [TimeoutError] * 3
    assert {str(failure) for failure in failures} == {"server 'git' did not answer m within 0.2 s"}
