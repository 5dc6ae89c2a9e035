"""A configuration that changes under ``pml serve``: what takes effect, what is refused, and who is told."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import pytest
from mcp import Client

pytestmark = pytest.mark.anyio
META_TOOLS = {"call_tool", "execute_workflow", "search_tools"}
TOOLS = {"plain__echo", "plain__fail", "plain__write_note", "typed__add"}
TOLD_S = 120.0
UNTOLD_S = 3.0
"""Longer than the gateway takes to look at its files and to tell of it [s]."""


@pytest.fixture(params=["legacy", "auto"])
def era(request):
    """``auto`` is the revision without a handshake."""
    return request.param


class Told:
    """Counts what a client is told about the list of tools."""

    def __init__(self) -> None:
        self.count = 0
        self._news = asyncio.Event()

    def handler(self, era):
        """For the client; without a handshake the streams tell."""
        return self.handle if era == "legacy" else None

    async def handle(self, message) -> None:
        """A message of a connection with a handshake."""
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self.hear()

    def hear(self) -> None:
        self.count += 1
        self._news.set()

    async def next(self) -> None:
        async with asyncio.timeout(TOLD_S):
            await self._news.wait()
        self._news.clear()


@asynccontextmanager
async def listening(client, told, era):
    """Streams of changes, where the era has them; in the other one they come by themselves."""
    if era == "legacy":
        yield
        return
    async with client.listen(tools_list_changed=True) as stream, asyncio.TaskGroup() as group:

        async def read() -> None:
            async for _ in stream:
                told.hear()

        reading = group.create_task(read())
        yield
        reading.cancel()


@asynccontextmanager
async def connected(site, era, *options):
    told = Told()
    async with (
        site.connect(*options, mode=era, message_handler=told.handler(era)) as client,
        listening(client, told, era),
    ):
        yield client, told


def write(site, text: str) -> None:
    """The user's configuration."""
    path = site.folder / "home" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


async def names(client):
    return {tool.name for tool in (await client.list_tools()).tools}


async def logged(site, text: str) -> None:
    async with asyncio.timeout(TOLD_S):
        while text not in site.log.read_text():  # noqa: ASYNC110 - nothing tells of a file
            await asyncio.sleep(0.05)


async def test_another_mode_takes_effect_and_the_client_is_told(site, era):
    write(site, '[gateway]\ntools_exposure = "meta_only"')
    async with connected(site, era) as (client, told):
        assert await names(client) == META_TOOLS
        write(site, '[gateway]\ntools_exposure = "full_proxy"')
        await told.next()
        assert await names(client) == TOOLS
        write(site, '[gateway]\ntools_exposure = "meta_only"')
        await told.next()
        assert await names(client) == META_TOOLS


async def test_a_file_that_was_not_there_counts_from_when_it_is(site):
    async with connected(site, "legacy") as (client, told):
        assert await names(client) == META_TOOLS
        write(site, '[gateway]\ntools_exposure = "full_proxy"')
        await told.next()
        assert await names(client) == TOOLS


async def test_a_tool_that_is_blacklisted_can_no_longer_be_called_and_again_when_it_is_not(site, era):
    write(site, '[gateway]\ntools_exposure = "full_proxy"')
    async with connected(site, era) as (client, told):
        assert not (await client.call_tool("plain__echo", {"text": "before"})).is_error
        assert await names(client) == TOOLS
        write(site, '[gateway]\ntools_exposure = "full_proxy"\n[plugins.hybrid]\nblacklisted_tools = ["plain:echo"]')
        await told.next()
        assert await names(client) == TOOLS - {"plain__echo"}
        refused = await client.call_tool("plain__echo", {"text": "after"})
        assert refused.is_error
        assert "not allowed" in site.text_of(refused)
        found = await client.call_tool("search_tools", {"query": "echo text"})
        assert "plain__echo" not in {tool["name"] for tool in found.structured_content["tools"]}
        write(site, '[gateway]\ntools_exposure = "full_proxy"')
        await told.next()
        assert not (await client.call_tool("plain__echo", {"text": "again"})).is_error


