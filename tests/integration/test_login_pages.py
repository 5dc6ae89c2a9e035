"""The gateway's page for a login of one's own, as a browser has it, and tokens that are exchanged without one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from pml_hookspecs import Endpoint, Identity, Offer, hookimpl
from pml_kit.mcp.principal_logins import for_principal
from pml_kit.offers import IDENTITIES

from .login_servers import Places, browser, gateway, jwt_of, kept_in, listening, places

pytestmark = pytest.mark.anyio
KEYS = {"tokens": {"ada": "key-of-ada", "mallory": "key-of-mallory"}}
SOON_S = 60.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))


@asynccontextmanager
async def client_of(url: str, key: str, mode: Any = "legacy", asked: Any = None) -> AsyncIterator[Client]:
    """The official client, with a key."""
    headers = {"authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=SOON_S) as http:
        stream = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(stream, mode=mode, cache=None, elicitation_callback=asked) as client:
            yield client


async def said(client: Client, name: str) -> str:
    found = await client.call_tool("desk__whoami", {"as": name})
    return str(found.content[0].text)  # type: ignore[union-attr]


async def address(url: str, key: str = "key-of-ada") -> str:
    """Where a client that cannot ask is told to log in."""
    async with client_of(url, key) as client:
        text = await said(client, "ada")
        return str(re.search(rf"{url}/logins/\S+", text)[0])  # type: ignore[index]


async def go_on(mine: httpx2.AsyncClient, page: str, key: str, **more: Any) -> httpx2.Response:
    """Send the form of the page."""
    headers = {"origin": page.partition("/logins")[0]}
    return await mine.post(page, data={"key": key}, headers=headers, **more)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[tuple[Places, Any, str]]:
    async with places() as there, gateway(there, tmp_path, http=KEYS) as made, listening(made) as url:
        yield there, made, url
        there.nothing_wrong()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_has_its_user_open_the_page_and_the_call_goes_on(mode: str, world: Any) -> None:
    there, _, url = world

    async def asked(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams)
        assert params.url.startswith(f"{url}/logins/")
        async with browser("ada") as mine:
            page = await mine.get(params.url)
            assert "ada" in page.text
            assert there.desk.url in page.text
            done = await go_on(mine, params.url, "key-of-ada")
            assert "ada is logged in to desk" in done.text
        return types.ElicitResult(action="accept")

    async with client_of(url, "key-of-ada", mode, asked) as client:
        assert [tool.name for tool in (await client.list_tools()).tools if "desk" in tool.name] == ["desk__log_in"]
        assert await said(client, "ada") == "ada"
    page = await address_of_none(url, "key-of-mallory")
    assert "/logins/" in page


async def address_of_none(url: str, key: str) -> str:
    async with client_of(url, key) as client:
        return await said(client, "mallory")


async def test_a_page_that_somebody_sent_gives_nobody_an_account(world: Any) -> None:
    """Mallory has her client's address opened by Ada: it is no use without Mallory's key, and none with Ada's."""
    there, _, url = world
    page = await address(url, "key-of-mallory")
    async with browser("ada") as mine:
        assert (await go_on(mine, page, "key-of-ada")).status_code == 401
        assert there.authority.persons == {}


async def test_an_address_of_the_authorization_server_that_somebody_sent_gives_nobody_an_account(world: Any) -> None:
    """Mallory shows her own key, and has Ada's browser go on from there."""
    there, made, url = world
    page = await address(url, "key-of-mallory")
    async with browser("mallory") as hers, browser("ada") as mine:
        sent = await go_on(hers, page, "key-of-mallory", follow_redirects=False)
        assert sent.status_code == 303
        back = await mine.get(sent.headers["location"])
        assert (back.status_code, "another browser" in back.text) == (403, True)
        assert there.authority.persons == {}
        # What is left of it is no use to her either.
        assert (await hers.get(str(back.url))).status_code == 410
    endpoint = Endpoint(name="desk", address=there.desk.url)
    assert await made.transport("http").logins(for_principal(endpoint, "mallory")) == []


