"""The gateway as the server of whoever started it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import termios
from contextlib import asynccontextmanager

import pytest

import pml_transport_stdio
from pml_hookspecs import Endpoint, RpcError, TransportError
from pml_kit.jsonrpc.lines import LinePeer
from pml_kit.processes.pipes import Reader, Writer, abandoned
from pml_testing import servers
from pml_testing.transport import AT_ONCE_S, LONG_S, SHORT_S, SOON_S, START_S, Recorder
from pml_transport_stdio import Settings, Stdio, listener

from .conftest import pipe

pytestmark = pytest.mark.anyio
MIB = 1 << 20


class PipedListener:
    """A listener and its client in one process, with a pipe each way."""

    def __init__(self, services, settings, handler, client_handler):
        self.handler, self.client_handler = handler, client_handler
        self.settings, self.services = settings, services
        self.link = None
        self.events = []

    def accept(self, link, peer):
        self.events.append(f"accepted {peer.address} {peer.principal}")
        self.link = link
        return self.handler

    async def serve(self, source, sink):
        await listener.serve_over(source, sink, self.accept, self.started, self.settings, self.services.log)
        self.events.append("returned")

    def started(self, address):
        self.events.append(f"started {address}")

    def leave(self):
        """The client closes its end of our input."""
        self.client.writer.flush()
        self.client.writer.close()
        os.close(self.to_listener)


@pytest.fixture
def serve(services):
    """``async with serve() as served``: ``served.client`` is a link to the listener, ``served.link`` its own."""

    @asynccontextmanager
    async def serve(settings=None, handler=None):
        served = PipedListener(services, settings or Settings(), handler or Recorder(), Recorder())
        with pipe() as (source, to_listener), pipe() as (from_listener, sink):
            served.source, served.to_listener, served.from_listener, served.sink = (
                source,
                to_listener,
                from_listener,
                sink,
            )
            client = served.client = LinePeer("the listener", served.settings, services.log)
            client.handler = served.client_handler
            client.writer = Writer(to_listener, lambda _error: None)
            reader = Reader(from_listener, client.data_received, lambda _error: None)
            task = served.task = asyncio.ensure_future(served.serve(source, sink))
            try:
                async with asyncio.timeout(2 * SOON_S):
                    yield served
            finally:
                task.cancel()
                await asyncio.wait([task])
                reader.close()
                client.end(None)
                client.writer.close()

    return serve


async def test_requests_notifications_and_errors_go_both_ways(serve):
    async with serve() as served:
        assert await served.client.request("m", {"a": 1}, timeout_s=SOON_S) == {"method": "m", "params": {"a": 1}}
        assert await served.link.request("n", {}, timeout_s=SOON_S) == {"method": "n", "params": {}}
        served.client.notify("notifications/up", {"n": 1})
        served.link.notify("notifications/down", {"n": 2})
        with pytest.raises(RpcError) as caught:
            await served.client.request("refuse", {}, timeout_s=SOON_S)
        assert caught.value.to_wire() == {"code": -32001, "message": "not today", "data": {"why": "a test"}}
        assert served.handler.notifications == [("notifications/up", {"n": 1})]
        assert served.client_handler.notifications == [("notifications/down", {"n": 2})]
        assert served.events == ["started stdio:", "accepted stdio local"]


async def test_a_fault_is_logged_and_not_told(serve, log):
    async with serve() as served:
        with pytest.raises(RpcError) as caught:
            await served.client.request("stumble", {}, timeout_s=SOON_S)
        assert caught.value.to_wire() == {"code": -32603, "message": "Internal error"}
    assert [(level, event) for level, event, _ in log.lines] == [("exception", "jsonrpc.request_failed")]


class Odd(Recorder):
    """Returns and raises what cannot be sent, and stumbles over notifications."""

    async def request(self, method, params, origin):
        if method == "unsendable":
            return {"a": object()}
        if method == "unsendable error":
            raise RpcError(1, "no", {"a": object()})
        if method == "cancel yourself":
            asyncio.current_task().cancel()
            await asyncio.sleep(0)
        return await super().request(method, params, origin)

    def notification(self, method, params):
        raise ValueError(method)

    def closed(self, error):
        super().closed(error)
        raise ValueError("closed")


@pytest.mark.parametrize("method", ["unsendable", "unsendable error", "cancel yourself"])
async def test_a_handler_at_odds_with_itself_still_gets_an_answer_out(serve, method):
    async with serve(handler=Odd()) as served:
        with pytest.raises(RpcError, match="Internal error"):
            await served.client.request(method, {}, timeout_s=SOON_S)


async def test_a_handler_that_stumbles_over_notifications_or_the_end_hurts_nobody(serve, log):
    async with serve(handler=Odd()) as served:
        served.client.notify("notifications/x", {})
        await served.client.request("m", {}, timeout_s=SOON_S)
        served.leave()
        await served.task
    assert [event for _, event, _ in log.lines] == ["jsonrpc.notification_failed", "jsonrpc.closed_failed"]


async def raw(served, line):
    """The answer to a line, decoded."""
    answer = asyncio.get_running_loop().create_future()
    reader = Reader(served.from_listener, answer.set_result, lambda _error: None)
    os.write(served.to_listener, line)
    data = await answer
    reader.close()
    return json.loads(data)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b'{"id":1,"method":"m"}', {"id": 1, "result": {"method": "m", "params": {}}}),
        (b'{"id":1.0,"method":"m","params":null}', {"id": 1.0, "result": {"method": "m", "params": {}}}),
        (b'{"id":"1","method":"m"}', {"id": "1", "result": {"method": "m", "params": {}}}),
        (b'[{"id":1,"method":"m"}]', {"id": 1, "result": {"method": "m", "params": {}}}),
        (
            b'{"id":1,"method":"m","params":[1]}',
            {"id": 1, "error": {"code": -32602, "message": "params must be an object"}},
        ),
        (b'{"id":null,"method":"x"}\n{"id":2,"method":"m"}', {"id": 2, "result": {"method": "m", "params": {}}}),
        (b'{"id":true,"method":"x"}\n{"id":2,"method":"m"}', {"id": 2, "result": {"method": "m", "params": {}}}),
    ],
)
async def test_an_odd_request_is_answered(serve, line, answer):
    async with serve() as served:
        await served.client.request("m", {}, timeout_s=SOON_S)
        assert await raw(served, line + b"\n") == {"jsonrpc": "2.0", **answer}


async def test_a_request_taken_back_before_it_was_begun_is_not_answered(serve):
    async with serve() as served:
        os.write(
            served.to_listener,
            b'{"id":"x","method":"wait"}\n{"method":"notifications/cancelled","params":{"requestId":"x"}}\n'
            b'{"method":"notifications/cancelled","params":{"requestId":"never"}}\n'
            b'{"method":"notifications/cancelled","params":[]}\n{"method":"notifications/cancelled"}\n',
        )
        assert await served.client.request("m", {}, timeout_s=SOON_S)
        assert not served.handler.waiting.is_set()
        assert served.client.counters["unknown"] == 0
        assert served.handler.notifications == []


async def test_requests_are_answered_after_the_client_closed_its_end(serve):
    class Slow(Recorder):
        async def request(self, method, params, origin):
            self.waiting.set()
            await asyncio.sleep(SHORT_S)
            with pytest.raises(TransportError, match="the client closed the connection"):
                await served.link.request("roots/list", {}, timeout_s=LONG_S)
            return {"done": True}

    handler = Slow()
    async with serve(handler=handler) as served:
        asked = asyncio.ensure_future(served.client.request("m", {}, timeout_s=SOON_S))
        await handler.waiting.wait()
        served.leave()
        assert await asked == {"done": True}
        await served.task
        assert [str(error) for error in handler.closings] == ["the client closed the connection"]


async def test_requests_to_a_client_that_left_fail_at_once(serve):
    async with serve() as served:
        await served.client.request("m", {}, timeout_s=SOON_S)
        waiting = asyncio.ensure_future(served.link.request("wait", {}, timeout_s=LONG_S))
        await served.client_handler.waiting.wait()
        served.leave()
        with pytest.raises(TransportError, match=r"^the client closed the connection$"):
            await waiting
        await served.task


async def test_the_drain_is_bounded(serve, monkeypatch):
    monkeypatch.setattr(listener, "DRAIN_S", SHORT_S)
    async with serve() as served:
        waiting = asyncio.ensure_future(served.client.request("wait", {}, timeout_s=LONG_S))
        await served.handler.waiting.wait()
        served.leave()
        async with asyncio.timeout(AT_ONCE_S):
            await served.task
        assert served.handler.cancelled.is_set()
        waiting.cancel()


async def test_nothing_is_waited_for_when_the_client_is_gone(serve):
    async with serve() as served:
        waiting = asyncio.ensure_future(served.client.request("wait", {}, timeout_s=LONG_S))
        await served.handler.waiting.wait()
        os.close(served.from_listener)
        served.leave()
        async with asyncio.timeout(AT_ONCE_S):
            await served.task
        assert served.handler.cancelled.is_set()
        waiting.cancel()


async def test_an_answer_that_nobody_takes_ends_the_listener(serve):
    async with serve() as served:
        await served.client.request("m", {}, timeout_s=SOON_S)
        os.close(served.from_listener)
        served.link.notify("notifications/x", {})
        async with asyncio.timeout(AT_ONCE_S):
            await served.task
        (error,) = served.handler.closings
        assert str(error) == "the client does not take answers any more (Broken pipe)"


async def test_a_cancelled_listener_cancels_what_it_does(serve):
    async with serve() as served:
        waiting = asyncio.ensure_future(served.client.request("wait", {}, timeout_s=LONG_S))
        await served.handler.waiting.wait()
        served.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await served.task
        assert served.handler.cancelled.is_set()
        assert served.handler.closings == [None]
        waiting.cancel()


async def test_a_client_that_does_not_read_is_not_read_either(serve):
    """Answers must not be dropped, so it is the requests that have to wait."""

    class Generous(Recorder):
        asked = 0
        all_asked = asyncio.Event()

        async def request(self, method, params, origin):
            self.asked += 1
            if self.asked == 40:
                self.all_asked.set()
            return {"text": "x" * MIB}

    handler = Generous()
    async with serve(settings=Settings(write_buffer_bytes=4 * MIB), handler=handler) as served:
        stalled = Reader(served.from_listener, lambda _data: None, lambda _error: None)
        stalled.pause()
        writer = Writer(served.to_listener, lambda _error: None)
        for _ in range(40):
            writer.write((b'{"id":1,"method":"m","params":{"text":"' + b"x" * 200_000 + b'"}}\n',))
        for _ in range(2000):
            await asyncio.sleep(0)
        assert 0 < handler.asked < 20
        stalled.resume()
        await handler.all_asked.wait()
        stalled.close()
        writer.close()


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("stdio:cat", {}, "listener 'default': its address must be 'stdio:'"),
        ("", {}, "listener 'default': its address must be 'stdio:'"),
        ("stdio:", {"port": 1}, "a stdio listener has no options; remove 'port'"),
    ],
)
async def test_a_listener_takes_no_command(address, options, message):
    endpoint = Endpoint(name="default", address=address, options=options)
    with pytest.raises(ValueError, match=message):
        await Stdio().serve(endpoint, lambda *_: Recorder(), started=print)


def test_a_peer_that_reads_no_more_is_told_apart():
    with pipe() as (source, sink):
        assert not abandoned(sink)
        os.close(source)
        assert abandoned(sink)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.shutdown(socket.SHUT_WR)
        assert not abandoned(ours.fileno())
        theirs.close()
        assert abandoned(ours.fileno())


# In a process of its own.

LISTENER = servers.command("listener", "pml_transport_stdio", "Stdio", pml_transport_stdio.__file__)


def lines(output):
    return [json.loads(line) for line in output.splitlines()]


REQUESTS = b'{"jsonrpc":"2.0","id":"a","method":"echo","params":{"x":1}}\n{"jsonrpc":"2.0","id":2,"method":"events"}'
ANSWERS = {
    "a": {"x": 1},
    2: {"events": ["started stdio:", "accepted", "request echo", "request events"]},
}


def answers(output):
    return {line["id"]: line["result"] for line in lines(output)}


def test_only_messages_reach_standard_output():
    done = subprocess.run(LISTENER, input=REQUESTS, capture_output=True, timeout=2 * START_S, check=True)
    assert answers(done.stdout) == ANSWERS
    assert done.stderr.decode().count("a stray print\n") == 2


def test_a_file_can_be_standard_input_and_output(tmp_path):
    requests, output = tmp_path / "requests", tmp_path / "output"
    requests.write_bytes(REQUESTS)
    with requests.open() as source, output.open("wb") as sink:
        subprocess.run(LISTENER, stdin=source, stdout=sink, stderr=subprocess.DEVNULL, timeout=2 * START_S, check=True)
    assert answers(output.read_bytes()) == ANSWERS


def test_no_input_at_all_ends_it():
    done = subprocess.run(LISTENER, stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * START_S, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.mark.parametrize("shared", [False, True])
def test_sockets_can_be_standard_input_and_output(shared):
    ours, theirs = socket.socketpair()
    ours_out, theirs_out = (ours, theirs) if shared else socket.socketpair()
    with ours, theirs, ours_out, theirs_out:
        process = subprocess.Popen(LISTENER, stdin=theirs, stdout=theirs_out, stderr=subprocess.DEVNULL)
        theirs.close()
        theirs_out.close()
        ours.sendall(REQUESTS)
        ours.shutdown(socket.SHUT_WR)
        ours_out.settimeout(2 * START_S)
        with ours_out.makefile("rb") as output:
            assert answers(output.read()) == ANSWERS
        assert process.wait(2 * START_S) == 0


def test_a_terminal_can_be_standard_input_and_output():
    ours, theirs = os.openpty()
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    process = subprocess.Popen(LISTENER, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL)
    os.write(ours, REQUESTS + b"\n")
    output = b""
    while output.count(b"\n") < len(ANSWERS):
        output += os.read(ours, MIB)
    assert answers(output) == ANSWERS
    # Not blocking would be so for everybody who uses the terminal.
    assert os.get_blocking(theirs)
    os.write(ours, b"\x04")
    assert process.wait(2 * START_S) == 0
    os.close(theirs)
    os.close(ours)


def test_closed_standard_streams_are_a_clear_error():
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" <&-', *LISTENER], capture_output=True, timeout=2 * START_S, check=False
    )
    assert done.returncode == 1
    assert b"TransportError: standard input or output is closed; start the gateway from an MCP client" in done.stderr


AFTERWARDS = """
import asyncio, os, sys
from pml_hookspecs import Endpoint
from pml_testing.transport import Recorder
from pml_transport_stdio import Stdio

