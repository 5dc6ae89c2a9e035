"""``subscriptions/listen``: what clients without a handshake hear of (MCP 2026-07-28)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import metadata

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_hookspecs import RawObject, RpcError, Selection, TransportError
from pml_kit.mcp.protocol import META_SERVER_INFO, META_SUBSCRIPTION_ID
from pml_testing.gateway import Client, ScriptedServer, ScriptedTransport, configuration, error_of, running, until
from pml_testing.scripted import offering

pytestmark = pytest.mark.anyio
ABOUT_US = {"name": "pml", "title": "PML gateway", "version": metadata.version("pml-core")}
STAMP = {META_SERVER_INFO: ABOUT_US}
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"

either_peer = pytest.mark.parametrize("stateless", [False, True])
either_era = pytest.mark.parametrize("eras", [["legacy"], ["modern"], ["legacy", "modern"]])


class Everything:
    """Shows all tools."""

    def __init__(self, settings, services):
        pass

    async def select(self, catalog, session):
        return Selection(tuple(entry.id for entry in catalog))


SHOWN = {"plugins": {("exposure_mode", "all"): Everything}, "tools_exposure": "all"}


class Stream:
    """``subscriptions/listen`` under way."""

    def __init__(self, client, **wanted):
        self.client = client
        self.task = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))

    @property
    def heard(self):
        return [(m, RawObject.of(p).value) for m, p in self.client.link.notified]

    async def acknowledged(self):
        await until(lambda: self.heard or self.task.done())
        if self.task.done():
            self.task.result()
        method, params = self.heard[0]
        assert method == ACKNOWLEDGED
        return params

    async def cancel(self):
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@either_peer
async def test_a_stream_begins_with_what_will_be_told(stateless):
    async with running({"a": offering("r:1")}) as made:
        client = Client(made, modern=True, stateless=stateless)
        wanted = {"toolsListChanged": True, "promptsListChanged": False, "x-new": True}
        stream = Stream(client, **wanted, resourceSubscriptions=["r:1", 5, "r:1"])
        assert await stream.acknowledged() == {
            "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["r:1"]},
            "_meta": {META_SUBSCRIPTION_ID: 1},
        }
        await stream.cancel()


@either_peer
@pytest.mark.parametrize("wanted", [None, [], "x", 5])
async def test_a_stream_of_nothing_that_can_be_understood_is_refused(wanted, stateless):
    async with running({}) as made:
        client = Client(made, modern=True, stateless=stateless)
        assert (await error_of(client.request("subscriptions/listen", {"notifications": wanted}))).code == -32602
        assert (await error_of(client.request("subscriptions/listen"))).code == -32602
        assert client.link.notified == []


@either_peer
@either_era
async def test_events_carry_the_stream_they_belong_to_and_only_those_asked_for_come(eras, stateless):
    server = offering("r:1", "r:2", eras=eras)
    server.offers = {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True},
        "prompts": {"listChanged": True},
    }
    async with running({"a": server}, **SHOWN) as made:
        client, other = (Client(made, modern=True, stateless=stateless) for _ in range(2))
        await client.tools()
        stream = Stream(client, toolsListChanged=True, promptsListChanged=True, resourceSubscriptions=["r:1"])
        quiet = Stream(other, resourceSubscriptions=["r:2"])
        await stream.acknowledged()
        await quiet.acknowledged()
        theirs = {META_SUBSCRIPTION_ID: 99, "kept": 1}
        for method, params in (
            ("notifications/prompts/list_changed", {"_meta": theirs}),
            ("notifications/resources/list_changed", {"_meta": theirs}),
            (UPDATED, {"uri": "r:1", "x": 1}),
            (UPDATED, {"uri": "r:2"}),
            ("notifications/vendor", {}),
        ):
            server.tell(method, params)
        server.change(["read", "write"])
        await until(lambda: len(stream.heard) == 4)
        ours = {META_SUBSCRIPTION_ID: 2}
        assert stream.heard[1:] == [
            ("notifications/prompts/list_changed", {"_meta": {"kept": 1, **ours}}),
            (UPDATED, {"uri": "r:1", "x": 1, "_meta": ours}),
            (CHANGED, {"_meta": ours}),
        ]
        assert quiet.heard[1:] == [(UPDATED, {"uri": "r:2", "_meta": {META_SUBSCRIPTION_ID: 1}})]
        await stream.cancel()
        await quiet.cancel()


@either_peer
async def test_two_streams_of_one_client_are_told_each_its_own(stateless):
    server = ScriptedServer(["read"])
    async with running({"a": server}, **SHOWN) as made:
        client = Client(made, modern=True, stateless=stateless)
        one, two = Stream(client, toolsListChanged=True), Stream(client, toolsListChanged=True)
        await until(lambda: len(client.link.notified) == 2)
        server.change(["write"])
        await until(lambda: len(client.link.notified) == 4)
        assert [p["_meta"][META_SUBSCRIPTION_ID] for _, p in one.heard[2:]] in ([1, 2], [2, 1])
        await one.cancel()
        server.change(["read"])
        await until(lambda: len(client.link.notified) == 5)
        assert two.heard[-1] == (CHANGED, {"_meta": {META_SUBSCRIPTION_ID: 2}})
        assert client.late == []
        await two.cancel()


@either_peer
async def test_resources_reach_a_server_with_a_handshake_and_are_taken_back(stateless):
    server = offering("r:1")
    async with running({"a": server}) as made:
        one, two = (Client(made, modern=True, stateless=stateless) for _ in range(2))
        streams = [Stream(c, resourceSubscriptions=["r:1"]) for c in (one, two)]
        for stream in streams:
            await stream.acknowledged()
        assert ("resources/subscribe", {"uri": "r:1"}) in server.asked
        await streams[0].cancel()
        server.tell(UPDATED, {"uri": "r:1"})
        assert [len(s.heard) for s in streams] == [1, 2]
        assert "resources/unsubscribe" not in [m for m, _ in server.asked]
        await streams[1].cancel()
        await until(lambda: ("resources/unsubscribe", {"uri": "r:1"}) in server.asked)


@either_peer
async def test_resources_reach_a_server_without_a_handshake_and_are_taken_back(stateless):
    server = offering("r:1", "r:2", eras=["modern"])
    async with running({"a": server}) as made:
        one, two = (Client(made, modern=True, stateless=stateless) for _ in range(2))
        streams = [Stream(c, resourceSubscriptions=["r:1", uri]) for c, uri in ((one, "r:1"), (two, "r:2"))]
        for stream in streams:
            await stream.acknowledged()
        await until(lambda: [w for _, w in server.streams] == [{"resourceSubscriptions": ["r:1", "r:2"]}])
        server.tell(UPDATED, {"uri": "r:1"})
        assert [len(s.heard) for s in streams] == [2, 2]
        await streams[1].cancel()
        await until(lambda: [w for _, w in server.streams] == [{"resourceSubscriptions": ["r:1"]}])
        await streams[0].cancel()
        await until(lambda: not server.streams)
        assert not [m for m, _ in server.asked if m.endswith("subscribe")]


async def test_a_resource_is_told_of_under_the_uri_that_the_client_knows():
    a, b = offering("note:x"), offering("note:x")
    async with running({"a": a, "b": b}) as made:
        client, older = Client(made, modern=True), Client(made)
        await older.initialize()
        alias = (await client.request("resources/list"))["resources"][1]["uri"]
        assert alias == "pml://resource/b/note%3Ax"
        stream = Stream(client, resourceSubscriptions=[alias])
        await stream.acknowledged()
        await older.request("resources/subscribe", {"uri": alias})
        assert not [m for m, _ in a.asked if m == "resources/subscribe"]
        b.tell(UPDATED, {"uri": "note:x"})
        assert [p["uri"] for m, p in stream.heard if m == UPDATED] == [alias]
        assert [p["uri"] for m, p in older.link.notified if m == UPDATED] == [alias]
        await stream.cancel()


@either_peer
async def test_resources_that_cannot_be_had_are_not_promised(stateless, capsys):
    def refuses(_params):
        raise RpcError(-32603, "not today")

    a, b = offering("a:1", resources__subscribe=refuses), offering("b:1")
    async with running({"a": a, "b": b}) as made:
        client = Client(made, modern=True, stateless=stateless)
        stream = Stream(client, toolsListChanged=True, resourceSubscriptions=["a:1", "b:1", "none:1"])
        honored = (await stream.acknowledged())["notifications"]
        assert honored == {"toolsListChanged": True, "resourceSubscriptions": ["b:1"]}
        await stream.cancel()


@either_peer
async def test_what_happens_before_the_acknowledgement_is_told_after_it(stateless):
    server = offering("r:1")

    async def tells_at_once(params):
        server.tell(UPDATED, {"uri": "r:1"})
        return {}

    server.others["resources/subscribe"] = tells_at_once
    async with running({"a": server}) as made:
        stream = Stream(Client(made, modern=True, stateless=stateless), resourceSubscriptions=["r:1"])
        await stream.acknowledged()
        assert [m for m, _ in stream.heard] == [ACKNOWLEDGED, UPDATED]
        await stream.cancel()


async def test_the_stream_of_a_server_is_nothing_that_clients_hear_of():
    server = offering("r:1", eras=["modern"])
    server.offers["resources"] = {"listChanged": True, "subscribe": True}
    async with running({"a": server}, settings={"era": "modern"}) as made:
        client = Client(made)
        await client.initialize()
        await client.request("resources/subscribe", {"uri": "r:1"})
        await until(lambda: any("resourceSubscriptions" in w for _, w in server.streams))
        server.tell(UPDATED, {"uri": "r:1", "_meta": {META_SUBSCRIPTION_ID: 1}})
        server.tell("notifications/resources/list_changed", {"_meta": {META_SUBSCRIPTION_ID: 1, "k": 1}})
        told = [(m, RawObject.of(p).value) for m, p in client.link.notified]
        assert told == [(UPDATED, {"uri": "r:1"}), ("notifications/resources/list_changed", {"_meta": {"k": 1}})]


class Serving(ScriptedTransport):
    """Serves a client until cancelled, and gives what is being answered a moment to end, as listeners do."""

    def __init__(self, servers) -> None:
        super().__init__(servers)
        self.answer: object = None
        self.began = asyncio.Event()

    async def serve(self, endpoint, accept, *, started, routes=None):
        self.gateway.modern_client = client = Client(self.gateway, modern=True)
        stream = Stream(client, toolsListChanged=True)
        await stream.acknowledged()
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.answer = stream.task.result() if stream.task.done() else None
            await stream.cancel()


async def test_a_stream_ends_with_a_result_when_the_gateway_goes_down():
    transport = Serving({})
    found = [registry.provide("pml.transport", "scripted", transport)]
    async with Gateway(configuration([]), records=found) as made:
        transport.gateway = made
        serving = asyncio.ensure_future(made.serve("scripted:"))
        await transport.began.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
    assert transport.answer == {
        "resultType": "complete",
        "_meta": {META_SUBSCRIPTION_ID: 1, META_SERVER_INFO: ABOUT_US},
    }


async def test_a_server_that_is_lost_while_a_client_listens_is_told_nothing_more():
    server = offering("r:1")
    async with running({"a": server}) as made:
        stream = Stream(Client(made, modern=True), resourceSubscriptions=["r:1"])
        await stream.acknowledged()
        server.refuse = "gone"
        server.handler.closed(TransportError("gone", retryable=True))
        await stream.cancel()
        await asyncio.sleep(0)
        assert made.supervisor.health.get("core") is None
