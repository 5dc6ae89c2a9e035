from __future__ import annotations

import asyncio
import json
import types
from importlib import metadata

import pytest

from pml_hookspecs import (
    CodeRun,
    Failure,
    MetaTool,
    Origin,
    Peer,
    Phase,
    RawObject,
    RpcError,
    Selection,
    Session,
    Status,
    ToolCall,
    hookimpl,
)
from pml_kit.mcp.protocol import HANDSHAKE_REVISIONS
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedLink, ScriptedServer, running

pytestmark = pytest.mark.anyio


class ByIntent:
    """Shows the tools of the server that the intent names, and none without one."""

    def __init__(self, settings, services):
        pass

    async def select(self, catalog, session):
        return Selection(tuple(e.id for e in catalog if e.server == session.intent))


class Code:
    """Answers with what the test says."""

    handles = frozenset({CodeRun})
    answer = None

    def __init__(self, settings, services):
        pass

    async def execute(self, task, run):
        return type(self).answer(task)


def hooks(*, tools=(), wrappers=()):
    made = types.ModuleType("made")
    made.pml_meta_tools = hookimpl(lambda services: tools)
    made.pml_wrap_executor = hookimpl(lambda services: wrappers)
    return {("hooks", "made"): made}


def run_code() -> MetaTool:
    return MetaTool(
        definition={"name": "run_code", "inputSchema": {"type": "object"}},
        task=lambda arguments: CodeRun(id="", language="x", source=""),
    )


def initialize(protocol):
    return {"protocolVersion": protocol, "capabilities": {}, "clientInfo": {"name": "tester", "version": "9"}}


async def error_of(made, method, params=None, raw=None):
    link = ScriptedLink(ScriptedServer())
    handler = made.accept(link, Peer(address="t"))
    with pytest.raises(RpcError) as caught:
        await handler.request(method, RawObject(raw or json.dumps(params or {}).encode()), Origin(1, link))
    return caught.value


# The handshake


@pytest.mark.parametrize("asked", HANDSHAKE_REVISIONS)
async def test_a_revision_that_is_known_is_spoken(asked):
    async with running({}) as made:
        assert (await Client(made).request("initialize", initialize(asked)))["protocolVersion"] == asked


@pytest.mark.parametrize("asked", ["2099-01-01", "", None, 5, ["2025-11-25"], "1.0"])
async def test_for_any_other_revision_the_newest_is_offered(asked):
    async with running({}) as made:
        assert (await Client(made).request("initialize", initialize(asked)))["protocolVersion"] == "2025-11-25"


async def test_the_handshake_says_who_we_are_and_what_we_can_do():
    async with running({}) as made:
        answer = await Client(made).initialize()
        assert answer["serverInfo"] == {"name": "pml", "title": "PML gateway", "version": metadata.version("pml-core")}
        assert answer["capabilities"] == {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
            "completions": {},
            "logging": {},
        }
        assert answer["instructions"].startswith("Gateway to several MCP servers.")


@pytest.mark.parametrize("about", [None, "text", [], {}, {"name": None}])
async def test_a_client_that_does_not_say_who_it_is_is_served_too(about):
    async with running({"fs": ScriptedServer(["read"])}) as made:
        client = Client(made)
        await client.request("initialize", {"protocolVersion": "2025-11-25", "clientInfo": about})
        assert (await client.call("fs__read"))["structuredContent"] == {}


async def test_the_record_of_a_call_names_the_client():
    async with running({"fs": ScriptedServer(["read"])}) as made:
        client = Client(made)
        await client.request("initialize", initialize("2025-11-25"))
        await client.call("fs__read")
        (record,) = made.store.executions.records.values()
        assert (record.agent, record.principal) == ("client:tester", "local")


async def test_the_listener_says_who_the_principal_is():
    async with running({"fs": ScriptedServer(["read"])}) as made:
        link = ScriptedLink(ScriptedServer())
        handler = made.accept(link, Peer(address="t", principal="alice"))
        await handler.request("tools/call", RawObject(b'{"name":"fs__read"}'), Origin(1, link))
        (record,) = made.store.executions.records.values()
        assert record.principal == "alice"


