"""In a dry run no server is called and no code is run: counted at the servers, over generated plans."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pml_dry_run.plugin
import pml_executor_dag.tool
from pml_executor_dag import Dag
from pml_testing.dispatching import Code
from pml_testing.gateway import Client, ScriptedServer, running, value_of

PLANS = 1000
ITEMS = {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "string"}}}}
SERVERS = {
    "files": ["read_file", "write_file", {"name": "list", "inputSchema": {}, "outputSchema": ITEMS}],
    "crm": [
        {"name": "find", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "remove", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}},
    ],
}
IDS = ("a", "b", "c", "d")
TOOLS = ["files:read_file", "files:write_file", "files:list", "crm:find", "crm:remove", "files__list", "crm:missing"]
ARGUMENTS = st.dictionaries(
    st.sampled_from(["path", "id", "text"]),
    st.integers(0, 9) | st.sampled_from(["x", *(f"{{{{{id_}.items[0]}}}}" for id_ in IDS)]),
    max_size=2,
)


def steps(kind):
    """Tasks of one kind, without an id."""
    if kind == "tool":
        return st.fixed_dictionaries({"tool": st.sampled_from(TOOLS), "arguments": ARGUMENTS})
    if kind == "code":
        return st.just({"type": "code_execution", "code": "call", "language": "python"})
    return st.just({"type": "capability", "capability_id": "learned"})


def tasks(inner):
    kinds = st.sampled_from(["tool", "code", "capability"]).flatmap(steps)
    return st.lists(kinds if inner is None else kinds | inner, min_size=1, max_size=len(IDS)).map(numbered)


def numbered(found):
    """Ids in order; each task needs those before it that it refers to, and the one right before it now and then."""
    made = []
    for n, (id_, kind) in enumerate(zip(IDS, found, strict=False)):
        task = dict(kind)
        if "arguments" in task:
            task["arguments"] = {k: "x" if _ahead(v, n) else v for k, v in task["arguments"].items()}
        depends_on = [other for other in IDS[:n] if f"{{{{{other}." in str(task)] or list(IDS[n - 1 : n])[: n % 2]
        made.append({**task, "id": id_, "depends_on": depends_on})
    return made


def _ahead(value, n):
    """Whether it refers to a task that is not before the ``n``-th."""
    return any(value == f"{{{{{id_}.items[0]}}}}" for id_ in IDS[n:])


NESTED = tasks(None).map(lambda inner: {"type": "workflow", "tasks": inner})
ALL = tasks(NESTED | tasks(NESTED).map(lambda inner: {"type": "workflow", "tasks": inner}))


async def _ran(task, run):
    COUNTED["code"] += 1
    return await run.dispatch(task)


COUNTED: Counter[str] = Counter()


def test_no_generated_plan_reaches_a_server_or_runs_code():
    """One gateway, a thousand plans of tools, code, capabilities and workflows in workflows."""
    servers = {name: ScriptedServer(listed) for name, listed in SERVERS.items()}
    statuses: Counter[str] = Counter()
    COUNTED.clear()
    Code.answers["call"] = _ran
    Code.answers[""] = _ran
    plugins = {
        ("executor", "dag"): Dag,
        ("executor", "code"): Code,
        ("hooks", "workflow_tool"): pml_executor_dag.tool,
        ("hooks", "dry_run"): pml_dry_run.plugin,
    }

    with asyncio.Runner() as runner:
        started = running(servers, plugins=plugins)
        gateway = runner.run(started.__aenter__())
        client = Client(gateway)
        runner.run(client.initialize())

        @settings(max_examples=PLANS)
        @given(plan=ALL, dry_run=st.sampled_from([True, "meta"]))
        def rehearse(plan, dry_run):
            arguments = {"workflow": {"tasks": plan}} | ({"dry_run": True} if dry_run is True else {})
            meta = {} if dry_run is True else {"_meta": {"pml/dry_run": True}}
            answer = runner.run(client.call("execute_workflow", arguments, **meta))
            report = value_of(answer)
            assert report is not None, answer
            statuses.update(_statuses(report))
            assert all(server.calls == [] for server in servers.values())
            assert COUNTED["code"] == 0

        try:
            rehearse()
        finally:
            runner.run(started.__aexit__(None, None, None))
    assert statuses["simulated"] > PLANS


def _statuses(report):
    """Of all tasks, those in nested workflows included."""
    for task in report.get("tasks", ()):
        yield task["status"]
        result = task.get("result")
        if task.get("type") == "workflow" and isinstance(result, dict):
            yield from _statuses(result)


@pytest.mark.anyio
async def test_a_rehearsal_that_reads_calls_tools_that_only_read():
    """Steps with effects reach nobody, whatever they are nested in."""
    servers = {name: ScriptedServer(listed) for name, listed in SERVERS.items()}
    plugins = {("executor", "dag"): Dag, ("hooks", "tool"): pml_executor_dag.tool, ("hooks", "dry"): pml_dry_run.plugin}
    inner = [{"id": "r", "tool": "crm:find"}, {"id": "w", "tool": "files:write_file", "arguments": {"path": "/a"}}]
    plan = [{"id": "x", "tool": "crm:remove"}, {"id": "n", "type": "workflow", "tasks": inner}]
    async with running(servers, plugins=plugins) as gateway:
        client = Client(gateway)
        await client.initialize()
        reads = {"_meta": {"pml/dry_run": "reads"}}
        answer = await client.call("execute_workflow", {"workflow": {"tasks": plan}}, **reads)
    assert Counter(_statuses(value_of(answer)))["simulated"] >= 2
    assert [name for name, _ in servers["crm"].calls] == ["find"]
    assert servers["files"].calls == []
