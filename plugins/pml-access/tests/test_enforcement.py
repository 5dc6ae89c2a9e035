"""What a key may not have is not listed, not found and not called, by whatever way."""

from __future__ import annotations

import types
from contextlib import asynccontextmanager

import pytest
from access_fleet import world

import pml_access.plugin
import pml_search_tools.plugin
from pml_access.agents import Agents
from pml_access.keys import Keys
from pml_access.settings import Settings
from pml_exposure_full_proxy import FullProxy
from pml_hookspecs import CodeRun, Identity, MetaTool, RpcError, ToolCall, ToolId, Workflow, hookimpl
from pml_testing.dispatching import Code, InOrder
from pml_testing.gateway import Client, ScriptedServer, running
from pml_transport_http.server import callers

pytestmark = pytest.mark.anyio
TOOLS = ("files__read", "files__delete", "shell__run")


async def answer(arguments, run):
    return {"said": run.session.principal}


def with_agents(*names):
    """A plugin that publishes agents, as pml-agents does."""

    @asynccontextmanager
    async def life(services):
        schema = {"type": "object"}
        tools = [MetaTool(definition={"name": name, "inputSchema": schema}, call=answer) for name in names]
        services.publish("agents", tools)
        yield

    made = types.ModuleType("made")
    made.pml_lifespan = hookimpl(lambda services: [life(services)])
    return made


@asynccontextmanager
async def gateway():
    servers = {"files": ScriptedServer(["read", "delete"]), "shell": ScriptedServer(["run"])}
    plugins = {
        ("guards", "access"): pml_access.plugin,
        ("hooks", "agents"): with_agents("report", "mailer", "free"),
        ("hooks", "search_tools"): pml_search_tools.plugin,
        ("exposure_mode", "full_proxy"): FullProxy,
        ("executor", "in_order"): InOrder,
        ("executor", "code"): Code,
    }
    async with running(servers, plugins=plugins, tools_exposure="full_proxy") as made:
        yield made


async def reach(made, identity):
    """What one is shown, finds and can call, all of which must agree; by exposed name."""
    client = Client(made, identity=identity)
    await client.initialize()
    everything = {made.catalog.exposed_name(e.id) for e in made.catalog if not e.own}
    listed = set(await client.tools()) & everything
    found = set()
    for query in ("read", "delete", "run", "report", "mailer", "free"):
        hits = (await client.call("search_tools", {"query": query}))["structuredContent"]["tools"]
        found |= {hit["name"] for hit in hits}
    called, by_tool = set(), set()
    for name in everything:
        if await runs(client, name, {}):
            called.add(name)
        if await runs(client, "call_tool", {"name": name, "arguments": {}}):
            by_tool.add(name)
    assert listed == called == by_tool
    assert found == called
    return called


async def runs(client, name, arguments):
    """Whether a call ends well; of what is hidden it is an error of the protocol that there is no such tool."""
    try:
        return not (await client.call(name, arguments)).get("isError")
    except RpcError:
        return False


@pytest.mark.parametrize(
    ("allow", "deny", "expected"),
    [
        (None, (), {*TOOLS}),
        (("files:*",), (), {"files__read", "files__delete"}),
        (("files:*",), ("*:delete",), {"files__read"}),
        (None, ("shell:*",), {"files__read", "files__delete"}),
        ((), (), set()),
    ],
)
async def test_patterns_count_for_lists_search_and_calls_alike(allow, deny, expected):
    async with gateway() as made:
        deny = (*deny, "agents:*")
        identity = Identity(principal="alice", access_key="k", allow=allow, deny=deny)
        assert await reach(made, identity) == expected


async def test_plans_code_and_background_work_reach_no_further():
    async with gateway() as made:
        services = made.assembly.services("access")
        session = services.session(Identity(principal="a", access_key="k", allow=("files:*",), deny=("pml:run_code",)))
        calls = (ToolCall(id="x", tool=ToolId("shell:run")), ToolCall(id="y", tool=ToolId("files:read")))
        for task in calls[:1]:
            assert (await services.run(task, session)).failure.code == "tool.not_connected"
            plan = Workflow(id="w", tasks=(task,))
            assert (await services.run(plan, session)).failure.code == "tool.not_connected"
        assert (await services.run(calls[1], session)).status == "ok"
        code = CodeRun(id="c", language="python", source="x")
        assert (await services.run(code, session)).failure.code == "policy.denied"
        assert (await services.run(Workflow(id="w", tasks=(code,)), session)).failure.code == "policy.denied"


async def test_agents_are_reached_by_their_people_and_by_agents_that_may():
    async with gateway() as made:
        services = made.assembly.services("access")
        agents = Agents(services, Settings())
        await agents.change("report", owner=lambda _: "alice", shared_with=lambda _: frozenset({"bob"}))
        await agents.change("report", permits=lambda _: frozenset({"mailer"}))
        await agents.change("mailer", owner=lambda _: "bob")
        await pml_access.plugin._parts_of(services)[0].read()
        reached = {}
        for who in ("alice", "bob", "carol", "local"):
            only = Identity(principal=who, allow=("agents:*",))
            reached[who] = {name.removeprefix("agents__") for name in await reach(made, only)}
        for who in ("report", "mailer"):
            key = Identity(principal=f"agent:{who}", agent=who, access_key="k", allow=("agents:*",))
            reached[f"agent {who}"] = {name.removeprefix("agents__") for name in await reach(made, key)}
        system = Identity(principal="system", scopes=frozenset({"system"}), allow=("agents:*",))
        reached["system"] = {name.removeprefix("agents__") for name in await reach(made, system)}
        assert reached == {
            "alice": {"report", "free"},
            "bob": {"report", "mailer", "free"},
            "carol": {"free"},
            "local": {"free"},
            "agent report": {"mailer"},
            "agent mailer": set(),
            "system": {"report", "mailer", "free"},
        }


async def test_a_list_is_public_until_there_is_a_key():
    async with gateway() as made:
        client = Client(made, modern=True)
        assert (await client.request("tools/list"))["cacheScope"] == "public"
        services = made.assembly.services("access")
        await Keys(services).create({"kind": "user", "holder": "alice"}, by="root")
        await pml_access.plugin._parts_of(services)[0].read()
        made.catalog.publish("files", [])
        assert (await client.request("tools/list"))["cacheScope"] == "private"


async def test_a_revoked_key_is_refused_within_the_time_that_is_promised(tmp_path, frozen_clock):
    async with world(tmp_path) as made, made.caller("alice") as alice:
        assert not isinstance(await alice.get("/executions"), str)
        keys = Keys(made.gateway.assembly.services("access"))
        (key,) = [key for key in await keys.all() if key.principal == "alice"]
        await keys.revoke(key.id, by="root")
        frozen_clock.advance(callers.FRESH_S)
        assert await alice.get("/executions") == "401 The API key was revoked"
