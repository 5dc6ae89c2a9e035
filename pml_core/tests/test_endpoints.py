from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_hookspecs import Peer, Selection, replace
from pml_kit.errors import OperatorError
from pml_settings.config import EndpointSettings, load
from pml_testing.downstream import Everything, a_while, until
from pml_testing.gateway import Client, ScriptedServer, ScriptedTransport, configuration

# Configuration


def refusal(**options) -> str:
    with pytest.raises(OperatorError) as caught:
        load(**options)
    return str(caught.value)


def test_endpoints_come_from_the_file_and_the_environment(place, monkeypatch):
    place.write("pml.toml", '[endpoints.ops]\ntools_exposure = "full_proxy"\n[endpoints.Dev-1]\nintent = "code"\n')
    monkeypatch.setenv("PML_ENDPOINTS__OPS__INTENT", "run things")
    monkeypatch.setenv("PML_ENDPOINTS__FAST__TOOLS_EXPOSURE", "hybrid")
    assert load().endpoints == {
        "ops": EndpointSettings(tools_exposure="full_proxy", intent="run things"),
        "Dev-1": EndpointSettings(intent="code"),
        "fast": EndpointSettings(tools_exposure="hybrid"),
    }


def test_what_is_set_on_the_command_line_wins(place):
    place.write("pml.toml", '[endpoints.ops]\ntools_exposure = "full_proxy"\n')
    loaded = load(overrides=["endpoints.ops.tools_exposure=hybrid", "endpoints.more.intent=x"])
    assert loaded.endpoints["ops"].tools_exposure == "hybrid"
    assert loaded.endpoints["more"] == EndpointSettings(intent="x")
    assert loaded.says("endpoints.ops.tools_exposure") == "--set"


@pytest.mark.parametrize(
    ("text", "path", "why"),
    [
        ("[endpoints.ops]\ntool_exposure = 'x'\n", "endpoints.ops.tool_exposure", "did you mean 'tools_exposure'?"),
        (
            "[endpoints.ops]\nzzz = 'x'\n",
            "endpoints.ops.zzz",
            "unknown key; known: dry_run_only, execution_mode, intent, tools_exposure",
        ),
        ("[endpoints.ops]\nintent = 5\n", "endpoints.ops.intent", "valid string"),
        ("endpoints = 5\n", "endpoints", "valid dictionary"),
        ("[endpoints]\nops = 5\n", "endpoints.ops", ""),
        ("[endpoints.default]\nintent = 'x'\n", "endpoints.default", "that is the endpoint that [gateway] describes"),
        ("[endpoints.'a b']\nintent = 'x'\n", "endpoints.a b", "choose another"),
        ("[endpoints.'a/b']\nintent = 'x'\n", "endpoints.a/b", "choose another"),
        ("[endpoints.'.hidden']\nintent = 'x'\n", "endpoints..hidden", "choose another"),
    ],
)
def test_a_mistake_is_named_with_its_source(place, text, path, why):
    file = place.write("pml.toml", text)
    message = refusal()
    assert f"{path} ({file})" in message
    assert why in message


def test_a_mistake_in_the_environment_is_named_too(place, monkeypatch):
    monkeypatch.setenv("PML_ENDPOINTS__OPS__ZZZ", "x")
    assert "endpoints.ops.zzz (environment): unknown key" in refusal()


# At work


class Reads(Everything):
    """Shows what can be read, and what the intent names."""

    made = 0

    def __init__(self, settings=None, services=None) -> None:
        Reads.made += 1

    async def select(self, catalog, session):
        return Selection(tuple(e.id for e in catalog if "read" in e.name or e.name == session.intent))


@asynccontextmanager
async def several(server: ScriptedServer, **endpoints: EndpointSettings):
    Reads.made = 0
    transport = ScriptedTransport({"fs": server})
    found = [
        registry.provide("pml.transport", "scripted", transport),
        registry.provide("pml.exposure_mode", "all", Everything),
        registry.provide("pml.exposure_mode", "reads", Reads),
    ]
    config = replace(configuration(["fs"], tools_exposure="all"), endpoints=endpoints)
    async with Gateway(config, records=found) as made:
        await made.servers_tried()
        yield made


def client_of(made, endpoint: str) -> Client:
    client = Client(made)
    client._handler.closed(None)
    client._handler = made.accept(client.link, Peer(address="t", endpoint=endpoint))
    return client


@pytest.mark.anyio
async def test_each_endpoint_has_an_exposure_mode_of_its_own():
    reads = EndpointSettings(tools_exposure="reads")
    async with several(
        ScriptedServer(["read", "write", "work"]), ops=reads, more=replace(reads, intent="work")
    ) as made:
        assert await client_of(made, "default").tools() == ["fs__read", "fs__work", "fs__write"]
        assert await client_of(made, "ops").tools() == ["fs__read"]
        assert await client_of(made, "more").tools() == ["fs__read", "fs__work"]
        assert Reads.made == 1


@pytest.mark.anyio
async def test_hidden_at_an_endpoint_is_not_forbidden_there():
    async with several(ScriptedServer(["read", "write"]), ops=EndpointSettings(tools_exposure="reads")) as made:
        assert (await client_of(made, "ops").call("fs__write", {"a": 1}))["structuredContent"] == {"a": 1}


@pytest.mark.anyio
async def test_clients_are_told_of_changes_of_what_their_own_endpoint_shows():
    server = ScriptedServer(["read", "write"])
    async with several(server, ops=EndpointSettings(tools_exposure="reads")) as made:
        everything, reading = client_of(made, "default"), client_of(made, "ops")
        for client in (everything, reading):
            await client.initialize()
            await client.tools()
        server.change(["read", "write", "work"])
        await until(lambda: everything.link.notified)
        await a_while()
        assert reading.link.notified == []
        server.change(["read", "read_all"])
        await until(lambda: reading.link.notified)
        for client, count in ((everything, 2), (reading, 1)):
            assert client.link.notified == [("notifications/tools/list_changed", {})] * count


@pytest.mark.anyio
@pytest.mark.parametrize("endpoint", ["nosuch", "", "OPS", "ops/"])
async def test_an_endpoint_that_is_not_configured_is_refused_with_those_that_are(endpoint):
    settings = EndpointSettings(tools_exposure="reads")
    async with several(ScriptedServer(["read"]), ops=settings, more=settings) as made:
        with pytest.raises(LookupError) as caught:
            made.accept(Client(made).link, Peer(address="t", endpoint=endpoint))
        assert caught.value.args[0] == f"There is no endpoint {endpoint!r}; configured: ops, more."
        assert len(made.conversations) == 1


@pytest.mark.anyio
async def test_an_endpoint_with_a_mode_that_is_not_installed_falls_back_and_says_so(capsys):
    async with several(ScriptedServer(["read"]), ops=EndpointSettings(tools_exposure="nosuch")) as made:
        assert await client_of(made, "ops").tools() == []
    assert "Unknown tools_exposure mode: nosuch, defaulting to meta_only" in capsys.readouterr().err
