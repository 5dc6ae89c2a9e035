"""A JSON-RPC connection over streams; the transport that ``pml plugin new`` writes runs the contract over it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from pml_hookspecs import RpcError, TransportError
from pml_kit.jsonrpc.streams import StreamConnection, StreamLimits
from pml_testing.transport_ends import Recorder

pytestmark = pytest.mark.anyio
SOON_S = 120.0


class Odd:
    """A peer that sends a line of ours for each that it gets; ``said`` is what it was told."""

    def __init__(self, *lines):
        self.lines, self.said = list(lines), []

    async def __call__(self, reader, writer):
        while line := await reader.readline():
            self.said.append(json.loads(line))
            if self.lines:
                writer.write(self.lines.pop(0) + b"\n")
                await writer.drain()
        writer.close()


@asynccontextmanager
async def connected(peer, handler, *, drain_s=0.0, **limits):
    server = await asyncio.start_server(peer, "127.0.0.1", 0, limit=2**26)
    async with server:
        port = server.sockets[0].getsockname()[1]
        streams = await asyncio.open_connection("127.0.0.1", port)
        connection = StreamConnection("the peer", *streams, limits=StreamLimits(**limits))
        async with connection.open(handler, drain_s) as reading:
            yield connection, reading


@pytest.mark.parametrize(
    "answer",
    [
        b'{"id":1,"error":{}}',
        b'{"id":1,"error":"no"}',
        b'{"id":1,"error":{"code":"1","message":"no"}}',
        b'{"id":1,"error":{"code":true,"message":"no"}}',
        b'{"id":1,"result":[1]}',
        b'{"id":1}',
    ],
)
async def test_an_answer_that_is_none_fails_its_request_alone(answer):
    handler = Recorder()
    async with connected(Odd(answer, b'{"id":2,"result":{"n":2}}'), handler) as (link, _):
        with pytest.raises((TransportError, RpcError)) as failed:
            await link.request("ping", {}, timeout_s=SOON_S)
        if isinstance(failed.value, RpcError):
            assert failed.value.code == -32603
        else:
            assert "the peer answered ping with" in str(failed.value)
        assert await link.request("ping", {}, timeout_s=SOON_S) == {"n": 2}
        assert handler.closings == []


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":[1],"result":{}}',
        b'{"id":true,"result":{}}',
        b'{"id":[1],"method":"ping"}',
        b'{"method":"notifications/cancelled","params":{"requestId":[1]}}',
        b'{"method":"notifications/message","params":[1]}',
        b"[" * 100_000,
        b"not json",
    ],
)
async def test_a_message_that_is_none_is_dropped(line):
    handler = Recorder()
    async with connected(Odd(line + b'\n{"id":1,"result":{"n":1}}'), handler) as (link, _):
        assert await link.request("ping", {}, timeout_s=SOON_S) == {"n": 1}
        assert handler.closings == []


async def test_a_message_that_is_too_long_is_skipped_and_fails_the_request_that_it_answers():
    long = b'{"id":1,"result":{"text":"' + b"x" * 5000 + b'"}}'
    handler = Recorder()
    async with connected(Odd(long, b'{"id":2,"result":{"n":2}}'), handler, max_message_bytes=1024) as (link, _):
        with pytest.raises(TransportError, match="the limit is max_message_bytes = 1024"):
            await link.request("ping", {}, timeout_s=SOON_S)
        assert await link.request("ping", {}, timeout_s=SOON_S) == {"n": 2}
        assert link.counters["oversized"] == 1
        assert handler.closings == []


async def test_notifications_to_a_peer_that_does_not_read_are_merged_and_come_when_it_does():
    reads, said = asyncio.Event(), []

    async def late(reader, writer):
        await reads.wait()
        while line := await reader.readline():
            said.append(json.loads(line))
            if said[-1]["method"] == "ping":
                writer.write(b'{"id":1,"result":{}}\n')
        writer.close()

    async with connected(late, Recorder(), notify_buffer_bytes=2**10) as (link, _):
        link.notify("notifications/message", {"data": "x" * 2**23})
        for n in range(1000):
            link.notify("notifications/progress", {"progressToken": 1, "progress": n})
        assert link.counters["merged"] == 999
        reads.set()
        async with asyncio.timeout(SOON_S):
            while len(said) < 2:  # noqa: ASYNC110 - the peer runs by itself
                await asyncio.sleep(0.005)
        await link.request("ping", {}, timeout_s=SOON_S)
    assert [message["params"].get("progress") for message in said] == [None, 999, None]


async def test_what_fails_unforeseen_in_the_background_ends_the_connection():
    async def silent(reader, writer):
        await reader.read()
        writer.close()

    async def fails():
        raise LookupError("nobody thought of this")

    handler = Recorder()
    async with connected(silent, handler) as (link, reading):
        asked = asyncio.ensure_future(link.request("ping", {}, timeout_s=SOON_S))
        await asyncio.sleep(0)
        link.start(fails(), name="a sender")
        with pytest.raises(TransportError, match="the connection to the peer failed: nobody thought of this"):
            await asked
        await asyncio.wait([reading])
    (error,) = handler.closings
    assert error.retryable


async def test_reading_ends_when_the_peer_is_gone():
    async def leave(_reader, writer):
        writer.close()

    handler = Recorder()
    async with connected(leave, handler) as (link, reading):
        async with asyncio.timeout(SOON_S):
            await reading
        with pytest.raises(TransportError, match="the peer closed the connection"):
            await link.request("ping", {}, timeout_s=SOON_S)
    assert len(handler.closings) == 1


@pytest.mark.parametrize("drain_s", [0.0, SOON_S])
async def test_a_request_under_way_is_answered_before_the_end_if_it_may(drain_s):
    """Ended at once, its task is cancelled; with time, its answer is written first."""
    begun, said = asyncio.Event(), []

    async def ask(reader, writer):
        writer.write(b'{"id":7,"method":"tools/call","params":{}}\n')
        while line := await reader.readline():
            said.append(json.loads(line))
        writer.close()

    class Slow(Recorder):
        async def request(self, method, params, origin):
            begun.set()
            await asyncio.sleep(0.05)
            return {"n": 7}

    async with connected(ask, Slow(), drain_s=drain_s):
        await begun.wait()
    await asyncio.sleep(0)
    async with asyncio.timeout(SOON_S):
        while drain_s and not said:  # noqa: ASYNC110 - the peer runs by itself
            await asyncio.sleep(0.005)
    assert said == ([{"jsonrpc": "2.0", "id": 7, "result": {"n": 7}}] if drain_s else [])
