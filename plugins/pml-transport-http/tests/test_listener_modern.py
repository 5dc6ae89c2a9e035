"""Revisions without handshake: what a request must say, and that each stands alone."""

from __future__ import annotations

import asyncio

import pytest
from listening import (
    COMPLETE,
    LEGACY,
    META,
    MODERN,
    PROGRESS,
    Script,
    as_lines,
    events,
    listening,
    messages,
    text,
    wire,
)

from pml_hookspecs import RpcError
from pml_kit.mcp.protocol import HANDSHAKE_REVISIONS, META_CLIENT_CAPABILITIES, META_PROTOCOL_VERSION
from pml_testing.transport_ends import SOON_S
from pml_transport_http.server import stateless, streams
from pml_transport_http.settings import Key

pytestmark = pytest.mark.anyio
MISMATCH, INVALID_PARAMS, UNSUPPORTED = -32020, -32602, -32022


def without(key):
    return {name: value for name, value in META.items() if name != key}


def with_version(version):
    return {**META, META_PROTOCOL_VERSION: version}


@pytest.mark.parametrize(
    ("meta", "headers", "code"),
    [
        (None, {}, INVALID_PARAMS),
        ("text", {}, INVALID_PARAMS),
        (without(META_PROTOCOL_VERSION), {}, INVALID_PARAMS),
        (without(META_CLIENT_CAPABILITIES), {}, INVALID_PARAMS),
        (META, {"mcp_protocol_version": None}, MISMATCH),
        (META, {"mcp_protocol_version": LEGACY}, MISMATCH),
        (META, {"mcp_protocol_version": "2099-01-01"}, MISMATCH),
        (with_version("2099-01-01"), {}, MISMATCH),
        (with_version(None), {}, MISMATCH),
        (with_version(5), {}, MISMATCH),
        (META, {"mcp_method": None}, MISMATCH),
        (META, {"mcp_method": "TOOLS/CALL"}, MISMATCH),
        (META, {"mcp_name": None}, MISMATCH),
        (META, {"mcp_name": "other"}, MISMATCH),
        (META, {"mcp_name": "=?base64?ZWNobw?="}, MISMATCH),
        (META, {"mcp_name": "=?base64?ZWNo!!!bw==?="}, MISMATCH),
    ],
)
async def test_a_request_that_says_too_little_or_two_things_is_refused(services, meta, headers, code):
    async with listening(services) as listener, listener.client() as client:
        params = {"name": "echo", "arguments": {}, "_meta": meta}
        response = await client.modern("tools/call", params, **headers)
        assert (response.status_code, response.json()["error"]["code"]) == (400, code)
        assert response.json()["id"] == 1
        assert "mcp-session-id" not in response.headers
        assert not [method for method, _ in listener.script.requests if method == "tools/call"]


async def test_a_revision_that_is_not_known_is_told_with_those_that_are(services):
    async with listening(services) as listener, listener.client() as client:
        params = {"_meta": with_version("2099-01-01")}
        response = await client.modern("tools/list", params, mcp_protocol_version="2099-01-01")
        assert response.status_code == 400
        error = response.json()["error"]
        assert (error["code"], error["data"]) == (UNSUPPORTED, {"supported": [MODERN], "requested": "2099-01-01"})
        nothing = await client.post(client.message("tools/list"), mcp_protocol_version="2099-01-01")
        assert nothing.json()["error"]["data"]["supported"] == [*HANDSHAKE_REVISIONS, MODERN]


@pytest.mark.parametrize("name", [" \t echo \t", "=?base64?ZWNobw==?=", " =?base64?ZWNobw==?= "])
async def test_names_may_be_padded_or_encoded(services, name):
    async with listening(services) as listener, listener.client() as client:
        message, headers = client.alone("tools/call", {"name": "echo"})
        usual = {"host": f"localhost:{listener.port}", "content-type": "application/json"}
        status, answer = await wire(listener.port, as_lines({**usual, **headers, "mcp_name": name}), message)
        assert (status, answer["result"]) == (200, text("{}"))


async def test_a_uri_is_a_name_as_well(services):
    async def read(params, origin):
        return {"contents": [], **COMPLETE}

    async with listening(services, Script(**{"resources/read": read})) as listener, listener.client() as client:
        assert (await client.modern("resources/read", {"uri": "test://x"})).status_code == 200
        wrong = await client.modern("resources/read", {"uri": "test://x"}, mcp_name="test://y")
        assert wrong.json()["error"]["code"] == MISMATCH


