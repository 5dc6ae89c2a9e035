"""The contract of transports catches what it is there to catch, and nothing else.

A plain transport, over asyncio's streams, keeps it. Each of the others has one fault, and fails the tests that name
the fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys

import pytest

from pml_hookspecs import Origin, Peer, RawObject, RpcError, TransportError

ROOM = 1 << 26
GRACE_S = 0.05


class PlainLink:
    """One task reads lines and hands out what they hold."""

    def __init__(self, name, write):
        self.name, self.write = name, write
        self.handler = None
        self.pending, self.running = {}, {}
        self.last, self.error = 0, None

    def send(self, message):
        if self.error is None:
            self.write(json.dumps({"jsonrpc": "2.0", **message}, default=dict).encode() + b"\n")

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    async def request(self, method, params, *, timeout_s):
        if self.error:
            raise TransportError(str(self.error), retryable=True)
        self.last += 1
        key = self.last
        answer = self.pending[key] = asyncio.get_running_loop().create_future()
        self.send({"id": key, "method": method, "params": params})
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            self.timed_out(key)
            raise TimeoutError(f"server {self.name} did not answer {method} within {timeout_s:g} s") from None
        except asyncio.CancelledError:
            self.caller_cancelled(key)
            raise
        finally:
            self.forget(key)

    def timed_out(self, key):
        self.notify("notifications/cancelled", {"requestId": key})

    def caller_cancelled(self, key):
        self.notify("notifications/cancelled", {"requestId": key})

    def forget(self, key):
        self.pending.pop(key, None)

    async def read(self, lines):
        with contextlib.suppress(OSError):
            async for line in lines:
                self.line(line)
        self.end(TransportError(f"server {self.name} went away", retryable=True))

    def line(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            self.junk()
            return
        self.message(message)

    def junk(self):
        pass

    def message(self, message):
        if "method" in message:
            self.started_by_peer(message)
        else:
            self.answered(message)

    def answered(self, message):
        answer = self.pending.get(message["id"])
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(RpcError(**message["error"]))
        else:
            answer.set_result(RawObject(json.dumps(message["result"]).encode()))

    def started_by_peer(self, message):
        params = message.get("params") or {}
        if "id" in message:
            self.running[message["id"]] = asyncio.ensure_future(self.serve(message["id"], message["method"], params))
        elif message["method"] == "notifications/cancelled":
            if task := self.running.pop(params["requestId"], None):
                task.cancel()
        else:
            self.notified(message["method"], params)

    def notified(self, method, params):
        self.handler.notification(method, RawObject.of(params))

    async def serve(self, key, method, params):
        try:
            answer = {"result": await self.handler.request(method, RawObject.of(params), Origin(key, self))}
        except RpcError as error:
            answer = {"error": error.to_wire()}
        except Exception as error:
            answer = {"error": self.fault(error).to_wire()}
        self.running.pop(key, None)
        self.send({"id": key, **answer})

    def fault(self, _error):
        return RpcError(-32603, "Internal error")

    def end(self, error):
        if self.error is None:
            self.error = error or TransportError("closed", retryable=True)
            for answer in self.pending.values():
                if not answer.done():
                    answer.set_exception(TransportError(str(self.error), retryable=True))
            for task in self.running.values():
                task.cancel()
            self.handler.closed(error)


class Plain:
    """A transport as simple as it can be."""

    link_type = PlainLink

    def __init__(self, _settings=None, _services=None):
        pass

    def connect(self, endpoint, handler):
        self.check(endpoint.options)
        return self.connected(endpoint, handler)

    def check(self, options):
        if options:
            raise ValueError(f"unknown options {list(options)}")

    @contextlib.asynccontextmanager
    async def connected(self, endpoint, handler):
        try:
            process = await asyncio.create_subprocess_exec(
                *shlex.split(endpoint.address.removeprefix("stdio:")),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=ROOM,
                start_new_session=True,
            )
        except OSError as error:
            raise self.not_started(endpoint, error) from error
        link = self.link_type(endpoint.name, process.stdin.write)
        link.handler = handler
        reading = asyncio.ensure_future(link.read(process.stdout))
        try:
            yield link
        finally:
            link.end(None)
            closing = asyncio.ensure_future(self.close(process, reading))
            while not closing.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([closing])
            closing.result()

    def not_started(self, endpoint, error):
        return TransportError(f"server {endpoint.name}: {error}", retryable=False)

    async def close(self, process, reading):
        process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            await asyncio.wait([reading], timeout=GRACE_S)
            self.kill(process, number)
        process._transport.close()
        await process.wait()
        await reading

    def kill(self, process, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    async def serve(self, _endpoint, accept, *, started):
        lines = asyncio.StreamReader(limit=ROOM)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        sink = os.dup(1)
        os.dup2(2, 1)  # a stray print is no message
        link = self.link_type("client", lambda data: os.write(sink, data))
        self.announce(link, accept, started)
        await link.read(lines)

    def announce(self, link, accept, started):
        started("stdio:")
        link.handler = accept(link, Peer(address="stdio"))


class Sloppy(PlainLink):
    """Never takes a request back, hands out notifications as it likes, and tells its own secrets."""

    def timed_out(self, key):
        pass

    def caller_cancelled(self, key):
        pass

    def notified(self, method, params):
        if params.get("number") == 1:
            self.kept = params
            return
        super().notified(method, params)
        if params.get("number") == 2:
            super().notified(method, self.kept)

    def fault(self, error):
        return RpcError(-32603, str(error))


class SloppyTransport(Plain):
    """Takes any option, does not say which server is missing, and lets a client in before saying where it serves."""

    link_type = Sloppy

    def check(self, options):
        pass

    def not_started(self, _endpoint, _error):
        return TransportError("cannot start", retryable=False)

    def announce(self, link, accept, started):
        link.handler = accept(link, Peer(address="stdio"))
        started("stdio:")


class Greedy(PlainLink):
    """Forgets nothing, decodes text before it cuts it into lines, and gives up at the first bad line."""

    def forget(self, key):
        pass

    def junk(self):
        self.end(TransportError("cannot parse", retryable=True))

    async def read(self, lines):
        text = ""
        while data := await lines.read(16):
            text += data.decode(errors="replace")
            *whole, text = text.split("\n")
            for line in whole:
                self.line(line.encode())
        self.end(TransportError(f"server {self.name} went away", retryable=True))


class GreedyTransport(Plain):
    """Ends the server, and not what it started."""

    link_type = Greedy

    def kill(self, process, number):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)


class Confused(PlainLink):
    """Takes a message for an answer when its id is one of ours, and tells nobody of the end."""

    def message(self, message):
        if message.get("id") in self.pending:
            self.answered({"result": {}, **message})
        else:
            super().message(message)

    async def read(self, lines):
        async for line in lines:
            self.line(line)


class ConfusedTransport(Plain):
    """Reads as little as its link."""

    link_type = Confused


class InOrder(PlainLink):
    """Takes answers to come in the order of the requests."""

    def answered(self, message):
        waiting = [key for key, answer in self.pending.items() if not answer.done()]
        super().answered({**message, "id": waiting[0] if waiting else None})


class InOrderTransport(Plain):
    """Does not look at ids."""

    link_type = InOrder


class OneByOne(PlainLink):
    """Answers a request before it reads the next line."""

    async def read(self, lines):
        async for line in lines:
            self.line(line)
            if self.running:
                await asyncio.wait(list(self.running.values()))
        self.end(TransportError(f"server {self.name} went away", retryable=True))


class OneByOneTransport(Plain):
    """Does one thing at a time."""

    link_type = OneByOne


CAUGHT = {
    Plain: set(),
    SloppyTransport: {
        "test_a_request_that_timed_out_is_taken_back",
        "test_a_request_whose_caller_is_cancelled_is_taken_back",
        "test_notifications_of_the_server_arrive_in_order",
        "test_a_fault_of_the_handler_becomes_an_opaque_error",
        "test_an_unknown_option_is_refused_at_once",
        "test_a_server_that_is_not_there_is_named",
        "test_the_address_is_told_before_the_first_client",
    },
    GreedyTransport: {
        "test_many_requests_leave_nothing_behind",
        "test_characters_split_over_reads_arrive_whole",
        "test_a_malformed_line_is_skipped",
        "test_server_and_descendants_are_gone_soon_after_leaving",
        "test_server_and_descendants_are_gone_soon_after_a_cancellation",
    },
    ConfusedTransport: {
        "test_a_request_of_the_server_with_an_id_of_ours_is_answered",
        "test_the_end_of_the_connection_fails_all_pending_requests_at_once",
        "test_a_server_that_does_not_start_fails_the_first_request",
    },
    InOrderTransport: {
        "test_four_concurrent_requests_to_one_server_complete",
        "test_answers_out_of_order_reach_their_requests",
        # They look at who gets which answer, too.
        "test_a_timeout_touches_only_its_own_request",
        "test_a_late_answer_reaches_nobody",
        "test_a_malformed_line_is_skipped",
        "test_a_request_whose_caller_is_cancelled_is_taken_back",
    },
    OneByOneTransport: {
        "test_a_request_being_answered_holds_up_no_other",
        "test_a_request_that_the_server_takes_back_is_cancelled_and_not_answered",
        "test_requests_go_both_ways_between_two_gateways",
    },
}
"""The tests that each transport fails, with all its faults: a test of its own for each of them."""

TESTS = """
import importlib.util
import sys

import pytest

import pml_testing.transport
from pml_testing.transport import TransportContract

# Faults make tests wait for their limits.
pml_testing.transport.SOON_S = 1.0
pml_testing.transport.AT_ONCE_S = 0.2
pml_testing.transport.MANY = 1000
pml_testing.transport.BIG = 100_000

spec = importlib.util.spec_from_file_location("transports_under_test", {path!r})
module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)


class TestIt(TransportContract):
    @pytest.fixture
    def transport(self):
        return module.{name}()
"""


@pytest.mark.parametrize("transport", CAUGHT, ids=lambda transport: transport.__name__)
def test_a_fault_fails_the_tests_that_name_it_and_no_others(pytester, transport):
    pytester.makepyfile(TESTS.format(path=__file__, name=transport.__name__))
    result = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider")
    reports = result.reprec.getreports("pytest_runtest_logreport")
    failed = {report.nodeid.rpartition("::")[2].partition("[")[0] for report in reports if report.failed}
    assert failed == CAUGHT[transport]
