from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from urllib.parse import quote

import httpx2
import pytest
from jsonschema import Draft202012Validator

from pml_execution_tools.definitions import LIST_RECENT_EXECUTIONS
from pml_execution_tools.openapi import document
from pml_hookspecs import ExecutionId, Failure, Status, UnauthenticatedError
from pml_kit.offers import ACCESS, ApiDescription
from pml_testing.fakes import outcome

pytestmark = pytest.mark.anyio
NOT_FOUND = (
    "get_execution_result: agent {!r} has no execution {!r} that you can see; "
    "list_recent_executions shows the ids and agents of those you can."
)


async def get(served, path, *, key="alice", **query):
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=served.url, headers=headers) as http:
        return await http.get(path, params=query or None)


async def body(served, path, *, key="alice", **query):
    response = await get(served, path, key=key, **query)
    assert response.status_code == 200, response.text
    return response.json()


async def error(served, path, expected, /, *, key="alice", **query):
    response = await get(served, path, key=key, **query)
    assert response.status_code == expected, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()["error"]


@pytest.fixture
async def filled(served):
    history = served.history
    failure = Failure("tool.failed", "Rate limited by external API")
    await history.put(
        history.record("mine", principal="alice", agent="ruby-agent", cost_usd=0.02, trigger="schedule"),
        history.record("inside", principal="alice", agent="ruby-agent", parent=ExecutionId("mine")),
        history.record("broken", principal="alice", agent="writer", status=Status.ERROR, failure=failure),
        history.record("old", principal="alice", agent="writer", started_at=history.now - timedelta(hours=100)),
        history.record("theirs", principal="bob", agent="ruby-agent", intent="their secret"),
        history.record(
            "told",
            principal="carol",
            agent="a/b",
            transcript=[{"type": "assistant", "text": "ActivityCounts"}],
            intent="Tell",
        ),
    )
    return served


def ids(answer):
    return sorted(e["id"] for e in answer["executions"])


async def test_the_list_over_http_is_the_list_of_the_tool(filled):
    answer = await body(filled, "/api/executions", hours="1", limit=20, agent_name="ruby-agent")
    assert ids(answer) == ["mine"]
    assert answer["total_count"] == 1
    usual = {
        "agent_name": "ruby-agent",
        "status": None,
        "triggered_by": None,
        "person": None,
        "tool": None,
        "limit": 20,
    }
    assert answer["filters_applied"] == {**usual, "hours": 1, "since": None, "until": None}
    assert ids(await body(filled, "/api/executions", status="failed")) == ["broken"]
    assert ids(await body(filled, "/api/executions", triggered_by="schedule")) == ["mine"]
    assert "old" in ids(await body(filled, "/api/executions", hours=168))


async def test_all_that_is_kept_can_be_asked_for_over_http(filled):
    long_ago = filled.history.now - timedelta(days=80)
    await filled.history.put(filled.history.record("ancient", principal="alice", agent="writer", started_at=long_ago))
    assert "ancient" not in ids(await body(filled, "/api/executions", hours=168))
    assert "ancient" in ids(await body(filled, "/api/executions", since="90d"))
    there = {"since": f"{long_ago:%Y-%m-%d}", "until": f"{long_ago:%Y-%m-%d}"}
    assert ids(await body(filled, "/api/executions", **there)) == ["ancient"]
    assert ids(await body(filled, "/api/executions/search", query="daily", **there)) == ["ancient"]
    summary = await body(filled, "/api/executions/summary", agent_name="writer", **there)
    assert summary["summary"]["total_executions"] == 1
    assert "'since'" in (await error(filled, "/api/executions", 422, since="soon"))["message"]


async def test_pages_over_http_go_on_at_their_cursor(filled):
    first = await body(filled, "/api/executions", hours=168, limit=1, agent_name="writer")
    second = await body(filled, "/api/executions", hours=168, limit=1, agent_name="writer", cursor=first["next_cursor"])
    assert [*ids(first), *ids(second)] == ["broken", "old"]
    assert "next_cursor" not in second