async def test_a_task_is_a_name_where_the_client_sends_it(services):
    async def get(params, origin):
        return {**COMPLETE}

    async with listening(services, Script(**{"tasks/get": get})) as listener, listener.client() as client:
        assert (await client.modern("tasks/get", {"taskId": "t"})).status_code == 200
        assert (await client.modern("tasks/get", {"taskId": "t"}, mcp_name="t")).status_code == 200
        wrong = await client.modern("tasks/get", {"taskId": "t"}, mcp_name="u")
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, MISMATCH)


@pytest.mark.parametrize("header", ["mcp-protocol-version", "mcp-method", "mcp-name"])
async def test_a_header_that_routes_comes_once(services, header):
    async with listening(services) as listener, listener.client() as client:
        message, headers = client.alone("tools/call", {"name": "echo"})
        usual = {"host": f"localhost:{listener.port}", "content-type": "application/json"}
        twice = {header: headers[header.replace("-", "_")]}
        status, answer = await wire(listener.port, as_lines({**usual, **headers}) + as_lines(twice), message)
        assert (status, answer["id"], answer["error"]["code"]) == (400, 1, MISMATCH)
        assert answer["error"]["message"] == f"{header} header appears more than once"


@pytest.mark.parametrize(
    ("code", "status"),
    [(-32601, 404), (-32602, 400), (-32021, 400), (-32600, 400), (-32020, 400), (-32603, 200), (-31999, 200)],
)
async def test_errors_have_the_status_that_goes_with_their_code(services, code, status):
    async def refuse(params, origin):
        raise RpcError(code, "no", {"requiredCapabilities": {"sampling": {}}})

    async with listening(services, Script(refuse=refuse)) as listener, listener.client() as client:
        response = await client.modern("tools/call", {"name": "refuse"})
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
        assert response.json()["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}


async def test_a_fault_is_not_told(services):
    async def stumble(params, origin):
        raise KeyError("an internal detail")

    async with listening(services, Script(stumble=stumble)) as listener, listener.client() as client:
        response = await client.modern("tools/call", {"name": "stumble"})
        assert (response.status_code, response.json()["error"]["message"]) == (200, "Internal error")
        assert "detail" not in response.text


async def test_other_bodies_and_verbs(services):
    async with listening(services) as listener, listener.client() as client:
        version = {"mcp_protocol_version": MODERN}
        for verb in ("GET", "DELETE", "PUT"):
            response = await client.http.request(verb, "/mcp", headers={"mcp-protocol-version": MODERN})
            assert (response.status_code, response.headers["allow"]) == (405, "POST")
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert (await client.post(note, **version)).status_code == 202
        note["params"] = {"_meta": META}
        assert (await client.post(note)).status_code == 400
        answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert (await client.post(answer, **version)).status_code == 400
        assert (await client.post(b"[]", **version)).status_code == 400
        assert (await client.modern("tools/list", accept="application/json")).status_code == 406
        assert (await client.modern("tools/list", content_type="text/json")).status_code == 415
        assert listener.script.notifications == []


async def test_one_handler_serves_all_requests_of_one_principal_to_one_endpoint(services):
    tokens = {"ada": "a-token", "bob": "b-token"}
    async with listening(services, tokens=tokens) as listener:
        for token in ("a-token", "b-token", "a-token"):
            async with listener.client(authorization=f"Bearer {token}") as client:
                assert (await client.modern("tools/list")).status_code == 200
                assert (await client.modern("tools/list", path="/mcp/other")).status_code == 200
        found = [(peer.principal, peer.endpoint, peer.stateless) for peer in listener.peers]
        assert found == [
            ("ada", "default", True),
            ("ada", "other", True),
            ("bob", "default", True),
            ("bob", "other", True),
        ]
    assert listener.script.closings == [None] * 4


@pytest.mark.attack("HTTP has limits", "come with key after key, so that stateless clients of others make way")
async def test_clients_of_others_do_not_make_way(services):
    scripts = {}

    def accept(link, peer):
        return scripts.setdefault(peer.scopes or peer.principal, Script())

    keys = {str(n): Key(token=f"m{n}", principal="mallory", scopes=(str(n),)) for n in range(6)}
    async with listening(services, accept=accept, max_sessions=3, tokens={"alice": "a", **keys}) as listener:
        for token in ("a", *(key.token for key in keys.values()), "a"):
            async with listener.client(authorization=f"Bearer {token}") as client:
                assert (await client.modern("tools/list")).status_code == 200
        assert [len(script.closings) for script in scripts.values()] == [0, 1, 1, 1, 1, 0, 0]


async def test_a_session_header_is_ignored(services):
    async with listening(services) as listener, listener.client() as client:
        assert (await client.modern("tools/list", mcp_session_id="nope")).status_code == 200


# Streams.


async def test_notifications_come_before_the_answer_and_have_no_ids(services):
    kept = []

    async def tell(params, origin):
        kept.append(origin.link)
        for done in range(3):
            origin.link.notify(PROGRESS, {"progressToken": 1, "progress": done})
        origin.link.notify(PROGRESS, {"progressToken": 1, "progress": object()})
        return text("done")

    async with listening(services, Script(tell=tell)) as listener, listener.client() as client:
        message, headers = client.alone("tools/call", {"name": "tell"})
        async with client.stream(message, **headers) as response:
            assert response.headers["content-type"] == "text/event-stream"
            found = [event async for event in events(response)]
        assert [id for id, _ in found] == [None] * 4
        assert [message["params"]["progress"] for _, message in found[:3]] == [0, 1, 2]
        assert found[3][1]["result"] == text("done")
        kept[0].notify(PROGRESS, {"progressToken": 1, "progress": 9})


async def test_a_silent_request_becomes_a_stream_with_comments(services, monkeypatch):
    monkeypatch.setattr(stateless, "PING_S", 0.02)
    monkeypatch.setattr(streams, "PING_S", 0.02)
    go_on = asyncio.Event()

    async def slow(params, origin):
        await go_on.wait()
        return text("late")

    async with listening(services, Script(slow=slow)) as listener, listener.client() as client:
        message, headers = client.alone("tools/call", {"name": "slow"})
        lines = []
        async with client.stream(message, **headers) as response:
            async for line in response.aiter_lines():
                lines.append(line)
                if lines.count(": ping") == 2:
                    go_on.set()
        assert lines[0] == ": ping"
        assert "late" in lines[-2]


@pytest.mark.parametrize("streamed", [False, True])
async def test_closing_the_response_takes_the_request_back(services, streamed):
    begun = asyncio.Event()

    async def never(params, origin):
        if streamed:
            origin.link.notify(PROGRESS, {"progressToken": 1, "progress": 1})
        begun.set()
        await asyncio.Event().wait()

    async with listening(services, Script(never=never)) as listener, listener.client() as client:
        message, headers = client.alone("tools/call", {"name": "never"})

        async def call():
            async with client.stream(message, **headers) as response:
                await messages(response, 1)

        calling = asyncio.ensure_future(call())
        await begun.wait()
        calling.cancel()
        async with asyncio.timeout(SOON_S):
            await listener.script.cancelled.wait()
        await asyncio.wait([calling])
        assert (await client.modern("tools/list")).status_code == 200


async def test_a_subscription_lasts_until_the_client_leaves(services):
    links = []

    async def listen(params, origin):
        origin.link.notify("notifications/subscriptions/acknowledged", {})
        links.append(origin.link)
        await asyncio.Event().wait()

    script = Script(**{"subscriptions/listen": listen})
    async with listening(services, script) as listener, listener.client() as client:
        message, headers = client.alone("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async with client.stream(message, **headers) as response:
            reading = events(response)
            assert (await anext(reading))[1]["method"] == "notifications/subscriptions/acknowledged"
            links[0].notify("notifications/tools/list_changed", {})
            assert (await anext(reading))[1]["method"] == "notifications/tools/list_changed"
            assert not script.cancelled.is_set()
        async with asyncio.timeout(SOON_S):
            await script.cancelled.wait()


@pytest.mark.parametrize("era", ["modern", "handshake"])
@pytest.mark.parametrize("own", [{}, {"traceparent": "00-own"}])
async def test_a_trace_that_headers_tell_of_goes_on_unless_meta_has_one(services, era, own):
    said = {"traceparent": f"00-{'4' * 32}-{'5' * 16}-01", "tracestate": "rojo=1", "baggage": "team=blue"}
    async with listening(services) as listener, listener.client() as client:
        if era == "modern":
            told = await client.modern("tools/call", {"name": "echo", "_meta": {**META, **own}}, **said)
        else:
            await client.initialize()
            told = await client.post(client.calling("echo", _meta={"x/y": 1, **own}), **said)
        assert told.status_code == 200
    taken = next(params for method, params in listener.script.requests if method == "tools/call")
    expected = {**(META if era == "modern" else {"x/y": 1}), **(own or said)}
    assert taken["_meta"] == expected


async def test_headers_without_a_trace_change_nothing(services):
    async with listening(services) as listener, listener.client() as client:
        await client.modern("tools/call", {"name": "echo"}, tracestate="rojo=1", baggage="team=blue")
    taken = next(params for method, params in listener.script.requests if method == "tools/call")
    assert taken["_meta"] == META
