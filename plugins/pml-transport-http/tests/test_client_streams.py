"""What the client makes of answers, however they come."""

from __future__ import annotations

import asyncio
import contextvars
import json

import pytest

from pml_hookspecs import RpcError, TransportError
from pml_kit.mcp.protocol import META_PROTOCOL_VERSION
from pml_testing.transport_ends import LONG_S, SOON_S, Recorder

pytestmark = pytest.mark.anyio

SHORT_S = 0.2
MODERN = {"_meta": {META_PROTOCOL_VERSION: "2026-07-28"}}
caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


def answer(request, **result):
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": result}


async def ask(link, method="m", params=None, *, timeout_s=SOON_S):
    return await link.request(method, params or {}, timeout_s=timeout_s)


async def test_big_numbers_and_unknown_members_pass_through(raw, connect):
    text = b'{"big":123456789012345678901234567890, "float":1.0,"x":{"y":[null]}}'

    async def reply(request, stream):
        await stream.json(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (request.message["id"], text))

    async with connect((await raw(reply)).url) as link:
        assert (await ask(link)).raw == text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_a_stream_is_understood_however_it_is_cut(raw, connect, end, size):
    async def reply(request, stream):
        await stream.open()
        lines = [
            ": a comment",
            "event: message",
            "id: 1",
            'data:{"jsonrpc": "2.0", "method": "notifications/n", "params": {"t": "é€😀"}}',
            "",
            "event: ping",
            "data: not for us",
            "",
            'data: {"jsonrpc": "2.0",',
            f'data: "id": {request.message["id"]},',
            'data: "result": {"t": "é€😀"}}',
            "",
            "",
        ]
        data = end.join(lines).encode()
        for start in range(0, len(data), size):
            await stream.chunk(data[start : start + size])
        await stream.close()

    handler = Recorder()
    async with connect((await raw(reply)).url, handler=handler) as link:
        assert await ask(link) == {"t": "é€😀"}
    assert handler.notifications == [("notifications/n", {"t": "é€😀"})]


async def test_an_event_that_the_stream_ends_in_counts(raw, connect):
    async def reply(request, stream):
        await stream.open()
        await stream.chunk(f"data: {json.dumps(answer(request, ok=True))}".encode())
        await stream.close()

    async with connect((await raw(reply)).url) as link:
        assert await ask(link) == {"ok": True}


async def test_ten_megabytes_in_one_event_arrive(raw, connect):
    async def reply(request, stream):
        await stream.open()
        await stream.event(answer(request, text="x" * 10_000_000))
        await stream.close()

    async with connect((await raw(reply)).url) as link:
        assert len((await ask(link))["text"]) == 10_000_000


@pytest.mark.parametrize("events", [True, False])
async def test_a_message_over_the_limit_fails_its_request(raw, connect, events):
    async def reply(request, stream):
        message = answer(request, text="x" * (3 << 20))
        if not events:
            return await stream.json(message)
        await stream.open()
        await stream.event(message)
        return await stream.close()

    async with connect((await raw(reply)).url, settings={"max_message_bytes": 1 << 20}) as link:
        with pytest.raises(TransportError, match=r"'git'.*max_message_bytes = 1048576") as caught:
            await ask(link)
    assert not caught.value.retryable


@pytest.mark.parametrize("id", ["text", "float", "batch", "nan"])
async def test_odd_answers_are_understood(raw, connect, id):
    async def reply(request, stream):
        key = request.message["id"]
        forms = {
            "text": b'{"id": "%d", "result": {"a": 1}}' % key,
            "float": b'{"jsonrpc": "2.0", "id": %d.0, "result": {"a": 1}}' % key,
            "batch": b'[{"jsonrpc": "2.0", "method": "n"}, {"jsonrpc": "2.0", "id": %d, "result": {"a": 1}}]' % key,
            "nan": b'{"jsonrpc": "2.0", "id": %d, "result": {"a": 1, "b": NaN}}' % key,
        }
        await stream.json(forms[id])

    async with connect((await raw(reply)).url) as link:
        assert (await ask(link))["a"] == 1


