"""A gateway in a process of its own: what it serves, and what it still does when it is told to end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.anyio
PML = str(Path(sys.executable).with_name("pml"))
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    params = message.get("params") or {}
    result = {}
    if message["method"] == "initialize":
        about = {"name": "echo", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": json.dumps(params.get("_meta"))}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
CONFIG = """
[gateway]
tracers = ["otel"]
tools_exposure = "full_proxy"

[servers.echo]
command = {python}
args = [{script}]

[plugins.otel]
endpoint = {endpoint}
interval_s = 300
metrics_interval_s = 300
exit_s = 2
"""
BOUND = re.compile(r"serving MCP at (http://[^/]+)/mcp")


@pytest.fixture
def site(tmp_path):
    def write(endpoint):
        script, config = tmp_path / "server.py", tmp_path / "pml.toml"
        script.write_text(SERVER)
        values = {"python": sys.executable, "script": str(script), "endpoint": endpoint}
        config.write_text(CONFIG.format(**{name: json.dumps(value) for name, value in values.items()}))
        return config

    return write


async def start(config, *words, **pipes):
    env = {**os.environ, "PML_HOME": str(config.parent / "home")}
    return await asyncio.create_subprocess_exec(
        PML, "serve", "--config", str(config), *words, env=env, cwd=config.parent, **pipes
    )


async def address_of(process):
    lines = []
    async with asyncio.timeout(120):
        while line := (await process.stderr.readline()).decode():
            lines.append(line)
            if found := BOUND.search(line):
                return found.group(1)
    raise AssertionError("".join(lines))


class Talk:
    """A client over HTTP."""

    def __init__(self, address):
        self.address, self.session = address, ""
        accept = "application/json, text/event-stream"
        self.http = httpx2.AsyncClient(headers={"accept": accept, "mcp-protocol-version": "2025-06-18"})

    async def __aenter__(self):
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "talk", "version": "1"}}
        await self.request("initialize", about)
        return self

    async def __aexit__(self, *exc):
        await self.http.aclose()

    async def request(self, method, params):
        headers = {"mcp-session-id": self.session} if self.session else {}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await self.http.post(f"{self.address}/mcp", json=message, headers=headers)
        assert answer.status_code == 200, answer.text
        self.session = answer.headers.get("mcp-session-id", self.session)
        text = answer.text
        if "event-stream" in answer.headers["content-type"]:
            text = [line[5:] for line in text.splitlines() if line.startswith("data:")][-1]
        return json.loads(text)["result"]


async def test_a_gateway_that_is_told_to_end_exports_the_last_first(receiver, site):
    process = await start(site(receiver.endpoint), "--http", "127.0.0.1:0", stderr=asyncio.subprocess.PIPE)
    try:
        async with Talk(await address_of(process)) as client:
            for _ in range(3):
                await client.request("tools/call", {"name": "echo__echo", "arguments": {}})
            page = await client.http.get(f"{client.address}/otel/metrics")
            health = (await client.http.get(f"{client.address}/otel/health")).json()
        assert receiver.raw == []
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(120):
            assert await process.wait() == 128 + signal.SIGTERM
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert sorted(span.name for span in receiver.spans) == ["tools/call echo"] * 3 + ["tools/call echo:echo"] * 3
    assert receiver.metrics()["pml.executions"][0].value == 3
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(page.text)}
    counts = [
        (sample.labels["gen_ai_tool_name"], sample.value)
        for sample in families["mcp_server_operation_duration_seconds"].samples
        if sample.name.endswith("_count")
    ]
    assert counts == [("echo:echo", 3)]
    assert (health["up"], health["waiting"], health["dropped"]) == (True, 6, 0)


async def test_a_gateway_whose_collector_is_gone_ends_in_time_and_says_so(site):
    process = await start(site("http://127.0.0.1:9"), "--http", "127.0.0.1:0", stderr=asyncio.subprocess.PIPE)
    try:
        async with Talk(await address_of(process)) as client:
            await client.request("tools/call", {"name": "echo__echo", "arguments": {}})
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 128 + signal.SIGTERM
    lines = [line for line in err.decode().splitlines() if "otel" in line or "opentelemetry" in line.lower()]
    assert len([line for line in lines if "takes no traces" in line]) == 1
    assert len([line for line in lines if "not exported before the end" in line]) == 1
    assert len(lines) == 2, lines
    assert "Traceback" not in err.decode()


async def test_over_stdio_the_end_of_the_client_is_the_end(receiver, site):
    pipe = asyncio.subprocess.PIPE
    process = await start(site(receiver.endpoint), stdin=pipe, stdout=pipe, stderr=pipe)
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "talk", "version": "1"}}
    requests = [("initialize", about), ("tools/list", {}), ("tools/call", {"name": "echo__echo", "arguments": {}})]
    try:
        async with asyncio.timeout(120):
            for number, (method, params) in enumerate(requests):
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                process.stdin.write(json.dumps(message).encode() + b"\n")
                while json.loads(await process.stdout.readline()).get("id") != number:
                    pass
            process.stdin.close()
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    assert len(receiver.spans) == 2