async def test_an_intent_takes_effect(site):
    write(site, '[gateway]\ntools_exposure = "semantic"')
    async with connected(site, "legacy") as (client, told):
        assert await names(client) == META_TOOLS
        write(site, '[gateway]\ntools_exposure = "semantic"\nintent = "add a line of text to the notebook"')
        await told.next()
        assert "plain__write_note" in await names(client)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[gateway]\ntools_exposure = "full_proxy"\npage_size = -1', "gateway.page_size"),
        ('[gateway]\ntools_exposure = "full_proxy', "not valid TOML"),
        ('[gateway]\ntools_exposure = "full_proxy"\n[plugins.hybrid]\nmax_underlying_tools = -1', "plugins.hybrid"),
    ],
)
async def test_a_file_that_does_not_fit_is_refused_and_the_old_one_stays(site, text, said):
    write(site, '[gateway]\ntools_exposure = "hybrid"')
    async with connected(site, "legacy") as (client, told):
        assert await names(client) == META_TOOLS
        write(site, text)
        await logged(site, "is refused; the old one stays in force")
        assert said in site.log.read_text()
        assert "Traceback" not in site.log.read_text()
        assert await names(client) == META_TOOLS
        assert not (await client.call_tool("plain__echo", {"text": "on"})).is_error
        write(site, '[gateway]\ntools_exposure = "full_proxy"')
        await told.next()
        assert (await names(client), told.count) == (TOOLS, 1)


async def test_what_needs_a_restart_is_named_once(site):
    write(site, "")
    async with connected(site, "legacy") as (client, told):
        write(site, '[gateway]\ntools_exposure = "full_proxy"\ncall_timeout_s = 7\n[plugins.sqlite]\nqueue_rows = 5000')
        await told.next()
        await logged(site, "some changes take effect with the next start")
        log = site.log.read_text()
        assert "gateway.call_timeout_s" in log
        assert "plugins.sqlite" in log.split("some changes take effect")[1]
        write(site, '[gateway]\ntools_exposure = "meta_only"\ncall_timeout_s = 7\n[plugins.sqlite]\nqueue_rows = 5000')
        await told.next()
        assert await names(client) == META_TOOLS
        assert site.log.read_text().count("some changes take effect with the next start") == 1


async def test_a_server_that_is_added_starts_and_one_that_is_taken_out_stops(site, era):
    site.configure(plain=site.plain())
    async with connected(site, era, "--mode", "full_proxy") as (client, told):
        assert await names(client) == {name for name in TOOLS if name.startswith("plain")}
        site.configure(plain=site.plain(), typed=site.typed)
        await told.next()
        assert await names(client) == TOOLS
        assert (await client.call_tool("typed__add", {"a": 1, "b": 2})).structured_content["total"] == 3
        site.configure(typed=site.typed)
        await told.next()
        assert await names(client) == {"typed__add"}
        assert [s["name"] for s in (await site.status(client))["servers"]] == ["typed"]
        (pid,) = [int(path.name) for path in site.pids.iterdir()]
        async with asyncio.timeout(TOLD_S):
            while _alive(pid):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.05)


async def test_a_server_that_changes_is_started_anew(site):
    async with connected(site, "legacy", "--mode", "full_proxy") as (client, told):
        assert await names(client) == TOOLS
        site.configure(plain=site.plain(), typed=site.plain("--pids", str(site.folder)))
        await told.next()
        async with asyncio.timeout(TOLD_S):
            while "typed__echo" not in await names(client):
                await told.next()
        assert "typed__add" not in await names(client)
        assert not (await client.call_tool("typed__echo", {"text": "anew"})).is_error


