"""What spans and metrics say of what went on in a whole gateway, and what they keep to themselves."""

from __future__ import annotations

import asyncio

import pytest

from pml_hookspecs import MetaTool, Phase, RpcError, Session, Status, ToolCall, ToolId, hookimpl
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedServer, error_of
from pml_tracer_otel import plugin
from pml_tracer_otel.active_tracers import tracer_of

pytestmark = pytest.mark.anyio
SAMPLED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def greeted(gateway):
    client = Client(gateway)
    await client.initialize()
    return client


def by_name(spans):
    assert len({span.name for span in spans}) == len(spans)
    return {span.name: span for span in spans}


async def test_a_tool_that_fails_is_a_tool_error(site, receiver):
    server = ScriptedServer()
    server.script = [{"content": [{"type": "text", "text": "no such file"}], "isError": True}]
    async with site(server) as gateway:
        client = await greeted(gateway)
        await client.call("files__read_file")
    for span in receiver.spans:
        assert (span.failed, span.attributes["error.type"]) == (True, "tool_error")
    assert by_name(receiver.spans)["tools/call files:read_file"].attributes["pml.failure.code"] == "tool.failed"
    (errors,) = receiver.metrics()["pml.errors"]
    assert (errors.value, errors.attributes["error.type"]) == (1, "tool_error")


async def test_an_error_of_the_protocol_is_its_code(site, receiver):
    server = ScriptedServer()
    server.script = [RpcError(-32042, "open the address first")]
    async with site(server) as gateway:
        client = await greeted(gateway)
        assert (await error_of(client.call("files__read_file"))).code == -32042
    spans = by_name(receiver.spans)
    assert spans["tools/call read_file"].attributes["rpc.response.status_code"] == "-32042"
    assert {span.attributes["error.type"] for span in spans.values()} == {"-32042"}


async def test_a_tool_that_does_not_exist_names_neither_a_span_nor_a_series(site, receiver):
    async with site() as gateway:
        client = await greeted(gateway)
        await error_of(client.call("made_up_by_the_client"))
    (span,) = receiver.spans
    assert (span.name, span.attributes["error.type"]) == ("tools/call", "tool.unknown")
    assert span.attributes["gen_ai.tool.name"] == "made_up_by_the_client"
    assert "made_up" not in str(receiver.metric_requests)


async def test_a_call_that_is_taken_back_ends_its_spans(site, receiver):
    asked = asyncio.Event()

    async def never(name, arguments):
        asked.set()
        await asyncio.Event().wait()

    async with site(ScriptedServer(answer=never)) as gateway:
        client = await greeted(gateway)
        call = asyncio.ensure_future(client.call("files__read_file"))
        await asked.wait()
        tracer = tracer_of(gateway.assembly.services("otel"))
        assert {
            point.value for m in tracer.measures.now() if m.name == "pml.executions.active" for point in m.points
        } == {1}
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await gateway.dispatcher.start(ToolCall(id="x", tool=ToolId("none:such")), Session(key="test"))
        assert (tracer._open, tracer._running) == ({}, {})
    spans = {span.kind: span for span in receiver.spans if "none" not in str(span.attributes)}
    assert spans["SERVER"].attributes["pml.execution.status"] == "cancelled"
    assert spans["CLIENT"].attributes["error.type"] == "cancelled"
    assert receiver.metrics()["pml.executions.active"][0].value == 0


SECRET = "s3cr3t-of-the-collector"


async def test_arguments_are_exported_only_when_asked_for_and_without_secrets(receiver, site):
    arguments = {"path": "/home/alice", "key": SECRET, "text": "ä" * 40}
    for table in ({}, {"arguments": True, "arguments_bytes": 70, "headers": {"authorization": SECRET}}):
        async with site(**table) as gateway:
            client = await greeted(gateway)
            await client.call("files__read_file", arguments)
    first, second = (s for s in receiver.spans if s.kind == "SERVER")
    assert "gen_ai.tool.call.arguments" not in first.attributes
    assert b"alice" not in receiver.raw[0]
    said = second.attributes["gen_ai.tool.call.arguments"]
    assert said.startswith('{"path":"/home/alice","key":"**********","text":"ä')
    assert said.endswith("ä…")
    assert not any(SECRET.encode() in raw for raw in receiver.raw[1:])
    assert receiver.headers[-1]["authorization"] == SECRET


async def test_who_asked_is_exported_only_when_asked_for(receiver, site):
    for table in ({}, {"users": True}):
        async with site(**table) as gateway:
            client = Client(gateway, principal="alice@example.com")
            await client.initialize()
            await client.call("files__read_file")
    first, second = (s for s in receiver.spans if s.kind == "SERVER")
    assert "user.id" not in first.attributes
    assert second.attributes["user.id"] == "alice@example.com"


async def test_a_rehearsal_calls_no_server_and_says_so(receiver, site):
    class Rehearse:
        phase = Phase.SUBSTITUTE

        async def __call__(self, task, run, call_next):
            if not run.dry_run:
                return await call_next(task, run)
            return outcome(task.id, {"content": []}, Status.SIMULATED)

    class Hooks:
        @hookimpl
        def pml_wrap_executor(self, services):
            return [Rehearse()]

    async with site(plugins={("hooks", "rehearse"): Hooks()}) as gateway:
        client = await greeted(gateway)
        await client.call("files__read_file", _meta={"pml/dry_run": True})
    (span,) = receiver.spans
    assert (span.attributes["pml.dry_run"], span.attributes["pml.execution.status"]) == (True, "simulated")
    assert not span.failed
    assert receiver.metrics()["pml.executions"][0].attributes["pml.dry_run"] == "true"