# Methods


async def test_every_simple_method_answers():
    async with running({}) as made:
        client = Client(made)
        assert await client.request("ping") == {}
        assert await client.request("tools/list") == {"tools": []}
        assert await client.request("prompts/list") == {"prompts": []}
        assert await client.request("resources/templates/list") == {"resourceTemplates": []}
        (resource,) = (await client.request("resources/list"))["resources"]
        assert (resource["uri"], resource["mimeType"]) == ("pml://status", "application/json")


@pytest.mark.parametrize("method", ["prompts/gets", "nonsense", "", "tools/", "Ping"])
async def test_an_unknown_method_is_not_found(method):
    async with running({}) as made:
        error = await error_of(made, method)
        assert (error.code, error.message) == (-32601, f"Method not found: {method}")


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b'{"name":5}',
        b'{"name":null}',
        b'{"arguments":{}}',
        b'{"name":"fs__read","arguments":[]}',
        b'{"name":"fs__read","arguments":"x"}',
        b'{"name":"fs__read","arguments":5}',
        b'{"name":"fs__read","arguments":true}',
        b'{"name":"fs__read","_meta":{"pml/dry_run":"yes"}}',
        b'{"name":"fs__read","_meta":{"pml/dry_run":1}}',
    ],
)
async def test_a_call_with_bad_params_is_refused_and_reaches_nobody(raw):
    server = ScriptedServer(["read"])
    async with running({"fs": server}) as made:
        error = await error_of(made, "tools/call", raw=raw)
        assert error.code == -32602
        assert error.message
        assert server.calls == []


@pytest.mark.parametrize("meta", [None, "x", [], {}])
async def test_meta_that_is_no_object_does_no_harm(meta):
    async with running({"fs": ScriptedServer(["read"])}) as made:
        assert (await Client(made).call("fs__read", _meta=meta))["structuredContent"] == {}


async def test_the_status_resource_tells_of_servers_plugins_and_mode(capsys):
    servers = {"fs": ScriptedServer(["read"]), "bad": ScriptedServer()}
    servers["bad"].refuse = "no such program"
    async with running(servers, plugins=hooks()) as made:
        contents = (await Client(made).request("resources/read", {"uri": "pml://status"}))["contents"]
        (content,) = contents
        assert (content["uri"], content["mimeType"]) == ("pml://status", "application/json")
        status = json.loads(content["text"])
        assert status["version"] == metadata.version("pml-core")
        assert status["mode"] == "meta_only"
        assert status["servers"] == [
            {
                "name": "bad",
                "state": "down",
                "reason": "no such program",
                "tools": 0,
                "restarts": 0,
                "description": "",
                "refused": 0,
            },
            {"name": "fs", "state": "up", "reason": "", "tools": 1, "restarts": 0, "description": "", "refused": 0},
        ]
        assert set(status["plugins"]) == {"scripted", "made"}


@pytest.mark.parametrize("params", [{}, {"uri": "pml://other"}, {"uri": 5}])
async def test_another_resource_is_not_there(params):
    async with running({}) as made:
        error = await error_of(made, "resources/read", params)
        assert error.code in (-32002, -32602)
        assert "not found" in error.message or error.message == "uri must be text"


# Hints


@pytest.mark.parametrize("dry_run", [None, False])
async def test_a_server_is_not_told_how_a_rehearsal_would_treat_what_it_does_not_know(dry_run):
    server = ScriptedServer(["read"])
    meta = {"pml/dry_run_level": "strict", "pml/intent": "to look", "example.org/trace": 7}
    async with running({"fs": server}) as made:
        await Client(made).call("fs__read", _meta=meta if dry_run is None else {**meta, "pml/dry_run": dry_run})
    ((method, told),) = server.metas
    assert (method, told) == ("tools/call", {"pml/intent": "to look", "example.org/trace": 7})


