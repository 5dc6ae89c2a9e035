"""The fallback for servers that cannot work on several requests at once."""

from __future__ import annotations

import asyncio
import shlex
import sys

import pytest

from pml_hookspecs import Endpoint, TransportError
from pml_testing.transport import LONG_S, SHORT_S, SOON_S, Recorder
from pml_transport_stdio import Settings, Stdio

pytestmark = pytest.mark.anyio


async def seen(link):
    messages = (await link.request("seen", {}, timeout_s=SOON_S))["messages"]
    return [message["params"].get("n", message["method"]) for message in messages][:-1]


async def test_requests_wait_their_turn_in_order(connect):
    async with connect(allow_concurrent_requests=False) as link:
        calls = [asyncio.ensure_future(link.request("echo", {"n": n}, timeout_s=SOON_S)) for n in range(5)]
        assert await asyncio.gather(*calls) == [{"n": n} for n in range(5)]
        assert await seen(link) == [0, 1, 2, 3, 4]


WORKER = """
import json, sys, threading, time
def work(message):
    with open(sys.argv[1], "a") as log:
        log.write(f"begin{message['params']['n']} ")
    time.sleep(0.5)
    with open(sys.argv[1], "a") as log:
        log.write(f"end{message['params']['n']} ")
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
for line in sys.stdin:
    if "id" in (message := json.loads(line)):
        threading.Thread(target=work, args=[message]).start()
"""
"""Begins with what it is sent, goes on whatever it is told, and writes down when it begins and ends."""


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_the_next_is_sent_when_the_server_has_ended_what_nobody_waits_for(services, tmp_path, how):
    log = tmp_path / "log"
    address = "stdio:" + shlex.join([sys.executable, "-I", "-S", "-c", WORKER, str(log)])
    endpoint = Endpoint(name="one", address=address, env={}, options={"allow_concurrent_requests": False})
    async with Stdio(Settings(), services).connect(endpoint, Recorder()) as link:
        first = asyncio.ensure_future(link.request("work", {"n": 1}, timeout_s=0.3 if how == "timed out" else LONG_S))
        second = asyncio.ensure_future(link.request("work", {"n": 2}, timeout_s=LONG_S))
        async with asyncio.timeout(LONG_S):
            while how == "cancelled" and not log.exists():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.01)
        if how == "cancelled":
            first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await second
    assert log.read_text().split() == ["begin1", "end1", "begin2", "end2"]


async def test_a_server_that_never_says_that_it_stopped_is_ended(connect, monkeypatch):
    monkeypatch.setattr("pml_kit.jsonrpc.pending_requests.ABANDONED_S", SHORT_S)
    async with connect(allow_concurrent_requests=False) as link:
        first = asyncio.ensure_future(link.request("hold", {}, timeout_s=LONG_S))
        second = asyncio.ensure_future(link.request("echo", {"n": 1}, timeout_s=LONG_S))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(TransportError, match="it is started again") as failed:
            await second
        assert failed.value.retryable


async def test_with_the_multiplexer_they_do_not(connect):
    async with connect(allow_concurrent_requests=True) as link:
        first = asyncio.ensure_future(link.request("hold", {}, timeout_s=LONG_S))
        assert await link.request("echo", {"n": 1}, timeout_s=SOON_S) == {"n": 1}
        assert not first.done()
        first.cancel()


async def test_time_in_the_queue_counts(connect, monkeypatch):
    async with connect(allow_concurrent_requests=False) as link:
        notified = []
        monkeypatch.setattr(link, "notify", lambda method, _params: notified.append(method))
        first = asyncio.ensure_future(link.request("hold", {"n": 0}, timeout_s=LONG_S))
        calls = [link.request("echo", {"n": n}, timeout_s=SHORT_S) for n in range(1, 4)]
        for failure in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(failure, TimeoutError)
            assert "waiting for its turn (allow_concurrent_requests is off)" in str(failure)
        # What was never sent is not taken back either.
        assert (notified, link._turns._waiting) == ([], {})
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert notified == ["notifications/cancelled"]


async def test_a_caller_who_gives_up_in_the_queue_is_passed_over(connect):
    async with connect(allow_concurrent_requests=False) as link:
        calls = [asyncio.ensure_future(link.request("echo", {"n": n}, timeout_s=SOON_S)) for n in range(3)]
        await asyncio.sleep(0)
        calls[1].cancel()
        assert await asyncio.gather(calls[0], calls[2]) == [{"n": 0}, {"n": 2}]
        assert await seen(link) == [0, 2]


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
