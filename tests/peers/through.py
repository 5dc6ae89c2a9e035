"""A pytest plugin: the connections of other people's tests lead through PML. ``PML_PEERS_ROUTE`` says how.

``direct`` changes nothing; ``stdio`` and ``http`` are how the client reaches the gateway, and the gateway the server.
What became of each test goes to the file ``PML_PEERS_OUTCOMES``, a line of JSON for each. ``PML_PEERS_ONLY`` is a file
with the names of the tests to run, one a line; all without it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROUTE = os.environ.get("PML_PEERS_ROUTE", "direct")
OUTCOMES = os.environ.get("PML_PEERS_OUTCOMES", "")
SDK_CONFTEST = "tests.interaction.conftest"
ONLY = os.environ.get("PML_PEERS_ONLY", "")
LONGEST_SAID = 6000
led: set[str] = set()
"""The tests with a connection that leads, or could lead, through a gateway."""


def _note() -> None:
    led.add(os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0])


# The SDK's matrix of transports


@asynccontextmanager
async def _sdk_cell(arm: str, server: Any, *, spec_version: str, **client: Any) -> AsyncIterator[Any]:
    import middle
    from mcp.client.client import Client
    from mcp.server.mcpserver import MCPServer
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    theirs = sys.modules["tests.interaction._connect"]
    low = server._lowlevel_server if isinstance(server, MCPServer) else server
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        declares = frozenset(low.create_initialization_options().capabilities.model_dump(exclude_none=True))
        if arm == "in-memory":

            async def run(read: Any, write: Any) -> None:
                await low.run(read, write, low.create_initialization_options())

            transport = await enter(middle.over_stdio(middle.Behind(run=run, declares=declares)))
        else:
            if arm == "sse":
                app, _ = theirs.build_sse_app(server)
                behind = f"{await enter(middle.listening(app))}/sse"
            else:
                stateless = arm == "streamable-http-stateless"
                unprotected = theirs.NO_DNS_REBINDING_PROTECTION
                app = server.streamable_http_app(stateless_http=stateless, transport_security=unprotected)
                await enter(server.session_manager.run())
                behind = f"{await enter(middle.listening(app))}/mcp"
            protocol = "sse" if arm == "sse" else ""
            transport = await enter(middle.over_http(middle.Behind(url=behind, protocol=protocol, declares=declares)))
        mode = spec_version if spec_version in MODERN_PROTOCOL_VERSIONS else "legacy"
        yield await enter(Client(transport, mode=mode, **client))


def _noting(factory: Any) -> Any:
    def connect(*args: Any, **kwargs: Any) -> Any:
        _note()
        return factory(*args, **kwargs)

    return connect


def _reroute_sdk() -> None:
    factories: dict[str, Any] = sys.modules[SDK_CONFTEST]._FACTORIES
    for arm, direct in factories.items():
        factories[arm] = _noting(direct if ROUTE == "direct" else partial(_sdk_cell, arm))


# FastMCP's Client(server)


@asynccontextmanager
async def _fastmcp_session(self: Any, *, transport_options: Any = None, **session: Any) -> AsyncIterator[Any]:
    import middle
    from fastmcp.client.transports.base import TransportOptions
    from fastmcp.client.transports.memory import _enter_server_lifespan, _lowlevel_of

    low, options = _lowlevel_of(self.server), transport_options or TransportOptions()

    async def run(read: Any, write: Any) -> None:
        await low.run(read, write, low.create_initialization_options(), raise_exceptions=self.raise_exceptions)

    declares = frozenset(low.create_initialization_options().capabilities.model_dump(exclude_none=True))
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        if ROUTE == "stdio":
            await enter(_enter_server_lifespan(server=self.server))
            transport = await enter(middle.over_stdio(middle.Behind(run=run, declares=declares)))
        else:
            http_app = getattr(self.server, "http_app", None)
            app = self.server.streamable_http_app() if http_app is None else http_app(path="/mcp")
            address = await enter(middle.listening(app, lifespan="on"))
            transport = await enter(middle.over_http(middle.Behind(url=f"{address}/mcp", declares=declares)))
        read, write = await enter(transport)
        yield await enter(options.session_class(read_stream=read, write_stream=write, **session))


def _reroute_fastmcp() -> None:
    from fastmcp.client.transports.memory import FastMCPTransport

    direct = FastMCPTransport.connect_session
    FastMCPTransport.connect_session = _noting(direct if ROUTE == "direct" else _fastmcp_session)


# pytest


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave out what no gateway can stand in the middle of."""
    if ONLY:
        wanted = set(Path(ONLY).read_text(encoding="utf-8").splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
        items[:] = [item for item in items if item.nodeid in wanted]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Reroute, now that their modules are there."""
    if SDK_CONFTEST in sys.modules:
        _reroute_sdk()
    else:
        _reroute_fastmcp()


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down what became of each phase of a test."""
    if not OUTCOMES or (report.when != "call" and report.outcome == "passed"):
        return
    said = str(report.longrepr) if report.outcome == "failed" else ""
    line = {
        "test": report.nodeid,
        "outcome": report.outcome,
        "said": said[-LONGEST_SAID:],
        "led": report.nodeid in led,
        # Tests that their own authors expect to fail are no difference.
        "expected": hasattr(report, "wasxfail"),
    }
    with Path(OUTCOMES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
