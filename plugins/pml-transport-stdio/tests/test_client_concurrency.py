"""Several requests at once on one connection."""

from __future__ import annotations

import asyncio

import pytest

from pml_hookspecs import TransportError
from pml_kit.processes import pipes
from pml_testing.transport import LONG_S, SHORT_S, SOON_S, Recorder
from pml_transport_stdio import client, process

pytestmark = pytest.mark.anyio


async def test_4_concurrent_requests_to_same_server_complete_successfully(connect):
    async with connect() as link:
        calls = (link.request("gather", {"count": 4, "n": n}, timeout_s=SOON_S) for n in range(4))
        assert [answer["n"] for answer in await asyncio.gather(*calls)] == [0, 1, 2, 3]


async def test_requests_to_different_servers_are_independent(connect):
    async with connect(name="slow") as slow, connect(name="fast") as fast:
        waiting = asyncio.ensure_future(slow.request("hold", {}, timeout_s=LONG_S))
        assert await fast.request("echo", {"n": 1}, timeout_s=SOON_S) == {"n": 1}
        assert not waiting.done()
        assert (slow.pending, fast.pending) == (1, 0)
        await slow.request("release", {}, timeout_s=SOON_S)
        assert await waiting == {"late": True}


async def test_request_timeout_does_not_affect_other_pending_requests(connect):
    async with connect() as link:
        others = [asyncio.ensure_future(link.request("hold", {"n": n}, timeout_s=LONG_S)) for n in range(3)]
        with pytest.raises(TimeoutError, match=r"^server 'git' did not answer hold within 0\.2 s$"):
            await link.request("hold", {}, timeout_s=SHORT_S)
        assert link.pending == 3
        await link.request("release", {}, timeout_s=SOON_S)
        assert await asyncio.gather(*others) == [{"late": True}] * 3
        assert link.counters["late"] == 1


async def test_connection_close_cleans_up_all_pending_requests(connect):
    handler = Recorder()
    async with connect(handler=handler) as link:
        waiting = [asyncio.ensure_future(link.request("hold", {}, timeout_s=LONG_S)) for _ in range(4)]
        await link.request("echo", {}, timeout_s=SOON_S)
        assert link.pending == 4
    assert link.pending == 0
    for failure in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(failure, TransportError)
        assert str(failure) == "the connection to server 'git' was closed"
    assert handler.closings == [None]


async def test_a_race_of_first_requests_starts_one_process_and_one_reader(connect, monkeypatch):
    started, reading = [], []
    monkeypatch.setattr(client, "spawn", lambda *a: started.append(a) or process.spawn(*a))
    monkeypatch.setattr(client, "Reader", lambda *a: reading.append(a) or pipes.Reader(*a))
    async with connect() as link:
        calls = (link.request("describe", {}, timeout_s=SOON_S) for _ in range(50))
        assert len({answer["pid"] for answer in await asyncio.gather(*calls)}) == 1
    assert (len(started), len(reading)) == (1, 1)
