"""A gateway as a client starts it: ``pml serve`` in a process of its own, with real servers behind it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from pml_demo import environments
from pml_demo.servers import PYTHON, PYTHON_MCP_1, Environment, python_of

SERVERS = Path(__file__).with_name("servers")
INSTALLER = Path(__file__).with_name("install_node_tools.sh")
INSTALL_S = 300.0
SERVING, LISTENING_S = "serving MCP at ", 120.0
STARTED_S = 120.0
PML = str(Path(sys.executable).with_name("pml"))
FETCH = Environment(runtime="python", requirements=("mcp-server-fetch==2026.10.24",), servers=("fetch",))


async def _started(client: Client) -> None:
    """Wait, within a bound, until no server is starting any more."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STARTED_S):
            states = {"starting"}
            while "starting" in states:
                status = (await client.read_resource("pml://status")).contents[0].text
                states = {server["state"] for server in json.loads(status)["servers"]}
                await asyncio.sleep(0.05 if "starting" in states else 0)


@dataclass
class Site:
    """A folder for one gateway: its configuration, its home, its log."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "mcp.json"

    @property
    def log(self) -> Path:
        return self.folder / "gateway.log"

    @property
    def notes(self) -> Path:
        return self.folder / "notes.txt"

    @property
    def pids(self) -> Path:
        return self.folder / "pids"

    @property
    def environment(self) -> dict[str, str]:
        """What the gateway's process needs besides what is always there."""
        return {"PML_HOME": str(self.folder / "home"), "PATH": os.environ["PATH"]}

    typed: ClassVar = [sys.executable, str(SERVERS / "plain.py"), "--add"]
    """How to start a server whose results have a schema: ``add``."""
    sdk: ClassVar = [sys.executable, str(SERVERS / "typed.py")]
    """The same, made with the SDK, whose import takes longer than a gateway's start."""

    def plain(self, *arguments: str) -> list[str]:
        """How to start the server of the standard library: ``echo``, ``write_note``, ``fail``."""
        script = str(SERVERS / "plain.py")
        return [sys.executable, script, "--notes", str(self.notes), "--pids", str(self.pids), *arguments]

    def configure(self, **servers: Sequence[str]) -> None:
        """Write an ``mcpServers`` file; each server as its command line."""
        entries = {name: {"command": command, "args": rest} for name, (command, *rest) in servers.items()}
        self.config.write_text(json.dumps({"mcpServers": entries}))

    def serve(self, *options: str) -> list[str]:
        """The command line of the gateway."""
        return [PML, "serve", "--config", str(self.config), *options]

    def pml(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another ``pml`` command with the same configuration to its end."""
        command = [PML, *words, "--config", str(self.config)]
        environment = {**os.environ, **self.environment}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, cwd=self.folder, env=environment
        )

    @asynccontextmanager
    async def connect(
        self, *options: str, mode: str = "legacy", listed: bool = True, message_handler: Any = None
    ) -> AsyncIterator[Client]:
        """The official SDK's client, connected to a gateway that lives as long as the block.

        ``listed`` lists the tools first, as clients do, and gives the servers time to start.
        """
        command, *arguments = self.serve(*options)
        parameters = StdioServerParameters(command=command, args=arguments, env=self.environment, cwd=self.folder)
        failure: Exception | None = None
        with self.log.open("a") as log:
            transport = stdio_client(parameters, errlog=log)
            settings: Any = {"mode": mode, "message_handler": message_handler}
            async with Client(transport, **settings, read_timeout_seconds=120, cache=None) as client:
                try:
                    if listed:
                        await client.list_tools()
                        await _started(client)
                    yield client
                except Exception as exc:  # kept out of the SDK's task groups, which would wrap it
                    failure = exc
        if failure is not None:
            raise failure

    @asynccontextmanager
    async def listen(self, *options: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
        """A gateway that serves over HTTP as long as the block lasts: its process, and its address."""
        environment = {**os.environ, **self.environment}
        with self.log.open("w") as log:
            process = await asyncio.create_subprocess_exec(
                *self.serve("--http", "127.0.0.1:0", *options), stderr=log, env=environment, cwd=self.folder
            )
        try:
            async with asyncio.timeout(LISTENING_S):
                while SERVING not in self.log.read_text():  # noqa: ASYNC110 - nothing tells of a file
                    await asyncio.sleep(0.05)
            yield process, self.log.read_text().split(SERVING)[1].split()[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()

    @staticmethod
    def text_of(result: Any) -> str:
        """The text of a ``CallToolResult``."""
        return "\n".join(block.text for block in result.content if block.type == "text")

    @staticmethod
    def value_of(result: Any) -> Any:
        """The JSON that a ``CallToolResult`` holds: as structured content, or as its only text."""
        if result.structured_content is not None:
            return result.structured_content
        (block,) = result.content
        return json.loads(block.text)

    @staticmethod
    async def status(client: Client) -> dict[str, Any]:
        """What ``pml://status`` says."""
        return json.loads((await client.read_resource("pml://status")).contents[0].text)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site with the servers ``plain`` and ``typed``."""
    made = Site(tmp_path)
    made.pids.mkdir()
    made.configure(plain=made.plain(), typed=made.typed)
    return made


@pytest.fixture(scope="session")
def node_tools() -> Path:
    """The folder with Node, and the clients and servers that run on it; completed if it is not complete.

    Without the variable the tests that need it are skipped, as the README promises; with it nothing is.
    """
    given = os.environ.get("PML_E2E_NODE_DIR")
    if given is None:
        pytest.skip("needs Node and what runs on it: run tests/e2e/install_node_tools.sh DIR, set PML_E2E_NODE_DIR=DIR")
    ran = subprocess.run(["sh", str(INSTALLER), given], capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if ran.returncode != 0:
        pytest.fail(f"{INSTALLER.name} {given} failed; can npm reach its registry?\n{ran.stdout}{ran.stderr}")
    return Path(given).absolute()


@pytest.fixture(scope="session")
def python_servers(request: pytest.FixtureRequest) -> dict[str, str]:
    """For each server written in Python, the interpreter that has it; installed once, and kept by pytest's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PML_HOME", str(request.config.cache.mkdir("servers")))
        folders = {e: asyncio.run(environments.install(e)) for e in (PYTHON, PYTHON_MCP_1, FETCH)}
    return {server: python_of(folder) for e, folder in folders.items() for server in e.servers}
