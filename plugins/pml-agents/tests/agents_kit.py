"""What the tests of agents share."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from pml_agents import plugin
from pml_testing.gateway import Client, running

WORKER = str(Path(__file__).with_name("worker.py"))


def worker(*words, **options):
    """An agent that is the worker in one of its modes."""
    return {"command": [sys.executable, WORKER, *map(str, words)], **options}


@asynccontextmanager
async def gateway(agents, servers=None, *, plugins=None, tables=None, client=True, **options):
    """A gateway with these agents and a client of it."""
    used = {("hooks", "agents"): plugin, **(plugins or {})}
    made_tables = {"agents": {"agents": agents, **options}, **(tables or {})}
    async with running(servers or {}, plugins=used, tables=made_tables) as made:
        yield made, await client_of(made)


async def client_of(made, **about):
    client = Client(made, **about)
    await client.initialize()
    return client


async def chat(client, name, message="hello", **arguments):
    """The answer of chat_with_agent; its structured content, and whether it is an error."""
    result = await client.call("chat_with_agent", {"agent_name": name, "message": message, **arguments})
    if "structuredContent" not in result:
        return {"text": result["content"][0]["text"]}, result.get("isError", False)
    return result["structuredContent"], result.get("isError", False)


async def happens(condition, within_s=60.0):
    """Wait for what other processes do. Raises TimeoutError."""
    async with asyncio.timeout(within_s):
        while not (found := condition()):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)
        return found


def lives(process):
    """Whether a process runs; a dead one that nobody waited for does not."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def pids(place):
    """What a worker noted, once it has."""
    return json.loads(place.read_text()) if place.exists() else None


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
