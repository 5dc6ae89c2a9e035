"""A gateway that was closed leaves nothing in the process."""

from __future__ import annotations

import gc
import weakref

import pytest

import pml_access.plugin
import pml_agents.plugin
import pml_audit.plugin
import pml_capabilities.plugin
import pml_dry_run.plugin
import pml_limits.plugin
from pml_hookspecs import Session, ToolCall
from pml_testing.gateway import ScriptedServer, running

pytestmark = pytest.mark.anyio
PLUGINS = {
    "access": pml_access.plugin,
    "agents": pml_agents.plugin,
    "audit": pml_audit.plugin,
    "capabilities": pml_capabilities.plugin,
    "dry_run": pml_dry_run.plugin,
    "limits": pml_limits.plugin,
}
TABLES = {
    "agents": {"agents": {"echo": {"command": ["cat"]}}},
    "limits": {"rules": {"few": {"rate": "100/hour", "concurrency": 5}}},
}


@pytest.mark.parametrize("name", PLUGINS)
async def test_it_is_collected(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PML_HOME", str(tmp_path))
    left = []
    for _ in range(3):
        tables = {name: TABLES[name]} if name in TABLES else {}
        plugins = {("guards", name): PLUGINS[name]}
        async with running({"fs": ScriptedServer(["read"])}, plugins=plugins, tables=tables) as gateway:
            session = Session(key="a", principal="alice", client="tester/1")
            await gateway.dispatcher.start(ToolCall(id="a", tool="fs:read"), session)
            left.append(weakref.ref(gateway.catalog))
        del gateway, session
    gc.collect()
    # The last one may be held by what pytest and anyio keep of this very test.
    assert [one() for one in left[:-1]] == [None, None]