async def test_what_a_plugin_publishes_is_not_called_as_a_server(receiver, site):
    class Hooks:
        @hookimpl
        def pml_meta_tools(self, services):
            async def call(arguments, run):
                return {}

            definition = {"name": "learned", "inputSchema": {"type": "object"}}
            services.publish("skills", [MetaTool(definition=definition, call=call)])
            return []

    async with site(plugins={("hooks", "skills"): Hooks()}) as gateway:
        client = await greeted(gateway)
        await client.call("skills__learned")
    assert [(span.kind, span.name) for span in receiver.spans] == [("SERVER", "tools/call skills:learned")]


async def test_metrics_count_calls_errors_and_durations(receiver, site):
    server = ScriptedServer()
    async with site(server) as gateway:
        client = await greeted(gateway)
        for _ in range(3):
            await client.call("files__read_file")
        server.script = [{"content": [], "isError": True}]
        await client.call("files__write_file")
    metrics = receiver.metrics()
    served = {p.attributes["gen_ai.tool.name"]: p for p in metrics["mcp.server.operation.duration"]}
    assert served["files:read_file"].attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "files:read_file",
        "mcp.protocol.version": "2025-11-25",
        "pml.server": "files",
        "pml.exposure_mode": "meta_only",
    }
    assert (served["files:read_file"].count, served["files:read_file"].unit) == (3, "s")
    assert served["files:read_file"].bounds[:3] == [0.01, 0.02, 0.05]
    assert sum(served["files:read_file"].buckets) == 3
    assert served["files:write_file"].attributes["error.type"] == "tool_error"
    asked = {(p.attributes["gen_ai.tool.name"], p.attributes.get("error.type")): p.count
             for p in metrics["mcp.client.operation.duration"]}  # fmt: skip
    assert asked == {("read_file", None): 3, ("write_file", "tool_error"): 1}
    ended = {(p.attributes["gen_ai.tool.name"], p.attributes["pml.execution.status"]): p.value
             for p in metrics["pml.executions"]}  # fmt: skip
    assert ended == {("files:read_file", "ok"): 3, ("files:write_file", "error"): 1}
    assert [p.count for p in metrics["pml.execution.duration"]] == [3, 1]
    assert [p.value for p in metrics["otel.sdk.exporter.span.exported"]] == [8]


async def test_where_it_is_not_among_the_tracers_it_does_nothing(receiver, site):
    server = ScriptedServer()
    async with site(server, tracers=()) as gateway:
        assert "otel" not in {w.plugin for w in gateway.wrappers}
        assert list(plugin.pml_routes(gateway.assembly.services("otel"))) == []
        client = await greeted(gateway)
        await client.call("files__read_file")
    assert "_meta" not in server.params[0]
    assert receiver.raw == []


async def test_two_gateways_in_one_process_do_not_mix(new_receiver, site):
    one, two = new_receiver(), new_receiver()
    async with site(endpoint=one.endpoint) as first, site(endpoint=two.endpoint) as second:
        await (await greeted(first)).call("files__read_file")
        await (await greeted(second)).call("files__write_file")
    assert {span.name for span in one.spans} == {"tools/call files:read_file", "tools/call read_file"}
    assert {span.name for span in two.spans} == {"tools/call files:write_file", "tools/call write_file"}


async def test_switched_off_by_the_standard_variable(receiver, site, monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    async with site() as gateway:
        assert "otel" not in {w.plugin for w in gateway.wrappers}
        await (await greeted(gateway)).call("files__read_file")
    assert receiver.raw == []


async def test_metrics_alone_leave_traces_to_those_who_keep_them(receiver, site):
    server = ScriptedServer()
    async with site(server, traces=False) as gateway:
        client = await greeted(gateway)
        await client.call("files__read_file", _meta={"traceparent": SAMPLED})
    assert server.params[0]["_meta"] == {"traceparent": SAMPLED}
    assert receiver.spans == []
    assert receiver.metrics()["mcp.client.operation.duration"][0].count == 1


async def test_over_grpc(grpc_receiver, site):
    headers = {"X-Key": "k1"}
    async with site(endpoint=grpc_receiver.endpoint, protocol="grpc", headers=headers) as gateway:
        client = await greeted(gateway)
        await client.call("files__read_file", _meta={"traceparent": SAMPLED})
    assert {span.trace for span in grpc_receiver.spans} == {SAMPLED[3:35]}
    assert len(grpc_receiver.spans) == 2
    assert grpc_receiver.headers[0]["x-key"] == "k1"
    assert grpc_receiver.metrics()["pml.executions"][0].value == 1


async def test_a_tool_that_is_not_listed_names_neither_a_span_nor_a_series(site, receiver):
    async with site() as gateway:
        client = await greeted(gateway)
        await client.call("files__made_up_by_the_client")
    assert "made_up" not in " ".join(span.name for span in receiver.spans)
    assert "made_up" not in str(receiver.metric_requests)
