"""Fixtures of the stdio transport's tests: real servers, real pipes."""

from __future__ import annotations

import asyncio
import os
import shlex
from contextlib import asynccontextmanager, contextmanager, suppress

import pytest

from pml_hookspecs import Endpoint
from pml_testing import servers
from pml_testing.transport import SOON_S, Recorder
from pml_transport_stdio import Settings, Stdio


@pytest.fixture
def log(services):
    """What the transport logs."""
    return services.log


@pytest.fixture
def connect(services):
    """``async with connect(...) as link``: a link to a scripted server."""

    @asynccontextmanager
    async def connect(script="obliging", *, handler=None, name="git", env=None, settings=None, **options):
        endpoint = Endpoint(
            name=name, address="stdio:" + shlex.join(servers.command(script)), env=env or {}, options=options
        )
        made = Stdio(settings or Settings(), services).connect(endpoint, handler or Recorder())
        async with asyncio.timeout(4 * SOON_S), made as link:
            yield link

    return connect


@contextmanager
def pipe():
    """Both ends of a pipe that does not block; what the test closes itself stays closed."""
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    try:
        yield ends
    finally:
        for end in ends:
            with suppress(OSError):
                os.close(end)
