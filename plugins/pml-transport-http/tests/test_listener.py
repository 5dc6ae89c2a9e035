"""Clients of both eras, several endpoints, and how a listener begins and ends."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys

import httpx2
import pytest
from listening import LEGACY, META, MODERN, PROGRESS, Script, listening, messages, text
from mcp import types
from starlette.responses import JSONResponse
from starlette.routing import Route

from pml_hookspecs import Endpoint, RawObject, RpcError, Selection, TransportError
from pml_testing.gateway import ScriptedServer, running
from pml_testing.transport_ends import SOON_S
from pml_transport_http import Http, Settings

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
]
both_eras = pytest.mark.parametrize(("mode", "revision"), [("auto", MODERN), ("legacy", LEGACY)])


async def counting(params, origin):
    for done in (1, 2, 3):
        about = {"progressToken": params["_meta"]["progressToken"], "progress": done}
        origin.link.notify(PROGRESS, about)
        await asyncio.sleep(0)
    return text("counted")


@both_eras
async def test_the_official_client_lists_and_calls(services, mode, revision):
    async with listening(services) as listener, listener.sdk(mode) as client:
        assert client.protocol_version == revision
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
        assert json.loads((await client.call_tool("echo", {"n": 1})).content[0].text) == {"n": 1}
        assert [peer.stateless for peer in listener.peers] == [mode == "auto"]
        assert listener.peers[0].address.startswith("127.0.0.1:")


@both_eras
async def test_progress_comes_before_the_answer(services, mode, revision):
    told = []

    async def tell(done, total, message):
        told.append(done)

    async with (
        listening(services, Script(count=counting)) as listener,
        listener.sdk(mode) as client,
    ):
        answer = await client.call_tool("count", {}, progress_callback=tell)
        assert answer.content[0].text == "counted"
        assert told == [1, 2, 3]


@both_eras
async def test_64_calls_at_once_get_their_own_answers(services, mode, revision):
    arrived, everybody = [], asyncio.Event()

    async def gather(params, origin):
        arrived.append(params)
        if len(arrived) == 64:
            everybody.set()
        await everybody.wait()
        return text(str(params["arguments"]["n"]))

    async with (
        listening(services, Script(gather=gather)) as listener,
        listener.sdk(mode) as client,
    ):
        answers = await asyncio.gather(*(client.call_tool("gather", {"n": n}) for n in range(64)))
        assert [answer.content[0].text for answer in answers] == [str(n) for n in range(64)]


async def test_a_tool_can_ask_the_client_of_a_session(services):
    async def ask(params, origin):
        message = {"role": "user", "content": {"type": "text", "text": "who?"}}
        sampled = await origin.link.request(
            "sampling/createMessage", {"messages": [message], "maxTokens": 5}, timeout_s=SOON_S
        )
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        form = await origin.link.request(
            "elicitation/create", {"message": "name?", "requestedSchema": schema}, timeout_s=SOON_S
        )
        return text(f"{sampled['content']['text']} {form['content']['name']}")

    async def sample(context, params):
        content = types.TextContent(type="text", text=f"asked {params.messages[0].content.text}")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def elicit(context, params):
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with (
        listening(services, Script(ask=ask)) as listener,
        listener.sdk("legacy", sampling_callback=sample, elicitation_callback=elicit) as client,
    ):
        assert (await client.call_tool("ask", {})).content[0].text == "asked who? Ada"


async def test_a_client_that_refuses_is_heard(services):
    async def ask(params, origin):
        with pytest.raises(RpcError) as caught:
            await origin.link.request("roots/list", {}, timeout_s=SOON_S)
        return text(str(caught.value.code))

    async with listening(services, Script(ask=ask)) as listener, listener.sdk("legacy") as client:
        assert int((await client.call_tool("ask", {})).content[0].text) < 0


async def test_a_client_that_stands_alone_cannot_be_asked(services):
    async def ask(params, origin):
        with pytest.raises(TransportError, match="input_required"):
            await origin.link.request("roots/list", {}, timeout_s=SOON_S)
        return text("no")

    async with listening(services, Script(ask=ask)) as listener, listener.sdk() as client:
        assert (await client.call_tool("ask", {})).content[0].text == "no"
        with pytest.raises(TransportError, match="input_required"):
            await listener.links[0].request("roots/list", {}, timeout_s=SOON_S)
        listener.links[0].notify("notifications/message", {})


async def test_endpoints_have_handlers_of_their_own(services):
    async def two(params, origin):
        return text("two")

    scripts = {"default": Script(), "other": Script(two=two)}

    def accept(link, peer):
        if peer.endpoint not in scripts:
            raise LookupError(f"there is no endpoint {peer.endpoint!r}; there are: default, other")
        return scripts[peer.endpoint]

    async with listening(services, accept=accept) as listener:
        for mode in ("auto", "legacy"):
            async with listener.sdk(mode) as one, listener.sdk(mode, "/mcp/other") as other:
                assert [tool.name for tool in (await one.list_tools()).tools] == ["echo"]
                assert [tool.name for tool in (await other.list_tools()).tools] == ["echo", "two"]
        async with listener.client() as client:
            missing = [
                await client.post(client.message("initialize", {"protocolVersion": LEGACY}), "/mcp/nope"),
                await client.modern("tools/list", path="/mcp/nope"),
            ]
            for response in missing:
                assert response.status_code == 404
                assert response.json()["error"]["message"] == "there is no endpoint 'nope'; there are: default, other"
            await client.initialize("/mcp/other")
            assert (await client.post(client.message("tools/list"))).status_code == 404


class Everything:
    """An exposure mode that shows all tools."""

    def __init__(self, settings, services):
        pass

    async def select(self, catalog, session):
        return Selection(tuple(entry.id for entry in catalog))


SHOWN = {("exposure_mode", "all"): Everything}


async def test_a_real_gateway_answers(services):
    async with (
        running({"files": ScriptedServer(["read_file"])}, tools_exposure="all", plugins=SHOWN) as gateway,
        listening(services, accept=gateway.accept) as listener,
        listener.sdk("legacy") as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["files__read_file"]
        answer = await client.call_tool("files__read_file", {"path": "x"})
        assert answer.structured_content == {"path": "x"}


async def test_params_and_results_pass_untouched(services):
    odd = b'{"name":"odd","arguments":{"big":123456789012345678901234567890,"f":1.0,"u":"\\u00e9\xc3\xa9"}}'
    seen = []

    async def answer(params, origin):
        seen.append(params.raw)
        return RawObject(odd)

    async with listening(services, Script(odd=answer)) as listener, listener.client() as client:
        await client.initialize()
        response = await client.post(b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":%b}' % odd)
        assert seen == [odd]
        assert response.content == b'{"jsonrpc":"2.0","id":"x","result":%b}' % odd
        assert response.headers["content-type"] == "application/json"


async def test_a_long_result_arrives_whole(services):
    async def long(params, origin):
        return text("x" * 5_000_000)

    async with listening(services, Script(long=long)) as listener, listener.sdk() as client:
        assert len((await client.call_tool("long", {})).content[0].text) == 5_000_000


# Beside MCP.


async def test_nothing_is_served_elsewhere(services):
    async with listening(services) as listener, listener.client() as client:
        response = await client.http.get("/")
        assert response.status_code == 404
        assert "/mcp" in response.json()["error"]["message"]


async def test_routes_of_plugins_are_under_their_names(services):
    async def page(request):
        return JSONResponse({"who": request.state.principal, "key": request.state.identity.access_key})

    async def broken(request):
        raise KeyError("an internal detail")

    routes = {"dash": [Route("/page", page), Route("/broken", broken)], "mcp": [Route("/x", page)], "none": []}
    async with listening(services, routes=routes, tokens={"ada": "secret"}) as listener, listener.client() as client:
        allowed = {"authorization": "Bearer secret"}
        assert (await client.http.get("/dash/page", headers=allowed)).json() == {"who": "ada", "key": ""}
        assert (await client.http.get("/dash/nothing", headers=allowed)).status_code == 404
        assert (await client.http.get("/none/page", headers=allowed)).status_code == 404
        assert (await client.http.get("/dash/page")).status_code == 401
        assert (await client.http.get("/dash/page", headers={**allowed, "host": "evil.example"})).status_code == 403
        failed = await client.http.get("/dash/broken", headers=allowed)
        assert failed.status_code == 500
        assert "internal detail" not in failed.text
        logged = [(event, fields.get("plugin")) for _, event, fields in services.log.lines]
        assert logged == [("http.routes_not_mounted", "mcp"), ("http.failed", None)]


@pytest.mark.attack("HTTP has limits", "send a page of a plugin's a body without end")
async def test_bodies_for_pages_are_bounded(services):
    async def page(request):
        return JSONResponse(len(await request.body()))

    async def body():
        for _ in range(100):
            yield b"x" * 1000

    routes = {"dash": [Route("/page", page, methods=["POST"])]}
    async with listening(services, routes=routes, max_body_bytes=2048) as listener, listener.client() as client:
        assert (await client.http.post("/dash/page", content=b"x" * 2048)).json() == 2048
        refused = await client.http.post("/dash/page", content=body())
        assert refused.status_code == 413
        assert "longer than 2048 bytes" in refused.text


# How it begins.


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1", "http://127.0.0.1:x", "https://127.0.0.1:1", "http://:80", "http://127.0.0.1:80/mcp"],
)
async def test_an_address_that_is_no_place_to_listen_is_refused(services, address):
    with pytest.raises(ValueError, match="listener 'default'"):
        async with listening(services, address=address):
            pass


async def test_a_listener_has_no_options(services):
    endpoint = Endpoint(name="x", address="http://127.0.0.1:0", options={"cwd": "."})
    with pytest.raises(ValueError, match="remove 'cwd'"):
        await Http(Settings(), services).serve(endpoint, lambda link, peer: Script(), started=lambda bound: None)


async def test_an_address_in_use_is_told(services):
    async with listening(services) as listener:
        with pytest.raises(TransportError, match=f"port {listener.port}: Address already in use"):
            async with listening(services, address=listener.url):
                pass


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
async def test_it_listens_on_ipv6(services):
    async with listening(services, address="http://[::1]:0") as listener, listener.sdk() as client:
        assert listener.url.startswith("http://[::1]:")
        assert (await client.list_tools()).tools
        assert listener.peers[0].address.startswith("[::1]:")


def test_importing_the_transport_imports_no_server():
    code = "import sys, pml_transport_http; print({'uvicorn', 'starlette', 'httpx2', 'mcp'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"set()\n"


# How it ends.


async def test_the_end_waits_for_requests_and_leaves_nothing(services):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(params, origin):
        begun.set()
        await go_on.wait()
        return text("in time")

    async def listen(params, origin):
        origin.link.notify("notifications/subscriptions/acknowledged", {})
        await asyncio.Event().wait()

    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    script = Script(slow=slow, **{"subscriptions/listen": listen})
    async with (
        listening(services, script) as listener,
        listener.client() as client,
        listener.client() as modern,
        listener.client() as late,
    ):
        assert (await late.http.get("/healthz")).status_code == 200
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
        await client.initialize()
        message, headers = modern.alone("subscriptions/listen")
        async with modern.stream(message, **headers) as listened, client.listen() as standing:
            assert await messages(listened, 1)
            calling = asyncio.ensure_future(client.post(client.calling("slow")))
            await begun.wait()
            stopping = asyncio.ensure_future(listener.stop())
            await script.cancelled.wait()
            while not stopping.done():
                try:
                    await late.modern("tools/list")
                except httpx2.TransportError:
                    break
            assert not stopping.done()
            go_on.set()
            assert (await calling).json()["result"] == text("in time")
            await stopping
            assert await messages(standing, 1) == []
        assert script.closings == [None, None]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", listener.port))


async def test_requests_that_take_too_long_are_called_off_at_the_end(services):
    begun = asyncio.Event()

    async def never(params, origin):
        begun.set()
        await asyncio.Event().wait()

    script = Script(never=never)
    async with listening(services, script, drain_s=0.05) as listener, listener.client() as client:
        await client.initialize()
        calling = asyncio.ensure_future(client.post(client.calling("never")))
        await begun.wait()
        await listener.stop()
        assert (await calling).json()["error"]["message"] == "The gateway is stopping"
        assert script.cancelled.is_set()
        assert script.closings == [None]


async def test_a_client_that_does_not_read_does_not_hold_up_the_end(services):
    async def long(params, origin):
        return text("x" * 30_000_000)

    async with listening(services, Script(long=long), drain_s=0.05) as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1024)
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"_meta": META, "name": "long"}}
        ).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{listener.port}\r\ncontent-type: application/json\r\n"
            f"mcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: long\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        async with asyncio.timeout(SOON_S):
            await listener.stop()
        writer.close()


async def test_no_more_connections_are_taken_at_the_end(services):
    async with listening(services) as listener:
        await listener.stop()
        async with listener.client() as client:
            with pytest.raises(httpx2.ConnectError):
                await client.http.get("/healthz")
