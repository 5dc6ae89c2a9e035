"""The whole way: through a gateway, in both eras, into the client's answer and the execution record."""

from __future__ import annotations

import json

import pytest

import pml_dry_run.plugin
from pml_hookspecs import ExecutionQuery, RpcError, Scope, Session, ToolCall, Workflow
from pml_testing.dispatching import InOrder
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio

DRY = {"_meta": {"pml/dry_run": True}}
EVERYONE = Scope(principals=None)


def plugins():
    return {("hooks", "dry_run"): pml_dry_run.plugin, ("executor", "in_order"): InOrder}


async def record(gateway):
    """The newest."""
    return (await gateway.store.executions.find(ExecutionQuery(scope=EVERYONE))).items[0]


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_the_label_is_in_the_answer_and_in_the_record(modern):
    server = ScriptedServer(["read"])
    async with running({"fs": server}, plugins=plugins()) as gateway:
        client = Client(gateway, modern=modern)
        if not modern:
            await client.initialize()
        real = await client.call("fs__read", {"path": "a"})
        answer = await client.call("fs__read", {"path": "a"}, **DRY)
        kept = await record(gateway)
    label = answer["_meta"]["pml/simulated"]
    assert (label["source"], len(server.calls)) == ("recorded", 1)
    assert answer["content"] == real["content"]
    assert (kept.status, kept.dry_run) == ("simulated", True)
    assert kept.response["_meta"]["pml/simulated"] == label


async def test_the_label_is_kept_of_an_answer_that_is_too_long_to_be_kept():
    async def long(name, arguments):
        return {"content": [{"type": "text", "text": "x" * 5000}]}

    async with running({"fs": ScriptedServer(["read"], long)}, plugins=plugins(), record_bytes=1000) as gateway:
        client = Client(gateway)
        await client.initialize()
        await client.call("fs__read")
        await client.call("fs__read", **DRY)
        kept = await record(gateway)
    assert kept.response["truncated"] is True
    assert '"pml/simulated":{"source":"recorded"' in kept.response["head"]


async def test_a_recorded_refusal_is_one_again_and_says_what_it_is():
    server = ScriptedServer(["read"])
    server.script = [RpcError(-32055, "out of paper", {"tray": 2})]
    async with running({"fs": server}, plugins=plugins()) as gateway:
        client = Client(gateway)
        await client.initialize()
        for how in ({}, DRY):
            with pytest.raises(RpcError, match="out of paper") as refused:
                await client.call("fs__read", **how)
    data = refused.value.data
    assert (refused.value.code, data["tray"], data["pml/simulated"]["source"]) == (-32055, 2, "recorded")
    assert len(server.calls) == 1


@pytest.mark.parametrize("asked", ["true", 1, 0, "READS", ["reads"], {}])
async def test_dry_run_of_another_type_is_an_error(asked):
    server = ScriptedServer(["read"])
    async with running({"fs": server}, plugins=plugins()) as gateway:
        client = Client(gateway)
        await client.initialize()
        with pytest.raises(RpcError, match="must be true, false or 'reads'"):
            await client.call("fs__read", _meta={"pml/dry_run": asked})
    assert server.calls == []


async def test_secrets_of_the_configuration_are_in_no_recording(monkeypatch):
    monkeypatch.setenv("CRM_TOKEN", "s3cr3t-value")
    server = ScriptedServer(["read"])
    settings = {"env": {"CRM_TOKEN": "${CRM_TOKEN}"}}
    async with running({"fs": server}, plugins=plugins(), settings=settings) as gateway:
        client = Client(gateway)
        await client.initialize()
        await client.call("fs__read", {"path": "s3cr3t-value"})
        store = gateway.store
    (kept,) = (await store.documents.find("dry_run.recordings")).items
    assert "s3cr3t-value" not in json.dumps(dict(kept.value))
    assert kept.value["redacted"] is True


async def test_each_workflow_is_a_rehearsal_of_its_own():
    """Workflows within see what its steps would have changed; the next workflow begins anew."""
    server = ScriptedServer(["write_file", "read_file"])
    async with running({"fs": server}, plugins=plugins()) as gateway:
        client = Client(gateway)
        await client.initialize()
        await client.call("fs__read_file", {"path": "/a", "content": "old"})
        write = ToolCall(id="w", tool="fs:write_file", arguments={"path": "/a", "content": "new"})
        read = ToolCall(id="r", tool="fs:read_file", arguments={"path": "/a"})
        seen = []
        for tasks in ((write, Workflow(id="inner", tasks=(read,))), (read,)):
            await gateway.dispatcher.start(Workflow(id="w", tasks=tasks, dry_run=True), Session(key="k"))
            found = (await gateway.store.executions.find(ExecutionQuery(scope=EVERYONE, limit=5))).items
            last = next(record for record in found if record.target == "fs:read_file")
            seen.append(last.response["_meta"]["pml/simulated"]["source"])
    assert seen == ["journal", "example"]
    assert len(server.calls) == 1