async def test_what_runs_knows_what_meta_has_for_the_gateway():
    seen = []

    class Wrapper:
        phase = Phase.AUTHORIZE

        async def __call__(self, task, run, call_next):
            seen.append(run.meta)
            return await call_next(task, run)

    meta = {"pml/dry_run_level": "strict", "progressToken": 3, "example.org/trace": 7}
    async with running({"fs": ScriptedServer(["read"])}, plugins=hooks(wrappers=[Wrapper()])) as started:
        await Client(started).call("fs__read", _meta=meta)
        await Client(started).call("fs__read")
        await started.dispatcher.start(ToolCall(id="t", tool="fs:read"), Session(key="k"))
    assert [dict(one) for one in seen] == [{"pml/dry_run_level": "strict"}, {}, {}]


async def test_a_hint_at_the_intent_in_meta_counts_for_that_request_only():
    servers = {"fs": ScriptedServer(["read"]), "git": ScriptedServer(["log"])}
    plugins = {("exposure_mode", "by_intent"): ByIntent}
    async with running(servers, plugins=plugins, tools_exposure="by_intent", intent="fs") as made:
        client = Client(made)
        assert await client.tools() == ["fs__read"]
        hinted = await client.request("tools/list", {"_meta": {"pml/intent": "git"}})
        assert [t["name"] for t in hinted["tools"]] == ["git__log"]
        assert await client.tools() == ["fs__read"]
        for meta in ({"pml/intent": ""}, {"pml/intent": 5}, "x"):
            assert [t["name"] for t in (await client.request("tools/list", {"_meta": meta}))["tools"]] == ["fs__read"]


async def test_a_calls_intent_is_the_hint_or_the_configured_one():
    async with running({"fs": ScriptedServer(["read"])}, intent="configured") as made:
        client = Client(made)
        await client.call("fs__read", _meta={"pml/intent": "to look"})
        await client.call("fs__read", _meta={"pml/intent": 5})
        assert [r.intent for r in made.store.executions.records.values()] == ["to look", "configured"]


async def test_initializing_again_keeps_the_configured_intent():
    servers = {"fs": ScriptedServer(["read"])}
    plugins = {("exposure_mode", "by_intent"): ByIntent}
    async with running(servers, plugins=plugins, tools_exposure="by_intent", intent="fs") as made:
        client = Client(made)
        await client.initialize()
        assert await client.tools() == ["fs__read"]


async def test_listing_waits_for_servers_that_were_never_seen_and_not_longer_than_configured():
    gate = asyncio.Event()

    class Slow(ScriptedServer):
        async def serve(self, method, params):
            await gate.wait()
            return await super().serve(method, params)

    plugins = {("exposure_mode", "by_intent"): ByIntent}
    options = {"plugins": plugins, "tools_exposure": "by_intent", "intent": "fs"}
    async with running({"fs": Slow(["read"])}, list_wait_s=0.02, **options) as made:
        assert await Client(made).tools() == []
        object.__setattr__(made.config.gateway, "list_wait_s", 30.0)
        listing = asyncio.ensure_future(Client(made).tools())
        await asyncio.sleep(0)
        gate.set()
        assert await listing == ["fs__read"]


# What an outcome looks like to the client


async def test_a_tasks_value_becomes_structured_content_and_indented_text():
    Code.answer = staticmethod(lambda task: outcome(task.id, {"a": 1, "é": None}))
    async with running({}, plugins={("executor", "code"): Code, **hooks(tools=[run_code()])}) as made:
        result = await Client(made).call("run_code")
        assert result == {
            "content": [{"type": "text", "text": '{\n  "a": 1,\n  "é": null\n}'}],
            "structuredContent": {"a": 1, "é": None},
        }
        Code.answer = staticmethod(lambda task: outcome(task.id, [1, 2]))
        assert await Client(made).call("run_code") == {"content": [{"type": "text", "text": "[\n  1,\n  2\n]"}]}
        Code.answer = staticmethod(lambda task: outcome(task.id, None))
        assert (await Client(made).call("run_code"))["content"][0]["text"] == "null"


