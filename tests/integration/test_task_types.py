"""A type of tasks, and a language, that a plugin brings: in plans as soon as its executor says that it runs them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

import pml_access.filters
import pml_code_mode.plugin
import pml_dry_run.plugin
import pml_executor_dag.tool
from pml_executor_dag import Dag
from pml_hookspecs import CodeRun, ExecutionQuery, Outcome, PluginTask, Scope, Session, Status
from pml_kit.plain import kind_of, task_from, to_plain
from pml_kit.shapes import class_problem
from pml_testing.fakes import FakeRun, outcome
from pml_testing.gateway import Client, ScriptedServer, running, value_of

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


class Sql:
    """One class, and nothing else: it runs queries as tasks, and as code in their language."""

    handles = frozenset({CodeRun, PluginTask})
    languages = frozenset({"sql"})
    types = frozenset({"sql"})

    def __init__(self, _settings, _services):
        self.asked = []
        Sql.last = self

    async def execute(self, task, _run):
        query = task.source if isinstance(task, CodeRun) else task.inputs["query"]
        self.asked.append((type(task).__name__, query))
        now = datetime.now(UTC)
        return Outcome(task_id=task.id, status=Status.OK, started_at=now, duration_ms=0, output={"rows": ROWS})


PLUGINS = {
    ("executor", "dag"): Dag,
    ("hooks", "workflow_tool"): pml_executor_dag.tool,
    ("hooks", "run_code"): pml_code_mode.plugin,
    ("hooks", "dry_run"): pml_dry_run.plugin,
}
TASKS = [
    {"id": "q", "type": "sql", "inputs": {"query": "SELECT * FROM t"}},
    {"id": "r", "tool": "fs:read", "arguments": {"path": "{{q.rows[1].name}}"}},
    {"id": "n", "type": "sql", "inputs": {"query": "SELECT {{q.rows[0].id}}"}},
]


async def answered(tool, arguments, *, sql=True):
    """What a client is told, what reached the server, and what was recorded."""
    server = ScriptedServer(["read"])
    more = {("executor", "sql"): Sql} if sql else {}
    async with running({"fs": server}, plugins={**PLUGINS, **more}) as gateway:
        client = Client(gateway)
        await client.initialize()
        told = await client.call(tool, arguments)
        page = await gateway.store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=100))
    return told, server.calls, sorted(page.items, key=lambda one: one.id)


@pytest.mark.anyio
async def test_a_plugins_type_runs_in_a_plan_beside_tools_and_references_reach_it():
    told, calls, records = await answered("execute_workflow", {"workflow": {"tasks": TASKS, "return": "all"}})
    assert value_of(told)["status"] == "completed", told
    assert Sql.last.asked == [("PluginTask", "SELECT * FROM t"), ("PluginTask", "SELECT 1")]
    assert calls == [("read", {"path": "b"})]
    assert sorted(one.kind for one in records) == ["sql", "sql", "tool", "workflow"]
    (plan,) = (one for one in records if one.kind == "workflow")
    assert {node["type"] for node in plan.request["tasks"]} == {"sql", "tool"}


@pytest.mark.anyio
async def test_a_rehearsal_runs_none_of_it_and_says_so():
    told, calls, _ = await answered("execute_workflow", {"workflow": {"tasks": TASKS}, "dry_run": True})
    report = value_of(told)
    assert (Sql.last.asked, calls) == ([], [])
    query = next(one for one in report["tasks"] if one["id"] == "q")
    assert (query["type"], query["status"]) == ("sql", "simulated")
    assert "sql task" in query["result"]


@pytest.mark.anyio
async def test_a_type_that_nobody_runs_is_a_mistake_that_names_those_there_are():
    tasks = [{"id": "q", "type": "sqll", "inputs": {}}]
    for there in (True, False):
        told, *_ = await answered("execute_workflow", {"workflow": {"tasks": tasks}}, sql=there)
        text = told["content"][0]["text"]
        assert told["isError"]
        assert "sqll" in text
        assert ("'sql'" in text.replace('"', "'")) is there


@pytest.mark.anyio
async def test_a_plugins_language_runs_in_run_code_and_in_plans():
    told, *_ = await answered("run_code", {"code": "SELECT 1", "language": "sql"})
    assert value_of(told) == {"rows": ROWS}
    task = {"id": "c", "type": "code_execution", "language": "sql", "code": "SELECT 2"}
    told, *_ = await answered("execute_workflow", {"workflow": {"tasks": [task]}})
    assert Sql.last.asked == [("CodeRun", "SELECT 2")]
    assert not told.get("isError"), told


@pytest.mark.parametrize(
    ("allow", "deny", "lets"),
    [(None, (), True), (("fs:*",), (), False), (("pml:@task/sql",), (), True), (("*",), ("pml:@task/*",), False)],
)
@pytest.mark.anyio
async def test_a_key_with_patterns_runs_a_plugins_task_only_if_they_say_so(allow, deny, lets):
    async def last(task, _run):
        return outcome(task.id)

    session = Session(key="k", allow=allow, deny=deny)
    ended = await pml_access.filters.CodeFilter()(PluginTask(id="q", type="sql"), FakeRun(session=session), last)
    assert (ended.status is Status.OK) is lets


@pytest.mark.anyio
async def test_what_a_human_is_to_look_at_is_not_run_where_nobody_asks_one():
    tasks = [{**TASKS[0], "approve": True}]
    told, *_ = await answered("execute_workflow", {"workflow": {"tasks": tasks}})
    assert told["isError"]
    assert Sql.last.asked == []


@pytest.mark.parametrize(
    ("types", "told"),
    [
        (frozenset(), "no 'types'"),
        ("sql", "no 'types'"),
        (frozenset({"tool"}), "'tool' cannot be a type"),
        (frozenset({"S QL"}), "'S QL' cannot be a type"),
    ],
)
def test_types_that_cannot_be_are_told_before_anything_runs(types, told):
    wrong = type("Wrong", (Sql,), {"types": types})
    assert told in class_problem("executor", wrong)
    assert class_problem("executor", Sql) == ""


def test_a_plugins_task_is_kept_and_read_back():
    task = PluginTask(id="q", type="sql", inputs={"query": "x"}, depends_on=("a",))
    assert task_from(json.loads(json.dumps(to_plain(task)))) == task
    assert kind_of(task) == "sql"
