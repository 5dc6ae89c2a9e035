"""What people ask that history answers, by which ``search_tools`` finds its tools."""

from __future__ import annotations

from collections.abc import Mapping

QUESTIONS_BY_TOOL: Mapping[str, tuple[str, ...]] = {
    "list_recent_executions": (
        "what failed last night",
        "which runs failed",
        "which tasks failed",
        "which jobs failed",
        "what errors were there",
        "what went wrong",
        "did anything fail",
        "what ran today",
        "what did the agents run",
        "what did my agents do",
        "what happened",
        "what is running",
        "history of runs",
        "history of executions",
        "history of tool calls",
        "what tools were called",
    ),
    "search_executions": (
        "find an execution about",
        "find a past run",
        "search runs",
        "search the history",
        "was this run before",
    ),
    "get_execution_result": (
        "result of a run",
        "result of an execution",
        "output of a run",
        "why did the run fail",
        "what came back",
        "transcript of a run",
        "status of an execution",
        "is it done",
    ),
    "get_agent_activity_summary": (
        "what did it cost",
        "how much did the agents cost",
        "what was spent",
        "how are the agents doing",
        "are the agents healthy",
        "which agent fails most",
        "success rate of agents",
        "activity of agents",
        "which agents are busy",
    ),
}