async def test_the_summary_is_not_taken_for_an_id(filled):
    fleet = await body(filled, "/api/executions/summary", key="root")
    assert {"ruby-agent", "writer", "a/b"} <= {row["agent_name"] for row in fleet["by_agent"]}
    writer = await body(filled, "/api/executions/summary", agent_name="writer", hours=168)
    assert writer["agent_name"] == "writer"
    assert (writer["summary"]["total_executions"], writer["summary"]["success_rate"]) == (2, 50.0)
    assert [failure["id"] for failure in writer["recent_failures"]] == ["broken"]


@pytest.mark.parametrize("path", ["/api/executions/summary", "/api/executions"])
@pytest.mark.parametrize(("hours", "status"), [("1", 200), ("168", 200), ("0", 422), ("169", 422), ("1.5", 200)])
async def test_hours_are_from_1_to_168(served, path, hours, status):
    response = await get(served, path, hours=hours)
    assert response.status_code == status
    if status == 422:
        assert f"'hours' must be from 1 to 168, not {hours}" in response.json()["error"]["message"]


async def test_a_search_over_http_finds_words(filled):
    assert ids(await body(filled, "/api/executions/search", query="daily invoices")) == ["broken", "mine", "old"]
    assert ids(await body(filled, "/api/executions/search", query="secret")) == []
    refused = await error(filled, "/api/executions/search", 422)
    assert "'query' is missing" in refused["message"]


async def test_the_executions_of_one_agent_can_be_listed(filled):
    answer = await body(filled, "/api/agents/writer/executions", hours=168)
    assert ids(answer) == ["broken", "old"]
    assert answer["filters_applied"]["agent_name"] == "writer"
    assert ids(await body(filled, "/api/agents/nobody/executions")) == []


@pytest.mark.parametrize(
    ("query", "there"), [({}, False), ({"include_log": "false"}, False), ({"include_log": "true"}, True)]
)
async def test_a_result_has_its_log_when_it_is_asked_for(filled, query, there):
    answer = await body(filled, "/api/agents/ruby-agent/executions/mine", **query)
    assert answer["execution"]["id"] == "mine"
    assert ("transcript" in answer["execution"]) == there


async def test_the_log_of_an_execution_is_its_transcript(filled):
    answer = await body(filled, "/api/agents/ruby-agent/executions/mine/log")
    assert (answer["id"], answer["agent_name"], answer["status"]) == ("mine", "ruby-agent", "success")
    assert [line.get("id") for line in answer["transcript"]] == [None, "inside"]
    path = f"/api/agents/{quote('a/b', safe='')}/executions/told/log"
    assert (await body(filled, path, key="root"))["transcript"] == [{"type": "assistant", "text": "ActivityCounts"}]


@pytest.mark.parametrize("end", ["", "/log"])
async def test_what_does_not_exist_and_what_is_not_the_callers_get_the_same_404(filled, end):
    answers = [await error(filled, f"/api/agents/ruby-agent/executions/{id}{end}", 404) for id in ("nothing", "theirs")]
    answers.append(await error(filled, f"/api/agents/writer/executions/mine{end}", 404))
    agents = ("ruby-agent", "ruby-agent", "writer")
    for answer, agent, id in zip(answers, agents, ("nothing", "theirs", "mine"), strict=True):
        assert answer == {"code": "execution.not_found", "message": NOT_FOUND.format(agent, id)}


@pytest.mark.parametrize(("key", "seen"), [("alice", ["broken", "mine"]), ("bob", ["theirs"])])
async def test_each_key_sees_its_own_and_the_systems_everything(filled, key, seen):
    answer = await body(filled, "/api/executions", key=key)
    assert (ids(answer), answer["total_count"]) == (seen, len(seen))
    fleet = await body(filled, "/api/executions/summary", key=key)
    assert sum(row["executions"] for row in fleet["by_agent"] if row["agent_name"] != "rest") == len(seen)
    system = await body(filled, "/api/executions", key="root")
    assert {"broken", "mine", "theirs", "told"} <= set(ids(system))


