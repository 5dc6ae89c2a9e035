"""The multiplexer, where a whole server would be too much or too friendly."""

from __future__ import annotations

import asyncio
import gc
import json
from contextlib import suppress

import pytest

from pml_hookspecs import RawObject, TransportError
from pml_kit.jsonrpc.lines import LinePeer
from pml_kit.jsonrpc.streams import StreamLimits
from pml_testing.transport_ends import LONG_S, SOON_S, Recorder

pytestmark = pytest.mark.anyio
MIB = 1 << 20


class Paper:
    """A writer that keeps what is written; ``size`` is what a test says it is."""

    def __init__(self):
        self.chunks = []
        self.size = 0

    def write(self, chunks, *, now=False):
        self.chunks += chunks

    @property
    def messages(self):
        return [json.loads(line) for line in b"".join(self.chunks).splitlines()]


@pytest.fixture
def made(log):
    """A connection to a server that takes no answers when it does not read."""

    def make(**options):
        connection = LinePeer("server 'git'", StreamLimits(write_buffer_bytes=MIB), log, **options)
        connection.handler, connection.writer = Recorder(), Paper()
        return connection

    return make


async def test_a_request_is_registered_before_it_is_written(made):
    connection = made()
    seen = []
    connection.writer.write = lambda _chunks, **_: seen.append(connection.pending)
    task = asyncio.ensure_future(connection.request("m", {}, timeout_s=LONG_S))
    await asyncio.sleep(0)
    assert seen == [1]
    connection.data_received(b'{"id":1,"result":{}}\n')
    assert await task == {}


async def test_an_answer_in_the_turn_of_the_callers_cancellation_counts_as_late(made):
    connection = made()
    task = asyncio.ensure_future(connection.request("m", {}, timeout_s=LONG_S))
    await asyncio.sleep(0)
    task.cancel()
    connection.data_received(b'{"id":1,"result":{}}\n')
    with pytest.raises(asyncio.CancelledError):
        await task
    assert connection.counters["late"] == 1
    assert [message["method"] for message in connection.writer.messages] == ["m"]


async def test_a_caller_cancelled_in_the_turn_of_a_failure_leaves_no_complaint(made):
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    connection = made()
    task = asyncio.ensure_future(connection.request("m", {}, timeout_s=LONG_S))
    await asyncio.sleep(0)
    connection.data_received(b'{"id":1,"error":{"code":1,"message":"no"}}\n')
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    asyncio.get_running_loop().set_exception_handler(None)
    assert complaints == []


async def test_answers_to_a_server_that_does_not_read_are_dropped_and_counted(made):
    connection = made(sheds=True)
    connection.writer.size = MIB + 1
    connection.data_received(b'{"id":1,"method":"m"}\n')
    await asyncio.wait(connection.running)
    assert (connection.writer.chunks, connection.counters["dropped"]) == ([], 1)


async def test_answers_to_a_client_are_never_dropped(made):
    connection = made()
    connection.writer.size = MIB + 1
    connection.data_received(b'{"id":1,"method":"m"}\n')
    await asyncio.wait(connection.running)
    assert [message["id"] for message in connection.writer.messages] == [1]


async def test_what_cannot_be_sent_is_the_callers_error_or_a_logged_one(made, log):
    connection = made()
    with pytest.raises(TypeError):
        await connection.request("m", {"a": object()}, timeout_s=LONG_S)
    assert connection.pending == 0
    connection.notify("m", {"a": object()})
    assert connection.counters["dropped"] == 1
    assert [(level, event) for level, event, _ in log.lines] == [("warning", "jsonrpc.unsendable_notification")]


async def test_each_caller_gets_an_error_of_its_own(made):
    connection = made()
    tasks = [asyncio.ensure_future(connection.request("m", {}, timeout_s=LONG_S)) for _ in range(3)]
    await asyncio.sleep(0)
    connection.end(TransportError("over", retryable=True))
    connection.end(TransportError("again", retryable=True))
    failures = await asyncio.gather(*tasks, return_exceptions=True)
    with pytest.raises(TransportError) as later:
        await connection.request("m", {}, timeout_s=LONG_S)
    assert len({id(error) for error in (*failures, later.value)}) == 4
    assert {(str(error), error.retryable) for error in (*failures, later.value)} == {("over", True)}
    assert [str(error) for error in connection.handler.closings] == ["over"]


async def test_nothing_is_taken_after_the_end(made):
    connection = made()
    connection.end(None)
    connection.data_received(b'{"method":"notifications/x"}\n{"id":1,"method":"m"}\n{"x":')
    connection.eof_received()
    connection.notify("m", {})
    assert connection.handler.notifications == []
    assert connection.running == frozenset()
    assert {name: count for name, count in connection.counters.items() if count} == {"dropped": 1}


async def test_a_task_that_does_not_end_is_named(made, log):
    class Stubborn(Recorder):
        async def request(self, method, params, origin):
            self.waiting.set()
            while not self.cancelled.is_set():
                with suppress(asyncio.CancelledError):
                    await self.cancelled.wait()
            return {}

    connection = made()
    handler = connection.handler = Stubborn()
    connection.data_received(b'{"id":1,"method":"m"}\n')
    await handler.waiting.wait()
    connection.end(None)
    await connection.join(0.01)
    assert [(event, fields["task"]) for _, event, fields in log.lines] == [
        ("jsonrpc.task_does_not_end", "server 'git': m 1")
    ]
    handler.cancelled.set()
    await connection.join(SOON_S)
    assert connection.writer.chunks == []


async def test_what_a_handler_hands_back_is_passed_on_byte_for_byte(made):
    raw = b'{"b" :1.0,  "a":[1e400]}'

    class Passing(Recorder):
        async def request(self, method, params, origin):
            assert params.raw == raw
            return RawObject(raw)

    connection = made()
    connection.handler = Passing()
    connection.data_received(b'{"id":"x","method":"m","params":' + raw + b"}\n")
    await asyncio.wait(connection.running)
    assert b"".join(connection.writer.chunks) == b'{"jsonrpc":"2.0","id":"x","result":' + raw + b"}\n"


async def test_requests_that_are_refused_leave_nothing_behind(made):
    connection = made()

    async def refuse(count):
        for _ in range(count):
            connection.data_received(b'{"id":1,"method":"m","params":[]}\n')
            await asyncio.wait(connection.running)
        gc.collect()
        return len(gc.get_objects())

    assert await refuse(200) + 100 > await refuse(1000)
    assert connection.writer.messages[-1]["error"] == {"code": -32602, "message": "params must be an object"}


async def test_requests_that_are_too_many_are_refused_at_once(log):
    connection = LinePeer("server 'git'", StreamLimits(max_requests=2), log)
    handler = connection.handler = Recorder()
    connection.writer = Paper()
    connection.data_received(b'{"id":1,"method":"wait"}\n{"id":2,"method":"m"}\n{"id":3,"method":"m"}\n')
    (refusal,) = connection.writer.messages
    assert (refusal["id"], refusal["error"]["code"]) == (3, -31998)
    assert connection.counters["refused"] == 1
    await handler.waiting.wait()
    assert [message["id"] for message in connection.writer.messages] == [3, 2]
    connection.data_received(b'{"id":4,"method":"m"}\n')
    await asyncio.wait(connection.running, return_when=asyncio.FIRST_COMPLETED)
    assert connection.writer.messages[-1]["id"] == 4
    connection.end(None)
    await connection.join(SOON_S)
