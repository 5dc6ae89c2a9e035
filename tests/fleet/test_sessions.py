"""Sessions of the handshake era, with the official SDK's client, which never begins one anew."""

from __future__ import annotations

import asyncio
import json
import signal

import httpx2
import pytest
from balanced import accepting, initialize, request_in_session, until
from mcp import types

pytestmark = pytest.mark.anyio


async def pay(client, to):
    result = await client.call_tool("bank__pay", {"to": to})
    assert not result.is_error, result


async def test_a_session_holds_at_any_gateway_and_through_restarts_of_all(fleet):
    with fleet(3).running() as running:
        async with running.client() as client:
            for number in range(12):
                await pay(client, f"first-{number}")
            for how, one in zip((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM), running.gateways, strict=True):
                one.end(how)
                one.begin()
                await asyncio.to_thread(one.wait)
                for number in range(6):
                    await pay(client, f"{one.name}-{number}")
        expected = {f"first-{number}" for number in range(12)}
        expected |= {f"{one.name}-{number}" for one in running.gateways for number in range(6)}
        assert sorted(running.payments()) == sorted(expected)


async def test_what_a_server_asks_is_answered_by_whichever_gateway(fleet):
    async def sure(_context, _params):
        return types.ElicitResult(action="accept", content={"sure": True})

    with fleet(3).running() as running:
        async with running.client(elicitation_callback=sure) as client:
            for number in range(6):
                result = await client.call_tool("bank__ask", {"to": str(number)})
                assert '"accept"' in result.content[0].text, result
        assert running.payments() == [f"asked-{number}" for number in range(6)]


async def test_nobody_takes_up_the_session_of_somebody_else(fleet):
    more = '[plugins.http.tokens]\nann = "ann-token"\nben = "ben-token"\n'
    with fleet(2, more=more).running() as running:
        first, second = running.gateways
        session = await initialize(first.url, "ann-token")
        await asyncio.sleep(1)  # it is written within a tenth of a second
        for key, status in (("ben-token", 404), ("ann-token", 200), ("ben-token", 404)):
            assert await request_in_session(second.url, session, key) == status
        first.end(signal.SIGKILL)
        for key, status in (("ben-token", 404), ("ann-token", 200), ("ben-token", 404)):
            assert await request_in_session(second.url, session, key) == status


async def test_a_stream_that_broke_is_taken_up_at_another_gateway(fleet):
    with fleet(2).running() as running:
        first, second = running.gateways
        session = {**accepting(""), "mcp-session-id": await initialize(first.url, "")}
        params = {"name": "bank__pay", "arguments": {"to": "ben", "wait_s": 6}}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        async with httpx2.AsyncClient(timeout=120) as http:
            async with http.stream("POST", first.url, json=message, headers=session) as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("id:"):
                        last = line.removeprefix("id:").strip()
                        break
            again = {**session, "accept": "text/event-stream", "last-event-id": last}
            async with http.stream("GET", second.url, headers=again) as answer:
                assert answer.status_code == 200
                async for line in answer.aiter_lines():
                    if line.startswith("data: {"):
                        told = json.loads(line.removeprefix("data: "))
                        break
        assert told["id"] == 7
        assert not told["result"].get("isError"), told
        assert running.payments() == ["ben"]


async def test_a_stream_of_changes_is_led_and_opened_again(fleet):
    changed = []

    async def heard(message):
        if isinstance(message, types.ToolListChangedNotification):
            changed.append(message)

    with fleet(2).running() as running:
        async with running.client(message_handler=heard) as client:
            await client.list_tools()
            for one in running.gateways:
                text = one.config.read_text()
                one.config.write_text(text.replace("full_proxy", "meta_only"))
            await until(lambda: changed, "the client hears that its tools have changed")