print("before")
endpoint = Endpoint(name="default", address="stdio:")

def accept(link, peer):
    print("meanwhile")
    os.system("cat; echo from a child")
    return Recorder()

asyncio.run(Stdio().serve(endpoint, accept, started=lambda address: None))
print("after", os.get_blocking(0), os.get_blocking(1))
"""


def test_standard_streams_are_given_back():
    # Unbuffered, there would be nothing to flush.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", AFTERWARDS], input=b"", env=env, capture_output=True, timeout=2 * START_S, check=True
    )
    assert done.stdout == b"before\nafter True True\n"
    assert sorted(done.stderr.splitlines()) == [b"from a child", b"meanwhile"]


def test_without_standard_error_a_stray_print_goes_nowhere():
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" 2>&-', *LISTENER],
        input=REQUESTS,
        stdout=subprocess.PIPE,
        timeout=2 * START_S,
        check=True,
    )
    assert answers(done.stdout) == ANSWERS


def test_a_client_that_is_killed_ends_it():
    process = subprocess.Popen(LISTENER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process:
        process.stdin.write(REQUESTS + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(REQUESTS + b"\n")
        process.stdin.flush()
        assert process.wait(SOON_S) == 0


def test_an_interrupted_listener_stops():
    # A shell has its background jobs ignore the signal, and so would what they start.
    heeding = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", heeding, *LISTENER]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process:
        process.stdin.write(REQUESTS + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(SOON_S) != 0


class Listening(Recorder):
    """Answers ``subscriptions/listen`` only when it is called off."""

    async def request(self, method, params, origin):
        return await super().request("wait", params, origin)


async def test_a_client_that_leaves_is_not_waited_for_where_it_only_listens(serve):
    handler = Listening()
    async with serve(handler=handler) as served:
        listening = asyncio.ensure_future(served.client.request("subscriptions/listen", {}, timeout_s=LONG_S))
        await handler.waiting.wait()
        served.leave()
        async with asyncio.timeout(SHORT_S * 10):
            await served.task
        assert handler.cancelled.is_set()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