@pytest.mark.parametrize("path", ["/api/executions", "/api/executions/summary", "/api/agents/a/executions/x"])
@pytest.mark.parametrize("key", [None, "unknown"])
async def test_who_is_not_let_in_gets_401_in_the_words_of_the_seed(served, path, key):
    response = await get(served, path, key=key)
    assert response.status_code == 401
    assert response.json()["error"]["message"] == "MCP API key authentication required"
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/api/executions", "/api/agents/ruby-agent/executions/mine"])
async def test_whose_key_counts_no_more_gets_401_in_whatever_words(filled, path, monkeypatch):
    """Such as those of another plugin that knows keys."""

    async def gone(session, *, results=False):
        raise UnauthenticatedError("This key is not known. Ask your team for a new one.")

    monkeypatch.setattr(filled.gateway.offers.find(ACCESS), "scope", gone)
    refused = await error(filled, path, 401)
    assert refused == {
        "code": "access.unauthenticated",
        "message": "This key is not known. Ask your team for a new one.",
    }


async def test_a_failure_that_has_the_words_of_a_refusal_is_no_401(filled, monkeypatch):
    async def failed(task, session, options):
        failure = Failure("tool.failed", "MCP API key authentication required")
        return outcome(task.id, status=Status.ERROR, failure=failure)

    monkeypatch.setattr(filled.gateway.assembly.services("execution_tools"), "run", failed)
    assert (await error(filled, "/api/executions", 500))["code"] == "tool.failed"


async def test_a_route_runs_its_tool_as_its_caller(served):
    await body(served, "/api/executions", key="ruby")
    await body(served, "/api/executions/summary", key="alice")
    (task, ruby, by_ruby), (other, alice, by_alice) = served.ran
    assert (task.tool, other.tool) == ("pml:list_recent_executions", "pml:get_agent_activity_summary")
    assert (ruby.principal, ruby.agent, ruby.access_key, ruby.scopes) == (
        "alice",
        "ruby-agent",
        "key-ruby",
        frozenset(),
    )
    assert (alice.principal, alice.agent, alice.access_key, alice.client) == ("alice", "", "key-alice", "rest")
    assert (by_ruby, by_alice) == ("agent", "manual")


async def test_a_key_that_may_not_have_the_tools_gets_403(served):
    refused = await error(served, "/api/executions", 403, key="barred")
    assert refused["code"] == "policy.denied"


async def test_a_limit_that_is_used_up_gets_429_and_when_to_try_again(served):
    response = await get(served, "/api/executions/summary", key="limited")
    assert response.status_code == 429
    assert response.headers["retry-after"] == "3"
    expected = {"code": "limit.rate", "message": "30/minute are used up.", "retry_after_s": 2.5}
    assert response.json() == {"error": expected}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"limit": "0"}, "list_recent_executions: 'limit' must be from 1 to 100, not 0."),
        ({"limit": "101"}, "list_recent_executions: 'limit' must be from 1 to 100, not 101."),
        ({"limit": "1.5"}, "list_recent_executions: 'limit' must be a whole number, not 1.5."),
        ({"limit": "ten"}, "'limit' must be a whole number, not 'ten'."),
        ({"hours": "nan"}, "'hours' must be a number, not 'nan'."),
        ({"hours": "1_0"}, "'hours' must be a number, not '1_0'."),
        ({"hours": "9" * 400}, "'hours' must be a number, not '" + "9" * 40 + "'."),
        (
            {"status": "done"},
            "list_recent_executions: 'status' must be one of pending, running, success, failed, not 'done'.",
        ),
        (
            {"zz": "1"},
            f"unknown parameter 'zz'; known: {', '.join(LIST_RECENT_EXECUTIONS['inputSchema']['properties'])}.",
        ),
        ({"hours": ["1", "2"]}, "'hours' is given more than once."),
        (
            {"cursor": "x"},
            "list_recent_executions: 'cursor' is no next_cursor of a page before; leave it out for the newest.",
        ),
    ],
)
async def test_what_is_wrong_with_a_parameter_is_said_with_422(served, query, message):
    refused = await error(served, "/api/executions", 422, **query)
    assert refused == {"code": "arguments.invalid", "message": message}


