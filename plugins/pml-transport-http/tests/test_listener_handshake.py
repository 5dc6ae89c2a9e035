"""Revisions with a handshake: sessions, status codes, requests that are taken back."""

from __future__ import annotations

import asyncio
import json

import pytest
from listening import LEGACY, Script, events, listening, messages, text, until

from pml_hookspecs import RpcError, TransportError
from pml_testing.transport_ends import SOON_S

pytestmark = pytest.mark.anyio


def error_of(response):
    return response.json()["error"]


async def test_a_session_begins_with_initialize_and_ends_with_delete(services):
    async with listening(services) as listener, listener.client() as client:
        response = await client.initialize()
        assert response.json()["result"]["protocolVersion"] == LEGACY
        assert len(client.session["mcp-session-id"]) >= 32
        assert listener.script.notifications == [("notifications/initialized", {})]
        assert (await client.post(client.calling("echo"))).status_code == 200
        assert (await client.http.delete("/mcp", headers=client.session)).status_code == 200
        assert [type(error) for error in listener.script.closings] == [TransportError]
        assert (await client.post(client.calling("echo"))).status_code == 404
        assert (await client.http.delete("/mcp", headers=client.session)).status_code == 404
    assert len(listener.script.closings) == 1


async def test_each_client_has_a_session_and_a_handler_of_its_own(services):
    async with listening(services) as listener, listener.client() as one, listener.client() as two:
        await one.initialize()
        await two.initialize()
        assert one.session != two.session
        assert [peer.stateless for peer in listener.peers] == [False, False]


async def test_requests_need_a_session(services):
    async with listening(services) as listener, listener.client() as client:
        missing = await client.post(client.message("tools/list"))
        assert (missing.status_code, error_of(missing)["code"]) == (400, -32600)
        assert "Mcp-Session-Id" in error_of(missing)["message"]
        unknown = await client.post(client.message("tools/list"), mcp_session_id="nope")
        assert unknown.status_code == 404
        for verb in ("GET", "DELETE"):
            assert (await client.http.request(verb, "/mcp")).status_code == 400


@pytest.mark.parametrize(
    ("headers", "status", "said"),
    [
        ({"mcp_protocol_version": "1999-01-01"}, 400, "Unsupported protocol version"),
        ({"accept": "application/json"}, 406, "text/event-stream"),
        ({"accept": "text/html"}, 406, "application/json"),
        ({"content_type": "text/plain"}, 415, "application/json"),
    ],
)
async def test_headers_that_are_wrong_are_refused(services, headers, status, said):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        response = await client.post(client.calling("echo"), **headers)
        assert response.status_code == status
        assert said in error_of(response)["message"]
        assert not [method for method, _ in listener.script.requests if method == "tools/call"]


@pytest.mark.parametrize("accept", ["*/*", "application/*, text/*", "text/event-stream;q=0.5, application/json"])
async def test_accept_may_be_general(services, accept):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        assert (await client.post(client.calling("echo"), accept=accept)).status_code == 200


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (b"{", -32700, "not JSON"),
        (b'{"method":"\xff"}', -32700, "not JSON"),
        (b"[" * 100_000, -32600, "Batches"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, "Batches are not supported"),
        (b'"ping"', -32600, "single JSON-RPC message object"),
        (b"{}", -32600, "no method"),
        (b'{"id":1.5,"method":"ping"}', -32600, "single JSON-RPC message object"),
        (b'{"id":null,"method":"ping"}', -32600, "not null"),
        (b'{"id":1,"method":"ping","params":[]}', -32602, "params must be an object"),
    ],
)
async def test_a_body_that_is_no_message_is_refused(services, body, code, said):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        response = await client.post(body)
        assert (response.status_code, error_of(response)["code"]) == (400, code)
        assert said in error_of(response)["message"]


async def test_a_body_that_is_too_long_is_refused(services):
    async with listening(services, max_body_bytes=2000) as listener, listener.client() as client:
        await client.initialize()
        told = await client.post(client.calling("echo", {"x": "y" * 2000}))

        async def pieces():
            for _ in range(30):
                yield b" " * 100

        untold = await client.http.post("/mcp", content=pieces(), headers=client.session)
        for response in (told, untold):
            assert response.status_code == 413
            assert "max_body_bytes" in error_of(response)["message"]
        assert (await client.post(client.calling("echo"))).status_code == 200


async def test_other_methods_are_not_allowed(services):
    async with listening(services) as listener, listener.client() as client:
        response = await client.http.put("/mcp")
        assert (response.status_code, response.headers["allow"]) == (405, "GET, POST, DELETE")


async def test_initialize_is_for_new_sessions(services):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        again = await client.post(client.message("initialize", {"protocolVersion": LEGACY}))
        assert again.status_code == 400
        stranger = await client.post(client.message("initialize", {}), mcp_session_id="nope")
        assert stranger.status_code == 404


