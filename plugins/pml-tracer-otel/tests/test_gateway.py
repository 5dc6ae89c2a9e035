"""Traces through a whole gateway, from a client to a server and to a collector in this process."""

from __future__ import annotations

import pytest

from pml_hookspecs import RunOptions, Session, ToolCall, ToolId, Workflow
from pml_kit.identifiers import execution_id
from pml_testing.gateway import Client, ScriptedServer

pytestmark = pytest.mark.anyio
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"


async def greeted(gateway):
    client = Client(gateway)
    await client.initialize()
    return client


def by_name(spans):
    assert len({span.name for span in spans}) == len(spans)
    return {span.name: span for span in spans}


async def test_a_clients_trace_goes_on_through_the_gateway_to_the_server(site, receiver):
    server = ScriptedServer()
    async with site(server) as gateway:
        client = await greeted(gateway)
        meta = {"traceparent": SAMPLED, "tracestate": "rojo=00f067aa0ba902b7", "baggage": "team=blue", "x/y": [1, None]}
        await client.call("files__read_file", {"path": "a"}, _meta=meta)
    spans = by_name(receiver.spans)
    served, asked = spans["tools/call files:read_file"], spans["tools/call read_file"]
    assert len(spans) == 2
    assert (served.kind, served.trace, served.parent, served.remote) == ("SERVER", TRACE, SPAN, True)
    assert (asked.kind, asked.trace, asked.parent, asked.remote) == ("CLIENT", TRACE, served.id, False)
    assert served.state == asked.state == "rojo=00f067aa0ba902b7"
    assert server.params[0]["_meta"] == {**meta, "traceparent": f"00-{TRACE}-{asked.id}-01"}
    assert 0 < asked.took_ns <= served.took_ns
    assert not served.failed
    assert not asked.failed


async def test_spans_say_what_the_conventions_have_names_for_and_nothing_else(site, receiver):
    async with site() as gateway:
        client = await greeted(gateway)
        await client.call("files__read_file", {"path": "a"})
    spans = by_name(receiver.spans)
    served = dict(spans["tools/call files:read_file"].attributes)
    assert len(served.pop("pml.execution.id")) == 36
    assert served == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "files:read_file",
        "pml.execution.kind": "tool",
        "pml.execution.status": "ok",
        "pml.server": "files",
        "pml.exposure_mode": "meta_only",
        "pml.endpoint": "default",
        "pml.client": "test/1",
    }
    assert spans["tools/call read_file"].attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read_file",
        "pml.server": "files",
    }
    assert receiver.resource["service.name"] == "pml"
    assert {"service.version", "service.instance.id", "telemetry.sdk.name"} <= receiver.resource.keys()


async def test_without_a_client_that_traces_the_gateway_begins_the_trace(site, receiver):
    server = ScriptedServer()
    async with site(server) as gateway:
        client = await greeted(gateway)
        await client.call("files__read_file")
    spans = by_name(receiver.spans)
    served, asked = spans["tools/call files:read_file"], spans["tools/call read_file"]
    assert served.trace == served.attributes["pml.execution.id"].replace("-", "")
    assert (served.parent, served.links) == (None, [])
    # Sampled, and with a random end.
    assert server.params[0]["_meta"] == {"traceparent": f"00-{served.trace}-{asked.id}-03"}


async def test_what_runs_in_a_workflow_within_a_workflow_is_inside_it(site, receiver):
    server = ScriptedServer()
    read, write = ToolId("files:read_file"), ToolId("files:write_file")
    inner = Workflow(id="inner", tasks=(ToolCall(id="deep", tool=write, arguments={}),), depends_on=("first",))
    plan = Workflow(id="outer", tasks=(ToolCall(id="first", tool=read, arguments={}), inner))
    async with site(server) as gateway:
        outcome = await gateway.dispatcher.start(plan, Session(key="test"))
        assert outcome.status == "ok"
    spans = receiver.spans
    assert len({span.trace for span in spans}) == 1
    names = {span.id: (span.kind, span.name) for span in spans}
    tree = sorted((*names[span.id], names.get(span.parent)) for span in spans)
    outer = ("SERVER", "invoke_workflow")
    within = ("INTERNAL", "invoke_workflow")
    reads, writes = ("INTERNAL", "execute_tool files:read_file"), ("INTERNAL", "execute_tool files:write_file")
    assert tree == sorted(
        [
            (*outer, None),
            (*within, outer),
            (*reads, outer),
            (*writes, within),
            ("CLIENT", "tools/call read_file", reads),
            ("CLIENT", "tools/call write_file", writes),
        ]
    )
    told = {params["name"]: params["_meta"]["traceparent"].split("-")[2] for params in server.params}
    assert told == {span.attributes["gen_ai.tool.name"]: span.id for span in spans if span.kind == "CLIENT"}
    roots = [span.attributes for span in spans if span.name == "invoke_workflow"]
    assert {said["gen_ai.operation.name"] for said in roots} == {"invoke_workflow"}
    assert {said["pml.execution.kind"] for said in roots} == {"workflow"}


