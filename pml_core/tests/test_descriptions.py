"""What servers say about themselves."""

from __future__ import annotations

import json

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_mcp.servers.connection.eras import LONGEST_DESCRIPTION
from pml_testing.gateway import Client, ScriptedServer, running, until

pytestmark = pytest.mark.anyio
TITLED = {"name": "files", "version": "1", "title": "Files of the project"}


@pytest.fixture(params=["legacy", "modern"])
def era(request):
    return request.param


@pytest.mark.parametrize(
    ("instructions", "about", "description"),
    [
        ("Reads files.", TITLED, "Reads files."),
        (None, TITLED, "Files of the project"),
        (" \n", {**TITLED, "description": "Reads and writes."}, "Reads and writes."),
        (5, {"name": "files", "title": ["x"]}, ""),
        (None, "nobody", ""),
        (None, {"name": "files", "version": "1"}, ""),
        ("x" * 100_000, TITLED, "x" * LONGEST_DESCRIPTION),
    ],
)
async def test_a_server_is_described_by_its_instructions_or_else_by_its_title(era, instructions, about, description):
    server = ScriptedServer(["read"], eras=[era])
    server.instructions, server.about = instructions, about
    async with running({"fs": server}, settings={"era": era}) as made:
        assert made.catalog.status("fs").description == description
        read = await Client(made).request("resources/read", {"uri": "pml://status"})
        assert json.loads(read["contents"][0]["text"])["servers"][0]["description"] == description


async def test_a_description_is_known_before_the_server_runs_again_and_while_it_is_down(quick):
    store = MemoryStore()
    plugins = {("store", "sqlite"): lambda _settings, _services: store}
    server = ScriptedServer(["read"])
    server.instructions = "Reads files."
    async with running({"fs": server}, plugins=plugins):
        await until(lambda: store.catalog.tools.values and store.catalog.reports.values)
    server.refuse = "broken"
    async with running({"fs": server}, plugins=plugins) as made:
        await until(lambda: made.catalog.status("fs").state == "down")
        assert made.catalog.status("fs").description == "Reads files."
        server.refuse, server.instructions = "", "Reads other files."
        await until(lambda: made.catalog.status("fs").state == "up")
        assert made.catalog.status("fs").description == "Reads other files."
        await until(lambda: store.catalog.reports.values["fs"].description == "Reads other files.")
