"""Peers that read late or not at all: a server's process, and a client behind the listener."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from pml_kit.processes.pipes import Reader
from pml_testing.transport import SOON_S, seen_of

from .test_listener import serve

__all__ = ["serve"]
MIB = 1 << 20
PROGRESS, LOGGED = "notifications/progress", "notifications/message"
TOOLS_CHANGED = "notifications/tools/list_changed"

ROUNDS, WARM = 100_000, 10_000


def unwritten(link):
    return link.writer.size + link._outbox.size


def flood(link, rounds):
    """Ten messages a round."""
    for n in range(rounds):
        for token in range(8):
            link.notify(PROGRESS, {"progressToken": token, "progress": n})
        link.notify(TOOLS_CHANGED, {})
        link.notify(LOGGED, {"level": "info", "data": n})


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.anyio
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="measures memory with /proc")
async def test_a_million_notifications_to_a_peer_that_stopped_reading_take_no_memory(connect):
    async with connect() as link:
        pid = (await link.request("describe", {}, timeout_s=SOON_S))["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            flood(link, WARM)
            before = resident_bytes()
            flood(link, ROUNDS - WARM)
            grown = resident_bytes() - before
        finally:
            os.kill(pid, signal.SIGCONT)
        assert grown < 4 * MIB
        assert unwritten(link) < 2 * MIB
        assert link.counters["merged"] > 8 * ROUNDS
        told = await seen_of(link, PROGRESS)
        assert [params["progress"] for params in told if params["progressToken"] == 7][-1] == ROUNDS - WARM - 1
        assert len(await seen_of(link, TOOLS_CHANGED)) > 1
        logged = await seen_of(link, LOGGED)
        assert len(logged) + link.counters["dropped"] == ROUNDS


@pytest.mark.anyio
async def test_a_client_that_stopped_reading_gets_the_last_word_of_everything_later(serve):
    async with serve() as served:
        await served.client.request("m", {}, timeout_s=SOON_S)
        stalled = Reader(served.from_listener, lambda _data: None, lambda _error: None)
        stalled.pause()
        flood(served.link, 20_000)
        assert unwritten(served.link) < 2 * MIB
        asked = asyncio.ensure_future(served.client.request("m", {}, timeout_s=SOON_S))
        for _ in range(5):
            await asyncio.sleep(0)
        stalled.close()
        Reader(served.from_listener, served.client.data_received, lambda _error: None)
        await asked
        progress_seen = [params for method, params in served.client_handler.notifications if method == PROGRESS]
        assert progress_seen[-8:] == [{"progressToken": token, "progress": 19_999} for token in range(8)]
