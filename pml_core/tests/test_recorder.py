from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_core.kernel.execution_run import ExecutionRun, Terms
from pml_core.kernel.recorder import HEAD_BYTES, Recorder, kind_and_target, request_of
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    Failure,
    RawObject,
    RunOptions,
    Session,
    Status,
    ToolCall,
    Workflow,
    encode,
)
from pml_kit.system.redaction import MASK, Redactor
from pml_settings.config import ServerSettings
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedServer, configuration, running

SECRET = "hunter2-hunter2"
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def record_of(task, result=None, *, limit=65536, secrets=(), status="running", intent=""):
    redactor, executions = Redactor(), MemoryStore(remembered=10).executions
    redactor.learn(secrets)
    recorder = Recorder(executions, redactor, limit, None)
    session = Session(key="k", principal="alice", client="tester/1")
    terms = Terms(session, RunOptions(intent=intent, trigger="mcp"), dry_run=False, client=None)
    run = ExecutionRun(None, None, task, terms)
    if result is None:
        recorder.started(task, run)
    else:
        executions.record(recorder.row(task, run, result.status, result))
    (record,) = executions.records.values()
    return record


def test_tasks_are_named_by_kind_and_target():
    tasks = {
        ("tool", "fs:read"): ToolCall(id="t", tool="fs:read"),
        ("code", "python"): CodeRun(id="t", language="python", source="1"),
        ("capability", "c-1"): CapabilityRun(id="t", capability_id="c-1"),
        ("workflow", ""): Workflow(id="t", tasks=()),
    }
    assert {kind_and_target(task): task for task in tasks.values()} == tasks


def test_the_request_of_each_kind_says_what_was_asked():
    code = CodeRun(id="c", language="python", source="1+1", inputs={"x": 1}, depends_on=("a",))
    assert request_of(code) == {"language": "python", "source": "1+1", "inputs": {"x": 1}}
    assert request_of(CapabilityRun(id="c", capability_id="k", inputs={"x": 1})) == {"x": 1}
    (node,) = request_of(Workflow(id="w", tasks=(code,)))["tasks"]
    assert node == {"id": "c", "type": "code", "target": "python", "depends_on": ["a"], "request": request_of(code)}


def test_what_has_only_begun_has_no_end():
    record = record_of(Workflow(id="w", tasks=()))
    assert (record.status, record.duration_ms, record.response, record.failure) == ("running", None, None, None)
    assert (record.principal, record.agent) == ("alice", "client:tester")


@given(values)
def test_a_response_is_kept_as_it_is_when_it_is_short_enough(value):
    record = record_of(CodeRun(id="c", language="x", source=""), outcome("c", value))
    assert json.loads(encode(record.response)) == json.loads(json.dumps(value))


@given(values, st.integers(256, 400))
def test_what_is_too_long_is_cut_and_says_so(value, limit):
    given_value = {"v": value, "pad": "é" * 150}
    record = record_of(CodeRun(id="c", language="x", source=""), outcome("c", given_value), limit=limit)
    whole = encode(given_value)
    if len(whole) <= limit:
        assert record.response == json.loads(whole)
    else:
        assert record.response["truncated"] is True
        assert record.response["size_bytes"] == len(whole)
        assert whole.decode().startswith(record.response["head"].rstrip("\ufffd"))


def test_a_long_request_is_cut_too_and_only_its_head_is_kept():
    record = record_of(ToolCall(id="t", tool="fs:read", arguments={"text": "x" * 5000}), limit=1024)
    assert set(record.request) == {"truncated", "size_bytes", "head"}
    assert len(record.request["head"]) == HEAD_BYTES


def test_secrets_are_taken_out_of_request_response_and_intent():
    task = ToolCall(id="t", tool="fs:read", arguments={"a": f"x {SECRET}", SECRET: 1})
    record = record_of(task, outcome("t", {"out": [SECRET]}), secrets=[SECRET], intent=f"use {SECRET}")
    assert SECRET not in record.request.raw.decode() + encode(record.response).decode() + record.intent
    assert record.request == {"a": f"x {MASK}", MASK: 1}
    assert record.response == {"out": [MASK]}


def test_secrets_are_taken_out_before_a_long_response_is_cut():
    edge = "x" * (HEAD_BYTES - 10) + SECRET + "y" * 5000
    record = record_of(ToolCall(id="t", tool="fs:read"), outcome("t", {"v": edge}), secrets=[SECRET], limit=1024)
    assert "hunter2" not in record.response["head"]


def test_secrets_are_taken_out_of_the_failure_too():
    failure = Failure("tool.failed", f"cannot log in with {SECRET}", details={"rpc": {"message": SECRET, "code": 1}})
    record = record_of(
        ToolCall(id="t", tool="fs:read"), outcome("t", None, Status.ERROR, failure=failure), secrets=[SECRET]
    )
    assert SECRET not in repr(record.failure)
    assert record.failure.code == "tool.failed"


def test_a_failure_is_not_kept_longer_than_anything_else():
    failure = Failure("tool.failed", "x" * 100_000, details={"data": "y" * 100_000})
    record = record_of(ToolCall(id="t", tool="fs:read"), outcome("t", None, Status.ERROR, failure=failure), limit=1024)
    assert len(record.failure.message) < 10_000
    assert len(encode(record.failure.details)) < 10_000


@pytest.mark.parametrize("secret", ["123456", "100000"])
def test_a_secret_that_is_a_number_never_makes_a_record_that_is_not_json(secret):
    task = ToolCall(id="t", tool="fs:read", arguments=RawObject(b'{"limit":1000001,"pin":123456}'))
    record = record_of(task, outcome("t", [100000, 123456.5]), secrets=[secret])
    assert isinstance(json.loads(record.request.raw), dict)
    assert isinstance(record.response, list)


@pytest.mark.anyio
async def test_a_servers_secret_is_in_no_record_of_its_calls(monkeypatch):
    monkeypatch.setenv("REAL", SECRET)

    async def leaks(name, arguments):
        return {"content": [{"type": "text", "text": f"wrong password {SECRET}"}], "isError": True}

    servers = {"fs": ScriptedServer(["read"], leaks)}
    from pml_core.gateway import Gateway
    from pml_core.plugins import registry
    from pml_testing.gateway import ScriptedTransport

    config = configuration([])
    table = {"fs": ServerSettings(address="scripted:fs", env={"API_TOKEN": "${REAL}"})}
    from pml_hookspecs import replace

    records = [registry.provide("pml.transport", "scripted", ScriptedTransport(servers))]
    async with Gateway(replace(config, servers=table), records=records) as made:
        await made.servers_tried()
        await Client(made).call("fs__read", {"password": SECRET})
        kept = repr([(r.request, r.response, r.failure) for r in made.store.executions.records.values()])
        assert SECRET not in kept
        assert MASK in kept


@pytest.mark.anyio
async def test_the_limit_is_the_configured_one():
    async with running({"fs": ScriptedServer(["read"])}, record_bytes=256) as made:
        await Client(made).call("fs__read", {"text": "x" * 300})
        (record,) = made.store.executions.records.values()
        assert record.request["truncated"] is True
        assert record.response["truncated"] is True
