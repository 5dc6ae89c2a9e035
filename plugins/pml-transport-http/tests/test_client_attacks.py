"""Servers that mean harm, or break what they send."""

from __future__ import annotations

import asyncio

import pytest

from pml_hookspecs import RpcError, TransportError
from pml_testing.transport_ends import SOON_S, Recorder
from pml_transport_http.errors import UnreachableError

pytestmark = pytest.mark.anyio

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
RESULT = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
MIB = 1 << 20
TAKEN_BYTES = 8 * MIB
"""What a server gets rid of at most before it is cut off: what is read at once, and what the kernel keeps."""
LINE = b"x-filler: " + b"y" * 65536 + b"\r\n"


async def ask(link, method="m", params=None, *, timeout_s=SOON_S):
    return await link.request(method, params or {}, timeout_s=timeout_s)


async def until(condition):
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - the other end has no event to wait for
            await asyncio.sleep(0.01)


async def poured(stream, piece):
    """Send a piece over and over; how many bytes went off until the other end had enough."""
    sent = 0
    try:
        while sent < 64 * MIB:
            await stream.send(piece)
            sent += len(piece)
    except ConnectionError:
        pass
    return sent


STATUS = b"HTTP/1.1 200 OK\r\n"
CHUNKED = STATUS + b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
HEADS = {
    "many headers": (STATUS, LINE),
    "one header without an end": (STATUS + b"x: ", b"y" * 65536),
    "a reason without an end": (b"HTTP/1.1 200 ", b"y" * 65536),
    "heads of answers to come": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: " + b"y" * 65536 + b"\r\n\r\n"),
    "trailers behind the body": (CHUNKED, LINE),
    "one trailer without an end": (CHUNKED + b"x: ", b"y" * 65536),
}


@pytest.mark.attack("Servers reached over HTTP", "answer with headers, a reason or trailers that never end")
@pytest.mark.parametrize(("begin", "piece"), HEADS.values(), ids=HEADS)
async def test_headers_of_a_server_are_bounded(raw, connect, begin, piece):
    async def reply(request, stream):
        if request.message["method"] == "fine":
            return await stream.result(request, {})
        await stream.send(begin)
        sent.append(await poured(stream, piece))
        return True

    sent = []
    async with connect((await raw(reply)).url) as link:
        with pytest.raises(TransportError, match="bytes of headers"):
            await ask(link)
        await until(lambda: sent)
        assert sent[0] < TAKEN_BYTES
        assert await ask(link, "fine") == {}


@pytest.mark.attack("Servers reached over HTTP", "begin a session whose id is not ASCII")
async def test_a_session_id_that_is_not_ascii_is_refused_with_a_reason(raw, connect):
    async def reply(request, stream):
        if request.method != "POST":
            return await stream.status("405 Method Not Allowed")
        return await stream.result(request, RESULT, Mcp_Session_Id="sé\xff")

    async with connect((await raw(reply)).url) as link:
        with pytest.raises(TransportError, match="session id that is not visible ASCII"):
            await ask(link, "initialize", INITIALIZE)
        link.notify("notifications/initialized", {})
        assert await ask(link) == RESULT


@pytest.mark.attack(
    "Servers reached over HTTP", "give an event an id that is not ASCII, or as long as a message, and break off"
)
async def test_ids_of_events_come_back_as_they_are_or_not_at_all(raw, connect):
    async def reply(request, stream):
        if request.method == "GET":
            asked.append(request.headers.get("last-event-id"))
            await stream.open()
            await stream.event({"jsonrpc": "2.0", "id": 1, "result": {"taken": "up"}})
            return True
        await stream.open()
        await stream.chunk("id: é1\nretry: 1\ndata:\n\n".encode() + b"id: " + b"1" * MIB + b"\n\n")
        return True

    asked = []
    async with connect((await raw(reply)).url) as link:
        assert await ask(link) == {"taken": "up"}
    assert asked == ["é1".encode().decode("latin-1")]


@pytest.mark.attack(
    "Servers reached over HTTP", "have what runs for a link fail, so that the server is starting for ever"
)
async def test_whatever_fails_in_the_background_ends_the_link(raw, connect, monkeypatch):
    async def reply(request, stream):
        return await stream.result(request, {})

    handler = Recorder()
    async with connect((await raw(reply)).url, handler=handler) as link:

        async def deliver(body, what):
            raise RuntimeError("not foreseen")

        monkeypatch.setattr(link, "deliver", deliver)
        link.notify("notifications/initialized", {})
        await until(lambda: handler.closings)
        assert "not foreseen" in str(handler.closings[0])
        with pytest.raises(TransportError, match="not foreseen"):
            await ask(link)


async def test_when_the_server_is_gone_nothing_more_is_sent(raw, connect, monkeypatch):
    async def reply(request, stream):
        return await stream.result(request, {})

    sent, handler = [], Recorder()
    async with connect((await raw(reply)).url, handler=handler) as link:

        async def post(body):
            sent.append(body)
            raise UnreachableError("nobody is there")

        monkeypatch.setattr(link, "post", post)
        for _ in range(3):
            link.notify("notifications/initialized", {})
        await until(lambda: handler.closings)
        await link.join(SOON_S)
        assert len(sent) == 1
        assert link.start(asyncio.sleep(SOON_S), name="late").cancelling()


@pytest.mark.attack(
    "Servers reached over HTTP", "send one message over the limit again and again in place of an answer"
)
async def test_an_answer_over_the_limit_is_not_asked_for_again(raw, connect):
    async def reply(request, stream):
        await stream.open()
        await stream.chunk(b"id: 1\nretry: 1\ndata:\n\n")
        if request.method == "GET":
            opened.append(request)
            await stream.chunk(b"data: " + b"y" * (2 * MIB) + b"\n\n")
        return True

    opened = []
    async with connect((await raw(reply)).url, settings={"max_message_bytes": MIB}) as link:
        with pytest.raises(TransportError, match="max_message_bytes"):
            await ask(link)
    assert len(opened) == 1


@pytest.mark.attack("Servers reached over HTTP", "name an address for messages that is none")
async def test_an_address_that_is_none_fails_the_connection(raw, connect):
    async def reply(request, stream):
        await stream.open()
        await stream.chunk(b"event: endpoint\ndata: http://[oops/\n\n")
        await asyncio.Event().wait()

    server = await raw(reply)
    with pytest.raises(TransportError, match="what is no address"):
        async with connect(server.url, protocol="sse"):
            pass


@pytest.mark.attack("Servers reached over HTTP", "answer with a number of 5,000 digits")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_number_that_is_too_long_fails_its_request_alone(raw, connect, streamed):
    digits = "9" * 5000

    async def reply(request, stream):
        key = request.message["id"]
        if request.message["method"] == "fine":
            return await stream.result(request, {})
        taken_back = f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{digits}}}}}'
        failed = f'{{"jsonrpc":"2.0","id":{key},"error":{{"code":{digits},"message":"no"}}}}'
        if not streamed:
            return await stream.json(failed.encode())
        await stream.open()
        for message in (taken_back, failed):
            await stream.chunk(f"data: {message}\n\n".encode())
        return await stream.close()

    handler = Recorder()
    async with connect((await raw(reply)).url, handler=handler) as link:
        with pytest.raises(RpcError) as failure:
            await ask(link)
        assert failure.value.code == -32603
        assert await ask(link, "fine") == {}
        assert not handler.closings
