"""A request waits for the servers that it names, and for nobody else."""

from __future__ import annotations

import asyncio
import types
from contextlib import asynccontextmanager

import pytest

from pml_catalog.naming import servers_of
from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import MetaTool, RpcError, Selection, Session, Status, ToolCall, hookimpl
from pml_mcp.servers.connection import eras
from pml_testing.gateway import Client, ScriptedServer, ScriptedTransport, configuration, until

pytestmark = pytest.mark.anyio
SESSION = Session(key="k", principal="alice")
LONG_S = 600.0
"""Nobody here waits so long: who waits for a silent server fails by :data:`SOON_S`."""
SOON_S = 30.0


class Silent(ScriptedServer):
    """Never answers, before it is let."""

    def __init__(self, tools=("late",)):
        super().__init__(list(tools))
        self.may = asyncio.Event()

    async def serve(self, method, params):
        await self.may.wait()
        return await super().serve(method, params)


class FullMode:
    """Shows all there is."""

    def __init__(self, settings, services):
        pass

    async def select(self, catalog, session):
        return Selection(tuple(e.id for e in catalog if not e.own))


async def search(arguments, run):
    return {"found": True}


OWN = (
    MetaTool(definition={"name": "find", "inputSchema": {"type": "object"}}, call=search, whole_catalog=True),
    MetaTool(definition={"name": "date", "inputSchema": {"type": "object"}}, call=search),
    MetaTool(
        definition={"name": "call", "inputSchema": {"type": "object"}},
        task=lambda arguments: ToolCall(id="c", tool=arguments["name"], arguments={}),
    ),
)


@asynccontextmanager
async def gateway(servers, *, store=None, connect=True, one_client=False, **settings):
    """A gateway that has just begun to start its servers."""
    own = types.ModuleType("own")
    own.pml_meta_tools = hookimpl(lambda services: OWN)
    records = [
        registry.provide("pml.transport", "scripted", ScriptedTransport(servers)),
        registry.provide("pml.exposure_mode", "everything", FullMode),
        registry.provide("pml.plugins", "own", own),
    ]
    if store is not None:
        records.append(registry.provide("pml.store", "kept", lambda settings, services: store))
        settings["store"] = "kept"
    limits = {"list_wait_s": LONG_S, "start_timeout_s": LONG_S, **settings}
    async with (
        asyncio.timeout(SOON_S),
        Gateway(configuration(servers, **limits), None, records, connect=connect, one_client=one_client) as made,
    ):
        yield made


async def status_of(made, tool, **arguments):
    return (await made.dispatcher.start(ToolCall(id="t", tool=tool, arguments=arguments), SESSION)).status


async def test_who_asks_for_nothing_of_a_silent_server_does_not_wait_for_it():
    async with gateway({"good": ScriptedServer(["read"]), "bad": Silent()}) as made:
        assert await Client(made).tools() == ["call", "date", "find"]
        assert await status_of(made, "date") is Status.OK
        assert await status_of(made, "good__read") is Status.OK  # not listed yet, maybe
        assert await status_of(made, "call", name="good:read") is Status.OK
        assert made.catalog.status("bad").state == "starting"


async def test_a_search_waits_no_longer_than_others_take_and_a_list_as_long_as_it_may():
    bad = Silent()
    async with gateway({"good": ScriptedServer(["read"]), "bad": bad}, tools_exposure="everything") as made:
        assert await status_of(made, "find") is Status.OK
        listing = asyncio.ensure_future(Client(made).tools())
        assert await Client(made).call("date")
        assert not listing.done()
        bad.may.set()
        assert await listing == ["bad__late", "good__read"]


async def test_a_list_waits_no_longer_for_a_server_that_is_tried_in_both_eras(monkeypatch):
    monkeypatch.setattr(eras, "PROBE_S", 0.1)
    bad = Silent()
    async with gateway({"good": ScriptedServer(["read"]), "bad": bad}, one_client=True) as made:
        await Client(made, modern=True).request("server/discover")
        began_s = []
        for attempts in (1, 2):
            await until(lambda so_far=attempts: len(bad.links) == so_far)
            began_s.append(made.servers["bad"].began_s)
        assert began_s[0] == began_s[1]


async def test_who_names_a_server_that_is_being_tried_waits_for_it():
    bad = Silent()
    async with gateway({"good": ScriptedServer(["read"]), "bad": bad}) as made:
        asked = [asyncio.ensure_future(status_of(made, "bad__late"))]
        asked.append(asyncio.ensure_future(status_of(made, "call", name="bad:late")))
        assert await status_of(made, "good__read") is Status.OK
        assert not any(one.done() for one in asked)
        bad.may.set()
        assert await asyncio.gather(*asked) == [Status.OK, Status.OK]


async def test_what_hung_last_time_is_not_waited_for_and_forgiven_when_it_comes_up():
    store = MemoryStore()
    servers = {"bad": Silent()}
    async with gateway(servers, store=store, list_wait_s=0.01) as made:
        assert await status_of(made, "find") is Status.OK
        assert not made.servers["bad"].slow
    async with gateway(servers, store=store, tools_exposure="everything") as made:
        assert await Client(made).tools() == []
        servers["bad"].may.set()
        await made.servers_tried()
        assert not made.servers["bad"].slow
    async with gateway(servers, store=store, tools_exposure="everything") as made:
        assert await Client(made).tools() == ["bad__late"]
        assert not made.servers["bad"].slow


async def test_where_nothing_connects_nobody_waits():
    async with gateway({"bad": Silent()}, connect=False, tools_exposure="everything") as made:
        assert await status_of(made, "find") is Status.OK
        assert await Client(made).tools() == []
        with pytest.raises(RpcError):
            await Client(made).call("nothing_of_any_server")
        assert await status_of(made, "bad__late") is Status.ERROR


async def test_a_server_that_is_starting_hears_afterwards_that_roots_have_changed():
    silent = Silent()
    async with gateway({"good": ScriptedServer(["read"]), "bad": silent}) as made:
        client = Client(made)
        await client.initialize({"roots": {"listChanged": True}})
        client.notify("notifications/roots/list_changed")
        silent.may.set()
        await made.servers["bad"].tried()
        assert silent.link.notified[-1] == ("notifications/roots/list_changed", {})


def test_the_servers_that_a_name_is_of():
    prefixes = {"git": None, "my-crm": None, "web": "w_", "bare": ""}

    def named(tool):
        return servers_of(tool, prefixes)[0]

    assert named("git__log") == named("git:log") == ["git"]
    assert named("my_crm:get") == ["my-crm"]
    assert named("w_get") == ["web"]
    assert named("web:get") == ["web"]
    assert named("bare:get") == ["bare"]
    assert named("log") == named("git") == named("other__log") == []
    assert servers_of("log", prefixes)[1] == ["bare"]
