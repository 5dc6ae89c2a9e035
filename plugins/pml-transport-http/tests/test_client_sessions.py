"""Sessions that get lost, streams that break, servers that go away and come back."""

from __future__ import annotations

import asyncio
import json

import pytest

from pml_hookspecs import RpcError, TransportError
from pml_testing.transport_ends import LONG_S, SOON_S, Recorder

pytestmark = pytest.mark.anyio

AT_ONCE_S = 10.0
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
RESULT = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "prompts": {}}, "serverInfo": {}}


async def ask(link, method="m", params=None, *, timeout_s=SOON_S):
    return await link.request(method, params or {}, timeout_s=timeout_s)


async def handshake(link):
    result = await ask(link, "initialize", INITIALIZE)
    link.notify("notifications/initialized", {})
    return result


async def until(condition):
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - the other end has no event to wait for
            await asyncio.sleep(0.01)


class Sessions:
    """A server that keeps sessions, has no standalone stream, and forgets sessions when told to."""

    def __init__(self, *, refusal="404 Not Found", body=b""):
        self.refusal, self.body = refusal, body
        self.made, self.known = 0, set()
        self.initialized = []

    async def __call__(self, request, stream):
        session = request.headers.get("mcp-session-id")
        if request.method == "DELETE":
            self.known.discard(session)
            return await stream.status("200 OK")
        if request.method == "GET":
            return await stream.status("405 Method Not Allowed")
        message = request.message
        if message.get("method") == "initialize":
            assert session is None
            self.made += 1
            self.known.add(f"s{self.made}")
            return await stream.result(request, RESULT, Mcp_Session_Id=f"s{self.made}")
        if session not in self.known:
            return await stream.status(self.refusal, self.body, kind="application/json")
        if message.get("method") == "notifications/initialized":
            self.initialized.append(session)
        return await self.answer(request, stream)

    async def answer(self, request, stream):
        return await stream.result(request, {"session": request.headers["mcp-session-id"]})


async def test_later_messages_carry_the_session_and_the_revision(raw, connect):
    server = await raw(Sessions())
    async with connect(server.url) as link:
        await handshake(link)
        assert await ask(link) == {"session": "s1"}
    first, *others = server.requests
    assert "mcp-protocol-version" not in first.headers
    assert {request.headers["mcp-session-id"] for request in others} == {"s1"}
    assert {request.headers["mcp-protocol-version"] for request in others} == {"2025-06-18"}


async def test_requests_wait_until_the_server_knows_that_the_handshake_is_over(raw, connect):
    class Slow(Sessions):
        async def answer(self, request, stream):
            if request.message["method"] == "notifications/initialized":
                await asyncio.sleep(0.1)
                done.set()
            assert done.is_set()
            return await super().answer(request, stream)

    done = asyncio.Event()
    async with connect((await raw(Slow())).url) as link:
        await handshake(link)
        assert await ask(link) == {"session": "s1"}


async def test_leaving_ends_the_session(raw, connect):
    sessions = Sessions()
    async with connect((await raw(sessions)).url) as link:
        await handshake(link)
        assert sessions.known == {"s1"}
    assert sessions.known == set()


async def test_leaving_does_not_wait_for_a_server_that_hangs(raw, connect):
    class Hanging(Sessions):
        async def __call__(self, request, stream):
            if request.method == "DELETE":
                await asyncio.Event().wait()
            return await super().__call__(request, stream)

    loop = asyncio.get_running_loop()
    async with connect((await raw(Hanging())).url) as link:
        await handshake(link)
        began = loop.time()
    assert loop.time() - began < SOON_S


LOST = {
    "404": ("404 Not Found", b""),
    "404 with an error": ("404 Not Found", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"gone"}}'),
    "400": ("400 Bad Request", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session ID"}}'),
}


@pytest.mark.parametrize("how", LOST)
async def test_a_lost_session_is_made_anew_and_the_request_sent_again(raw, connect, how):
    sessions = Sessions(refusal=LOST[how][0], body=LOST[how][1])
    server = await raw(sessions)
    handler = Recorder()
    async with connect(server.url, handler=handler) as link:
        await handshake(link)
        await ask(link, "logging/setLevel", {"level": "error"})
        await ask(link, "resources/subscribe", {"uri": "a:1"})
        await ask(link, "resources/subscribe", {"uri": "a:2"})
        await ask(link, "resources/unsubscribe", {"uri": "a:1"})
        sessions.known.clear()
        before = len(server.requests)
        assert await asyncio.gather(*(ask(link) for _ in range(5))) == [{"session": "s2"}] * 5
        after = [
            r.message
            for r in server.requests[before:]
            if r.method == "POST" and r.headers.get("mcp-session-id") != "s1"
        ]
    assert sessions.made == 2
    assert after[0]["params"] == INITIALIZE
    assert [m["method"] for m in after[1:4]] == ["notifications/initialized", "logging/setLevel", "resources/subscribe"]
    assert after[3]["params"] == {"uri": "a:2"}
    assert [method for method, _ in handler.notifications] == [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
    ]
    assert handler.closings == [None]


