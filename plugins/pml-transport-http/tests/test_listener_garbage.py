"""What is left of a connection is let go of without a search for garbage, which comes seldom."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from listening import listening

from pml_transport_http.server.listener.connections import Connections

pytestmark = pytest.mark.anyio


@pytest.fixture
def unsearched():
    gc.disable()
    yield
    gc.enable()


async def test_nothing_is_left_of_a_connection_that_ended(services, monkeypatch, unsearched):
    enter, seen = Connections.enter, []

    def noted(self, connection, host):
        seen.append(weakref.ref(connection))
        return enter(self, connection, host)

    monkeypatch.setattr(Connections, "enter", noted)
    async with listening(services) as listener:
        for _ in range(3):
            async with listener.client() as client:
                assert (await client.modern("tools/list")).status_code == 200
        while any(each() is not None for each in seen):  # noqa: ASYNC110 - listening() has a limit of time
            await asyncio.sleep(0.01)
    assert len(seen) == 3
