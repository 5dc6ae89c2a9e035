"""Two gateways: a client that listens at one hears of what happens at the other."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from balanced import MODERN, PATIENCE_S, accepting, call

pytestmark = pytest.mark.anyio
SERVER = f"""
[servers.things]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(Path(__file__).with_name("listening_server.py")))}, "FOLDER/things"]
"""


class Stream:
    """What a client is told that listens."""

    def __init__(self, lines):
        self._lines = lines

    async def until(self, method):
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._lines:
                if line.startswith("data: ") and (told := json.loads(line[6:])).get("method") == method:
                    return told["params"]
        raise AssertionError(f"the stream ended without {method}")


@asynccontextmanager
async def listening(url, **wanted):
    about = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "listener", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"notifications": wanted, "_meta": about}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    headers = {**accepting(""), "mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen"}
    async with (
        httpx2.AsyncClient(timeout=PATIENCE_S) as http,
        http.stream("POST", url, json=message, headers=headers) as answer,
    ):
        stream = Stream(answer.aiter_lines())
        await stream.until("notifications/subscriptions/acknowledged")
        yield stream


async def test_what_the_servers_of_all_gateways_tell_reaches_whoever_listens_at_one(fleet):
    with fleet(2, more=SERVER).running() as running:
        first, second = running.gateways
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["test://folder"]}
        async with listening(first.url, **wanted) as tools, listening(first.url, **wanted) as resources:
            assert "result" in await call(second.url, "things__add", {})
            await tools.until("notifications/tools/list_changed")
            assert (await resources.until("notifications/resources/updated"))["uri"] == "test://folder"


async def test_a_list_that_grew_at_one_gateway_alone_is_told_of_at_the_other(fleet):
    with fleet(2, more=SERVER).running() as running:
        first, second = running.gateways
        async with listening(first.url, toolsListChanged=True) as stream:
            for url in (second.url, first.url):
                assert "result" in await call(url, "things__grow", {})
                await stream.until("notifications/tools/list_changed")
