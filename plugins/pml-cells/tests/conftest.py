from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import pml_cells.plugin
from pml_cells.sessions import Sessions
from pml_sandbox_deno import Deno
from pml_store_sqlite import SqliteStore
from pml_testing.gateway import Client, ScriptedServer, running


class Book:
    """A notebook behind a real gateway, as a client has it."""

    def __init__(self, client: Client, gateway: Any, sessions: Sessions) -> None:
        self.client, self.gateway, self.sessions = client, gateway, sessions
        self.id = ""

    @property
    def folder(self) -> Path:
        return self.sessions.root / self.id

    async def create(self, title: str = "Notebook", **more: Any) -> str:
        self.id = (await self.told("notebook_create", title=title, **more))["sessionId"]
        return self.id

    async def add(self, source: str, **more: Any) -> str:
        return (await self.told("cell_create", sessionId=self.id, source=source, **more))["cell"]["id"]

    async def told(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that went well."""
        answer = await self.client.call(tool, arguments)
        assert not answer.get("isError"), answer
        return answer["structuredContent"]

    async def execute(self, cell: Any, **more: Any) -> dict[str, Any]:
        """What ``cell_execute`` says, as the seed's tests read it."""
        arguments = {"sessionId": self.id, "cellId": cell, **more}
        return json.loads((await self.client.call("cell_execute", arguments))["content"][0]["text"])

    async def run(self, source: str, **more: Any) -> dict[str, Any]:
        return await self.execute(await self.add(source, **more))


@pytest.fixture
def plugins() -> dict[tuple[str, str], Any]:
    return {("hooks", "cells"): pml_cells.plugin, ("executor", "deno"): Deno, ("store", "sqlite"): SqliteStore}


@pytest.fixture
async def book(tmp_path: Path, plugins: Any) -> AsyncIterator[Book]:
    """An empty TypeScript notebook in a gateway with Deno, and with CPython where there is one, which is not named."""
    root = tmp_path / "notebooks"
    tables = {"cells": {"folder": str(root)}, "sqlite": {"path": str(tmp_path / "pml.db")}, "deno": {"spare": 0}}
    async with running({"fs": ScriptedServer(["read"])}, plugins=plugins, tables=tables) as gateway:
        client = Client(gateway)
        await client.initialize()
        made = Book(client, gateway, Sessions(root))
        await made.create()
        yield made