REFUSALS = {
    "json": ("200 OK", b"{nonsense", "application/json", "no JSON-RPC message: {nonsense", False),
    "other id": ("200 OK", b'{"jsonrpc":"2.0","id":99,"result":{}}', "application/json", "another id", False),
    "no object": ("200 OK", b'{"jsonrpc":"2.0","id":1,"result":[]}', "application/json", "not an object", False),
    "html": ("200 OK", b"<html>hello", "text/html", "text/html instead of JSON or events: <html>hello", False),
    "taken": ("202 Accepted", b"", "", "took m for a notification", False),
    "empty": ("200 OK", b"", "text/event-stream", "without a result", True),
    "500": ("500 Internal Server Error", b"on fire", "text/plain", "HTTP status 500 .*: on fire", True),
    "503": ("503 Service Unavailable", b"", "text/plain", "HTTP status 503", True),
    "429": ("429 Too Many Requests", b"", "text/plain", "HTTP status 429", True),
    "404": ("404 Not Found", b"no such page", "text/plain", "HTTP status 404 Not Found: no such page", False),
    "401": ("401 Unauthorized", b"", "text/plain", "run: pml auth login git", True),
    "403": ("403 Forbidden", b"", "text/plain", "run: pml auth login git", False),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_an_answer_that_is_none_fails_its_request_and_no_other(raw, connect, name):
    status, body, kind, message, retryable = REFUSALS[name]

    async def reply(request, stream):
        if request.message["method"] == "m":
            await stream.status(status, body, kind=kind)
        else:
            await stream.result(request, {"fine": True})

    handler = Recorder()
    async with connect((await raw(reply)).url, handler=handler) as link:
        with pytest.raises(TransportError, match=message) as caught:
            await ask(link)
        assert "git" in str(caught.value)
        assert caught.value.retryable is retryable
        assert await ask(link, "other") == {"fine": True}
        assert handler.closings == []
    assert handler.closings == [None]


@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "200 OK", "500 Internal Server Error"])
async def test_an_error_of_the_protocol_is_one_whatever_the_status(raw, connect, status):
    async def reply(request, stream):
        error = {"code": -32601, "message": "no such method", "data": [1]}
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "error": error}).encode()
        await stream.status(status, body, kind="application/json")

    async with connect((await raw(reply)).url) as link:
        with pytest.raises(RpcError) as caught:
            await ask(link)
    assert caught.value.to_wire() == {"code": -32601, "message": "no such method", "data": [1]}


async def test_answers_that_nobody_waits_for_are_counted(raw, connect):
    async def reply(request, stream):
        await stream.open()
        await stream.event({"jsonrpc": "2.0", "id": 77, "result": {}})
        await stream.event(answer(request, n=1))
        await stream.event(answer(request, n=2))
        await stream.close()

    async with connect((await raw(reply)).url) as link:
        assert await ask(link) == {"n": 1}
        assert link.counters["unknown"] >= 1


async def test_a_stream_that_stays_open_after_the_answer_keeps_nobody(raw, connect):
    async def reply(request, stream):
        await stream.open()
        await stream.event(answer(request))
        await asyncio.Event().wait()

    async with connect((await raw(reply)).url) as link:
        assert await ask(link, timeout_s=SHORT_S * 5) == {}


async def test_a_server_that_does_not_answer_costs_its_caller_the_time_limit_only(raw, connect):
    async def reply(request, stream):
        await asyncio.Event().wait()

    server = await raw(reply)
    async with connect(server.url) as link:
        with pytest.raises(TimeoutError, match=r"server 'git' did not answer m within 0\.2 s"):
            await ask(link, timeout_s=SHORT_S)


async def test_a_modern_request_is_taken_back_by_closing_its_stream(raw, connect):
    gone = asyncio.Event()

    async def reply(request, stream):
        await stream.open()
        try:
            while not stream.writer.is_closing():
                await stream.chunk(b": still here\n\n")
                await asyncio.sleep(0.01)
        finally:
            gone.set()

    server = await raw(reply)
    async with connect(server.url) as link:
        with pytest.raises(TimeoutError):
            await ask(link, params=MODERN, timeout_s=SHORT_S)
        async with asyncio.timeout(SOON_S):
            await gone.wait()
    assert [request.message["method"] for request in server.requests] == ["m"]


