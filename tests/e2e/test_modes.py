"""Four modes, three ways of using each: as the gateway's mode, an endpoint's, and a key's."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

pytestmark = pytest.mark.anyio
META_TOOLS = {"call_tool", "execute_workflow", "search_tools"}
TOOLS = {"plain__echo", "plain__fail", "plain__write_note", "typed__add"}
INTENT = "add a line of text to the notebook"
FOUND = "plain__write_note"

WITHOUT_HINT = {"meta_only": META_TOOLS, "semantic": META_TOOLS, "hybrid": META_TOOLS, "full_proxy": TOOLS}


async def names(client, intent=""):
    meta = {"pml/intent": intent} if intent else None
    return {t.name for t in (await client.list_tools(meta=meta)).tools}


@pytest.mark.parametrize("mode", WITHOUT_HINT)
async def test_without_a_hint_a_mode_lists_what_it_always_lists(site, mode):
    async with site.connect("--mode", mode) as client:
        assert await names(client) == WITHOUT_HINT[mode]


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
async def test_a_hint_adds_the_tools_that_fit_to_modes_that_choose_by_it(site, mode):
    async with site.connect("--mode", mode) as client:
        with_hint = await names(client, INTENT)
        assert with_hint >= META_TOOLS | {FOUND}
        assert await names(client) == META_TOOLS


@pytest.mark.parametrize("mode", ["meta_only", "full_proxy"])
async def test_a_hint_changes_nothing_in_the_other_modes(site, mode):
    async with site.connect("--mode", mode) as client:
        assert await names(client, INTENT) == WITHOUT_HINT[mode]


@pytest.mark.parametrize("mode", WITHOUT_HINT)
async def test_a_tool_can_be_called_directly_whether_listed_or_not(site, mode):
    async with site.connect("--mode", mode) as client:
        written = await client.call_tool("plain__write_note", {"text": mode})
    assert not written.is_error
    assert site.notes.read_text() == f"{mode}\n"


async def test_an_unknown_mode_is_warned_of_and_read_as_meta_only(site):
    async with site.connect("--mode", "everything") as client:
        assert await names(client) == META_TOOLS
    assert "Unknown tools_exposure mode: everything, defaulting to meta_only" in site.log.read_text()


# Several at once, by endpoint and by key


def configure(site) -> None:
    """An endpoint and a key for each mode, with the hint that it has, and one key that says nothing."""
    lines = ["[plugins.http.tokens]", 'plain = "plain-token"']
    for mode in WITHOUT_HINT:
        lines += [f"[plugins.http.tokens.{mode}]", f'token = "{mode}-token"', f'tools_exposure = "{mode}"']
        lines += [f"[endpoints.{mode}]", f'tools_exposure = "{mode}"']
        lines += [f"[plugins.http.tokens.{mode}-hint]", f'token = "{mode}-hint-token"', f'intent = "{INTENT}"']
        lines += [f'tools_exposure = "{mode}"', f"[endpoints.{mode}-hint]", f'tools_exposure = "{mode}"']
        lines += [f'intent = "{INTENT}"']
    home = site.folder / "home"
    home.mkdir()
    (home / "config.toml").write_text("\n".join(lines))


@asynccontextmanager
async def visitor(url: str, era: str, token: str):
    """The SDK's client with a key."""
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=120) as http,
        Client(streamable_http_client(url, http_client=http), mode=era, cache=None) as client,
    ):
        yield client


def expected(mode: str, *, hint: bool) -> set[str]:
    chosen = {FOUND} if hint and mode in ("semantic", "hybrid") else set()
    return WITHOUT_HINT[mode] | chosen


@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("way", ["endpoint", "key"])
async def test_all_modes_at_once_each_used_in_each_way(site, way, era):
    configure(site)
    async with site.listen() as (_, url):
        for mode, without_hint in WITHOUT_HINT.items():
            for given in (mode, f"{mode}-hint"):
                address, token = (f"{url}/{given}", "plain-token") if way == "endpoint" else (url, f"{given}-token")
                async with visitor(address, era, token) as client:
                    listed = await names(client)
                    assert listed == await names(client)
                    assert listed >= expected(mode, hint=given != mode), given
                    if given == mode:
                        assert listed == without_hint, given
                    written = await client.call_tool("plain__write_note", {"text": given})
                    assert not written.is_error
    assert len(site.notes.read_text().splitlines()) == 2 * len(WITHOUT_HINT)


async def test_a_keys_unknown_mode_is_warned_of_when_it_is_used(site):
    home = site.folder / "home"
    home.mkdir()
    said = '[plugins.http.tokens.odd]\ntoken = "odd-token"\ntools_exposure = "everything"\n'
    (home / "config.toml").write_text(said)
    warning = "Unknown tools_exposure mode: everything, defaulting to meta_only"
    async with site.listen() as (_, url):
        assert warning not in site.log.read_text()
        async with visitor(url, "legacy", "odd-token") as client:
            assert await names(client) == META_TOOLS
        assert warning in site.log.read_text()
