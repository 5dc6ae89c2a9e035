"""Half a surrogate pair, as JavaScript makes it of a string that is cut in two, stops no strict client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import httpx2
import pytest
from mcp import Client, MCPError

pytestmark = pytest.mark.anyio
CUT = "Great \ud83d"
"""``'Great 😀 news'.slice(0, 7)``"""
TOLD = "Great \ufffd"
SERVER = r"""
import json, sys
CUT = "Great \ud83d"
TOOL = {"name": "cut", "description": CUT, "inputSchema": {"type": "object", "description": CUT}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": CUT, "version": "1"}, "instructions": CUT}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    else:
        text = json.dumps(message["params"]["arguments"])
        result = {"content": [{"type": "text", "text": CUT}, {"type": "text", "text": text}],
                  "structuredContent": {"text": CUT, CUT: [CUT]}}
        if message["params"]["arguments"].get("fail"):
            error = {"code": -32000, "message": CUT, "data": CUT}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.fixture
def cut(site):
    """A site with the server that cuts strings in two."""
    site.configure(js=[sys.executable, "-c", SERVER])
    return site


async def check(client):
    """Everything that a client may ask for arrives, with the official SDK's own strict reader."""
    (listed,) = [tool for tool in (await client.list_tools()).tools if tool.name == "js__cut"]
    assert listed.description == TOLD
    answer = await client.call_tool("js__cut", {})
    assert answer.content[0].text == TOLD
    assert answer.structured_content == {"text": TOLD, TOLD: [TOLD]}
    with pytest.raises(MCPError, match=TOLD):
        await client.call_tool("js__cut", {"fail": True})
    found = await client.call_tool("list_recent_executions", {})
    assert not found.is_error
    source = "return ['Great 😀 news'.slice(0, 7), (await tools.js.cut({})).text]"
    ran = await client.call_tool("run_code", {"language": "javascript", "code": source})
    assert json.loads(ran.content[0].text) == [TOLD, TOLD]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_over_stdio(cut, mode):
    async with cut.connect("--mode", "full_proxy", mode=mode) as client:
        await check(client)


async def test_over_http_and_in_what_is_kept(cut):
    async with cut.listen("--mode", "full_proxy") as (_, url):
        async with Client(url) as client:
            await check(client)
        async with httpx2.AsyncClient() as web:
            api = f"{url.removesuffix('/mcp')}/api/executions"
            for address in (api, f"{api}/search?query=Great"):
                answer = await web.get(address)
                assert answer.status_code == 200, answer.text
                assert CUT[-1] not in json.dumps(answer.json(), ensure_ascii=False)
                assert answer.json()["executions"] or "search" in address


def run(command, folder, environment):
    return subprocess.run(command, capture_output=True, check=False, cwd=folder, env=environment, timeout=120)


async def test_what_is_printed(cut):
    async with cut.connect("--mode", "full_proxy") as client:
        await client.call_tool("js__cut", {})
    environment = {**os.environ, **cut.environment, "PYTHONIOENCODING": "utf-8:strict"}
    for words in (["tokens", "--connect"], ["executions", "list"], ["executions", "list", "--json"]):
        command = [*cut.serve()[:1], *words, "--config", str(cut.config)]
        ran = await asyncio.to_thread(run, command, cut.folder, environment)
        assert ran.returncode == 0, ran.stderr.decode()
        ran.stdout.decode()
