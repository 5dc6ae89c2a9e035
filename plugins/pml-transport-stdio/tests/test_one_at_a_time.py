"""The fallback for servers that cannot work on several requests at once."""

from __future__ import annotations

import asyncio

import pytest

from pml_hookspecs import TransportError
from pml_testing.transport import LONG_S, SHORT_S, SOON_S

pytestmark = [pytest.mark.anyio, *(pytest.mark.seed(name) for name in ("MUX-9", "MUX-10", "MUX-11"))]


async def seen(link):
    messages = (await link.request("seen", {}, timeout_s=SOON_S))["messages"]
    return [message["params"].get("n", message["method"]) for message in messages][:-1]


async def test_requests_wait_their_turn_in_order(connect):
    async with connect(allow_concurrent_requests=False) as link:
        first = asyncio.ensure_future(link.request("say", {"n": 0, "text": ""}, timeout_s=SHORT_S))
        others = [asyncio.ensure_future(link.request("echo", {"n": n}, timeout_s=SOON_S)) for n in range(1, 5)]
        with pytest.raises(TimeoutError, match=r"did not answer say within 0\.2 s$"):
            await first
        assert await asyncio.gather(*others) == [{"n": n} for n in range(1, 5)]
        assert await seen(link) == [0, "notifications/cancelled", 1, 2, 3, 4]


async def test_with_the_multiplexer_they_do_not(connect):
    async with connect(allow_concurrent_requests=True) as link:
        first = asyncio.ensure_future(link.request("hold", {}, timeout_s=LONG_S))
        assert await link.request("echo", {"n": 1}, timeout_s=SOON_S) == {"n": 1}
        assert not first.done()
        first.cancel()


async def test_time_in_the_queue_counts(connect):
    loop = asyncio.get_running_loop()
    async with connect(allow_concurrent_requests=False) as link:
        first = asyncio.ensure_future(link.request("hold", {"n": 0}, timeout_s=LONG_S))
        start = loop.time()
        calls = [link.request("echo", {"n": n}, timeout_s=SHORT_S) for n in range(1, 4)]
        failures = await asyncio.gather(*calls, return_exceptions=True)
        assert SHORT_S <= loop.time() - start < SHORT_S + 0.5
        for failure in failures:
            assert isinstance(failure, TimeoutError)
            assert "waiting for its turn (allow_concurrent_requests is off)" in str(failure)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        # What was never sent is not taken back either.
        assert await seen(link) == [0, "notifications/cancelled"]


async def test_a_caller_who_gives_up_in_the_queue_is_passed_over(connect):
    async with connect(allow_concurrent_requests=False) as link:
        first = asyncio.ensure_future(link.request("hold", {"n": 0}, timeout_s=LONG_S))
        queued = asyncio.ensure_future(link.request("echo", {"n": 1}, timeout_s=LONG_S))
        last = asyncio.ensure_future(link.request("echo", {"n": 2}, timeout_s=SOON_S))
        await asyncio.sleep(0)
        queued.cancel()
        await asyncio.sleep(0)
        first.cancel()
        assert await last == {"n": 2}
        assert await seen(link) == [0, "notifications/cancelled", 2]


async def test_an_error_or_a_broken_answer_ends_a_turn(connect):
    async with connect(allow_concurrent_requests=False) as link:
        texts = ['{"id":%ID%,"error":{"code":1,"message":"no"}}\n', '{"id":%ID%,"result":[\n', '{"id":%ID%}\n']
        calls = [link.request("say", {"text": text}, timeout_s=LONG_S) for text in texts]
        await asyncio.gather(*calls, return_exceptions=True)
        assert await link.request("echo", {"n": 1}, timeout_s=SOON_S) == {"n": 1}


async def test_the_end_fails_the_queue_too(connect):
    async with connect(allow_concurrent_requests=False) as link:
        calls = [asyncio.ensure_future(link.request("leave", {"code": 1}, timeout_s=LONG_S))]
        calls += [asyncio.ensure_future(link.request("echo", {}, timeout_s=LONG_S)) for _ in range(3)]
        failures = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(failure) for failure in failures] == [TransportError] * 4


async def test_a_thousand_requests_in_turn_leave_nothing_behind(connect):
    async with connect(allow_concurrent_requests=False) as link:
        calls = (link.request("echo", {"n": n}, timeout_s=LONG_S) for n in range(1000))
        assert [answer["n"] for answer in await asyncio.gather(*calls)] == list(range(1000))
        assert link.pending == 0
        assert not link._turns._waiting
