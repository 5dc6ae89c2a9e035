"""The console's buttons beside an agent that started its gateway itself, on standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from contextlib import asynccontextmanager, suppress

import httpx2
import pytest

pytestmark = pytest.mark.anyio
LINK = re.compile(r"(http://\S+/console/)enter\?token=(\S+)")
FORM_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')
SOON_S = 120.0


@pytest.fixture
def own_site(site, monkeypatch):
    """A site whose configuration is PML's own, which commands can change."""
    monkeypatch.setattr(type(site), "config", property(lambda self: self.folder / "gateway.toml"))
    command, *arguments = site.plain()
    lines = [f"command = {json.dumps(command)}", f"args = {json.dumps(arguments)}"]
    site.config.write_text("\n".join(["[servers.plain]", *lines, '[gateway]\ntools_exposure = "full_proxy"\n']))
    return site


@asynccontextmanager
async def console(site):
    """A browser that is logged in to ``pml console``, with the same configuration and home; and its first page."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pml_core", "console", "--no-browser", "--config", str(site.config),
        env={**os.environ, **site.environment}, cwd=site.folder, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(SOON_S):
            while not (match := LINK.search((await process.stdout.readline()).decode())):
                assert not process.stdout.at_eof()
        async with httpx2.AsyncClient(timeout=SOON_S, follow_redirects=True) as browser:
            page = await browser.post(f"{match[1]}enter", data={"token": match[2]})
            yield browser, match[1], FORM_TOKEN.search(page.text)[1]
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def names(client):
    return {tool.name for tool in (await client.list_tools()).tools}


async def until(condition):
    async with asyncio.timeout(SOON_S):
        while not await condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.1)


async def test_an_agents_gateway_takes_over_what_is_done_in_the_console(own_site):
    async with own_site.connect() as client, console(own_site) as (browser, url, token):
        assert "plain__echo" in await names(client)
        before = set(own_site.pids.iterdir())

        async def press(action):
            done = await browser.post(f"{url}servers/plain", data={"form_token": token, "action": action})
            assert done.status_code == 200, done.text

        async def is_listed():
            return "plain__echo" in await names(client)

        async def is_another_process():
            return bool(set(own_site.pids.iterdir()) - before) and await is_listed()

        async def is_gone():
            return not await is_listed()

        await press("restart")
        await until(is_another_process)
        await press("disable")
        await until(is_gone)
        assert "enabled = false" in own_site.config.read_text()
        await press("enable")
        await until(is_listed)
        called = await client.call_tool("plain__echo", {"text": "back"})
        assert "back" in own_site.text_of(called)


async def test_the_console_shows_an_agents_gateway_until_it_is_killed(own_site):
    with own_site.config.open("a") as config:
        config.write('[servers.broken]\ncommand = "no-such-program"\n')
    async with console(own_site) as (browser, url, _):

        async def page():
            return (await browser.get(url)).text

        async def shows(*texts):
            shown = await page()
            return all(text in shown for text in texts)

        assert "Other gateways" not in await page()
        async with own_site.connect() as client:
            await names(client)
            # By name the client is counted, and the server that is down is there with its reason.
            await until(lambda: shows("Other gateways", "broken: down", "no-such-program", "mcp/"))
            (process,) = re.findall(r"process (\d+)", await page())
            os.kill(int(process), signal.SIGKILL)

            async def is_gone():
                return not await shows("Other gateways")

            await until(is_gone)
