"""People log in at a real authorization server for what is behind their gateway: another one, that takes its tokens."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from contextlib import asynccontextmanager, closing

import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from .conftest import Site
from .people import PATIENCE_S, SERVING, authority, free_port, gateway

pytestmark = pytest.mark.anyio
CONFIG = """
[gateway]
tools_exposure = "full_proxy"
[servers.notes]
url = "{url}/mcp"
sharing = "per_principal"
[plugins.http]
keyring = false
[plugins.http.tokens]
ada = "key-of-ada"
bob = "key-of-bob"
"""


@asynccontextmanager
async def front(folder, upstream):
    """A gateway at which each person has a login of their own at ``upstream``: its site, and its address."""
    site = Site(folder)
    (folder / "home").mkdir(parents=True)
    (folder / "home" / "config.toml").write_text(CONFIG.format(url=upstream))
    site.config.write_text(json.dumps({"mcpServers": {}}))
    environment = {**os.environ, **site.environment}
    port = free_port()
    with site.log.open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *site.serve("--http", f"127.0.0.1:{port}"), stderr=log, env=environment, cwd=folder
        )
    try:
        async with asyncio.timeout(PATIENCE_S):
            while SERVING not in site.log.read_text():
                assert process.returncode is None, site.log.read_text()
                await asyncio.sleep(0.05)
        yield site, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def client_of(url, name, server, mode, opened):
    async def asked(_context, params):
        opened.append(name)
        async with httpx2.AsyncClient(timeout=PATIENCE_S) as browser:
            sent = await browser.post(params.url, data={"key": f"key-of-{name}"}, headers={"origin": url})
            back = await server.log_in(sent.headers["location"], name, f"{url}/logins/callback")
            done = await browser.get(back)
            assert f"{name} is logged in to notes" in done.text
        return types.ElicitResult(action="accept")

    async with httpx2.AsyncClient(headers={"authorization": f"Bearer key-of-{name}"}, timeout=PATIENCE_S) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=mode, cache=None, elicitation_callback=asked) as client:
            yield client


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_each_person_acts_as_themselves(mode, site, node_tools):
    opened = []
    async with (
        authority(node_tools, site.folder) as server,
        gateway(site, server.issuer) as upstream,
        front(site.folder / "front", upstream) as (own, url),
        client_of(url, "ada", server, mode, opened) as ada,
        client_of(url, "bob", server, mode, opened) as bob,
    ):
        for person in (ada, bob):
            assert {t.name for t in (await person.list_tools()).tools if "notes" in t.name} == {"notes__log_in"}
        for name, person in (("ada", ada), ("bob", bob), ("ada", ada)):
            await person.call_tool("notes__log_in", {})
            said = await person.call_tool("notes__plain__echo", {"text": f"I am {name}"})
            assert f"I am {name}" in site.text_of(said)
        assert sorted(opened) == ["ada", "bob"]
        listed = await asyncio.to_thread(own.pml, "auth", "list")
        assert listed.stdout == "notes\tada\nnotes\tbob\n", listed.stderr
        gone = await asyncio.to_thread(own.pml, "auth", "logout", "notes", "--principal", "bob")
        assert gone.returncode == 0, gone.stderr
        async with asyncio.timeout(PATIENCE_S):
            while not await refused(own, url):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.2)
        assert "I am ada" in site.text_of(await ada.call_tool("notes__plain__echo", {"text": "I am ada"}))
    with closing(sqlite3.connect(site.folder / "home" / "pml.db")) as store:
        rows = [(row[0], str(row)) for row in store.execute("select principal, * from execution")]
    said = [(principal, name) for principal, row in rows for name in ("ada", "bob") if f"I am {name}" in row]
    assert sorted(set(said)) == [("ada", "ada"), ("bob", "bob")]


async def refused(own, url):
    """Whether bob is asked for a login, by a client that cannot ask him."""
    http = httpx2.AsyncClient(headers={"authorization": "Bearer key-of-bob"}, timeout=PATIENCE_S)
    stream = streamable_http_client(f"{url}/mcp", http_client=http)
    async with http, Client(stream, mode="legacy", cache=None) as client:
        said = own.text_of(await client.call_tool("notes__plain__echo", {"text": "I am bob"}))
        return re.search(rf"Log in at {url}/logins/", said) is not None
