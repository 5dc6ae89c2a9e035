"""Notebooks of several people in one gateway: nobody takes the room of the others."""

from __future__ import annotations

import json
import sys

import httpx2
import pytest

from pml_kit.mcp.protocol import META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_PROTOCOL_VERSION

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="CPython's sandbox is Linux's")]
MODERN = "2026-07-28"
NOTEBOOKS = 3
SETTINGS = {
    "plugins.cells.max_principal_sessions": str(NOTEBOOKS),
    "plugins.cells.max_notebook_bytes": "4000000",
    "plugins.cells.max_notebook_files": "200",
    "plugins.cells.max_principal_files": "300",
    "gateway.executors": '{"code.python" = "cpython"}',
}
MANY = "for i in range(10000):\n    open(f'f{i}', 'w').close()"
LARGE = "for i in range(10000):\n    open(f'f{i}', 'wb').truncate(1 << 20)"
CLEAR = "import os\nfor name in os.listdir('.'):\n    if name.startswith('f'):\n        os.unlink(name)"


class Person:
    """Somebody with a key."""

    def __init__(self, http, address, key):
        self._http, self._address = http, address
        self._headers = {
            "authorization": f"Bearer {key}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
        }

    async def call(self, tool, **arguments):
        """The result of a call."""
        meta = {
            META_PROTOCOL_VERSION: MODERN,
            META_CLIENT_CAPABILITIES: {},
            META_CLIENT_INFO: {"name": "c", "version": "1"},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await self._http.post(self._address, json=message, headers={**self._headers, "mcp-name": tool})
        return answer.json()["result"]

    async def notebook(self):
        made = await self.call("notebook_create", title="T", language="python")
        return made["structuredContent"]["sessionId"]

    async def run(self, notebook, source):
        """What a new cell with this source comes to."""
        cell = await self.call("cell_create", sessionId=notebook, source=source)
        id = cell["structuredContent"]["cell"]["id"]
        answer = await self.call("cell_execute", sessionId=notebook, cellId=id, timeout=60_000)
        return json.loads(answer["content"][0]["text"])


@pytest.fixture
async def people(site):
    """Mallory and Alice."""
    site.configure()
    keys = [
        json.loads(site.pml("keys", "create", "--user", name, "--json").stdout)["key"] for name in ("mallory", "alice")
    ]
    options = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    async with site.listen(*options) as (_, address), httpx2.AsyncClient(timeout=90) as http:
        yield [Person(http, address, key) for key in keys]


@pytest.mark.attack("Notebooks", "take all notebooks, and all room for their files, of a gateway that others use, too")
async def test_one_person_takes_neither_notebooks_nor_room_of_another(people):
    mallory, alice = people
    hers = [await mallory.notebook() for _ in range(NOTEBOOKS)]
    refused = await mallory.call("notebook_create", title="T")
    assert refused["isError"]
    assert "max_principal_sessions" in refused["content"][0]["text"]
    for notebook in hers[:2]:
        filled = await mallory.run(notebook, MANY)
        assert "max_notebook_files" in filled["stderr"]
        assert filled["exitCode"] != 0
    nothing = await mallory.run(hers[2], "open('new', 'w')")
    assert "PermissionError" in nothing["stderr"]
    assert "max_principal_files" in nothing["stderr"]
    own = await alice.notebook()
    assert (await alice.run(own, "open('new', 'w'); print('written')"))["stdout"] == "written\n"
    for notebook in hers[:2]:
        assert (await mallory.run(notebook, CLEAR))["exitCode"] == 0
    assert (await mallory.run(hers[2], "open('new', 'w')"))["exitCode"] == 0
    assert "max_notebook_bytes" in (await mallory.run(hers[2], LARGE))["stderr"]
