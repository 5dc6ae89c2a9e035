"""Recorded servers behind a gateway, in both eras, and the command that serves them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_hookspecs import Endpoint, RpcError, TransportError
from pml_replay import Replay, Settings
from pml_replay.command import environment
from pml_settings.config import Config, GatewaySettings, ServerSettings, Source
from pml_testing.fakes import FakeServices
from pml_testing.gateway import Client

pytestmark = pytest.mark.anyio


def endpoint(path, name="files", **options):
    return Endpoint(name=name, address=f"replay:{path}", options=options)


async def ask(link, method, **params):
    return await link.request(method, params, timeout_s=1)


async def test_a_recorded_server_is_chosen_by_name_by_option_or_because_it_is_the_only_one(written):
    for name, options in (("git.hub", {}), ("other", {"server": "git.hub"})):
        async with Replay().connect(endpoint(written(), name, **options), None) as link:
            assert [tool["name"] for tool in (await ask(link, "tools/list"))["tools"]] == ["list"]
    with pytest.raises(TransportError, match=r"only files, git\.hub"):
        async with Replay().connect(endpoint(written(), "other"), None):
            raise AssertionError


async def test_what_is_not_understood_is_said(written, tmp_path):
    with pytest.raises(ValueError, match="replay:FILE"):
        Replay().connect(Endpoint(name="x", address="replay:"), None)
    for options in ({"era": 1}, {"server": 1}):
        with pytest.raises(ValueError, match=r"\[servers.files\]"):
            Replay().connect(endpoint(written(), **options), None)
    with pytest.raises(TransportError, match="No such file"):
        async with Replay().connect(endpoint(tmp_path / "none"), None):
            raise AssertionError
    async with Replay().connect(endpoint(written()), None) as link:
        with pytest.raises(RpcError, match="only calls of tools"):
            await ask(link, "resources/list")
    with pytest.raises(TransportError, match="closed"):
        await ask(link, "ping")


async def test_what_is_not_recorded_is_an_error_and_logged(written):
    services = FakeServices("replay")
    async with Replay(Settings(), services).connect(endpoint(written()), None) as link:
        with pytest.raises(RpcError) as caught:
            await ask(link, "tools/call", name="read", arguments={"path": "c"})
    assert caught.value.data == {"nearest": {"path": "a"}}
    assert [line[1] for line in services.log.lines] == ["no recording matches"]


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_gateway_serves_it_to_clients_of_both_eras(written, era, modern):
    server = ServerSettings(address=f"replay:{written()}", era=era)
    config = Config(GatewaySettings(log_level="error"), {"files": server}, {}, (Source("test", {}),))
    async with Gateway(config, None, [registry.provide("pml.transport", "replay", Replay)]) as gateway:
        await gateway.servers_tried()
        client = Client(gateway, modern=modern)
        if not modern:
            await client.initialize()
        first = await client.call("files__read", {"path": "a"})
        second = await client.call("files__read", {"path": "a"})
        assert [one["content"][0]["text"] for one in (first, second)] == ["first", "second"]
        assert (await client.call("files__read", {"path": "gone"}))["isError"] is True
        with pytest.raises(RpcError) as refused:
            await client.call("files__read", {"path": "x"})
        assert refused.value.to_wire() == {"code": -32050, "message": "no", "data": {"a": 1}}
        with pytest.raises(RpcError, match="The nearest recording"):
            await client.call("files__read", {"path": "c"})


def replay(*words, lines=()):
    """Run ``pml replay`` as a client would."""
    env = {**os.environ, "PML_SERVERS__MINE__COMMAND": "false"}
    text = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
    command = [sys.executable, "-m", "pml_core", "replay", *map(str, words)]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, env=env, check=False)


def call(id_, name, arguments):
    return {"id": id_, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def test_the_command_serves_a_client_on_stdio_without_any_other_configuration(written):
    ended = replay(
        written(),
        lines=[
            {"id": 1, "method": "initialize", "params": HELLO},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
            call(3, "read", {"path": "b", "n": 1}),
            call(4, "read", {"path": "c"}),
        ],
    )
    answers = {message["id"]: message for line in ended.stdout.splitlines() if "id" in (message := json.loads(line))}
    assert sorted(tool["name"] for tool in answers[2]["result"]["tools"]) == ["list", "read"]
    odd = '{ "content":[{"type":"text","text":"\\u0041 1.0"}],"structuredContent":{"n":1.0} }'
    assert odd in ended.stdout
    assert 'nothing is recorded for files:read with {"path":"c"}' in answers[4]["error"]["message"]
    assert "no recording matches" in ended.stderr
    assert ended.returncode == 0


def test_the_command_says_what_is_in_a_file_and_what_is_wrong_with_it(written):
    told = replay(written(), "--check")
    assert (told.returncode, told.stdout) == (0, "files: read\ngit.hub: list\n")
    wrong = replay(written(['{"pml_recordings": 3}']))
    assert wrong.returncode == 2
    assert "is of version 3" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_nothing_of_the_users_environment_configures_the_replay(monkeypatch):
    monkeypatch.setenv("PML_GATEWAY__INTENT", "mine")
    monkeypatch.setenv("pml_servers__x__command", "false")
    mine = {name for name in environment() if name.upper().startswith("PML_")}
    assert mine == {"PML_HOME"}
