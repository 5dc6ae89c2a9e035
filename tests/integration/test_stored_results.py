"""Stored results that go into arguments as ``{{result:ID.path}}``, past whoever asks for them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from pml_code_mode import plugin as code_mode
from pml_dry_run import plugin as dry_run
from pml_executor_dag import Dag
from pml_executor_dag import tool as workflow_tool
from pml_hookspecs import ExecutionQuery, Scope
from pml_preflight import plugin as preflight
from pml_results import plugin as results
from pml_results import storage
from pml_results.definition import META
from pml_search_tools import plugin as search_tools
from pml_testing.dispatching import Code
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
PLUGINS = {
    ("executor", "dag"): Dag,
    ("hooks", "workflow_tool"): workflow_tool,
    ("hooks", "results"): results,
    ("hooks", "search_tools"): search_tools,
    ("hooks", "dry_run"): dry_run,
    ("hooks", "preflight"): preflight,
}
ROWS = [{"id": i, "name": f"name {i}"} for i in range(3000)]
TAKES = {"type": "object", "properties": {"name": {"type": "string"}, "rows": {"type": "array"}}}


class Past(datetime):
    """What is stored now has expired."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(UTC) - timedelta(days=3)


async def answers(name, arguments):
    if name == "write":
        return {"content": [{"type": "text", "text": "written"}]}
    text = json.dumps(ROWS) if name == "rows" else "a line\n" * 3000
    return {"content": [{"type": "text", "text": text}]}


def gateway(server):
    tables = {"results": {"unbounded_modes": (), "budget_tokens": 500, "servers": {"pml": 0}}}
    return running({"db": server}, plugins=PLUGINS, tables=tables)


@pytest.fixture
def server():
    return ScriptedServer(["rows", "lines", {"name": "write", "inputSchema": TAKES}], answers)


async def stored(client, tool="db__rows"):
    return (await client.call(tool))["_meta"][META]["id"]


def text_of(answer):
    return answer["content"][0]["text"]


def writes(*values, **more):
    tasks = [{"id": f"w{i}", "tool": "db:write", "arguments": value} for i, value in enumerate(values)]
    return {"workflow": {"tasks": tasks, "return": "all"}, **more}


def written(server):
    return [dict(arguments) for name, arguments in server.calls if name == "write"]


async def test_a_part_of_a_stored_result_goes_into_a_task_and_not_to_the_client(server):
    async with gateway(server) as started:
        client = Client(started, modern=True)
        id, text = await stored(client), await stored(client, "db__lines")
        plan = writes(
            {"rows": f"{{{{result:{id}}}}}"},
            {"name": f"{{{{result:{id}[2999].name}}}}"},
            {"name": f"No. {{{{ result:{id}[7].id }}}}"},
            {"name": f"{{{{result:{text}}}}}"},
            {"name": rf"\{{{{result:{id}}}}}"},
        )
        answer = await client.call("execute_workflow", plan)
        assert value_of(answer)["status"] == "completed"
        assert "name 2999" not in json.dumps(answer)
        names = ["name 2999", "No. 7", "a line\n" * 3000, f"{{{{result:{id}}}}}"]
        given = [{"rows": ROWS}, *({"name": name} for name in names)]
        assert sorted(map(json.dumps, written(server))) == sorted(map(json.dumps, given))
        found = await started.store.executions.find(ExecutionQuery(scope=Scope(principals=None)))
        (record,) = [record for record in found.items if record.kind == "workflow"]
        assert f"{{{{result:{id}[2999].name}}}}" in json.dumps(record.request.value)


async def test_for_each_runs_over_a_stored_result(server):
    async with gateway(server) as started:
        client = Client(started, modern=True)
        id = await stored(client)
        task = {"id": "w", "tool": "db:write", "for_each": f"{{{{result:{id}}}}}", "max_items": 1000}
        refused = await client.call("execute_workflow", {"workflow": {"tasks": [task]}})
        assert "for_each has 3000 items" in json.dumps(refused)
        task |= {"for_each": [f"{{{{result:{id}[4].name}}}}"], "arguments": {"name": "{{item}}"}}
        assert value_of(await client.call("execute_workflow", {"workflow": {"tasks": [task]}}))["status"] == "completed"
        assert written(server) == [{"name": "name 4"}]


async def test_what_undoes_a_task_may_have_it(server):
    async with gateway(server) as started:
        client = Client(started, modern=True)
        id = await stored(client)
        undo = {"tool": "db:write", "arguments": {"name": f"{{{{result:{id}[1].name}}}}"}}
        tasks = [
            {"id": "a", "tool": "db:write", "arguments": {"name": "x"}, "compensate": undo},
            {"id": "b", "tool": "db:write", "arguments": {"name": "{{a.none}}"}},
        ]
        await client.call("execute_workflow", {"workflow": {"tasks": tasks}})
        assert written(server) == [{"name": "x"}, {"name": "name 1"}]


@pytest.mark.parametrize("case", ["unknown", "another's", "expired", "no such place", "a path into text"])
async def test_what_is_not_there_is_said_before_anything_runs(server, case, monkeypatch):
    async with gateway(server) as started:
        client, other = Client(started, modern=True, principal="ada"), Client(started, modern=True, principal="bob")
        if case == "expired":
            monkeypatch.setattr(storage, "datetime", Past)
        id = await stored(other if case == "another's" else client, "db__lines" if "text" in case else "db__rows")
        id, path = "r_nothing" if case == "unknown" else id, "[9999]" if "place" in case else "[0]" * ("text" in case)
        plan = writes({"name": "first"}, {"name": f"{{{{result:{id}{path}}}}}"})
        refused = text_of(await client.call("execute_workflow", plan))
        assert f"tasks[1]: {{{{result:{id}{path}}}}} finds nothing" in refused
        assert written(server) == []
        if case in ("unknown", "another's", "expired"):
            read = text_of(await client.call("read_result", {"id": id}))
            assert read == f"there is no stored result {id!r} (any more); call the tool again"
            assert read in refused


