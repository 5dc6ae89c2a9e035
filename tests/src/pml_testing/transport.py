"""The contract every transport keeps.

Subclass :class:`TransportContract` and override ``transport``; or run ``pytest --pml-contract`` against what is
installed. The other end is a scripted server of :mod:`pml_testing.servers`, in a process of its own. A transport that
does not start its servers overrides ``address`` too: see :mod:`pml_testing.http_servers`.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import pytest

from pml_hookspecs import Endpoint, Link, RawObject, RpcError, Transport, TransportError

from .transport_ends import (
    LONG_S,
    NO_SUCH_COMMAND,
    SOON_S,
    START_S,
    Recorder,
    alive,
    come,
    ended,
    listener_over_stdio,
    mourned,
    over_stdio,
    seen_of,
    told_of_the_end,
)

AT_ONCE_S = 10.0
"""Longest for what must not wait for a limit, which is :data:`LONG_S` here [s]."""
SHORT_S = 0.2
BIG = 10 * 1000 * 1000
MANY, AT_A_TIME = 10_000, 50
ASK = {"method": "roots/list", "params": {"n": 1}}
Connect: TypeAlias = Callable[..., Any]


@pytest.mark.anyio
class TransportContract:
    """What the gateway relies on. All of it is tested from outside, through :class:`pml_hookspecs.Transport`."""

    group = "pml.transport"

    @pytest.fixture
    def transport(self) -> Transport:
        """The transport under test; override it."""
        raise NotImplementedError

    @pytest.fixture
    def address(self) -> Callable[[str], str]:
        """Makes the address at which the transport reaches a script of :mod:`pml_testing.servers`."""
        return over_stdio

    @pytest.fixture
    def many(self) -> int:
        """How many requests are many for the transport."""
        return MANY

    @pytest.fixture
    def missing(self) -> str:
        """An address where nothing can be reached."""
        return NO_SUCH_COMMAND

    @pytest.fixture
    def listener(self, transport: Transport) -> str | None:
        """The address of a process in which the transport serves; None when it cannot serve."""
        return listener_over_stdio(transport)

    @pytest.fixture
    def children(self) -> None:
        """Asked for by tests of what becomes of servers' processes; skip there where the transport starts none."""

    @pytest.fixture
    def connect(self, transport: Transport, address: Callable[[str], str]) -> Connect:
        """``async with connect(script, handler=…, name=…, within_s=…) as link``, which opens and closes within that."""

        @asynccontextmanager
        async def connect(
            script: str = "obliging", *, handler: Any = None, name: str = "git", within_s: float = 2 * SOON_S
        ) -> AsyncIterator[Link]:
            endpoint = Endpoint(name=name, address=address(script))
            async with asyncio.timeout(within_s), transport.connect(endpoint, handler or Recorder()) as link:
                yield link

        return connect

    # Requests of ours.

    async def test_four_concurrent_requests_to_one_server_complete(self, connect: Connect) -> None:
        async with connect() as link:
            asked = [link.request("gather", {"count": 4, "n": n}, timeout_s=SOON_S) for n in range(4)]
            answers = await asyncio.gather(*asked)
        assert [answer["n"] for answer in answers] == [0, 1, 2, 3]

    async def test_answers_out_of_order_reach_their_requests(self, connect: Connect) -> None:
        order = []

        async def ask(link: Link, n: int) -> int:
            answer = await link.request("stack", {"count": 3, "n": n}, timeout_s=SOON_S)
            order.append(n)
            if len(order) < 3:
                # With a connection for each request, nothing else puts answers in order.
                await link.request("unstack", {}, timeout_s=SOON_S)
            return int(answer["n"])

        async with connect() as link:
            assert await asyncio.gather(*(ask(link, n) for n in range(3))) == [0, 1, 2]
        assert order == [2, 1, 0]

    async def test_servers_are_independent(self, connect: Connect) -> None:
        async with connect(name="slow") as slow, connect(name="fast") as fast:
            waiting = asyncio.ensure_future(slow.request("hold", {}, timeout_s=LONG_S))
            async with asyncio.timeout(SOON_S):
                for n in range(10):
                    assert (await fast.request("echo", {"n": n}, timeout_s=SOON_S))["n"] == n
            assert not waiting.done()
            await slow.request("release", {}, timeout_s=SOON_S)
            assert await waiting == {"late": True}

    async def test_a_timeout_touches_only_its_own_request(self, connect: Connect) -> None:
        async with connect() as link:
            other = asyncio.ensure_future(link.request("hold", {}, timeout_s=LONG_S))
            with pytest.raises(TimeoutError) as caught:
                await link.request("hold", {}, timeout_s=SHORT_S)
            assert "git" in str(caught.value)
            assert f"{SHORT_S:g}" in str(caught.value)
            assert not other.done()
            assert await link.request("echo", {"still": "here"}, timeout_s=SOON_S) == {"still": "here"}
            await link.request("release", {}, timeout_s=SOON_S)
            assert await other == {"late": True}

    async def test_a_request_that_timed_out_is_taken_back(self, connect: Connect) -> None:
        async with connect() as link:
            with pytest.raises(TimeoutError):
                await link.request("hold", {}, timeout_s=SHORT_S)
            held = [m for m in (await link.request("seen", {}, timeout_s=SOON_S))["messages"] if m["method"] == "hold"]
            cancelled = await come(link, "notifications/cancelled")
        assert [params["requestId"] for params in cancelled] == [held[0]["id"]]

    async def test_a_request_whose_caller_is_cancelled_is_taken_back(self, connect: Connect) -> None:
        async with connect() as link:
            caller = asyncio.ensure_future(link.request("hold", {}, timeout_s=LONG_S))
            while not (held := await seen_of(link, "hold")):
                pass
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            assert len(held) == 1
            assert len(await come(link, "notifications/cancelled")) == 1

    async def test_a_late_answer_reaches_nobody(self, connect: Connect) -> None:
        async with connect() as link:
            with pytest.raises(TimeoutError):
                await link.request("hold", {}, timeout_s=SHORT_S)
            assert await link.request("release", {}, timeout_s=SOON_S) == {"released": 1}
            for n in range(5):
                assert await link.request("echo", {"n": n}, timeout_s=SOON_S) == {"n": n}

    async def test_an_error_answer_is_raised_as_it_came(self, connect: Connect) -> None:
        wire = {"code": -32050, "message": "out of paper", "data": {"tray": [1, 2]}}
        async with connect() as link:
            with pytest.raises(RpcError) as caught:
                await link.request("refuse", wire, timeout_s=SOON_S)
        assert caught.value.to_wire() == wire

    async def test_a_malformed_line_is_skipped(self, connect: Connect) -> None:
        async with connect() as link:
            junk = asyncio.ensure_future(
                link.request("say", {"text": "Starting…\n{\n\xff\n\n".replace("…", ".")}, timeout_s=LONG_S)
            )
            for n in range(3):
                assert await link.request("echo", {"n": n}, timeout_s=SOON_S) == {"n": n}
            assert not junk.done()
            junk.cancel()

    async def test_characters_split_over_reads_arrive_whole(self, connect: Connect) -> None:
        text = "é€😀" * 20
        async with connect() as link:
            assert await link.request("pieces", {"text": text}, timeout_s=SOON_S) == {"text": text}

    async def test_ten_megabytes_travel_both_ways(self, connect: Connect) -> None:
        async with connect() as link:
            answer = await link.request("big", {"bytes": BIG, "text": "y" * BIG}, timeout_s=LONG_S)
        assert answer["length"] == BIG
        assert answer["text"] == "x" * BIG

    async def test_many_requests_leave_nothing_behind(self, connect: Connect, many: int) -> None:
        def kept() -> int:
            gc.collect()
            return sum(isinstance(thing, (asyncio.Future, RawObject)) for thing in gc.get_objects())

        async with connect(within_s=2 * LONG_S) as link:

            async def work() -> None:
                for n in range(many // AT_A_TIME):
                    await link.request("echo", {"n": n}, timeout_s=LONG_S)

            await link.request("echo", {}, timeout_s=SOON_S)
            before = kept()
            await asyncio.gather(*(work() for _ in range(AT_A_TIME)))
            await link.request("echo", {}, timeout_s=SOON_S)
            assert kept() - before < AT_A_TIME

    async def test_a_notification_reaches_the_server(self, connect: Connect) -> None:
        async with connect() as link:
            for n in range(3):
                link.notify("notifications/n", {"n": n})
            assert await come(link, "notifications/n", 3) == [{"n": 0}, {"n": 1}, {"n": 2}]

    # The end.

    async def test_the_end_of_the_connection_fails_all_pending_requests_at_once(self, connect: Connect) -> None:
        handler = Recorder()
        async with connect(handler=handler) as link:
            asked = [asyncio.ensure_future(link.request("hold", {}, timeout_s=LONG_S)) for _ in range(5)]
            asked.append(asyncio.ensure_future(link.request("leave", {"code": 3}, timeout_s=LONG_S)))
            async with asyncio.timeout(AT_ONCE_S):
                failures = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(failure) for failure in failures] == [TransportError] * 6
            assert all(failure.retryable for failure in failures if isinstance(failure, TransportError))
            assert "git" in str(failures[0])
            async with asyncio.timeout(AT_ONCE_S):
                with pytest.raises(TransportError):
                    await link.request("echo", {}, timeout_s=LONG_S)
            await told_of_the_end(link, handler)
        assert [type(error) for error in handler.closings] == [TransportError]

    async def test_a_server_that_does_not_start_fails_the_first_request(self, connect: Connect) -> None:
        async with asyncio.timeout(SOON_S):
            with pytest.raises(TransportError):
                async with connect("broken") as link:
                    await link.request("initialize", {}, timeout_s=LONG_S)

    async def test_closing_fails_all_pending_requests(self, connect: Connect) -> None:
        handler = Recorder()
        async with connect(handler=handler) as link:
            asked = [asyncio.ensure_future(link.request("hold", {}, timeout_s=LONG_S)) for _ in range(5)]
            await link.request("echo", {}, timeout_s=SOON_S)
        failures = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(failure) for failure in failures] == [TransportError] * 5
        assert handler.closings == [None]
        with pytest.raises(TransportError):
            await link.request("echo", {}, timeout_s=LONG_S)

    async def test_server_and_descendants_are_gone_soon_after_leaving(self, children: None, connect: Connect) -> None:
        async with connect("stubborn") as link:
            pids = await link.request("spawn", {}, timeout_s=SOON_S)
            assert all(map(alive, pids.values()))
            left = asyncio.get_running_loop().time()
        with mourned(pids):
            assert asyncio.get_running_loop().time() - left < SOON_S
            assert await ended(*pids.values())

    async def test_server_and_descendants_are_gone_soon_after_a_cancellation(
        self, children: None, connect: Connect
    ) -> None:
        started: asyncio.Future[Mapping[str, int]] = asyncio.get_running_loop().create_future()

        async def use() -> None:
            async with connect("stubborn") as link:
                started.set_result(await link.request("spawn", {}, timeout_s=SOON_S))
                await link.request("hold", {}, timeout_s=LONG_S)

        user = asyncio.ensure_future(use())
        pids = await started
        user.cancel()
        await asyncio.sleep(0)
        user.cancel()
        with mourned(pids):
            with pytest.raises(asyncio.CancelledError):
                async with asyncio.timeout(SOON_S):
                    await user
            assert await ended(*pids.values())

    # Requests and notifications of the server's.

    async def ask(self, connect: Connect, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the server gets for a request of its own."""
        async with connect() as link:
            answer = await link.request("ask", {"message": message}, timeout_s=SOON_S)
        found: Mapping[str, Any] = answer["answer"]
        return found

    async def test_a_request_of_the_server_with_an_id_of_ours_is_answered(self, connect: Connect) -> None:
        async with connect() as link:
            for _ in range(3):
                await link.request("echo", {}, timeout_s=SOON_S)
            messages = (await link.request("seen", {}, timeout_s=SOON_S))["messages"]
            coming = 2 * messages[-1]["id"] - messages[-2]["id"]
            message = {"id": coming, "method": "roots/list", "params": {"a": 1}}
            answer = (await link.request("ask", {"message": message}, timeout_s=SOON_S))["answer"]
        assert answer == {"jsonrpc": "2.0", "id": coming, "result": {"method": "roots/list", "params": {"a": 1}}}

    @pytest.mark.parametrize("id", [0, 7, -1, "7", "", 'a "quoted" id', 2**60])
    async def test_an_id_of_the_server_comes_back_as_it_was(self, connect: Connect, id: Any) -> None:
        answer = await self.ask(connect, {"id": id, "method": "m"})
        assert answer["id"] == id
        assert type(answer["id"]) is type(id)
        assert answer["result"] == {"method": "m", "params": {}}

    async def test_an_error_that_the_handler_raises_goes_back_as_it_is(self, connect: Connect) -> None:
        answer = await self.ask(connect, {"id": "one", "method": "refuse"})
        assert answer["error"] == {"code": -32001, "message": "not today", "data": {"why": "a test"}}

    async def test_a_fault_of_the_handler_becomes_an_opaque_error(self, connect: Connect) -> None:
        answer = await self.ask(connect, {"id": "one", "method": "stumble"})
        assert answer["error"]["code"] == -32603
        assert "internal detail" not in str(answer)

    async def test_a_request_that_the_server_takes_back_is_cancelled_and_not_answered(self, connect: Connect) -> None:
        handler = Recorder()
        async with connect(handler=handler) as link:
            await link.request("ask_in_vain", {"message": {"id": "x", "method": "wait"}}, timeout_s=SOON_S)
            await handler.waiting.wait()
            await link.request("take_back", {"id": "x"}, timeout_s=SOON_S)
            async with asyncio.timeout(SOON_S):
                await handler.cancelled.wait()
            await link.request("echo", {}, timeout_s=SOON_S)
            messages = (await link.request("seen", {}, timeout_s=SOON_S))["messages"]
        assert [message for message in messages if message.get("id") == "x"] == []
        assert handler.notifications == []

    async def test_a_request_being_answered_holds_up_no_other(self, connect: Connect) -> None:
        handler = Recorder()
        async with connect(handler=handler) as link:
            await link.request("ask_in_vain", {"message": {"id": "x", "method": "wait"}}, timeout_s=SOON_S)
            await handler.waiting.wait()
            answer = await link.request("ask", {"message": {"id": "y", "method": "m"}}, timeout_s=SOON_S)
            assert answer["answer"]["id"] == "y"
        assert handler.cancelled.is_set()

    async def test_notifications_of_the_server_arrive_in_order(self, connect: Connect) -> None:
        handler = Recorder()
        async with connect(handler=handler) as link:
            await link.request("tell", {"count": 200}, timeout_s=SOON_S)
        expected = [("notifications/count", {"number": number}) for number in range(200)]
        assert handler.notifications == expected

    # Mistakes of the user's.

    async def test_an_unknown_option_is_refused_at_once(
        self, transport: Transport, address: Callable[[str], str]
    ) -> None:
        endpoint = Endpoint(name="git", address=address("obliging"), options={"no_such_option": 1})
        with pytest.raises(ValueError, match="no_such_option"):
            transport.connect(endpoint, Recorder())

    async def test_a_server_that_is_not_there_is_named(self, transport: Transport, missing: str) -> None:
        with pytest.raises(TransportError, match="git"):
            async with transport.connect(Endpoint(name="git", address=missing), Recorder()):
                pass

    # The gateway as the server.

    @asynccontextmanager
    async def served(self, transport: Transport, listener: str | None, handler: Any) -> AsyncIterator[Link]:
        """A link to a process in which the transport serves."""
        async with AsyncExitStack() as stack:
            if listener is None:
                with pytest.raises(NotImplementedError):
                    await transport.serve(Endpoint(name="default", address=""), lambda *_: handler, started=print)
                pytest.skip("this transport only connects downstream, and says so")
            await stack.enter_async_context(asyncio.timeout(2 * START_S))
            yield await stack.enter_async_context(
                transport.connect(Endpoint(name="gateway", address=listener), handler)
            )

    async def test_the_address_is_told_before_the_first_client(
        self, transport: Transport, listener: str | None
    ) -> None:
        async with self.served(transport, listener, Recorder()) as link:
            link.notify("notifications/hello", {})
            events = (await link.request("events", {}, timeout_s=START_S))["events"]
        assert events[0].startswith("started ")
        assert events[1:] == ["accepted", "notification notifications/hello", "request events"]

    async def test_requests_go_both_ways_between_two_gateways(self, transport: Transport, listener: str | None) -> None:
        async with self.served(transport, listener, Recorder()) as link:
            assert await link.request("echo", {"text": "é"}, timeout_s=START_S) == {"text": "é"}
            assert await link.request("ask", ASK, timeout_s=SOON_S) == ASK