async def test_a_handshake_that_fails_leaves_no_session(services):
    async def refuse(params, origin):
        raise RpcError(-32602, "no such revision")

    script = Script()
    script.answer = lambda method, params, origin: refuse(params, origin)
    async with listening(services, script) as listener, listener.client() as client:
        response = await client.post(client.message("initialize", {"protocolVersion": "x"}))
        assert (response.status_code, error_of(response)["message"]) == (200, "no such revision")
        assert "mcp-session-id" not in response.headers
        assert script.closings == [None]


async def test_errors_are_answers_and_faults_are_not_told(services):
    async def refuse(params, origin):
        raise RpcError(-32001, "not today", {"why": "a test"})

    async def stumble(params, origin):
        raise KeyError("an internal detail")

    async def unsendable(params, origin):
        return {"a": object()}

    async def unsendable_error(params, origin):
        raise RpcError(1, "no", {"a": object()})

    async def cancel_itself(params, origin):
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    tools = {"stumble": stumble, "unsendable": unsendable, "worse": unsendable_error, "cancel": cancel_itself}
    async with listening(services, Script(refuse=refuse, **tools)) as listener, listener.client() as client:
        await client.initialize()
        response = await client.post(client.calling("refuse"))
        assert response.status_code == 200
        assert error_of(response) == {"code": -32001, "message": "not today", "data": {"why": "a test"}}
        for tool in tools:
            response = await client.post(client.calling(tool))
            assert error_of(response) == {"code": -32603, "message": "Internal error"}
    logged = [event for level, event, _ in services.log.lines if level == "exception"]
    assert logged == ["http.request_failed", "http.request_failed", "http.unsendable_error"]


async def test_a_handler_that_stumbles_over_notifications_or_the_end_hurts_nobody(services):
    class Odd(Script):
        def notification(self, method, params):
            raise ValueError(method)

        def closed(self, error):
            raise ValueError("closed")

    async with listening(services, Odd()) as listener, listener.client() as client:
        await client.initialize()
        await client.http.delete("/mcp", headers=client.session)
        assert (await client.modern("tools/list")).status_code == 200
    logged = [event for level, event, _ in services.log.lines if level == "exception"]
    assert logged == ["http.notification_failed", "http.closed_failed", "http.closed_failed"]


async def test_a_request_can_be_taken_back(services):
    begun = asyncio.Event()

    async def never(params, origin):
        begun.set()
        await asyncio.Event().wait()

    async with listening(services, Script(never=never)) as listener, listener.client() as client:
        await client.initialize()
        calling = asyncio.ensure_future(client.post(client.message("tools/call", {"name": "never"}, id="7")))
        await begun.wait()
        for wanted in (7, "8", "7"):
            assert not listener.script.cancelled.is_set()
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": wanted}}
            assert (await client.post(note)).status_code == 202
        assert error_of(await calling) == {"code": -32800, "message": "Request cancelled"}
        assert listener.script.cancelled.is_set()
        assert listener.script.notifications == [("notifications/initialized", {})]
        assert (await client.post(client.calling("echo"))).status_code == 200


async def test_a_request_outlives_its_connection(services):
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(params, origin):
        begun.set()
        await go_on.wait()
        done.set()
        return text("nobody hears")

    async with listening(services, Script(slow=slow)) as listener, listener.client() as client:
        await client.initialize()
        calling = asyncio.ensure_future(client.post(client.calling("slow")))
        await begun.wait()
        calling.cancel()
        await asyncio.wait([calling])
        assert (await client.post(client.calling("echo"))).status_code == 200
        go_on.set()
        async with asyncio.timeout(SOON_S):
            await done.wait()
        assert not listener.script.cancelled.is_set()


async def test_the_end_of_a_session_ends_its_requests(services):
    begun = asyncio.Event()
    failed = []

    async def ask(params, origin):
        begun.set()
        try:
            await listener.links[0].request("roots/list", {}, timeout_s=SOON_S)
        except TransportError as error:
            failed.append(str(error))
            raise

    async with listening(services, Script(ask=ask)) as listener, listener.client() as client:
        await client.initialize()
        calling = asyncio.ensure_future(client.post(client.calling("ask")))
        await begun.wait()
        waiting = asyncio.ensure_future(listener.links[0].request("ping", {}, timeout_s=SOON_S))
        async with client.listen() as standing:
            await client.http.delete("/mcp", headers=client.session)
            assert error_of(await calling)["message"] == "The session was ended"
            async for _ in events(standing):
                pass
        with pytest.raises(TransportError, match="the client ended the session"):
            await waiting
        with pytest.raises(TransportError, match="the client ended the session"):
            await listener.links[0].request("ping", {}, timeout_s=SOON_S)
        listener.links[0].notify("notifications/message", {})


async def test_sessions_belong_to_whoever_began_them(services):
    tokens = {"ada": "a-token", "bob": "b-token"}
    async with (
        listening(services, tokens=tokens) as listener,
        listener.client(authorization="Bearer a-token") as ada,
        listener.client(authorization="Bearer b-token") as bob,
    ):
        await ada.initialize()
        assert listener.peers[0].principal == "ada"
        bob.session = ada.session
        assert (await bob.post(bob.calling("echo"))).status_code == 404
        assert (await bob.http.delete("/mcp", headers=bob.session)).status_code == 404
        assert (await ada.post(ada.calling("echo"))).status_code == 200


