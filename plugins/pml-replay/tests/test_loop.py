"""Record a session through one gateway, replay it through another: the same answers, byte by byte."""

from __future__ import annotations

import json

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_dry_run import plugin
from pml_dry_run.session_file import lines
from pml_hookspecs import RawObject, RpcError, encode
from pml_replay import Replay
from pml_settings.config import Config, GatewaySettings, ServerSettings, Source
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio

CALLS = [
    ("notes__read", {"path": "a"}),
    ("notes__read", {"path": "a", "deep": {"z": 1, "a": [1.5, None]}}),
    ("notes__count", {}),
    ("notes__count", {}),
    ("notes__read", {"path": "ü\ud83d"}),
    ("notes__fail", {}),
    ("notes__refuse", {"why": "x"}),
]
DEFINITION = {"name": "read", "inputSchema": {"type": "object", "x-own": 1}, "title": "Lesen"}


def server():
    """Answers with odd JSON, differently each time."""
    count = 0

    async def answer(name, arguments):
        nonlocal count
        count += 1
        if name == "refuse":
            raise RpcError(-32099, "no", {"why": arguments["why"]})
        bad = ',"isError":true' if name == "fail" else ""
        return RawObject(b'{ "content":[{"type":"text","text":"\\u00e4 %d"}],\n"n":1.0e3%s}' % (count, bad.encode()))

    return ScriptedServer([DEFINITION, "count", "fail", "refuse"], answer)


async def session(client):
    """What the client gets for each call, as bytes."""
    seen = []
    for name, arguments in CALLS:
        try:
            seen.append((await client.send("tools/call", encode({"name": name, "arguments": arguments}))).raw)
        except RpcError as exc:
            seen.append(encode(exc.to_wire()))
    return seen


async def test_a_replay_is_equal_byte_by_byte(tmp_path):
    real = server()
    async with running({"notes": real}, plugins={("hooks", "dry_run"): plugin}) as gateway:
        client = Client(gateway)
        await client.initialize()
        recorded = await session(client)
        parts = plugin.parts_of(gateway.assembly.services("dry_run"))
        found, refused = await parts.recordings.all()
        definitions = {r.definition: await parts.recordings.definition(r.definition) for r in found}
    assert (len(found), refused, len(real.calls)) == (len(CALLS), [], len(CALLS))
    file = tmp_path / "session.jsonl"
    file.write_text("".join(lines(found, definitions)), encoding="utf-8")

    config = Config(
        GatewaySettings(log_level="error"),
        {"notes": ServerSettings(address=f"replay:{file}")},
        {},
        (Source("test", {}),),
    )
    async with Gateway(config, None, [registry.provide("pml.transport", "replay", Replay)]) as gateway:
        await gateway.servers_tried()
        client = Client(gateway)
        await client.initialize()
        replayed = await session(client)
        entry = gateway.catalog.get("notes:read")
    assert replayed == recorded
    assert entry.definition == DEFINITION
    assert len(real.calls) == len(CALLS)
    assert json.loads(file.read_text().splitlines()[0])["pml_recordings"] == 1
