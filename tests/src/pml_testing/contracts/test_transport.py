"""The contract of transports, run against every installed one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pml_testing import http_servers
from pml_testing.fakes import FakeServices
from pml_testing.transport import MANY, TransportContract
from pml_testing.transport_ends import NO_SUCH_COMMAND, listener_over_stdio, over_stdio

if TYPE_CHECKING:
    from pml_core.plugins.registry import Record
    from pml_hookspecs import Transport

SCRIPTED = ("stdio", "http")
"""Transports that there are scripted servers for."""
NOWHERE = "http://127.0.0.1:9/mcp"
"""Nobody listens at the discard port."""


class TestInstalledTransport(TransportContract):
    """One run per installed transport, with its default settings."""

    @pytest.fixture
    def transport(self, installed: Record, services: FakeServices) -> Transport:
        """The driver behind the entry point."""
        if installed.name not in SCRIPTED:
            pytest.skip("no scripted servers for it: subclass TransportContract in the transport's own tests")
        driver: Any = installed.entry_point.load()
        made: Transport = driver(driver.settings_type(), services)
        return made

    @pytest.fixture
    def address(self, installed: Record) -> Iterator[Callable[[str], str]]:
        """Over HTTP, of a server that is started for the test."""
        if installed.name != "http":
            yield over_stdio
            return
        with ExitStack() as stack:

            def start(script: str) -> str:
                return NOWHERE if script == "broken" else stack.enter_context(http_servers.running())

            yield start

    @pytest.fixture
    def children(self, installed: Record) -> None:
        """Not with HTTP."""
        if installed.name == "http":
            pytest.skip("servers reached over HTTP are not the transport's children")

    @pytest.fixture
    def missing(self, installed: Record) -> str:
        """Where nobody listens."""
        return NOWHERE if installed.name == "http" else NO_SUCH_COMMAND

    @pytest.fixture
    def many(self, installed: Record) -> int:
        """A request over HTTP costs ten times as much."""
        return MANY // 10 if installed.name == "http" else MANY

    @pytest.fixture
    def listener(self, installed: Record, transport: Transport) -> str | None:
        """The address of a process in which the transport serves."""
        if installed.name == "http":
            pytest.skip("clients over HTTP begin with a handshake: see the tests of its listener")
        return listener_over_stdio(transport)
