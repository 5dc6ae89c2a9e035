from __future__ import annotations

import re

import pytest

from pml_hookspecs import TransportError
from pml_mcp.servers.connection.backoff import FIRST_S, GIVES_UP_AFTER, LONGEST_S, STABLE_S
from pml_settings.config import ServerSettings
from pml_testing.downstream import Connections, a_while, connected, moving_clock, state, until
from pml_testing.gateway import Client, ScriptedServer

pytestmark = pytest.mark.anyio


def near(pause_s: float, wanted_s: float) -> bool:
    return wanted_s * 0.8 <= pause_s <= wanted_s * 1.2


async def test_after_five_failures_status_and_calls_say_so_and_when_it_is_tried_next(monkeypatch):
    server = ScriptedServer(["read"])
    server.refuse = "no such host"
    transport = Connections({"fs": lambda: server})
    async with connected(transport, {"fs": ServerSettings(address="scripted:fs")}) as made:
        advance, client = moving_clock(monkeypatch), Client(made)
        failures = made.servers["fs"].backoff
        for failure in range(1, GIVES_UP_AFTER):
            await until(lambda failure=failure: failures.failures == failure)
            assert state(made).reason == "no such host"
            await a_while()
            advance(LONGEST_S)
        await until(lambda: failures.failures == GIVES_UP_AFTER)
        assert "failed 5 times in a row; the next attempt is at" in state(made).reason

        async def waits_s() -> int:
            text = (await client.call("fs:read"))["content"][0]["text"]
            assert text.startswith("MCP server fs not connected: no such host (failed 5 times in a row; ")
            return int(re.search(r"the next attempt is in (\d+) s\)", text)[1])

        made.catalog.publish("fs", await _tools(made))  # known from an earlier run: the server is asked
        before_s = await waits_s()
        advance(20)
        assert before_s - 22 <= await waits_s() <= before_s - 19
        server.refuse = ""
        advance(2 * LONGEST_S)
        await until(lambda: state(made).state == "up")
        assert state(made).reason == ""
        assert (await client.call("fs:read"))["content"]


async def _tools(made):
    from pml_catalog.live import make_entry

    return [make_entry("fs", {"name": "read"})]


async def test_a_server_that_always_crashes_soon_opens_the_circuit_and_a_stable_one_does_not(quick, monkeypatch):
    server = ScriptedServer(["read"])
    transport = Connections({"fs": lambda: server})
    async with connected(transport, {"fs": ServerSettings(address="scripted:fs")}) as made:
        advance = moving_clock(monkeypatch)

        async def crash() -> None:
            opened = len(transport.opened)
            server.handler.closed(TransportError("it crashed", retryable=True))
            await until(lambda: len(transport.opened) > opened and state(made).state == "up")

        for _ in range(GIVES_UP_AFTER - 1):
            await crash()
        assert quick[-1] < LONGEST_S / 2
        await crash()
        assert near(quick[-1], LONGEST_S)
        advance(STABLE_S + 1)
        await crash()
        assert near(quick[-1], FIRST_S)
        assert state(made).restarts == GIVES_UP_AFTER + 1