async def test_sessions_that_nobody_uses_expire(services):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(params, origin):
        begun.set()
        await go_on.wait()
        return text("still here")

    async with (
        listening(services, Script(slow=slow), session_idle_s=1) as listener,
        listener.client() as idle,
        listener.client() as busy,
        listener.client() as listens,
    ):
        await busy.initialize()
        calling = asyncio.ensure_future(busy.post(busy.calling("slow")))
        await begun.wait()
        await listens.initialize()
        async with listens.listen():
            await idle.initialize()
            await until(lambda: listener.script.closings)
            assert (await idle.post(idle.calling("echo"))).status_code == 404
            assert listener.script.closings == [None]
            go_on.set()
            assert "still here" in (await calling).text
            assert (await listens.post(listens.calling("echo"))).status_code == 200


async def test_the_longest_idle_session_makes_way(services):
    async with (
        listening(services, max_sessions=2) as listener,
        listener.client() as one,
        listener.client() as two,
        listener.client() as three,
    ):
        await one.initialize()
        await two.initialize()
        await one.post(one.calling("echo"))
        await three.initialize()
        assert (await two.post(two.calling("echo"))).status_code == 404
        assert (await one.post(one.calling("echo"))).status_code == 200


async def test_when_all_sessions_are_in_use_no_more_begin(services):
    async with listening(services, max_sessions=1) as listener, listener.client() as one, listener.client() as two:
        await one.initialize()
        async with one.listen() as standing:
            assert standing.status_code == 200
            response = await two.post(two.message("initialize", {"protocolVersion": LEGACY}))
            assert response.status_code == 503
            assert "sessions are in use" in error_of(response)["message"]


async def test_those_who_have_most_make_room_for_one_who_has_none(services):
    keys = {"ada": "a", "ben": "b", "cyd": "c"}
    async with (
        listening(services, max_sessions=3, tokens=keys) as listener,
        listener.client(authorization="Bearer a") as ada,
        listener.client(authorization="Bearer b") as ben,
        listener.client(authorization="Bearer b") as again,
        listener.client(authorization="Bearer c") as cyd,
    ):
        for client in (ada, ben, again, cyd):
            await client.initialize()
        statuses = [(await client.post(client.calling("echo"))).status_code for client in (ada, ben, again, cyd)]
        assert statuses == [200, 404, 200, 200]
        # Now each has one that is idle, and whoever has one already gets no second in the place of another's.
        async with cyd.listen() as standing, listener.client(authorization="Bearer c") as more:
            assert standing.status_code == 200
            refused = await more.post(more.message("initialize", {"protocolVersion": LEGACY}))
            assert refused.status_code == 503


async def test_answers_to_nothing_are_counted(services):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        for answer in ({"id": 9, "result": {}}, {"id": None, "error": {"code": 1, "message": "x"}}):
            assert (await client.post({"jsonrpc": "2.0", **answer})).status_code == 202
        assert listener.links[0].counters["unknown"] == 2


async def test_what_the_client_is_asked_within_a_request_is_numbered_and_answered(services):
    async def ask(params, origin):
        outcomes = []
        for n in range(4):
            try:
                answer = await origin.link.request("roots/list", {"n": n}, timeout_s=SOON_S)
                outcomes.append(dict(answer))
            except (RpcError, TransportError) as error:
                outcomes.append(str(error))
        return text(json.dumps(outcomes))

    answers = [
        {"result": {"roots": []}},
        {"error": {"code": -1, "message": "no"}},
        {"result": 5},
        {"result": {}, "id": "4"},
    ]
    async with listening(services, Script(ask=ask)) as listener, listener.client() as client:
        await client.initialize()
        async with client.stream(client.calling("ask")) as response:
            assert response.headers["content-type"] == "text/event-stream"
            async for _, message in events(response):
                if message and "method" in message:
                    answer = {"jsonrpc": "2.0", "id": message["id"], **answers[message["params"]["n"]]}
                    assert (await client.post(answer)).status_code == 202
                elif message:
                    outcomes = json.loads(message["result"]["content"][0]["text"])
        assert outcomes == [{"roots": []}, "no", "the client answered with a result that is no object", {}]


async def test_a_question_that_is_not_answered_in_time_is_taken_back(services):
    async def ask(params, origin):
        with pytest.raises(TimeoutError, match=r"did not answer roots/list within 0\.05 s"):
            await origin.link.request("roots/list", {}, timeout_s=0.05)
        return text("went on")

    async with listening(services, Script(ask=ask)) as listener, listener.client() as client:
        await client.initialize()
        async with client.stream(client.calling("ask")) as response:
            asked, taken_back, answer = await messages(response, 3)
        assert asked["method"] == "roots/list"
        assert taken_back["method"] == "notifications/cancelled"
        assert taken_back["params"]["requestId"] == asked["id"]
        assert answer["result"] == text("went on")
