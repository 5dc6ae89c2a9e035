"""Servers that people use: what a rehearsed plan reads is what the real run reads, or it says that it may not be."""

from __future__ import annotations

import pytest

from .conftest import Site

pytestmark = pytest.mark.anyio
MODES = [True, "reads"]


@pytest.fixture(autouse=True)
def unasked(site):
    """Nobody is there to approve of what destroys."""
    home = site.folder / "home"
    home.mkdir()
    (home / "config.toml").write_text('[plugins.approvals]\neffects = "none"\n')


async def run(client, *steps, dry_run=False):
    """How each step of a plan ends, all one after the other, whether those before ended well or not."""
    tasks = [
        {"id": f"s{n}", "tool": tool, "arguments": arguments, "on_error": "continue",
         "depends_on": [f"s{n - 1}"] if n else []}
        for n, (tool, arguments) in enumerate(steps)
    ]  # fmt: skip
    ran = await client.call_tool("execute_workflow", {"workflow": {"tasks": tasks}, "dry_run": dry_run})
    return Site.value_of(ran)["tasks"]


async def compared(client, *steps):
    """The last step, rehearsed in each of both ways and then for real."""
    rehearsed = [(await run(client, *steps, dry_run=mode))[-1] for mode in MODES]
    return rehearsed, (await run(client, *steps))[-1]


def flagged(tasks):
    """After which steps each result may be another."""
    return [[step["task_id"] for step in task["_meta"]["pml/would_differ"]] for task in tasks]


async def test_files(site, node_tools):
    files = site.folder / "files"
    files.mkdir()
    script = node_tools / "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    site.configure(files=[str(node_tools / "node"), str(script), str(files)])
    there = {"path": str(files / "new.txt")}
    read, write = ("files:read_text_file", there), lambda text: ("files:write_file", {**there, "content": text})
    async with site.connect() as client:
        assert [task["status"] for task in await run(client, read)] == ["error"]
        for text in ("created\n", "changed\n"):
            rehearsed, real = await compared(client, write(text), read)
            assert [task["result"] for task in rehearsed] == [real["result"]] * 2 == [{"content": text}] * 2
        edit = {**there, "edits": [{"oldText": "changed", "newText": "edited"}]}
        rehearsed, real = await compared(client, ("files:edit_file", edit), read)
        assert real["result"] == {"content": "edited\n"}
        assert flagged(rehearsed) == [["s0"]] * 2
        rehearsed, real = await compared(client, ("files:write_file", {**there, "path": f"{files}/b", "content": ""}),
                                         ("files:list_directory", {"path": str(files)}))  # fmt: skip
        assert "[FILE] b" in real["result"]["content"]
        assert flagged(rehearsed) == [["s0"]] * 2


async def test_a_memory(site, node_tools):
    script = node_tools / "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
    kept = f"MEMORY_FILE_PATH={site.folder}/memory.json"
    site.configure(memory=["/usr/bin/env", kept, str(node_tools / "node"), str(script)])
    ada = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    opened = ("memory:open_nodes", {"names": ["Ada"]})
    async with site.connect() as client:
        (before,) = await run(client, opened)
        assert before["result"]["entities"] == []
        rehearsed, real = await compared(client, ("memory:create_entities", {"entities": [ada]}), opened)
        assert real["result"]["entities"][0]["name"] == "Ada"
        assert flagged(rehearsed) == [["s0"]] * 2
        rehearsed, real = await compared(client, ("memory:delete_entities", {"entityNames": ["Ada"]}), opened)
        assert real["result"]["entities"] == []
        assert flagged(rehearsed) == [["s0"]] * 2


async def test_a_database(site, python_servers):
    database = site.folder / "station.db"
    command = [python_servers["sqlite"], "-c", "from mcp_server_sqlite import main; main()"]
    site.configure(db=[*command, "--db-path", str(database)])
    select = ("db:read_query", {"query": "SELECT * FROM tide"})
    insert = ("db:write_query", {"query": "INSERT INTO tide VALUES (12)"})
    async with site.connect() as client:
        await run(client, select, insert)
        rehearsed, real = await compared(
            client, ("db:create_table", {"query": "CREATE TABLE tide (hour INTEGER)"}), insert, select
        )
        assert "12" in real["result"]
        assert flagged(rehearsed) == [["s0", "s1"]] * 2
        assert {task["status"] for task in rehearsed} == {"simulated"}
        rehearsed, real = await compared(client, insert, select)
        assert flagged(rehearsed) == [["s0"]] * 2
        (again,), (real,) = await run(client, select, dry_run=True), await run(client, select)
        assert again["result"] == real["result"]