async def test_a_workflow_asked_for_by_a_client_is_one_trace(site, receiver):
    async with site() as gateway:
        client = await greeted(gateway)
        tasks = [{"id": "a", "tool": "files:read_file", "arguments": {}}]
        answer = await client.call("execute_workflow", {"workflow": {"tasks": tasks}})
        assert not answer.get("isError")
    assert sorted(span.name for span in receiver.spans) == [
        "execute_tool files:read_file",
        "invoke_workflow",
        "tools/call read_file",
    ]
    assert len({span.trace for span in receiver.spans}) == 1


async def test_a_workflow_goes_on_with_its_clients_trace(site, receiver):
    server = ScriptedServer()
    async with site(server) as gateway:
        client = await greeted(gateway)
        tasks = [{"id": "a", "tool": "files:read_file", "arguments": {}}]
        meta = {"traceparent": SAMPLED, "tracestate": "rojo=1", "baggage": "team=blue"}
        assert not (await client.call("execute_workflow", {"workflow": {"tasks": tasks}}, _meta=meta)).get("isError")
    assert {span.trace for span in receiver.spans} == {TRACE}
    (plan,) = [span for span in receiver.spans if span.name == "invoke_workflow"]
    assert (plan.parent, plan.remote) == (SPAN, True)
    told = server.params[0]["_meta"]
    assert told["traceparent"].startswith(f"00-{TRACE}-")
    assert (told["tracestate"], told["baggage"]) == ("rojo=1", "team=blue")


@pytest.mark.parametrize("meta", [{"traceparent": SAMPLED}, {}])
async def test_what_another_gateway_goes_on_with_is_the_same_trace(site, receiver, meta):
    read = ToolId("files:read_file")
    plan = Workflow(id="plan", tasks=(ToolCall(id="first", tool=read, arguments={}),))
    # As a gateway keeps it with what runs in the background, and another takes it up.
    options = RunOptions(id=execution_id(), meta=meta)
    for _ in range(2):
        async with site() as gateway:
            assert (await gateway.dispatcher.start(plan, Session(key="test"), options)).status == "ok"
    spans = receiver.spans
    assert len([span for span in spans if span.name == "invoke_workflow"]) == 2
    assert {span.trace for span in spans} == {TRACE if meta else options.id.replace("-", "")}


async def test_a_trace_that_the_client_does_not_keep_is_not_kept_here_and_counted_all_the_same(site, receiver):
    server = ScriptedServer()
    async with site(server) as gateway:
        client = await greeted(gateway)
        await client.call("files__read_file", _meta={"traceparent": NOT_SAMPLED})
    assert receiver.spans == []
    flags = server.params[0]["_meta"]["traceparent"]
    assert (flags[:36], flags[-2:]) == (f"00-{TRACE}-", "00")
    assert [point.value for point in receiver.metrics()["pml.executions"]] == [1]


async def test_a_part_of_the_traces_is_kept_whole(site, receiver):
    async with site(sample_ratio=0.5) as gateway:
        client = await greeted(gateway)
        for _ in range(200):
            await client.call("files__read_file")
    spans = receiver.spans
    traces = {span.trace for span in spans}
    # All outside is one in a hundred million.
    assert 60 <= len(traces) <= 140
    assert len(spans) == 2 * len(traces)
    assert sum(point.value for point in receiver.metrics()["pml.executions"]) == 200


async def test_a_client_that_is_not_followed_is_referred_to(site, receiver):
    server = ScriptedServer()
    async with site(server, follow_clients=False) as gateway:
        client = await greeted(gateway)
        meta = {"traceparent": NOT_SAMPLED, "tracestate": "a=b", "baggage": "team=blue"}
        await client.call("files__read_file", _meta=meta)
    served = by_name(receiver.spans)["tools/call files:read_file"]
    assert (served.trace != TRACE, served.parent, served.links) == (True, None, [(TRACE, SPAN)])
    assert list(server.params[0]["_meta"]) == ["traceparent"]
    assert TRACE not in server.params[0]["_meta"]["traceparent"]


async def test_servers_are_not_told_where_that_is_switched_off(site, receiver):
    server = ScriptedServer()
    async with site(server, propagate=False) as gateway:
        client = await greeted(gateway)
        await client.call("files__read_file", _meta={"traceparent": SAMPLED})
        await client.call("files__write_file")
    # What the client sends to the server itself is not for the gateway to change.
    assert [params.get("_meta") for params in server.params] == [{"traceparent": SAMPLED}, None]
    assert len(receiver.spans) == 4


@pytest.mark.parametrize("meta", [{"traceparent": "no"}, {"traceparent": 7}, {"traceparent": None}, {"tracestate": 1}])
async def test_what_is_no_trace_is_not_followed(site, receiver, meta):
    server = ScriptedServer()
    async with site(server) as gateway:
        client = await greeted(gateway)
        await client.call("files__read_file", _meta=meta)
    served = by_name(receiver.spans)["tools/call files:read_file"]
    assert served.parent is None
    assert server.params[0]["_meta"]["traceparent"].startswith(f"00-{served.trace}-")
    assert "tracestate" not in server.params[0]["_meta"]