async def test_a_call_that_is_under_way_ends_as_if_nothing_had_changed(site, era):
    write(site, '[gateway]\ntools_exposure = "full_proxy"')
    site.configure(plain=site.plain("--delay", "4"), typed=site.typed)
    async with connected(site, era) as (client, told):
        await names(client)
        calling = asyncio.create_task(client.call_tool("plain__echo", {"text": "slow"}))
        await asyncio.sleep(0.5)
        site.configure(typed=site.typed)
        await told.next()
        assert not calling.done()
        assert await names(client) == {"typed__add"}
        assert site.text_of(await calling) == "slow"


async def test_a_file_that_is_gone_changes_nothing(site):
    write(site, '[gateway]\ntools_exposure = "full_proxy"')
    async with connected(site, "legacy") as (client, told):
        assert await names(client) == TOOLS
        (site.folder / "home" / "config.toml").unlink()
        await logged(site, "a configuration file is gone")
        assert (await names(client), told.count) == (TOOLS, 0)


# SIGHUP


async def test_on_sighup_the_files_are_read_at_once_even_if_nothing_seems_to_have_changed(site, era):
    write(site, '[gateway]\ntools_exposure = "meta_only" ')
    path = site.folder / "home" / "config.toml"
    async with site.listen() as (process, url):
        told = Told()
        async with (
            Client(url, mode=era, message_handler=told.handler(era), cache=None) as client,
            listening(client, told, era),
        ):
            assert await names(client) == META_TOOLS
            before = path.stat()
            write(site, '[gateway]\ntools_exposure = "full_proxy"')
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            assert path.stat().st_size == before.st_size
            await asyncio.sleep(UNTOLD_S)
            assert told.count == 0
            process.send_signal(signal.SIGHUP)
            await told.next()
            assert await names(client) == TOOLS
    assert process.returncode == 128 + signal.SIGTERM


def test_a_terminal_that_is_closed_ends_the_gateway(site):
    ours, theirs = pty.openpty()
    environment = {**os.environ, **site.environment}
    with site.log.open("w") as log:
        process = subprocess.Popen(
            ["setsid", "--ctty", *site.serve("--http", "127.0.0.1:0")],
            stdin=theirs, stdout=theirs, stderr=log, env=environment, cwd=site.folder,
        )  # fmt: skip
    os.close(theirs)
    try:
        until_s = time.monotonic() + TOLD_S
        while "serving MCP at " not in site.log.read_text():
            assert time.monotonic() < until_s, site.log.read_text()
            time.sleep(0.05)
        os.close(ours)
        assert process.wait(TOLD_S) == 128 + signal.SIGHUP
    finally:
        process.kill()
        process.wait()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_pml_servers_adds_disables_and_restarts_under_a_running_gateway(site):
    write(site, "# mine\n")
    async with site.connect("--mode", "full_proxy") as client:
        assert await names(client) == TOOLS
        before = set(site.pids.iterdir())
        done = site.pml("servers", "restart", "plain", "--json")
        assert done.returncode == 0, done.stderr
        async with asyncio.timeout(TOLD_S):
            while not set(site.pids.iterdir()) - before:  # noqa: ASYNC110 - nothing tells of a folder
                await asyncio.sleep(0.05)
        assert site.text_of(await client.call_tool("plain__echo", {"text": "hello"})) == "hello"
        for words, more in ((("add", "two", "--", *site.typed), {"two__add"}), (("disable", "two"), set())):
            await asyncio.to_thread(users_own, site, "servers", words[0], "--yes", *words[1:])
            async with asyncio.timeout(TOLD_S):
                while await names(client) != TOOLS | more:  # noqa: ASYNC110 - a notification may tell of less
                    await asyncio.sleep(0.2)
    assert (site.folder / "home" / "config.toml").read_text().startswith("# mine")


def users_own(site, *words: str) -> None:
    """Run a command without the file that the gateway was given."""
    environment = {**os.environ, **site.environment}
    command = [sys.executable, "-m", "pml_core", *words]
    subprocess.run(command, check=True, cwd=site.folder, env=environment, stdin=subprocess.DEVNULL)