async def test_a_server_that_keeps_no_session_fails_the_request(raw, connect):
    class Forgetful(Sessions):
        async def __call__(self, request, stream):
            if request.method == "POST" and request.message.get("method") == "m":
                self.known.clear()
            return await super().__call__(request, stream)

    sessions = Forgetful()
    async with connect((await raw(sessions)).url) as link:
        await handshake(link)
        with pytest.raises(TransportError, match="loses its sessions"):
            await ask(link)
    assert sessions.made == 2


async def test_an_error_answer_with_status_404_is_no_lost_session(raw, connect):
    class Unknown(Sessions):
        async def answer(self, request, stream):
            error = {"jsonrpc": "2.0", "id": request.message.get("id"), "error": {"code": -32601, "message": "no"}}
            return await stream.status("404 Not Found", json.dumps(error).encode(), kind="application/json")

    sessions = Unknown()
    async with connect((await raw(sessions)).url) as link:
        await handshake(link)
        with pytest.raises(RpcError, match="no"):
            await ask(link)
    assert sessions.made == 1


class Streaming(Sessions):
    """With a standalone stream, whose replies are taken from ``script``."""

    def __init__(self, *script):
        super().__init__()
        self.script, self.gets = list(script), []

    async def __call__(self, request, stream):
        if request.method != "GET":
            return await super().__call__(request, stream)
        self.gets.append(request.headers)
        if self.script:
            return await self.script.pop(0)(stream)
        await stream.open()
        return await asyncio.Event().wait()


def notification(n):
    return {"jsonrpc": "2.0", "method": "notifications/n", "params": {"n": n}}


async def test_what_a_server_says_unasked_arrives_and_goes_on_where_it_broke_off(raw, connect):
    async def break_off(stream):
        await stream.open()
        await stream.chunk(b"retry: 10\n\n")
        await stream.event(notification(1), id="one")
        stream.writer.transport.abort()
        return "closed"

    async def close(stream):
        await stream.open()
        await stream.event(notification(2), id="two")
        await stream.event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
        await stream.close()

    sessions, handler = Streaming(break_off, close), Recorder()
    server = await raw(sessions)
    async with connect(server.url, handler=handler) as link:
        await handshake(link)
        await until(lambda: len(sessions.gets) == 3)
        await until(lambda: any(b'"result"' in request.body for request in server.requests))
        assert await ask(link) == {"session": "s1"}
    assert [headers.get("last-event-id") for headers in sessions.gets] == [None, "one", "two"]
    assert {headers["accept"] for headers in sessions.gets} == {"text/event-stream"}
    assert [params["n"] for _, params in handler.notifications] == [1, 2]
    assert handler.closings == [None]


async def test_a_standalone_stream_that_finds_its_session_gone_makes_another(raw, connect):
    async def lose(stream):
        await stream.open()
        await stream.close()
        sessions.known.clear()

    async def refuse(stream):
        await stream.status("404 Not Found")

    sessions, handler = Streaming(lose, refuse), Recorder()
    async with connect((await raw(sessions)).url, handler=handler) as link:
        await handshake(link)
        await until(lambda: len(sessions.gets) == 3)
    assert sessions.made == 2
    assert [method for method, _ in handler.notifications] == [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
    ]


@pytest.mark.parametrize("status", ["405 Method Not Allowed", "404 Not Found", "400 Bad Request", "403 Forbidden"])
async def test_a_server_without_a_standalone_stream_is_asked_once(raw, connect, status):
    async def refuse(stream):
        await stream.status(status)

    sessions = Streaming(refuse)
    async with connect((await raw(sessions)).url) as link:
        await handshake(link)
        await until(lambda: sessions.gets)
        for _ in range(3):
            await ask(link)
        await asyncio.sleep(0.1)
    assert len(sessions.gets) == 1
    assert sessions.made == 1


async def test_an_answer_that_breaks_off_is_resumed(raw, connect):
    class Resumed(Sessions):
        async def __call__(self, request, stream):
            if request.method != "GET" or "last-event-id" not in request.headers:
                return await super().__call__(request, stream)
            seen.append(request.headers["last-event-id"])
            if len(seen) == 1:
                return await stream.status("503 Service Unavailable")
            await stream.open()
            if len(seen) == 2:
                await stream.event(notification(2), id="e2")
                stream.writer.transport.abort()
                return "closed"
            await stream.event({"jsonrpc": "2.0", "id": asked[0], "result": {"n": 3}}, id="e3")
            return await stream.close()

        async def answer(self, request, stream):
            if request.message["method"] != "m":
                return await super().answer(request, stream)
            asked.append(request.message["id"])
            await stream.open()
            await stream.chunk(b"id: e1\nretry: 5\ndata:\n\n")
            return await stream.close()

    seen, asked, handler = [], [], Recorder()
    async with connect((await raw(Resumed())).url, handler=handler) as link:
        await handshake(link)
        assert await ask(link) == {"n": 3}
    assert seen == ["e1", "e1", "e2"]
    assert len(asked) == 1
    assert [params for _, params in handler.notifications] == [{"n": 2}]