async def test_a_page_of_another_site_cannot_send_the_form(world: Any) -> None:
    there, _, url = world
    page = await address(url)
    async with browser("ada") as mine:
        for headers in ({}, {"origin": "http://localhost:1"}, {"origin": "null"}):
            refused = await mine.post(page, data={"key": "key-of-ada"}, headers=headers)
            assert refused.status_code == 403
        assert there.authority.codes == {}


async def test_a_page_is_good_once_and_takes_few_keys(world: Any) -> None:
    _, _, url = world
    page = await address(url)
    async with browser("ada") as mine:
        assert (await go_on(mine, page, "key-of-ada")).status_code == 200
        assert (await go_on(mine, page, "key-of-ada")).status_code == 410
        assert (await mine.get(page)).status_code == 410
        assert (await mine.get(f"{url}/logins/callback?state=&code=x")).status_code == 410
    other = await address_of_none(url, "key-of-mallory")
    other = str(re.search(rf"{url}/logins/\S+", other)[0])  # type: ignore[index]
    async with browser("mallory") as hers:
        found = [(await go_on(hers, other, f"wrong-{n}")).status_code for n in range(5)]
        assert found == [401, 401, 401, 401, 410]
        assert (await go_on(hers, other, "key-of-mallory")).status_code == 410


async def test_a_login_is_taken_back_and_a_gateway_that_runs_notices(world: Any) -> None:
    there, made, url = world
    async with browser("ada") as mine:
        await go_on(mine, await address(url), "key-of-ada")
    endpoint = for_principal(Endpoint(name="desk", address=there.desk.url), "ada")
    async with client_of(url, "key-of-ada") as client:
        assert await said(client, "ada") == "ada"
        assert await made.transport("http").logins(endpoint) == ["ada"]
        await made.transport("http").log_out(endpoint)
        assert there.authority.valid == set()
        assert there.authority.refreshes == {}
        assert "has no login" in await said(client, "ada")
        assert await made.transport("http").logins(endpoint) == []


class TokenIdentities:
    """Knows whose a signed token is, as ``pml-oauth`` would after it has verified it."""

    async def identify(self, token: str | None) -> Identity | None:
        return None if token is None or token.count(".") != 2 else Identity(principal=self.persons[token])

    async def scope(self, _session: Any, *, results: bool) -> None:
        return None

    def __init__(self) -> None:
        self.persons: dict[str, str] = {}

    @hookimpl
    def pml_offers(self, services: Any) -> Any:
        return [Offer(IDENTITIES, self)]


async def test_the_token_that_a_person_comes_with_is_exchanged_for_one_of_the_servers(tmp_path: Path) -> None:
    known = TokenIdentities()
    tokens = {name: jwt_of(name) for name in ("ada", "bob")}
    known.persons = {token: name for name, token in tokens.items()}
    async with places() as there:
        login = {"grant": "token_exchange", "token_url": f"{there.authority.url}/token", "client_id": "gateway"}
        options = {"oauth": {**login, "client_secret": "secret", "audience": "desk"}}
        async with gateway(there, tmp_path, guard=known, options=options) as made, listening(made) as url:

            async def calls(name: str) -> list[str]:
                async with client_of(url, tokens[name]) as client:
                    return [await said(client, name) for _ in range(3)]

            assert await asyncio.gather(*map(calls, tokens)) == [["ada"] * 3, ["bob"] * 3]
        assert sorted(form["subject_token"] for form in there.authority.exchanged) == sorted(tokens.values())
        assert {form["audience"] for form in there.authority.exchanged} == {"desk"}
        there.nothing_wrong()
        kept = kept_in(tmp_path)
        assert not any(token.encode() in kept for token in (*tokens.values(), *there.authority.persons))
