"""Calls of the official SDK's client go on by themselves when somebody approves them at another gateway on the store.

In both eras, over stdio and HTTP, whether the client can ask its human or not.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).with_name("servers") / "walls.py"
PATIENCE_S = 120.0
CONFIG = """
[gateway]
tools_exposure = "full_proxy"

[plugins.sqlite]
path = {database}

[plugins.approvals]
require = ["bank:pay"]
wait_s = 600

[plugins.http.tokens]
agent = "agent-token"

[plugins.http.tokens.lead]
token = "lead-token"
scopes = ["approve"]

[servers.bank]
command = {python}
args = {arguments}
"""


class Office:
    """A configuration, a gateway over HTTP with it, and whoever connects."""

    def __init__(self, folder):
        self.folder, self.config, self.paid = folder, folder / "pml.toml", folder / "paid.txt"
        self.config.write_text(
            CONFIG.format(
                database=json.dumps(str(folder / "pml.db")),
                python=json.dumps(sys.executable),
                arguments=json.dumps([str(SERVER), str(self.paid)]),
            )
        )
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        self.environment = {**kept, "PML_HOME": str(folder / "home")}
        self.url = ""

    def command(self, *more):
        return [sys.executable, "-m", "pml_core", "serve", "--config", str(self.config), *more]

    @contextmanager
    def served(self):
        said = self.folder / "http.log"
        command = self.command("--http", "127.0.0.1:0")
        with said.open("w") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
            try:
                until = time.monotonic() + PATIENCE_S
                while (found := re.search(r"serving MCP at (\S+)", said.read_text())) is None:
                    assert process.poll() is None, said.read_text()
                    assert time.monotonic() < until, said.read_text()
                    time.sleep(0.1)
                self.url = found[1]
                yield
            finally:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(30)
                process.kill()
                process.wait()

    @asynccontextmanager
    async def connected(self, transport, mode, token="agent-token", **options):
        options = {"mode": mode, "read_timeout_seconds": PATIENCE_S, **options}
        if transport == "http":
            headers, patience = {"authorization": f"Bearer {token}"}, httpx2.Timeout(PATIENCE_S)
            async with (
                httpx2.AsyncClient(headers=headers, timeout=patience) as http,
                Client(streamable_http_client(self.url, http_client=http), **options) as client,
            ):
                yield client
            return
        program, *arguments = self.command()
        parameters = StdioServerParameters(command=program, args=arguments, env=self.environment)
        with (self.folder / "stdio.log").open("a") as log:
            async with Client(stdio_client(parameters, errlog=log), **options) as client:
                yield client


async def answered(lead, approve, **more):
    """Answer the one request that waits, once it does; until then, be somebody who looks."""
    async with asyncio.timeout(PATIENCE_S):
        while not (waiting := (await told(lead, "list_approvals"))["approvals"]):  # noqa: ASYNC110 - it comes from another process
            await asyncio.sleep(0.2)
    (request,) = waiting
    await told(lead, "answer_approval", approval_id=request["approval_id"], approve=approve, **more)


async def told(lead, tool, **arguments):
    result = await lead.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


class Human:
    """One behind a client, who has left the room."""

    def __init__(self):
        self.asked, self.back = asyncio.Event(), asyncio.Event()

    async def __call__(self, _context, _params):
        self.asked.set()
        await self.back.wait()
        return types.ElicitResult(action="cancel")


@pytest.mark.parametrize("able", [False, True], ids=["cannot ask", "can ask"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_call_goes_on_when_it_is_answered_elsewhere(tmp_path, transport, mode, able):
    office = Office(tmp_path)
    with office.served():
        await check(office, transport, mode, able=able)


async def check(office, transport, mode, *, able):
    human = Human()
    options = {"elicitation_callback": human} if able else {}
    async with (
        office.connected("http", "auto", "lead-token") as lead,
        office.connected(transport, mode, **options) as agent,
    ):
        await told(lead, "list_approvals")
        await asyncio.sleep(2)  # that somebody looks is kept within a tenth of a second
        for approve in (True, False):
            call = asyncio.ensure_future(agent.call_tool("bank__pay", {"to": f"{transport} {mode}"}))
            if able:
                async with asyncio.timeout(PATIENCE_S):
                    await human.asked.wait()
            await answered(lead, approve, reason="" if approve else "not twice")
            if able and mode == "auto":  # nobody can tell this client anything before it comes back
                human.back.set()
            result = await call
            human.asked.clear()
            human.back.clear()
            assert result.is_error is not approve, result
            assert approve or "not twice" in result.content[0].text
    assert office.paid.read_text().count(f"{transport} {mode}") == 1
