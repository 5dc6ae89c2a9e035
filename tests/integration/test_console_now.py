"""What the console's first page says of clients, of servers that are down, and when it is rendered anew."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from starlette.responses import PlainTextResponse
from test_console import TOOLS, Browser, call, run, served

import pml_search_tools.plugin
from pml_console import site
from pml_console.gateways import GATEWAYS, LEASE_S
from pml_console.pages.overview import mark_of
from pml_console.templates import UNKNOWN
from pml_hookspecs import ExecutionId, ExecutionQuery, Scope, Workflow, encode, replace
from pml_testing.downstream import until
from pml_testing.gateway import Client, ScriptedServer

pytestmark = pytest.mark.anyio


def row(page, name):
    """The cells of a table's row, as text."""
    cells = re.search(rf"<tr>\s*(<td[^>]*>{name}</td>.*?)</tr>", page, re.DOTALL)
    return [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td.*?>(.*?)</td>", cells[1], re.DOTALL)]


async def test_who_is_connected_is_named_with_its_mode_and_what_that_costs():
    async with served(watching=pml_search_tools.plugin) as made:
        boss, bob = Browser(made), Browser(made)
        await boss.log_in("k-boss")
        await bob.log_in("k-bob")
        mode, tools, tokens, task, connected = row(await boss.page("/"), "default")[1:]
        assert (task, connected) == (UNKNOWN, UNKNOWN)
        client = Client(made.gateway, principal="ada", info={"name": "<i>cursor</i>", "version": "1"})
        await client.initialize()
        listed = await client.tools()
        assert listed
        assert (mode, int(tools)) == ("meta_only", len(listed))
        known = {entry.name: entry.tokens for entry in made.gateway.catalog}
        assert int(tokens.replace(",", "")) == sum(known[name] for name in listed)
        page = await boss.page("/")
        assert row(page, "default")[5] == "&lt;i&gt;cursor&lt;/i&gt;/1 (ada)"
        assert "Clients <span" in page
        assert row(await bob.page("/"), "default")[5] == UNKNOWN


async def test_a_task_costs_what_was_asked_and_what_was_answered():
    async with served() as made:
        boss = Browser(made)
        await boss.log_in("k-boss")
        for path in ("/a" * 10, "/b" * 100, "/c" * 1000):
            client = Client(made.gateway, principal="ada")
            await client.call("db:read", {"path": path})
        found = await made.gateway.store.executions.find(_everything())
        sizes = sorted((len(encode(one.request)) + len(encode(one.response))) // 4 for one in found.items)
        assert len(sizes) == 3
        assert row(await boss.page("/"), "default")[4] == str(sizes[1])


def _everything():
    return ExecutionQuery(scope=Scope(principals=None), top_level=True)


async def test_what_ended_shows_although_what_runs_is_newer():
    async with served() as made:
        await run(made, Workflow(id="w", tasks=(call(),), intent="has ended"), "k-boss")
        (ended,) = (await made.gateway.store.executions.find(_everything())).items
        began_at = ended.started_at + timedelta(seconds=1)
        for n in range(30):
            one = replace(ended, id=ExecutionId(f"run-{n}"), status="running", intent=f"run {n}", started_at=began_at)
            await made.gateway.store.executions.put(one)
        boss = Browser(made)
        await boss.log_in("k-boss")
        page = await boss.page("/")
        assert "10 more run" in page
        assert page.count("has ended") == 1
        assert len(re.findall(r">run \d+</a>", page)) == 20


async def test_when_a_server_that_is_down_is_tried_again_is_told_to_who_is_told_why():
    server = ScriptedServer(TOOLS)
    server.refuse = "no such host"
    async with served(server) as made:
        boss, bob = Browser(made), Browser(made)
        await boss.log_in("k-boss")
        await bob.log_in("k-bob")
        # The pause grows, so that one is met.
        backoff = made.gateway.servers["db"].backoff
        await until(lambda: backoff.failures >= 3)
        _, state, _, _, reason, attempt = row(await boss.page("/"), "db")
        assert (state, reason) == ("down", "no such host")
        assert attempt == f"{backoff.next_attempt_at:%Y-%m-%d %H:%M:%S} UTC"
        assert "no such host" not in await bob.page("/")


async def test_the_mark_of_the_page_differs_only_when_something_happened(monkeypatch):
    async def mark(visit):
        return PlainTextResponse(repr(await mark_of(visit)))

    monkeypatch.setattr(site, "GET", {**site.GET, "/mark": mark})
    async with served() as made:
        boss = Browser(made)
        await boss.log_in("k-boss")
        seen = [await boss.page("/mark")]

        async def differs():
            seen.append(await boss.page("/mark"))
            return seen[-1] != seen[-2]

        assert not await differs()
        await run(made, Workflow(id="w", tasks=(call(),), intent="read it"), "k-ada")
        assert await differs()
        assert not await differs()
        await run(made, Workflow(id="w", tasks=(call("drop"),)), "k-bob")
        assert await differs()
        client = Client(made.gateway, principal="ada")
        await client.tools()
        assert await differs()
        await made.gateway.server_pool.restart(["db"])
        assert await differs()


async def test_gateways_of_other_hosts_show_to_who_sees_everything_until_they_are_silent(monkeypatch):
    clock_s = [0.0]
    monkeypatch.setattr("pml_kit.shared.lease.time.monotonic", lambda: clock_s[0])
    server = {"name": "crm<b>", "state": "down", "reason": "<i>no</i> such host", "next_attempt": None}
    who = {"who": ["cursor/1", "ada", "default", "meta_only"], "count": 2}
    process = {"host": "elsewhere", "pid": 7, "started": "1", "machine": "another one"}
    value = {**process, "since": "2026-01-01T00:00:00+00:00", "servers": [server]}
    async with served() as made:
        documents = made.gateway.store.documents
        await documents.put(GATEWAYS, "other", {**value, "beat": 1, "clients": [who]})
        boss, bob = Browser(made), Browser(made)
        await boss.log_in("k-boss")
        await bob.log_in("k-bob")
        told = ["2026-01-01 00:00:00 UTC", "2", "1", "crm&lt;b&gt;: down, &lt;i&gt;no&lt;/i&gt; such host"]
        assert row(await boss.page("/"), "elsewhere, process 7")[1:] == told
        assert row(await boss.page("/"), "default")[5] == "cursor/1 (ada) \u00d7 2"
        page = await bob.page("/")
        assert "elsewhere" not in page
        assert "cursor" not in page
        clock_s[0] += LEASE_S - 1
        await documents.put(GATEWAYS, "other", {**value, "beat": 2, "clients": [who]})
        assert "elsewhere" in await boss.page("/")
        clock_s[0] += LEASE_S - 1
        assert "elsewhere" in await boss.page("/")
        clock_s[0] += 1
        assert "elsewhere" not in await boss.page("/")
