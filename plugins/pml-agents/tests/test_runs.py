"""Runs of an agent are the agent's, whatever they were a part of."""

from __future__ import annotations

import asyncio

import pytest
from agents_kit import client_of, happens
from test_use_cases import PLUGINS, call, gateway, summary_of, worker

from pml_hookspecs import MetaTool, Scope, Session, ToolCall, Workflow, hookimpl
from pml_testing.dispatching import InOrder
from pml_testing.downstream import records
from pml_testing.fakes import outcome

pytestmark = pytest.mark.anyio
OWNER = Scope(principals=frozenset({"olga"}), agents=frozenset({"w"}))


class CostAdder(InOrder):
    """Runs tasks one after the other, and costs what they cost, as executors of plans do."""

    async def execute(self, task, run):
        done = [await run.dispatch(node) for node in task.tasks]
        costs = [one.cost_usd for one in done if one.cost_usd is not None]
        return outcome(task.id, [one.status for one in done], cost_usd=sum(costs) if costs else None)


class StandIn:
    """A tool that stands for whatever it is called with, as ``call_tool`` does."""

    @hookimpl
    def pml_meta_tools(self, services):
        def task(arguments):
            return ToolCall(id="x", tool=arguments["tool"], arguments=arguments["arguments"])

        definition = {"name": "stand_in", "inputSchema": {"type": "object"}}
        return [MetaTool(definition=definition, task=task)]


def office(agents, folder):
    more = {("executor", "adding"): CostAdder, ("hooks", "standing"): StandIn()}
    return gateway(agents, plugins={**PLUGINS, **more}, tables={"sqlite": {"path": str(folder / "pml.db")}})


def ask(id="a", message="hello"):
    return ToolCall(id=id, tool="agents:w", arguments={"message": message})


def within(task, levels):
    for n in range(levels):
        task = Workflow(id=f"p{n}", tasks=(task,))
    return task


@pytest.mark.parametrize("levels", [0, 1, 3])
async def test_a_run_at_any_depth_is_in_the_agents_history_and_costs(tmp_path, levels):
    async with office({"w": worker("json", parser="json")}, tmp_path) as (made, client):
        await made.dispatcher.start(within(ask(), levels), Session(key="k"))
        summary = await summary_of(client, "w")
        found = await call(client, "list_recent_executions", {"agent_name": "w"})
        rows = {row.kind: row for row in await records(made)}
        owned = await made.store.executions.get(rows["tool"].id, OWNER)
        listed = found["executions"]
    assert (summary["total_executions"], summary["successful"], summary["total_cost_usd"]) == (1, 1, 0.0125)
    assert [(one["id"], one["agent_name"], one["message"]) for one in listed] == [(owned.id, "w", "hello")]
    assert (owned.agent, owned.as_agent, owned.principal) == ("w", True, "local")


async def test_what_stands_for_a_run_is_the_run(tmp_path):
    async with office({"w": worker("json", parser="json")}, tmp_path) as (made, client):
        await client.call("stand_in", {"tool": "agents:w", "arguments": {"message": "hello"}})
        (row,) = await records(made)
    assert (row.target, row.agent, row.as_agent, row.cost_usd) == ("agents:w", "w", True, 0.0125)


async def test_what_is_spent_is_counted_once(tmp_path):
    async with office({"w": worker("json", parser="json"), "v": worker("echo")}, tmp_path) as (made, client):
        inner = Workflow(id="inner", tasks=(ask("a"), ask("b")))
        await made.dispatcher.start(Workflow(id="outer", tasks=(inner, ask("c"))), Session(key="k"))
        rows = await records(made)
        fleet = await call(client, "get_agent_activity_summary", {})
    assert sorted(row.cost_usd for row in rows) == [0.0, 0.0, 0.0125, 0.0125, 0.0125]
    assert fleet["fleet_summary"]["total_cost_usd"] == 0.0375


async def test_an_agent_that_works_for_a_plan_is_busy(tmp_path):
    async with office({"w": worker("gate", tmp_path, "{message}")}, tmp_path) as (made, client):
        plan = within(ask(message="one"), 1)
        run = asyncio.create_task(made.dispatcher.start(plan, Session(key="k")))
        await happens(lambda: list(tmp_path.glob("one.begun")))
        second = asyncio.create_task(made.dispatcher.start(within(ask(message="two"), 1), Session(key="k")))
        async with asyncio.timeout(60):
            while (now := await summary_of(client, "w"))["queue_length"] < 1:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        other = await client_of(made)
        assert (await summary_of(other, "w"))["is_busy"]
        (tmp_path / "all.go").touch()
        await asyncio.gather(run, second)
        later = await summary_of(client, "w")
    assert (now["is_busy"], now["queue_length"], now["running"]) == (True, 1, 1)
    assert (later["is_busy"], later["queue_length"], later["successful"]) == (False, 0, 2)
