"""What people ask finds the gateway's own tools and guides, and what nobody asked does not."""

from __future__ import annotations

import pytest

import pml_execution_tools.plugin
import pml_executor_dag.tool
import pml_search_tools.plugin
from pml_executor_dag import Dag
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
GIT = [
    {"name": "git_log", "description": "Shows the commit logs.", "inputSchema": {"type": "object"}},
    {"name": "git_status", "description": "Shows what has changed.", "inputSchema": {"type": "object"}},
]


async def found(query):
    plugins = {
        ("executor", "dag"): Dag,
        ("hooks", "workflow_tool"): pml_executor_dag.tool,
        ("hooks", "search_tools"): pml_search_tools.plugin,
        ("hooks", "execution_tools"): pml_execution_tools.plugin,
    }
    server = ScriptedServer(GIT)
    server.instructions = "Works on the repository that it is told of."
    async with running({"git": server}, plugins=plugins) as gateway:
        client = Client(gateway)
        await client.initialize()
        answer = value_of(await client.call("search_tools", {"query": query}))
    return [tool["name"] for tool in answer["tools"]], answer


@pytest.mark.parametrize(
    ("question", "tool"),
    [
        ("what failed last night", "list_recent_executions"),
        ("what failed", "list_recent_executions"),
        ("Which runs failed today?", "list_recent_executions"),
        ("what went wrong yesterday", "list_recent_executions"),
        ("did anything fail this week", "list_recent_executions"),
        ("what did my agents do last night", "list_recent_executions"),
        ("how much did the agents cost this week", "get_agent_activity_summary"),
        ("which agent fails most", "get_agent_activity_summary"),
        ("why did the run fail", "get_execution_result"),
        ("how do I write a workflow", "guide_workflows"),
        ("workflow guide", "guide_workflows"),
        ("retry a step", "guide_workflows"),
    ],
)
async def test_a_question_finds_what_answers_it(question, tool):
    names, _ = await found(question)
    assert names[0] == tool, names


@pytest.mark.parametrize(
    "query", ["commit log", "what changed recently in the repository", "git status", "delete a file"]
)
async def test_what_is_about_something_else_does_not(query):
    names, _ = await found(query)
    assert not {*names[:1]} & {"guide_workflows", "list_recent_executions", "get_agent_activity_summary"}


async def test_who_finds_a_tool_is_told_what_its_server_says_of_its_use():
    _, answer = await found("commit log")
    assert answer["servers"] == {"git": "Works on the repository that it is told of."}
