"""Whoever asks sees what it may and learns nothing of the rest: by lists, results, counts, sums or errors."""

from __future__ import annotations

import pytest
from access_fleet import KEYS, LISTED, READ, RECORDS, WORDS, scrubbed, words_of, world

from pml_hookspecs import ExecutionQuery, Scope, Session
from pml_kit.offers import ACCESS

pytestmark = pytest.mark.anyio
WHO = tuple(LISTED)
AGENTS = ("claude", "report", "mailer", "free")
NOWHERE = "01900000-0000-7000-8000-00000000ffff"
each = pytest.mark.parametrize("who", WHO)


def words_in(page):
    return {execution["message"].removeprefix("do ") for execution in page["executions"]}


def agents_of(words, agent=None):
    """Of those, what configured agents did; a name that a client gives itself proves nothing."""
    return {word for word in words if RECORDS[word].as_agent and agent in (None, RECORDS[word].agent)}


@pytest.fixture
async def fleet(anyio_backend, tmp_path):
    async with world(tmp_path) as made:
        yield made


@each
async def test_lists_have_what_the_caller_may_see_and_count_no_more(fleet, who):
    async with fleet.caller(who) as caller:
        for page in (
            await caller.tool("list_recent_executions", triggered_by="schedule", limit=100),
            await caller.get("/executions", triggered_by="schedule", limit=100),
        ):
            assert words_in(page) == LISTED[who]
            assert page["total_count"] == len(LISTED[who])
        for agent in AGENTS:
            wanted = {word for word in LISTED[who] if RECORDS[word].agent == agent}
            for page in (
                await caller.tool("list_recent_executions", triggered_by="schedule", agent_name=agent),
                await caller.get(f"/agents/{agent}/executions", triggered_by="schedule"),
            ):
                assert (words_in(page), page["total_count"]) == (wanted, len(wanted)), agent
        for word in WORDS:
            for page in (
                await caller.tool("search_executions", query=word, triggered_by="schedule"),
                await caller.get("/executions/search", query=word, triggered_by="schedule"),
            ):
                assert words_in(page) == {word} & READ[who]
                assert page["total_count"] == len({word} & READ[who])


@each
async def test_results_are_those_that_the_caller_may_read_and_others_are_not_there(fleet, who):
    async with fleet.caller(who) as caller:
        for word, record in RECORDS.items():
            agent = record.agent
            absent = await caller.tool("get_execution_result", agent_name=agent, execution_id=NOWHERE)
            absent_route = await caller.get(f"/agents/{agent}/executions/{NOWHERE}")
            assert absent_route.startswith("404 ")
            for found, none in (
                (await caller.tool("get_execution_result", agent_name=agent, execution_id=record.id), absent),
                (await caller.get(f"/agents/{agent}/executions/{record.id}"), absent_route),
                (await caller.get(f"/agents/{agent}/executions/{record.id}/log"), absent_route),
            ):
                if word in READ[who]:
                    assert word in str(found)
                else:
                    assert found == none.replace(NOWHERE, record.id)


@each
async def test_summaries_add_up_what_the_caller_may_see(fleet, who):
    async with fleet.caller(who) as caller:
        for fleet_wide in (
            await caller.tool("get_agent_activity_summary"),
            await caller.get("/executions/summary"),
        ):
            assert words_of(fleet_wide["fleet_summary"]["total_cost_usd"]) == agents_of(LISTED[who])
            rows = {row["agent_name"]: words_of(row["cost_usd"]) for row in fleet_wide["by_agent"]}
            for agent in AGENTS:
                assert rows.get(agent, set()) == agents_of(LISTED[who], agent)
            failures = {failure["message"].removeprefix("do ") for failure in fleet_wide["recent_failures"]}
            assert failures == {word for word in READ[who] if RECORDS[word].failure is not None}
        for agent in AGENTS:
            wanted = agents_of(LISTED[who], agent)
            for one in (
                await caller.tool("get_agent_activity_summary", agent_name=agent),
                await caller.get("/executions/summary", agent_name=agent),
            ):
                assert words_of(one["summary"]["total_cost_usd"]) == wanted