async def test_an_answer_that_breaks_off_for_good_fails_by_its_deadline(raw, connect):
    class Never(Sessions):
        async def __call__(self, request, stream):
            if request.method == "GET":
                return await stream.status("503 Service Unavailable")
            return await super().__call__(request, stream)

        async def answer(self, request, stream):
            if request.message["method"] != "m":
                return await super().answer(request, stream)
            await stream.open()
            await stream.chunk(b"id: e1\ndata:\n\n")
            return await stream.close()

    async with connect((await raw(Never())).url) as link:
        await handshake(link)
        with pytest.raises(TimeoutError, match="git"):
            await ask(link, timeout_s=0.3)


@pytest.mark.parametrize("has_one", [True, False], ids=["opened", "refused"])
async def test_no_request_leaves_before_the_standalone_stream_is_open_or_refused(raw, connect, has_one):
    class Slow(Sessions):
        async def __call__(self, request, stream):
            if request.method != "GET":
                return await super().__call__(request, stream)
            coming.set()
            await said.wait()
            if not has_one:
                return await stream.status("405 Method Not Allowed")
            await stream.open()
            return await asyncio.Event().wait()

    coming, said = asyncio.Event(), asyncio.Event()
    server = await raw(Slow())
    async with connect(server.url) as link:
        await handshake(link)
        asked = asyncio.ensure_future(ask(link))
        async with asyncio.timeout(SOON_S):
            await coming.wait()
        await asyncio.sleep(0.05)
        assert server.posted("m") == []
        said.set()
        assert await asked == {"session": "s1"}


async def test_a_server_that_does_not_say_whether_it_has_a_stream_is_not_waited_for_for_long(raw, connect, monkeypatch):
    class Silent(Sessions):
        async def __call__(self, request, stream):
            if request.method == "GET":
                return await asyncio.Event().wait()
            return await super().__call__(request, stream)

    monkeypatch.setattr("pml_transport_http.standalone.OPENING_S", 0.05)
    async with connect((await raw(Silent())).url) as link:
        await handshake(link)
        assert await ask(link) == {"session": "s1"}


async def test_a_server_that_goes_away_fails_everything_at_once_and_ends_the_link(raw, connect):
    class Holding(Sessions):
        async def answer(self, request, stream):
            if request.message.get("method") == "m":
                held.append(request)
                await asyncio.Event().wait()
            return await super().answer(request, stream)

    held, handler = [], Recorder()
    server = await raw(Holding())
    async with connect(server.url, handler=handler) as link:
        await handshake(link)
        asked = [asyncio.ensure_future(ask(link, timeout_s=LONG_S)) for _ in range(20)]
        await until(lambda: len(held) == 20)
        await server.stop()
        async with asyncio.timeout(AT_ONCE_S):
            failures = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(failure) for failure in failures} == {TransportError}
        assert all(failure.retryable for failure in failures)
        await until(lambda: handler.closings)
        with pytest.raises(TransportError, match="'git' cannot be reached"):
            await ask(link)
    assert len(handler.closings) == 1
    assert "cannot be reached" in str(handler.closings[0])


async def test_one_broken_connection_does_not_end_the_link(raw, connect):
    class Breaking(Sessions):
        async def answer(self, request, stream):
            if request.message["method"] == "break":
                stream.writer.transport.abort()
                return "closed"
            return await super().answer(request, stream)

    handler = Recorder()
    async with connect((await raw(Breaking())).url, handler=handler) as link:
        await handshake(link)
        with pytest.raises(TransportError, match="connection broke") as caught:
            await ask(link, "break")
        assert caught.value.retryable
        assert await ask(link) == {"session": "s1"}
        assert handler.closings == []


async def test_a_server_restarted_on_the_same_port_is_found_again(raw, connect):
    sessions, handler = Sessions(), Recorder()
    server = await raw(sessions)
    async with connect(server.url, handler=handler) as link:
        await handshake(link)
        await server.stop()
        sessions.known.clear()
        assert await server.start() == server.url
        # Whether the kept connection was found dead before it was used, or after, is the operating system's business.
        try:
            answer = await ask(link)
        except TransportError:
            answer = await ask(link)
        assert answer == {"session": "s2"}
        assert handler.closings == []


async def test_a_server_that_is_not_there_is_told_on_entry(connect):
    with pytest.raises(TransportError, match=r"'git' cannot be reached at http://127\.0\.0\.1:9/mcp") as caught:
        async with connect("http://user:secret@127.0.0.1:9/mcp?key=secret"):
            pass
    assert caught.value.retryable
    assert "secret" not in str(caught.value)
