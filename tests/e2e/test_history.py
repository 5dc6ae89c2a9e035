"""The history as its users have it: the checklist and the use cases of its specification, on each store.

Real gateways over HTTP, the official SDK's client with keys that ``pml keys create`` made, agents that are processes.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import pytest

from pml_execution_tools.client import AsyncHistoryClient
from pml_testing.postgres import HOW, cluster, programs

from .fleet import Fleet, text_of

pytestmark = pytest.mark.anyio
ANN, BEN, CYD = ("--user", "ann"), ("--user", "ben"), ("--user", "cyd")
DORA, EVE, FAY, GRETA = ("--user", "dora"), ("--user", "eve"), ("--user", "fay"), ("--user", "greta")
PLANNER, SYSTEM = ("--agent", "planner"), ("--system",)
QUERIES = {"list_recent_executions", "get_execution_result", "get_agent_activity_summary"}
ITEM = {
    "id",
    "agent_name",
    "status",
    "triggered_by",
    "message",
    "started_at",
    "completed_at",
    "duration_seconds",
    "cost_usd",
    "has_error",
}
DETAILS = ITEM - {"triggered_by", "has_error"} | {"response", "error", "context_used", "context_max", "tool_calls"}
NO_POSTGRES = programs() is None and not os.environ.get("CI")


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.skipif(NO_POSTGRES, reason=HOW))]
)
def fleet(request, tmp_path_factory) -> Iterator[Fleet]:
    """A gateway with agents, owners and three executions of the last days, on each store."""
    with ExitStack() as stack:
        database = stack.enter_context(cluster()).database() if request.param == "postgres" else ""
        yield stack.enter_context(Fleet(tmp_path_factory.mktemp("fleet"), database).running())


# The checklist


async def test_list_recent_executions_returns_correct_results_with_a_user_key(fleet):
    async with fleet.client(*ANN) as ann, fleet.client(*CYD) as cyd, fleet.client(*BEN) as ben:
        hers, shared = await ann.chat("ruby", "Tidy up"), await ben.chat("ruby", "Tidy up for me")
        theirs = await cyd.chat("scribe", "Write a secret")
        listed = await ann.listed()
        assert {hers, shared, "old-5"} <= listed.keys()
        assert theirs not in listed
        seen_by_ben = await ben.listed(agent_name="ruby")
        assert {hers, shared} <= seen_by_ben.keys()
        assert theirs not in await ben.listed()
    assert listed[hers].keys() == ITEM
    shown = {name: listed[hers][name] for name in ("agent_name", "status", "message", "cost_usd", "has_error")}
    assert shown == {
        "agent_name": "ruby",
        "status": "success",
        "message": "Tidy up",
        "cost_usd": 0.25,
        "has_error": False,
    }


async def test_list_recent_executions_respects_agent_permissions_with_an_agent_key(fleet):
    async with fleet.client(*ANN) as ann, fleet.client(*CYD) as cyd, fleet.client(*PLANNER) as planner:
        permitted, own = await ann.chat("ruby", "For the list only"), await ann.chat("planner", "Make a plan")
        forbidden = await cyd.chat("scribe", "Nothing for planners")
        asked = await planner.chat("ruby", "On behalf of the planner")
        listed = await planner.listed()
        assert {permitted, own, asked} <= listed.keys()
        assert forbidden not in listed
        assert listed[asked]["triggered_by"] == "agent"
        assert not await planner.listed(agent_name="scribe")
        # Results: what it triggered, and its own.
        assert (await planner.result("ruby", asked))["response"] == "ruby did: On behalf of the planner"
        assert (await planner.result("planner", own))["response"] == "planner did: Make a plan"
        refused = await planner.refusal("get_execution_result", agent_name="ruby", execution_id=permitted)
        assert "no execution" in refused
        assert "'scribe'" in await planner.refusal("chat_with_agent", agent_name="scribe", message="Please")


async def test_list_recent_executions_filters_by_status_trigger_and_hours(fleet):
    await asyncio.to_thread(fleet.pml, "agents", "chat", "ruby", "By hand")
    async with fleet.client(*ANN) as ann, fleet.client(*PLANNER) as planner:
        good, bad = await ann.chat("ruby", "Go well"), await ann.chat("ruby", "fail No paper")
        asked = await planner.chat("ruby", "Ask another agent")
        held = await ann.begin("ruby", "wait filters", parallel=True)
        await ann.polled("ruby", held, "running")
        for status, id in (("success", good), ("failed", bad), ("running", held)):
            listed = await ann.listed(agent_name="ruby", status=status)
            assert id in listed
            assert {one["status"] for one in listed.values()} == {status}
        fleet.go("filters")
        await ann.polled("ruby", held)
        assert (await ann.listed(agent_name="ruby", triggered_by="agent")).keys() >= {asked}
        assert (await ann.listed(agent_name="ruby", triggered_by="mcp")).keys() >= {good, bad, held}
        for trigger, message in (("schedule", "Write the report"), ("manual", "By hand")):
            async with asyncio.timeout(120):
                while not (listed := await ann.listed(agent_name="ruby", triggered_by=trigger)):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            assert [one["message"] for one in listed.values()] == [message]
        old = {
            hours: {id for id in await ann.listed(agent_name="ruby", hours=hours) if id.startswith("old")}
            for hours in (1, 24, 168)
        }
        assert old == {1: set(), 24: {"old-5"}, 168: {"old-5", "old-30", "old-160"}}
        for hours, limit in ((0, "minimum of 1"), (169, "maximum of 168")):
            assert limit in await ann.refusal("list_recent_executions", hours=hours)


async def test_get_execution_result_returns_full_execution_details(fleet):
    async with fleet.client(*ANN) as ann:
        id = await ann.chat("ruby", "Process daily invoices")
        result = await ann.client.call_tool("get_execution_result", {"agent_name": "ruby", "execution_id": id})
        told = result.structured_content["execution"]
        assert text_of(result) == json.dumps(result.structured_content, indent=2)
        told_of_failure = await ann.result("ruby", await ann.chat("ruby", "fail Rate limited by external API"))
        envelope = await ann.answer("list_recent_executions", limit=1)
    assert told.keys() == DETAILS
    assert (told["id"], told["agent_name"], told["status"]) == (id, "ruby", "success")
    assert (told["message"], told["response"]) == ("Process daily invoices", "ruby did: Process daily invoices")
    assert (told["error"], told["cost_usd"]) == (None, 0.25)
    assert (told["context_used"], told["context_max"]) == (12500, 200000)
    assert told["started_at"].endswith("Z")
    assert told["completed_at"] > told["started_at"]
    assert told["duration_seconds"] > 0
    assert told_of_failure["status"] == "failed"
    assert "Rate limited by external API" in told_of_failure["error"]
    assert envelope["total_count"] > len(envelope["executions"]) == 1
    assert envelope["filters_applied"] == {
        "agent_name": None,
        "status": None,
        "triggered_by": None,
        "person": None,
        "tool": None,
        "hours": 24,
        "since": None,
        "until": None,
        "limit": 1,
    }


async def test_get_execution_result_includes_the_transcript_when_requested(fleet):
    async with fleet.client(*ANN) as ann:
        id = await ann.chat("ruby", "Read the papers")
        assert "transcript" not in await ann.result("ruby", id)
        assert "transcript" not in await ann.result("ruby", id, include_transcript=False)
        told = (await ann.result("ruby", id, include_transcript=True))["transcript"]
    assert [event["type"] for event in told] == ["system", "assistant", "result"]
    assert told[1]["message"]["content"][0]["text"] == "I look into it: Read the papers"


async def test_get_execution_result_blocks_access_to_unauthorised_agents(fleet):
    async with fleet.client(*CYD) as cyd, fleet.client(*ANN) as ann:
        secret = await cyd.chat("scribe", "Write the password down")
        refused = await ann.refusal("get_execution_result", agent_name="scribe", execution_id=secret)
        unknown = await ann.refusal("get_execution_result", agent_name="scribe", execution_id="nothing")
        assert refused.replace(secret, "nothing") == unknown
        assert "password" not in refused
        for wrong_agent in ("ruby", "ann"):
            await ann.refusal("get_execution_result", agent_name=wrong_agent, execution_id=secret)
        summary = await ann.answer("get_agent_activity_summary", agent_name="scribe")
        assert (summary["summary"]["total_executions"], summary["recent_failures"]) == (0, [])
        assert secret not in await ann.listed()
    answer = await fleet.get(f"agents/scribe/executions/{secret}", *ANN, include_log="true")
    assert (answer.status_code, "password" in answer.text) == (404, False)
    assert (await fleet.get("executions", key="")).status_code == 401
    assert "MCP API key authentication required" in (await fleet.get("executions", key="")).text


async def test_get_agent_activity_summary_returns_correct_stats_for_a_single_agent(fleet):
    async with fleet.client(*EVE) as eve:
        empty = await eve.answer("get_agent_activity_summary", agent_name="counted")
        assert (empty["summary"]["total_executions"], empty["summary"]["success_rate"]) == (0, None)
        for message in ("First", "fail Paper jam", "Third"):
            last = await eve.chat("counted", message)
        at_rest = (await eve.answer("get_agent_activity_summary", agent_name="counted"))["summary"]
        ids = [await eve.begin("counted", "wait counted") for _ in range(3)]
        await eve.polled("counted", ids[0], "running")
        busy = (await eve.answer("get_agent_activity_summary", agent_name="counted", hours=1))["summary"]
        fleet.go("counted")
        for id in ids:
            await eve.polled("counted", id)
        last_result = await eve.result("counted", last)
    numbers = ("total_executions", "successful", "failed", "running", "success_rate", "total_cost_usd")
    assert [at_rest[name] for name in numbers] == [3, 2, 1, 0, 66.7, 0.75]
    assert (at_rest["is_busy"], at_rest["queue_length"]) == (False, 0)
    assert (at_rest["last_execution_at"], at_rest["last_execution_status"]) == (last_result["started_at"], "success")
    assert at_rest["avg_duration_seconds"] > 0
    assert [busy[name] for name in numbers] == [6, 2, 1, 1, 66.7, 0.75]
    assert (busy["is_busy"], busy["queue_length"]) == (True, 2)


async def test_get_agent_activity_summary_returns_a_correct_fleet_summary(fleet):
    async with fleet.client(*DORA) as dora:
        await asyncio.gather(dora.chat("one", "Work"), dora.chat("two", "Work"), dora.chat("three", "fail At work"))
        held = await dora.begin("two", "wait fleet")
        await dora.polled("two", held, "running")
        told = await dora.answer("get_agent_activity_summary")
        fleet.go("fleet")
        await dora.polled("two", held)
    total, rows = told["fleet_summary"], {row["agent_name"]: row for row in told["by_agent"]}
    assert rows["one"].keys() == {"agent_name", "executions", "success_rate", "cost_usd", "status"}
    assert (rows["one"]["success_rate"], rows["one"]["status"]) == (100.0, "idle")
    assert (rows["two"]["success_rate"], rows["two"]["status"]) == (100.0, "running")
    assert (rows["three"]["success_rate"], rows["three"]["cost_usd"]) == (0.0, 0.25)
    assert not {"ruby", "scribe", "counted"} & rows.keys()
    assert total["total_executions"] == sum(row["executions"] for row in rows.values())
    assert total["total_cost_usd"] == sum(row["cost_usd"] for row in rows.values())
    assert total["agents_with_activity"] == len(rows)
    assert total["total_agents"] == len(rows.keys() | {"idle"})
    ended = total["successful"] + total["failed"]
    assert total["success_rate"] == round(100 * total["successful"] / ended, 1)
    assert total["running"] >= 1


async def test_get_agent_activity_summary_includes_recent_failures(fleet):
    async with fleet.client(*EVE) as eve:
        first, second = await eve.chat("flaky", "fail Out of ink"), await eve.chat("flaky", "fail Out of paper")
        await eve.chat("flaky", "Go well")
        of_agent = (await eve.answer("get_agent_activity_summary", agent_name="flaky"))["recent_failures"]
        of_all = (await eve.answer("get_agent_activity_summary"))["recent_failures"]
    assert [failure["id"] for failure in of_agent] == [second, first]
    assert of_agent[0].keys() == {*("id", "agent_name", "message", "error", "failed_at", "times", "first_failed_at")}
    assert (of_agent[0]["message"], of_agent[0]["failed_at"][-1]) == ("fail Out of paper", "Z")
    assert "Out of paper" in of_agent[0]["error"]
    assert {first, second} <= {failure["id"] for failure in of_all}


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_async_workflow_chat_with_agent_then_poll_then_get_execution_result_works(fleet, era):
    async with fleet.client(*ANN, era=era) as ann:
        id = await ann.begin("ruby", f"wait async-{era}", parallel=True)
        under_way = await ann.polled("ruby", id, "running")
        assert (under_way["response"], under_way["completed_at"], under_way["cost_usd"]) == (None, None, None)
        fleet.go(f"async-{era}")
        done = await ann.polled("ruby", id)
    assert (done["status"], done["response"]) == ("success", f"ruby did: wait async-{era}")
    assert fleet.told().count(f"ruby: wait async-{era}") == 1


async def test_a_system_scoped_key_can_query_all_executions(fleet):
    async with fleet.client(*ANN) as ann, fleet.client(*CYD) as cyd, fleet.client(*SYSTEM) as system:
        ids = {"ruby": await ann.chat("ruby", "For ann"), "scribe": await cyd.chat("scribe", "For cyd")}
        assert set(ids.values()) | {"old-5"} <= (await system.listed()).keys()
        for agent, id in ids.items():
            assert (await system.result(agent, id, include_transcript=True))["transcript"]
            assert (await system.answer("get_agent_activity_summary", agent_name=agent))["summary"]["successful"] >= 1
        rows = (await system.answer("get_agent_activity_summary"))["by_agent"]
    assert {"ruby", "scribe"} <= {row["agent_name"] for row in rows}


async def test_the_tools_are_registered_and_visible_in_the_tool_list(fleet, tmp_path):
    async def names(site: Fleet, era: str) -> set[str]:
        async with site.client(*FAY, era=era) as fay:
            return {tool.name for tool in (await fay.client.list_tools()).tools}

    without = Fleet(tmp_path, listed=False)
    with without.running():
        for era in ("legacy", "auto"):
            listed, unlisted = await names(fleet, era), await names(without, era)
            assert listed - unlisted == QUERIES
            assert len(listed) == len(unlisted) + 3


# The use cases


async def test_uc1_an_orchestrator_sends_a_task_and_waits_for_its_result(fleet):
    async with fleet.client(*PLANNER) as planner:
        id = await planner.begin("ruby", "Find three papers", parallel=True)
        told = await planner.polled("ruby", id)
    assert (told["status"], told["response"]) == ("success", "ruby did: Find three papers")


async def test_uc2_a_system_agent_checks_the_health_of_the_fleet_every_morning(fleet):
    async with fleet.client(*EVE) as eve, fleet.client(*SYSTEM) as system:
        broken = [await eve.chat("flaky", f"fail Reason {n}") for n in range(3)]
        fleet_wide = await system.answer("get_agent_activity_summary", hours=24)
        rates = {row["agent_name"]: row["success_rate"] for row in fleet_wide["by_agent"]}
        assert 100 - rates["flaky"] > 10
        failed = await system.listed(status="failed", hours=24)
        assert set(broken) <= failed.keys()
        assert {one["has_error"] for one in failed.values()} == {True}
        reasons = [(await system.result("flaky", id))["error"] for id in broken]
    assert all(f"Reason {n}" in reason for n, reason in enumerate(reasons))


async def test_uc3_a_finance_agent_tracks_what_was_spent(fleet):
    async with fleet.client(*DORA) as dora, fleet.client(*SYSTEM) as system:

        async def spent() -> dict[str, float]:
            told = await system.answer("get_agent_activity_summary", hours=24)
            costs = {row["agent_name"]: row["cost_usd"] for row in told["by_agent"]}
            assert told["fleet_summary"]["total_cost_usd"] == pytest.approx(sum(costs.values()))
            return costs

        before = (await spent()).get("one", 0.0)
        threshold = before + 0.4
        await dora.chat("one", "Spend a quarter")
        assert (await spent())["one"] <= threshold
        await dora.chat("one", "Spend another")
        over = {name: cost for name, cost in (await spent()).items() if name == "one" and cost > threshold}
    assert over == {"one": pytest.approx(before + 0.5)}


async def test_uc4_an_orchestrator_waits_for_all_of_its_workers(fleet):
    workers = [name for name in ("one", "two", "three") for _ in range(3)]
    async with fleet.client(*DORA) as dora:
        begun = {}
        for number, worker in enumerate(workers):
            begun[await dora.begin(worker, f"Part {number}", parallel=number % 2 == 0)] = (worker, number)
        assert len(begun) == len(workers)
        collected, waiting = {}, dict(begun)
        async with asyncio.timeout(120):
            while waiting:
                for id, (worker, number) in tuple(waiting.items()):
                    told = await dora.result(worker, id)
                    if told["status"] in ("success", "failed"):
                        collected[number] = told["response"]
                        del waiting[id]
    assert collected == {number: f"{worker} did: Part {number}" for number, worker in enumerate(workers)}
    told = fleet.told()
    assert all(told.count(f"{worker}: Part {number}") == 1 for number, worker in enumerate(workers))


async def test_the_questions_that_started_it_all_have_answers(fleet):
    async with fleet.client(*ANN) as ann:
        begun = await ann.begin("ruby", "wait questions", parallel=True)
        await ann.polled("ruby", begun, "running")
        assert begun in await ann.listed(hours=1), "what ran in the last hour?"
        busy = [row["agent_name"] for row in (await ann.answer("get_agent_activity_summary"))["by_agent"]
                if row["status"] == "running"]  # fmt: skip
        assert "ruby" in busy, "which agents are busy?"
        fleet.go("questions")
        await ann.polled("ruby", begun)
        async with asyncio.timeout(120):
            scheduled = {"agent_name": "ruby", "triggered_by": "schedule", "status": "success"}
            while not (reports := await ann.listed(**scheduled)):  # noqa: ASYNC110 - as agents do
                await asyncio.sleep(0.1)
        assert {one["message"] for one in reports.values()} == {"Write the report"}, "did the report succeed?"
        report = await ann.result("ruby", next(iter(reports)))
    assert report["response"] == "ruby did: Write the report", "what was the output of that execution?"


# The other ways in


@pytest.mark.parametrize("whose", [ANN, CYD, PLANNER, SYSTEM], ids=lambda whose: whose[-1])
async def test_rest_and_the_client_give_each_key_the_answers_of_the_tools(fleet, whose):
    async with fleet.client(*ANN) as ann, fleet.client(*CYD) as cyd:
        ids = {"ruby": await ann.chat("ruby", "For REST"), "scribe": await cyd.chat("scribe", "For REST, too")}
    history = AsyncHistoryClient(fleet.url.removesuffix("/mcp"), key=fleet.key(*whose))
    async with fleet.client(*whose) as caller, history:
        for agent, id in ids.items():
            filters = {"agent_name": agent, "hours": 24, "limit": 5}
            tool = await caller.answer("list_recent_executions", **filters)
            assert (await fleet.get("executions", *whose, **filters)).json() == tool
            assert await history.list_recent_executions(**filters) == tool
            one = await caller.answer("get_agent_activity_summary", agent_name=agent)
            assert (await fleet.get("executions/summary", *whose, agent_name=agent)).json() == one
            arguments = {"agent_name": agent, "execution_id": id, "include_transcript": True}
            result = await caller.client.call_tool("get_execution_result", arguments)
            answer = await fleet.get(f"agents/{agent}/executions/{id}", *whose, include_log="true")
            if result.is_error:
                assert answer.status_code == 404
                assert answer.json()["error"]["message"] in text_of(result)
            else:
                assert answer.json() == result.structured_content


# Denials


async def test_every_denial_appears_in_the_audit_and_a_tampered_row_is_found(fleet):
    wrong = "pml_" + "a" * 16 + "_" + "b" * 52
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {wrong}"}) as http:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        answer = await http.post(fleet.url, json=hello, headers={"accept": "application/json, text/event-stream"})
        assert (answer.status_code, "secret" in answer.text) == (401, False)
    assert (await fleet.get("executions", key=wrong)).status_code == 401
    barred = ("--user", "hal", "--deny", "plain:*", "--allow", "*")
    async with fleet.client(*CYD) as cyd:
        secret = await cyd.chat("scribe", "Keep this to yourself")
    async with fleet.client(*barred) as hal, fleet.client(*GRETA) as greta:
        denied = await hal.refusal("execute_workflow", workflow={"tasks": [{"id": "t", "tool": "plain:echo"}]})
        assert "there is no server 'plain' that has tools" in denied
        await hal.refusal("call_tool", name="plain:echo", arguments={})
        await hal.refusal("get_execution_result", agent_name="scribe", execution_id=secret)
        await hal.refusal("chat_with_agent", agent_name="scribe", message="Tell me")
        for _ in range(2):
            await greta.listed()
        assert "Try again in" in await greta.refusal("list_recent_executions")
        assert (await fleet.get("executions", *GRETA)).status_code == 429
    ids = {about["principal"]: about["id"] for about in json.loads(fleet.pml("keys", "list", "--json"))}
    revoked = ids["hal"]
    fleet.pml("keys", "revoke", revoked)
    fleet.pml("access", "share", "nobodys", "ann")

    refused = await fleet.row("key.refused")
    assert (refused["reason"], "key" in refused) == ("The API key is not valid", False)
    tool = await fleet.row("refused", principal="hal", target="plain:echo")
    assert (tool["code"], tool["key"]) == ("policy.hidden", revoked)
    asked = await fleet.row("query", principal="hal", target="pml:get_execution_result")
    assert (asked["status"], asked["arguments"]["execution_id"]) == ("error", secret)
    await fleet.row("refused", principal="hal", target="pml:chat_with_agent")
    limited = [row for row in fleet.rows("denied") if row["principal"] == "greta"]
    assert [row["code"] for row in limited] == ["limit.rate"] * 2
    assert (await fleet.row("key.used", principal="hal"))["key"] == revoked
    assert (await fleet.row("key.revoked", key=revoked))["principal"] == "hal"
    await fleet.row("key.created", key=revoked)
    await fleet.row("agent.changed", agent="nobodys")
    assert wrong not in fleet.audit.read_text()

    verified = json.loads(fleet.pml("audit", "verify", "--json"))
    assert verified["first_broken"] is None
    line = fleet.audit.read_text().splitlines().index(next(
        line for line in fleet.audit.read_text().splitlines() if '"plain:echo"' in line
    ))  # fmt: skip
    whole = fleet.audit.read_bytes()
    fleet.audit.write_bytes(whole.replace(b'"plain:echo"', b'"plain:ochE"', 1))
    try:
        with pytest.raises(AssertionError) as broken:
            fleet.pml("audit", "verify", "--json")
    finally:
        fleet.audit.write_bytes(whole)
    assert f'"line": {line + 1}' in str(broken.value)