async def everything_asked(made, who):
    """All that one can ask, and what is answered."""
    answers = []
    async with made.caller(who) as caller:
        for hours in (1, 24):
            answers.append(await caller.tool("list_recent_executions", hours=hours, limit=3))
            answers.append(await caller.get("/executions/summary", hours=hours))
            answers.append(await caller.tool("get_agent_activity_summary", hours=hours))
        for agent in (*AGENTS, "nobody"):
            answers.append(await caller.tool("get_agent_activity_summary", agent_name=agent))
            answers.append(await caller.get(f"/agents/{agent}/executions"))
            answers.append(await caller.get("/executions/summary", agent_name=agent))
        for word, record in RECORDS.items():
            answers.append(await caller.tool("search_executions", query=word))
            for agent in (record.agent, "nobody"):
                arguments = {"agent_name": agent, "execution_id": record.id, "include_transcript": True}
                if word not in READ[who]:
                    answers.append(await caller.tool("get_execution_result", **arguments))
                    answers.append(await caller.get(f"/agents/{agent}/executions/{record.id}/log"))
    return [scrubbed(answer) for answer in answers]


@each
async def test_nothing_that_is_answered_depends_on_what_the_caller_may_not_see(tmp_path, who):
    whole, part = tmp_path / "whole", tmp_path / "part"
    for folder in (whole, part):
        folder.mkdir()
    async with world(whole) as made:
        with_others = await everything_asked(made, who)
    async with world(part, sorted(LISTED[who])) as made:
        alone = await everything_asked(made, who)
    assert with_others == alone


class Spy:
    """Notes for whom the store is asked."""

    def __init__(self, executions):
        self._executions, self.scopes = executions, []

    def __getattr__(self, name):
        method = getattr(self._executions, name)

        def noted(*arguments, **more):
            for argument in arguments:
                if isinstance(argument, (Scope, ExecutionQuery)):
                    self.scopes.append(argument if isinstance(argument, Scope) else argument.scope)
            return method(*arguments, **more)

        return noted


@each
async def test_the_store_is_asked_for_the_caller_and_never_for_the_gateway(fleet, who, monkeypatch):
    spy = Spy(fleet.gateway.store.executions)
    monkeypatch.setattr(fleet.gateway.store, "executions", spy)
    async with fleet.caller(who) as caller:
        await caller.tool("list_recent_executions")
        await caller.tool("search_executions", query="do")
        await caller.get("/executions/summary")
        await caller.tool("get_agent_activity_summary", agent_name="report")
        lists, spy.scopes = spy.scopes, []
        await caller.get(f"/agents/report/executions/{NOWHERE}")
        await caller.tool("get_execution_result", agent_name="x", execution_id=NOWHERE)
        results = spy.scopes
    principal = f"agent:{who}" if who in ("report", "mailer") else who
    assert lists
    assert len(results) == 2
    for scope in (*lists, *results):
        assert scope.principals == (None if who == "system" else frozenset({principal}))
    agent = {"report": "report", "mailer": "mailer"}.get(who)
    assert {scope.agents for scope in results} == {
        frozenset({agent}) if agent else {s.agents for s in lists}.pop(),
    }


async def test_where_keys_are_required_tools_and_routes_say_so_alike(tmp_path):
    needed = "MCP API key authentication required"
    async with world(tmp_path, required=True) as made:
        async with made.caller("local") as nobody:
            response = await nobody.send("tools/call", {"name": "list_recent_executions", "arguments": {}})
            assert (response.status_code, response.json()["error"]["message"]) == (401, needed)
            for path in ("/executions", "/executions/summary", f"/agents/report/executions/{NOWHERE}", "/openapi.json"):
                assert await nobody.get(path) == f"401 {needed}"
        async with made.caller("alice") as alice:
            assert words_in(await alice.get("/executions", triggered_by="schedule")) == LISTED["alice"]


async def test_a_key_is_worth_nothing_to_those_who_have_only_its_id(fleet):
    async with fleet.caller("nobody") as caller:
        for token in (KEYS["system"].id, f"pml_{KEYS['system'].id}", f"pml_{KEYS['system'].id}_{KEYS['alice'].secret}"):
            caller._http.headers["authorization"] = f"Bearer {token}"
            answer = await caller.get("/executions", triggered_by="schedule")
            if token.startswith("pml_"):
                assert answer == "401 The API key is not valid"
            else:
                assert words_in(answer) == LISTED["local"]


async def test_a_principal_that_calls_itself_system_is_none(fleet):
    services = fleet.gateway.assembly.services("execution_tools")
    scope = await services.find(ACCESS).scope(Session(key="x", principal="system"), results=False)
    assert scope == Scope(principals=frozenset({"system"}))