async def test_a_rehearsal_knows_it_and_shows_the_reference(server):
    async with gateway(server) as started:
        client = Client(started, modern=True)
        id = await stored(client)
        plan = writes({"name": f"{{{{result:{id}[5].name}}}}"}, dry_run=True)
        rehearsed = value_of(await client.call("execute_workflow", plan))
        assert (rehearsed["status"], rehearsed["preflight"]["ok"]) == ("simulated", True), rehearsed
        assert rehearsed["tasks"][0]["arguments"] == {"name": f"{{{{result:{id}[5].name}}}}"}
        assert "name 5" not in json.dumps(rehearsed)
        digest = rehearsed["plan_digest"]
        agreed = {"workflow": plan["workflow"], "plan_digest": digest}
        changed = writes({"name": f"{{{{result:{id}[6].name}}}}"}, plan_digest=digest)
        assert "the plan is not what was rehearsed" in json.dumps(await client.call("execute_workflow", changed))
        assert value_of(await client.call("execute_workflow", agreed))["status"] == "completed"
        assert written(server) == [{"name": "name 5"}]


async def test_a_pre_flight_tells_what_does_not_fit_or_is_not_there(server):
    async with gateway(server) as started:
        client = Client(started, modern=True)
        id = await stored(client)
        plan = writes({"name": f"{{{{result:{id}}}}}"}, {"rows": "{{result:r_nothing}}"}, dry_run=True)
        told = value_of(await client.call("execute_workflow", plan))["preflight"]
        found = {error["code"]: error for error in told["errors"]}
        assert (found["reference.type"]["task"], found["reference.missing"]["task"]) == ("w0", "w1"), told
        assert "there is no stored result 'r_nothing'" in found["reference.missing"]["message"]


async def test_without_a_plugin_that_stores_results_there_are_none(server):
    without = {key: plugin for key, plugin in PLUGINS.items() if key[1] != "results"}
    async with running({"db": server}, plugins=without) as started:
        client = Client(started, modern=True)
        refused = text_of(await client.call("execute_workflow", writes({"name": "{{result:r_x}}"})))
        assert "{{result:r_x}} finds nothing: this gateway stores no results" in refused


@pytest.mark.parametrize("select", [None, "length(@)"])
async def test_call_tool_takes_stored_results(server, select):
    async with gateway(server) as started:
        client = Client(started, modern=True)
        id, given = await stored(client), r"\{{a}} {{b.c}} \\{{ $call.x }} {{"
        arguments = {
            "name": f"{{{{result:{id}[3].name}}}} \\{{{{result:x}}}}{given}",
            "rows": [given, f"{{{{result:{id}[1]}}}}"],
        }
        asked = {"name": "db:write", "arguments": arguments} | ({"select": select} if select else {})
        told = value_of(await client.call("call_tool", asked))
        assert (told["status"], told["result"]) == ("completed", len("written") if select else "written"), told
        assert written(server) == [{"name": f"name 3 {{{{result:x}}}}{given}", "rows": [given, ROWS[1]]}]


async def test_call_tool_without_stored_results_is_a_call(server):
    async with gateway(server) as started:
        client = Client(started, modern=True)
        arguments = {"name": "{{result}} {{a}} \\{{", "rows": []}
        assert text_of(await client.call("call_tool", {"name": "db:write", "arguments": arguments})) == "written"
        assert written(server) == [arguments]
        direct = {"name": "{{result:r_x}}"}
        assert text_of(await client.call("db__write", direct)) == "written"
        assert written(server)[-1] == direct


async def test_call_tool_with_a_result_that_is_not_there_calls_nothing(server):
    async with gateway(server) as started:
        client = Client(started, modern=True)
        asked = {"name": "db:write", "arguments": {"name": "{{result:r_nothing}}"}}
        answer = await client.call("call_tool", asked)
        assert answer["isError"]
        assert "there is no stored result 'r_nothing'" in text_of(answer)
        assert written(server) == []
        rehearsed = await client.call("call_tool", {**asked, "dry_run": True})
        assert "there is no stored result 'r_nothing'" in json.dumps(rehearsed)


class Inputs(Code):
    """Answers with what the code was given."""

    async def execute(self, task, run):
        return outcome(task.id, dict(task.inputs))


async def test_code_takes_stored_results(server):
    plugins = {**PLUGINS, ("executor", "code"): Inputs, ("hooks", "code_mode"): code_mode}
    tables = {"results": {"unbounded_modes": (), "budget_tokens": 500, "servers": {"pml": 0}}}
    async with running({"db": server}, plugins=plugins, tables=tables) as started:
        client = Client(started, modern=True)
        id = await stored(client)
        asked = {"code": "return inputs", "inputs": {"name": f"{{{{result:{id}[9].name}}}}", "other": "{{x}}"}}
        told = value_of(await client.call("run_code", asked))
        assert told["result"] == {"name": "name 9", "other": "{{x}}"}