async def test_a_flag_is_true_or_false(served):
    refused = await error(served, "/api/agents/a/executions/x", 422, include_log="yes")
    assert refused["message"] == "'include_log' must be true or false, not 'yes'."


async def test_an_empty_parameter_counts_as_left_out(filled):
    assert (await body(filled, "/api/executions", status="", hours=""))["filters_applied"]["status"] is None


async def test_answers_are_not_kept_by_caches(served):
    assert (await get(served, "/api/executions")).headers["cache-control"] == "no-store"


async def test_only_reading_is_allowed(served):
    async with httpx2.AsyncClient(base_url=served.url) as http:
        refused = await http.post("/api/executions")
    assert refused.status_code == 405
    assert "GET" in refused.headers["allow"]


async def test_the_openapi_document_tells_of_every_route_and_answers_fit_it(filled):
    told = await body(filled, "/api/openapi.json")
    assert told["openapi"].startswith("3.1")
    assert list(told["paths"]) == [
        "/api/executions",
        "/api/executions/summary",
        "/api/executions/search",
        "/api/agents/{agent_name}/executions/{execution_id}/log",
        "/api/agents/{agent_name}/executions/{execution_id}",
        "/api/agents/{agent_name}/executions",
    ]
    asked = {
        "Page": "/api/executions",
        "Found": "/api/executions/search?query=daily",
        "Summary": "/api/executions/summary",
        "Result": "/api/agents/ruby-agent/executions/mine",
        "Log": "/api/agents/ruby-agent/executions/mine/log",
        "Error": "/api/executions?hours=0",
    }
    for schema, path in asked.items():
        answer = (await get(filled, path)).json()
        Draft202012Validator(told["components"]["schemas"][schema]).validate(answer)


def test_the_openapi_document_tells_of_the_routes_of_others():
    item = {"get": {"operationId": "listReleases", "responses": {"200": {"description": "Names"}}}}
    more = ApiDescription(paths={"/api/releases": item}, schemas={"Names": {"type": "array"}, "Page": {}})
    told = document([more])
    assert told["paths"] == {**document()["paths"], "/api/releases": item}
    assert told["components"]["schemas"] == {**more.schemas, **document()["components"]["schemas"]}


UNSAID = """
[parameters]
cursor = "{}"
since = "30d"
until = "1h"

[[operations]]
include-path = "/api/executions/search"
checks.positive_data_acceptance.expected-statuses = [200, 401, 403, 404, 422]
"""
"""No schema can say what a store takes for a cursor, nor, for every dialect of patterns, what has a word in it."""


async def test_schemathesis_finds_nothing_that_is_not_as_the_document_says(filled, tmp_path):
    cursor = (await body(filled, "/api/executions", hours=168, limit=1))["next_cursor"]
    (tmp_path / "schemathesis.toml").write_text(UNSAID.format(cursor), encoding="utf-8")
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{filled.url}/api/openapi.json",
        "--header", "Authorization: Bearer root", "--checks", "all", "--exclude-checks", "ignored_auth",
        "--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--seed", "1", "--no-color",
        "--generation-database", "none",
    ]  # fmt: skip
    ran = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, env=dict(os.environ), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(ran.communicate(), 240)
    assert ran.returncode == 0, output.decode()[-4000:]
