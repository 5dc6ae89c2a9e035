"""``pml serve --listen unix:…`` by the example of a transport, and the official SDK's client through its socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import stat
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no Unix sockets here")]
EXAMPLE = Path(__file__).parents[2] / "docs" / "plugins" / "examples" / "drivers" / "unix.py"
LIMIT_S = 120.0
BRIDGE = """
import socket, sys, threading
wire = socket.socket(socket.AF_UNIX)
wire.connect(sys.argv[1])
def copy():
    while data := wire.recv(65536):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
threading.Thread(target=copy, daemon=True).start()
while data := sys.stdin.buffer.read1(65536):
    wire.sendall(data)
"""
"""Standard input and output for clients that know nothing else, as ``socat - UNIX-CONNECT:…``."""


@pytest.fixture
def installed(tmp_path):
    """The folder in which the example is installed, as a distribution of somebody's would be."""
    place = tmp_path / "site"
    about = place / "pml_unix-1.0.dist-info"
    about.mkdir(parents=True)
    shutil.copy(EXAMPLE, place / "pml_unix.py")
    needs = f"Requires-Dist: pml-hookspecs~={version('pml-hookspecs')}"
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pml-unix\nVersion: 1.0\n{needs}\n")
    (about / "entry_points.txt").write_text("[pml.transport]\nunix = pml_unix:UnixTransport\n")
    return place


@pytest.fixture
def path():
    """A socket's path is at most 107 bytes long, and that of a test's folder may be longer."""
    place = Path("/tmp") / f"pml-{os.getpid()}-{os.urandom(4).hex()}"
    place.mkdir(mode=0o700)
    yield place / "pml.sock"
    shutil.rmtree(place)


@asynccontextmanager
async def serving(site, installed, address):
    environment = {**os.environ, **site.environment, "PYTHONPATH": str(installed)}
    with site.log.open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *site.serve("--listen", address), stderr=log, env=environment, cwd=site.folder
        )
    try:
        async with asyncio.timeout(LIMIT_S):
            while f"serving MCP at {address}" not in site.log.read_text():
                assert process.returncode is None, site.log.read_text()
                await asyncio.sleep(0.05)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def client_of(path):
    bridge = stdio_client(StdioServerParameters(command=sys.executable, args=["-c", BRIDGE, str(path)]))
    async with Client(bridge, mode="legacy", read_timeout_seconds=LIMIT_S, cache=None) as client:
        yield client


async def test_several_clients_call_tools_through_a_socket_that_only_its_owner_opens(site, installed, path):
    async with serving(site, installed, f"unix:{path}") as gateway:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        async with client_of(path) as one, client_of(path) as other:
            for client, said in ((one, "first"), (other, "second")):
                echoed = await client.call_tool("plain__echo", {"text": said})
                assert site.text_of(echoed) == said
        gateway.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LIMIT_S):
            await gateway.wait()
        assert not path.exists()


async def test_what_a_killed_gateway_left_is_replaced_and_one_that_serves_is_left_alone(site, installed, path):
    async with serving(site, installed, f"unix:{path}"):
        pass
    assert path.exists()
    async with serving(site, installed, f"unix:{path}"):
        second = await asyncio.create_subprocess_exec(
            *site.serve("--listen", f"unix:{path}"),
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **site.environment, "PYTHONPATH": str(installed)},
            cwd=site.folder,
        )
        async with asyncio.timeout(LIMIT_S):
            _, said = await second.communicate()
        assert second.returncode != 0
        assert b"end what listens there" in said
        assert b"Traceback" not in said
        async with client_of(path) as client:
            assert site.text_of(await client.call_tool("plain__echo", {"text": "still"})) == "still"


async def test_a_gateway_reaches_another_one_through_its_socket(site, installed, path):
    async with serving(site, installed, f"unix:{path}"):
        behind = {**site.environment, "PYTHONPATH": str(installed), "PML_HOME": str(site.folder / "other")}
        words = ["serve", "--set", f"servers.up.address=unix:{path}", "--mode", "full_proxy"]
        command, *_ = site.serve()
        first = stdio_client(StdioServerParameters(command=command, args=words, env=behind, cwd=path.parent))
        async with Client(first, mode="legacy", read_timeout_seconds=LIMIT_S, cache=None) as client:
            echoed = await client.call_tool("up__call_tool", {"name": "plain__echo", "arguments": {"text": "far"}})
            assert "far" in site.text_of(echoed)


def test_it_is_little_to_write():
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 130