async def test_an_initialize_is_never_taken_back(raw, connect):
    async def reply(request, stream):
        if request.message["method"] == "initialize":
            await asyncio.Event().wait()
        await stream.result(request, {})

    server = await raw(reply)
    async with connect(server.url) as link:
        with pytest.raises(TimeoutError):
            await ask(link, "initialize", timeout_s=SHORT_S)
        await ask(link)
    assert server.posted("notifications/cancelled") == []


async def test_messages_on_a_request_s_stream_belong_to_its_caller(raw, connect):
    async def reply(request, stream):
        if "method" not in request.message:
            answered.set()
            return await stream.status("202 Accepted")
        await stream.open()
        await stream.event({"jsonrpc": "2.0", "method": "notifications/n", "params": {}})
        await stream.event({"jsonrpc": "2.0", "id": 5, "method": "who", "params": {}})
        await answered.wait()
        await stream.event(answer(request))
        return await stream.close()

    told, answered = [], asyncio.Event()

    class Asked(Recorder):
        async def request(self, method, params, origin):
            return {"caller": caller.get(), "id": origin.id, "same": origin.link is link}

        def notification(self, method, params):
            told.append(caller.get())

    server = await raw(reply)
    async with connect(server.url, handler=Asked()) as link:
        caller.set("somebody")
        await ask(link)
    given = [r.message["result"] for r in server.requests if "result" in r.message]
    assert given == [{"caller": "somebody", "id": 5, "same": True}]
    assert told == ["somebody"]


async def test_more_requests_than_connections_wait_their_turn(raw, connect):
    busy, most = 0, 0

    async def reply(request, stream):
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.01)
        busy -= 1
        await stream.result(request, request.message["params"])

    async with connect((await raw(reply)).url, settings={"max_connections": 8}) as link:
        answers = await asyncio.gather(*(ask(link, params={"n": n}, timeout_s=LONG_S) for n in range(200)))
    assert [answer["n"] for answer in answers] == list(range(200))
    assert most <= 8


async def test_a_thousand_requests_at_once_find_their_answers(raw, connect):
    async def reply(request, stream):
        held.append((request, stream))
        if len(held) == 250:
            waiting, held[:] = held[:], []
            for one, where in reversed(waiting):
                await where.result(one, one.message["params"])

    held = []
    async with connect((await raw(reply)).url, settings={"max_connections": 250}) as link:
        answers = await asyncio.gather(*(ask(link, params={"n": n}, timeout_s=LONG_S) for n in range(1000)))
    assert [answer["n"] for answer in answers] == list(range(1000))


async def test_an_answer_to_the_server_passes_requests_that_wait(raw, connect):
    """Every connection is taken by a request that waits for an answer of ours."""

    async def reply(request, stream):
        message = request.message
        if "method" not in message:
            answered[message["id"]].set()
            return await stream.status("202 Accepted")
        key = message["params"]["n"]
        answered[key] = asyncio.Event()
        await stream.open()
        await stream.event({"jsonrpc": "2.0", "id": key, "method": "roots/list"})
        await answered[key].wait()
        await stream.event(answer(request))
        return await stream.close()

    answered = {}
    async with connect((await raw(reply)).url, settings={"max_connections": 4}) as link:
        await asyncio.gather(*(ask(link, params={"n": n}) for n in range(40)))


async def test_subscriptions_do_not_take_the_places_of_requests(raw, connect):
    async def reply(request, stream):
        if request.message["method"] == "subscriptions/listen":
            await asyncio.Event().wait()
        await stream.result(request, {})

    async with connect((await raw(reply)).url, settings={"max_connections": 4}) as link:
        listening = [
            asyncio.ensure_future(ask(link, "subscriptions/listen", MODERN, timeout_s=LONG_S)) for _ in range(10)
        ]
        assert await ask(link) == {}
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
