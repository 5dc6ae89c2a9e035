"""The two ways from the client that plays a scenario to the scenario's server: the SDK alone, and a gateway between."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from answers import answer
from logins import configured, provider
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

PML = str(Path(sys.executable).with_name("pml"))
BROWSER = Path(__file__).with_name("browser.py")
SERVER = "scenario"
PATIENCE_S, STARTING_S = 60.0, 120.0
"""Longest for an answer of the scenario's server, and for the gateway to connect to it [s]."""
HANDSHAKES = ("2025-03-26", "2025-06-18", "2025-11-25")


@dataclass(frozen=True)
class Scenario:
    """What the runner says about a scenario."""

    name: str
    revision: str
    url: str
    context: dict[str, Any] = field(repr=False)

    @property
    def handshake(self) -> bool:
        """Whether its revision has one."""
        return self.revision in HANDSHAKES


class Side(Protocol):
    """A way to the server."""

    logs_in_first: bool
    """Whether to log in before the first connection, because the server will ask for it."""

    def connect(self) -> Any:
        """A connected client, as a context."""

    async def ready(self, client: Client) -> bool:
        """Whether the server can be used; False when somebody has to log in first."""

    async def log_in(self) -> None:
        """Do so."""


class Direct:
    """The official SDK alone."""

    logs_in_first = False

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        import httpx2

        scenario = self._scenario
        auth = provider(scenario) if scenario.name.startswith("auth/") else None
        async with httpx2.AsyncClient(auth=auth, timeout=PATIENCE_S) as http:
            transport = streamable_http_client(scenario.url, http_client=http)
            mode: Any = "legacy" if scenario.handshake else "auto"
            async with Client(transport, mode=mode, elicitation_callback=answer, cache=None) as client:
                yield client

    async def ready(self, client: Client) -> bool:
        return True

    async def log_in(self) -> None:
        raise RuntimeError("the SDK logs in by itself")


class Through:
    """``pml serve`` on stdio, with the scenario's server in its configuration."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario, login = scenario, configured(scenario)
        self.logs_in_first = scenario.name.startswith("auth/") and "grant" not in login.get("oauth", {})
        self._folder = tempfile.TemporaryDirectory(prefix="pml-scenario-")
        place = Path(self._folder.name)
        self._config = place / "pml.toml"
        # The scenarios look for tools by the names that the server gives them.
        server = {"url": scenario.url, "prefix": "", **login}
        lines = [f"{name} = {_toml(value)}" for name, value in server.items()]
        self._config.write_text("\n".join([f"[servers.{SERVER}]", *lines, ""]), encoding="utf-8")
        browse = f"{sys.executable} {BROWSER} %s"
        self._environment = {**os.environ, "PML_HOME": str(place / "home"), "BROWSER": browse, **_secrets(scenario)}

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        command = ["serve", "--config", str(self._config), "--mode", "full_proxy"]
        parameters = StdioServerParameters(command=PML, args=command, env=self._environment, cwd=self._folder.name)
        # Not "auto": that gives a gateway 10 s to start, and then speaks the other era with it.
        mode: Any = "legacy" if self._scenario.handshake else self._scenario.revision
        transport = stdio_client(parameters)
        async with Client(transport, mode=mode, elicitation_callback=answer, cache=None) as client:
            yield client

    async def ready(self, client: Client) -> bool:
        server: Any = {}
        try:
            async with asyncio.timeout(STARTING_S):
                while server.get("state") != "up":
                    read: Any = (await client.read_resource("pml://status")).contents[0]
                    (server,) = json.loads(read.text)["servers"]
                    if "pml auth login" in server["reason"]:
                        return False
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise RuntimeError(f"the server is {server.get('state')}: {server.get('reason')}") from None
        return True

    async def log_in(self) -> None:
        command = [PML, "auth", "login", SERVER, "--config", str(self._config)]
        process = await asyncio.create_subprocess_exec(*command, env=self._environment, cwd=self._folder.name)
        if await process.wait():
            raise RuntimeError("pml auth login failed")


def _toml(value: Any) -> str:
    """As TOML; strings, lists and numbers are written as in JSON."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + " }"
    return json.dumps(value)


def _secrets(scenario: Scenario) -> dict[str, str]:
    return {f"SCENARIO_{name.upper()}": str(value) for name, value in scenario.context.items()}
