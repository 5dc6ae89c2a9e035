from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from agents_kit import chat, client_of, gateway

from pml_agents import plugin
from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_settings.config import Config, GatewaySettings, ServerSettings, Source
from pml_testing.downstream import records
from pml_testing.gateway import ScriptedServer
from pml_transport_stdio import Stdio

pytestmark = pytest.mark.anyio
SERVER = str(Path(__file__).with_name("agent_server.py"))


async def test_a_tool_of_a_server_can_be_an_agent():
    server = ScriptedServer(["ask"])
    agent = {"tool": "brain:ask", "argument": "prompt", "arguments": {"depth": 2}}
    async with gateway({"w": agent}, {"brain": server}) as (made, client):
        told, failed = await chat(client, "w", "hello", context="Monday")
        rows = {r.target: r for r in await records(made)}
    assert not failed
    assert server.calls == [("ask", {"depth": 2, "prompt": "hello\n\nMonday"})]
    assert told["response"].startswith("ask {'depth': 2")
    assert rows["brain:ask"].parent == rows["agents:w"].id == told["execution_id"]
    assert rows["brain:ask"].agent == "w"


async def test_cost_and_tokens_come_from_the_structured_result():
    async def answer(name, arguments):
        structured = {"answer": "42", "cost_usd": 0.1, "tokens_in": 4, "usage": {"output_tokens": 6}}
        return {"content": [{"type": "text", "text": "forty-two"}], "structuredContent": structured}

    paths = {"response": "structuredContent.answer"}
    agents = {"w": {"tool": "brain:ask"}, "v": {"tool": "brain:ask", "fields": paths}}
    async with gateway(agents, {"brain": ScriptedServer(["ask"], answer)}) as (_, client):
        usual, _ = await chat(client, "w")
        own, _ = await chat(client, "v")
    assert (usual["response"], usual["cost_usd"], usual["tokens_in"], usual["tokens_out"]) == ("forty-two", 0.1, 4, 6)
    assert own["response"] == "42"


async def test_a_tool_that_fails_is_an_agent_that_fails():
    async def answer(name, arguments):
        return {"content": [{"type": "text", "text": "out of ideas"}], "isError": True}

    agents = {"w": {"tool": "brain:ask"}, "v": {"tool": "nowhere:ask"}}
    async with gateway(agents, {"brain": ScriptedServer(["ask"], answer)}) as (_, client):
        told, failed = await chat(client, "w")
        other, other_failed = await chat(client, "v")
    assert failed
    assert "out of ideas" in told["error"]
    assert other_failed
    assert "nowhere not connected" in other["error"]


async def running_of(made):
    return [r for r in await records(made) if r.target == "agents:slow" and r.status == "running"]


async def test_a_real_server_is_asked_and_its_run_can_be_cancelled():
    found = [
        registry.provide("pml.transport", "stdio", Stdio),
        registry.provide("pml.plugins", "agents", plugin),
    ]
    agents = {"w": {"tool": "brain:think"}, "slow": {"tool": "brain:hang"}}
    config = Config(
        gateway=GatewaySettings(log_level="warning"),
        servers={"brain": ServerSettings(command=sys.executable, args=(SERVER,))},
        tables={"agents": {"agents": agents}},
        sources=(Source("test", {"plugins": {"agents": {"agents": agents}}}),),
    )
    async with Gateway(config, None, found) as made:
        await made.servers_tried()
        client = await client_of(made)
        told, _ = await chat(client, "w", "hello")
        asked = asyncio.create_task(chat(client, "slow", "hello"))
        async with asyncio.timeout(60):
            while not (rows := await running_of(made)):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.005)
        done = await client.call("cancel_execution", {"execution_id": rows[0].id})
        late, failed = await asked
    assert told["response"] == "I thought about: hello"
    assert done["structuredContent"]["cancelled"] is True
    assert failed
    assert "cancelled" in late["error"]
