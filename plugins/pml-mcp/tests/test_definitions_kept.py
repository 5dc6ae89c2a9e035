"""What servers list is compared with what was accepted, and what was accepted is kept in the store."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from pml_catalog.definitions import Definitions, stored_changes
from pml_catalog.live import make_entry
from pml_mcp.servers.catalog_cache import CatalogCache
from pml_mcp.servers.tools import Tools
from pml_stores.memory import MemoryStore

pytestmark = pytest.mark.anyio


def listed(description):
    return [make_entry("ops", {"name": "backup", "description": description, "inputSchema": {"type": "object"}})]


class SlowDocuments:
    """Those of a store, whose first write takes until it is let go."""

    def __init__(self, documents):
        self._documents = documents
        self.written, self.go = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._documents, name)

    async def put(self, *arguments, **options):
        version = await self._documents.put(*arguments, **options)
        self.written.set()
        await self.go.wait()
        return version


class Background:
    def __init__(self):
        self.tasks = []

    def spawn(self, _plugin, call, arguments, name):
        self.tasks.append(asyncio.get_running_loop().create_task(call(*arguments), name=name))


class Watchers:
    async def tell(self, _event):
        pass


class Log:
    def __init__(self):
        self.lines = []

    def warning(self, event, **fields):
        self.lines.append((event, fields))


async def test_a_change_that_comes_while_what_was_before_is_being_kept_is_said_once():
    documents = SlowDocuments(MemoryStore().documents)
    background, log = Background(), Log()

    cache = CatalogCache(SimpleNamespace(documents=documents), background, Watchers(), log)
    settings = SimpleNamespace(command="ops", args=(), url="", address="", cwd=None, on_change="tell")
    server = SimpleNamespace(name="ops", settings=settings, retired=False)
    server.tools = Tools(None, lambda _shown, changes: cache._changed(server, changes), log)
    server.tools.judge_by(Definitions.of(None, holds=False))
    server.tools.have(listed("Tells of backups."))
    await documents.written.wait()
    server.tools.have(listed("Deletes backups."))
    documents.go.set()
    while "backup" not in (await stored_changes(documents, "ops", settings))[0]:  # noqa: ASYNC110 - only the store knows
        await asyncio.sleep(0.01)
    server.retired = True
    await asyncio.gather(*background.tasks)
    assert [fields["tool"] for _event, fields in log.lines] == ["backup"]
