"""Calls that clients make by themselves, and wrappers that are not around these."""

from __future__ import annotations

import pytest

from pml_hookspecs import Phase
from pml_testing.dispatching import hooks
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio


class Listener:
    """Hears of tasks."""

    phase = Phase.OBSERVE

    def __init__(self, *, direct):
        self.direct, self.heard = direct, []

    def __call__(self, task, run, call_next):
        self.heard.append(task.tool)
        return call_next(task, run)


async def test_a_wrapper_may_stay_off_the_way_of_direct_calls():
    near, far = Listener(direct=True), Listener(direct=False)
    plugins = {("hooks", "listeners"): hooks(wrappers=[near, far])}
    async with running({"s": ScriptedServer(["read"])}, plugins=plugins) as gateway:
        client = Client(gateway)
        await client.initialize()
        await client.call("s:read")
    assert near.heard == ["s:read"]
    assert far.heard == []
