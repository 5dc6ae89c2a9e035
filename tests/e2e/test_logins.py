"""People log in at a real authorization server, with the official client, and come to a gateway with its tokens."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing

import httpx2
import pytest
from mcp import MCPError

from pml_kit.mcp.protocol import META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_PROTOCOL_VERSION

from .people import DOCUMENT, PATIENCE_S, SECRET, Person, authority, gateway

pytestmark = pytest.mark.anyio
MODERN = "2026-07-28"
META = {META_PROTOCOL_VERSION: MODERN, META_CLIENT_CAPABILITIES: {}, META_CLIENT_INFO: {"name": "t", "version": "1"}}
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": MODERN}
FIRST = 'scopes = ["tools:read"]'
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


async def listed(client):
    """Names of the tools of servers, once these are up."""
    async with asyncio.timeout(PATIENCE_S):
        while not (names := {t.name for t in (await client.list_tools()).tools if t.name.startswith("plain")}):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return names


async def asked(web, token, method="tools/list", path="/mcp"):
    params = {"_meta": META}
    headers = {**HEADERS, "mcp-method": method, "authorization": f"Bearer {token}"}
    return await web.post(path, json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers=headers)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("document", [None, DOCUMENT], ids=["registered", "described"])
async def test_a_person_logs_in(mode, document, site, node_tools):
    async with authority(node_tools, site.folder) as server, gateway(site, server.issuer, FIRST) as url:
        ada = Person("ada", server, url)
        async with ada.client(mode, document=document) as client:
            assert await listed(client) == {"plain__echo"}
            assert "hello" in site.text_of(await client.call_tool("plain__echo", {"text": "hello"}))
        assert [set(scopes.split()) for scopes in ada.asked] == [{"tools:read", "offline_access"}]
        assert (ada.info.client_id == DOCUMENT) is (document is not None)
    with closing(sqlite3.connect(site.folder / "home" / "pml.db")) as store:
        assert {principal for (principal,) in store.execute("select principal from execution")} == {"ada"}
    assert ada.tokens.access_token not in site.log.read_text()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_tool_that_needs_another_scope_has_the_person_asked_for_it(mode, site, node_tools):
    async with authority(node_tools, site.folder) as server, gateway(site, server.issuer, FIRST) as url:
        ada = Person("ada", server, url)
        # This authorization server keeps a client that registers by itself to the scopes that it then asked for.
        ada.info = await server.register()
        async with ada.client(mode) as client:
            await listed(client)
            if mode == "legacy":  # a session has the rights that it began with
                with pytest.raises(MCPError, match="begin a new one"):
                    await client.call_tool("plain__write_note", {"text": "for ada"})
            else:
                await client.call_tool("plain__write_note", {"text": "for ada"})
        async with ada.client(mode) as client:
            assert await listed(client) == {"plain__echo", "plain__write_note"}
            await client.call_tool("plain__write_note", {"text": "for ada"})
        first, second = (set(scopes.split()) for scopes in ada.asked)
        assert second - first == {"tools:write"}, "asked once more, for what it has and for what is missing"
        assert "for ada" in site.notes.read_text()


async def test_a_session_goes_on_over_many_tokens(site, node_tools):
    async with authority(node_tools, site.folder, lifetime_s=3) as server:
        more = ('scopes = ["tools:read", "offline_access"]', "leeway_s = 2.0")
        async with gateway(site, server.issuer, *more) as url:
            ada = Person("ada", server, url)
            async with ada.client("legacy") as client:
                await listed(client)
                seen = set()
                async with asyncio.timeout(PATIENCE_S):
                    while len(seen) < 3:
                        seen.add(ada.tokens.access_token)
                        await client.call_tool("plain__echo", {"text": "still here"})
                        await asyncio.sleep(0.3)
            assert len(ada.asked) == 1, "its tokens were refreshed, and nobody had to log in again"


async def test_a_stream_ends_with_its_token(site, node_tools):
    async with (
        authority(node_tools, site.folder, lifetime_s=5) as server,
        gateway(site, server.issuer, "leeway_s = 0.0") as url,
    ):
        token = await server.token("ada", f"{url}/mcp", "tools:read")
        headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE_S) as web:
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
            begun = await web.post("/mcp", json=hello)
            assert begun.status_code == 200
            session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            async with asyncio.timeout(PATIENCE_S), web.stream("GET", "/mcp", headers=session) as stream:
                assert stream.status_code == 200
                async for _ in stream.aiter_bytes():
                    pass
            refused = await asked(web, token)
            assert (refused.status_code, "expired" in refused.text) == (401, True)


async def test_a_token_of_the_same_server_for_something_else_lets_nobody_in(site, node_tools):
    async with (
        authority(node_tools, site.folder) as server,
        gateway(site, server.issuer) as url,
        httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S) as web,
    ):
        for resource, status in (
            ("https://other.example/mcp", 401),
            (f"{url}/mcp/trial", 401),
            (f"{url}/mcp", 200),
        ):
            token = await server.token("ada", resource, "tools:read")
            assert (await asked(web, token)).status_code == status, resource
        head, claims, signature = token.split(".")
        assert (await asked(web, f"{head}.{claims}.{signature[::-1]}")).status_code == 401
        none = await asked(web, await server.token("ada", f"{url}/mcp", "openid"))
        assert none.status_code == 403
        assert 'error="insufficient_scope"' in none.headers["www-authenticate"]
        key = json.loads(site.pml("keys", "create", "--user", "bob", "--json").stdout)["key"]
        assert (await asked(web, key)).status_code == 200, "keys count beside tokens"


async def test_a_token_that_was_taken_back_is_refused_where_the_server_is_asked(site, node_tools):
    async with authority(node_tools, site.folder, format="opaque") as server:
        more = ("introspection = true", 'client_id = "gateway"', f'client_secret = "{SECRET}"')
        async with gateway(site, server.issuer, *more) as url, httpx2.AsyncClient(base_url=url, timeout=60) as web:
            token = await server.token("ada", f"{url}/mcp", "tools:read")
            assert "." not in token
            assert (await asked(web, token)).status_code == 200
            assert (await asked(web, "made-up")).status_code == 401
            await server.revoke(token)
            async with asyncio.timeout(PATIENCE_S):
                while (await asked(web, token)).status_code != 401:  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
        said = site.log.read_text()
        assert token not in said
        assert SECRET not in said
