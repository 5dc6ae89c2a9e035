"""A listener that ends: what was sent before anybody could know is answered, and nothing more is taken."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import ExitStack

import pytest
from listening import META, MODERN, Script, listening, text

from pml_transport_http.server.listener.listener import ARRIVAL_S, POLL_S

pytestmark = pytest.mark.anyio
WAITING = 20
TURNS = int(2 * ARRIVAL_S / POLL_S)
"""More than a listener waits for the rest of a request."""


def call(port, tool="echo", *, close=False):
    """A call of a tool: the head of a request, and its body."""
    params = {"_meta": META, "name": tool, "arguments": {}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp HTTP/1.{0 if close else 1}\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\n"
        f"mcp-name: {tool}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode(), body


async def is_closed(port):
    """Wait until nobody listens any more: the end has begun."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return
        writer.close()
        await asyncio.sleep(0.01)


async def test_requests_that_nobody_has_taken_yet_are_answered(services):
    async with listening(services) as listener:
        with ExitStack() as connected:
            address = ("127.0.0.1", listener.port)
            clients = [connected.enter_context(socket.create_connection(address)) for _ in range(WAITING)]
            for client in clients:
                client.sendall(b"".join(call(listener.port, close=True)))
            # The loop had no turn since: all of them wait in the backlog.
            await listener.stop()
            answers = [client.recv(1 << 16) for client in clients]
            assert {answer[:12] for answer in answers} == {b"HTTP/1.1 200"}, answers


async def test_a_request_is_answered_whose_connection_was_there(services):
    async with listening(services) as listener:
        head, body = call(listener.port)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", listener.port)
        idle_writer.write(head + body)
        assert (await idle_reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.write(head)
        stopping = asyncio.ensure_future(listener.stop())
        await is_closed(listener.port)
        writer.write(body)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert b"connection: close" in answer
        # The one that was idle is closed, and with nothing more said than the rest of its answer.
        assert b"HTTP/1.1" not in await idle_reader.read()
        await stopping
        writer.close()
        idle_writer.close()


async def test_a_request_that_comes_too_late_is_refused(services):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(params, origin):
        begun.set()
        await go_on.wait()
        return text("in time")

    async with listening(services, Script(slow=slow), drain_s=60) as listener:
        under_way, its_writer = await asyncio.open_connection("127.0.0.1", listener.port)
        its_writer.write(b"".join(call(listener.port, "slow")))
        await begun.wait()
        head, body = call(listener.port)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(head + body[:-1])
        stopping = asyncio.ensure_future(listener.stop())
        await is_closed(listener.port)
        for _ in range(TURNS):
            await asyncio.sleep(POLL_S)
        writer.write(body[-1:])
        refused = await reader.read()
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"The gateway is stopping" in refused
        go_on.set()
        assert b"in time" in await under_way.read()
        await stopping
        writer.close()
        its_writer.close()