@pytest.mark.parametrize(
    "value", [{"content": ["a", 1]}, {"content": []}, RawObject(b'{"content":"x"}'), RawObject(b'{"a":1}')]
)
async def test_a_tasks_value_is_never_taken_for_a_tools_result(value):
    Code.answer = staticmethod(lambda task: outcome(task.id, value))
    async with running({}, plugins={("executor", "code"): Code, **hooks(tools=[run_code()])}) as made:
        result = await Client(made).call("run_code")
        assert result["structuredContent"] == value
        assert [block["type"] for block in result["content"]] == ["text"]


@pytest.mark.parametrize("value", [{"done": 1}, RawObject(b'{"done":1}'), {"content": [], "done": 1}])
async def test_a_task_that_failed_with_an_output_says_both(value):
    failure = Failure("workflow.failed", "step b failed")
    Code.answer = staticmethod(lambda task: outcome(task.id, value, Status.ERROR, failure=failure))
    async with running({}, plugins={("executor", "code"): Code, **hooks(tools=[run_code()])}) as made:
        result = await Client(made).call("run_code")
        assert result["isError"] is True
        assert result["structuredContent"] == value


async def test_a_task_that_failed_without_output_says_why_and_how_to_tell():
    failure = Failure("code.failed", "line 3: no", retryable=True, details={"line": 3})
    Code.answer = staticmethod(lambda task: outcome(task.id, None, Status.ERROR, failure=failure))
    async with running({}, plugins={("executor", "code"): Code, **hooks(tools=[run_code()])}) as made:
        assert await Client(made).call("run_code") == {
            "content": [{"type": "text", "text": "line 3: no"}],
            "isError": True,
            "_meta": {"pml/failure": {"code": "code.failed", "retryable": True, "details": {"line": 3}}},
        }


async def test_a_result_that_a_policy_refused_never_looks_like_a_success():
    from pml_hookspecs import replace

    class Policy:
        phase = Phase.AUTHORIZE

        async def __call__(self, task, run, call_next):
            result = await call_next(task, run)
            return replace(result, status=Status.DENIED, failure=Failure("policy.denied", "not for you"))

    async with running({"fs": ScriptedServer(["read"])}, plugins=hooks(wrappers=[Policy()])) as made:
        result = await Client(made).call("fs__read")
        assert result["isError"] is True


async def test_a_servers_result_passes_with_everything_in_it():
    answer = {"content": [{"type": "x-new", "n": 1.0}], "structuredContent": {"a": None}, "_meta": {"k": 1}, "x": [1]}

    async def answers(name, arguments):
        return answer

    async with running({"fs": ScriptedServer(["read"], answers)}) as made:
        assert await Client(made).call("fs__read") == answer


async def test_a_wrappers_fault_is_told_without_its_details():
    class Broken:
        phase = Phase.AUTHORIZE

        async def __call__(self, task, run, call_next):
            raise ValueError("private")

    server = ScriptedServer(["read"])
    async with running({"fs": server}, plugins=hooks(wrappers=[Broken()])) as made:
        result = await Client(made).call("fs__read")
        assert result["_meta"]["pml/failure"]["code"] == "wrapper.fault"
        assert "private" not in json.dumps(result)
        assert server.calls == []


async def test_a_request_that_is_taken_back_cancels_the_call():
    called = asyncio.Event()

    async def never(name, arguments):
        called.set()
        await asyncio.Event().wait()

    async with running({"fs": ScriptedServer(["read"], never)}) as made:
        request = asyncio.ensure_future(Client(made).call("fs__read"))
        await called.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        (record,) = made.store.executions.records.values()
        assert record.status is Status.CANCELLED


async def test_many_clients_at_once_get_each_their_own_answers():
    async with running({"fs": ScriptedServer(["read"])}) as made:
        clients = [Client(made) for _ in range(20)]
        answers = await asyncio.gather(*(c.call("fs__read", {"n": n}) for n, c in enumerate(clients)))
        assert [a["structuredContent"]["n"] for a in answers] == list(range(20))
        assert len(made.store.executions.records) == 20
